"""Takeovers: a downgrade takes effect at a local midnight, and minutes later a run applies it. In between, time belongs
to the successor already, though it is still pending.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.contracts import Contract
from usagebill.core.periods.schedule import downgraded_at
from usagebill.core.subscription_changes import as_phase, started
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.queries.billing_periods import billed_through_day
from usagebill.queries.contracts import contract_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq, present, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A downgrade that has taken effect at the local midnight `at`, and waits for the run that applies it."""

    current: Subscription
    following: Subscription
    at: datetime

    @property
    def successor(self) -> Subscription:
        """The successor as if it had started at the midnight; the current one if the successor may have to be paid
        first.
        """
        if self.following.activation_rules:
            return self.current
        return started(self.following, self.at, self.at, billed_from=self.at)


def takeover(reader: Reader, contract: Contract) -> Takeover | None:
    """The takeover of an active subscription that a run at this instant applies, None if there is none."""
    following = reader.tx.first(
        Subscription,
        eq("previous_subscription_id", contract.subscription.id),
        eq("status", SubscriptionStatus.PENDING),
    )
    return None if following is None else _takeover(reader, contract, following)


def takeovers(reader: Reader, external_ids: Iterable[str]) -> list[Takeover]:
    """The takeovers of the active subscriptions with these external ids, of any customer."""
    scheduled = reader.tx.find(
        Subscription,
        within("external_id", sorted(set(external_ids))),
        eq("status", SubscriptionStatus.PENDING),
        present("previous_subscription_id"),
    )
    found = []
    for following in scheduled:
        current = reader.tx.get(Subscription, str(following.previous_subscription_id))
        if current is not None and current.status == SubscriptionStatus.ACTIVE:
            found.append(_takeover(reader, contract_of(reader, current), following))
    return [due for due in found if due is not None]


def in_force(reader: Reader, active: Subscription) -> Subscription:
    """The subscription that has the present instant: from the midnight of a downgrade on its successor, else itself."""
    due = takeovers(reader, [active.external_id])
    return next((one.successor for one in due if one.current.id == active.id), active)


def _takeover(reader: Reader, contract: Contract, following: Subscription) -> Takeover | None:
    cycle, current = contract.cycle(), contract.subscription
    at = downgraded_at(
        cycle,
        reader.now,
        asked_at=following.created_at,
        billed_on=billed_through_day(reader, contract, cycle),
        phase_from=following.phase_from,
    )
    if at is None:
        return None
    arriving = following if following.phase_from is None else as_phase(following, current)
    return Takeover(current=current, following=arriving, at=at)
