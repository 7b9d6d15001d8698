"""Checks: usage that may come, what it would add, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.numbers import ZERO, add
from usagebill.core.spend_limits import Standing, refusing
from usagebill.core.subscriptions import Subscription


@dataclass(frozen=True, slots=True)
class Addition:
    """What usage adds to its period: cents before and with taxes, both before rounding, and units of its metric."""

    amount_cents: Decimal = ZERO
    total_cents: Decimal = ZERO
    units: Decimal = ZERO

    def plus(self, other: Addition) -> Addition:
        """Both together."""
        return Addition(
            add(self.amount_cents, other.amount_cents),
            add(self.total_cents, other.total_cents),
            add(self.units, other.units),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Usage that may come: of a metric, with the properties of an event, or a bare amount in cents before taxes."""

    subscription: Subscription
    customer: Customer
    metric: BillableMetric | None
    properties: Mapping[str, object]
    amount_cents: int | None = None

    @property
    def metric_id(self) -> str | None:
        """The metric, by id."""
        return None if self.metric is None else self.metric.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer to a question: what the usage would add, and how far everything that bounds it is used up."""

    question: Question
    currency: str
    addition: Addition
    standings: Sequence[Standing]

    @property
    def refused_by(self) -> Standing | None:
        """What refuses it; None if it is allowed."""
        return refusing(self.standings)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBeyond:
    """An event of a batch, by its position there, that was not stored because of `standing`."""

    position: int
    transaction_id: str
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedEvent:
    """An event of a batch, by its position there, whose subscription has one with this transaction id already."""

    position: int
    transaction_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The outcome of a batch: the events stored, those that limits refused (None: limits were not asked), and those
    skipped because they are stored already (None: they would have refused the batch).
    """

    events: Sequence[Event]
    refused: Sequence[EventBeyond] | None = None
    skipped: Sequence[SkippedEvent] | None = None
