"""The ledger of charges paid in advance: the billed usage of each charge, filter and group in a period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.aggregation import LedgerRow, Window
from usagebill.core.charge_ledger import LedgerEntry, group_pairs
from usagebill.core.grouping import Group
from usagebill.core.numbers import add
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, at_least, at_most, desc, eq, missing, ne, within
from usagebill.storage.event_queries import EventQuery

_LATEST_FIRST = (desc("timestamp"), desc("created_at"), desc("id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The rows of one charge and filter (None: events that no filter takes) in the period `window`.

    A charge that overrides another in mid-period continues its ledger: what was paid stays paid.
    """

    reader: Reader
    subscription_id: str
    charge: Charge
    charge_filter: ChargeFilter | None
    window: Window

    def before(self, event_id: str, group: str) -> LedgerRow | None:
        """The latest row of the group, apart from the event's own."""
        ledger_entry = self.reader.tx.first(
            LedgerEntry, *self._conditions(), eq("group", group), ne("event_id", event_id), order=_LATEST_FIRST
        )
        return None if ledger_entry is None else _row(ledger_entry)

    def made_before(self, entry: LedgerEntry) -> LedgerRow | None:
        """The latest row of the group of `entry` when it was made."""
        whose = (self.subscription_id, self.charge.id, self.charge_filter and self.charge_filter.id)
        span = (self.window.start, self.window.end)
        return self.reader.cached(("ledger as it was", whose, span), self._predecessors).get(entry.id)

    def _predecessors(self) -> dict[str, LedgerRow]:
        """By row id, the latest row of the same group that was made before it."""
        latest: dict[str, LedgerEntry] = {}
        predecessors: dict[str, LedgerRow] = {}
        for entry in self.reader.tx.each(LedgerEntry, *self._conditions(), order=[asc("created_at"), asc("id")]):
            before = latest.get(entry.group)
            if before is not None:
                predecessors[entry.id] = _row(before)
            if before is None or _place(entry) > _place(before):
                latest[entry.group] = entry
        return predecessors

    def latest(self, question: EventQuery, group_keys: Sequence[str]) -> dict[Group, LedgerRow]:
        """The latest rows of the groups that `question` selects, for a charge billed by `group_keys`.

        None if the question selects by other properties, because the ledger does not know what was paid for those.
        """
        if not set(question.only) <= set(group_keys):
            return {}
        latest: dict[str, LedgerRow] = {}
        for entry in self.reader.tx.find(LedgerEntry, *self._conditions(), order=_LATEST_FIRST):
            latest.setdefault(entry.group, _row(entry))
        rows: dict[Group, LedgerRow] = {}
        for text, row in latest.items():
            values = group_pairs(text)
            if all(values.get(key) in accepted for key, accepted in question.only.items()):
                group = tuple(values.get(key) for key in question.group_keys)
                rows[group] = _sum(rows[group], row) if group in rows else row
        return rows

    def _conditions(self) -> tuple[Condition, ...]:
        charges = [self.charge.id]
        filters = [self.charge_filter.id] if self.charge_filter else []
        if self.charge.parent_id is not None:
            charges.append(self.charge.parent_id)
            filters += [self.charge_filter.parent_id] if self.charge_filter and self.charge_filter.parent_id else []
        return (
            eq("subscription_id", self.subscription_id),
            within("charge_id", charges),
            within("charge_filter_id", filters) if filters else missing("charge_filter_id"),
            at_least("timestamp", self.window.start.replace(microsecond=0)),
            at_most("timestamp", self.window.end),
        )


def _place(entry: LedgerEntry) -> tuple[datetime, datetime, str]:
    return (entry.timestamp, entry.created_at, entry.id)


def _row(entry: LedgerEntry) -> LedgerRow:
    return LedgerRow(
        current=entry.current,
        maximum=entry.maximum,
        maximum_prorated=entry.maximum_prorated,
        paid_events=entry.paid_events,
    )


def _sum(left: LedgerRow, right: LedgerRow) -> LedgerRow:
    return LedgerRow(
        current=add(left.current, right.current),
        maximum=add(left.maximum, right.maximum),
        maximum_prorated=add(left.maximum_prorated, right.maximum_prorated),
        paid_events=left.paid_events + right.paid_events,
    )
