"""A tax provider with answers chosen by the test."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from usagebill.core.tax_providers import (
    BreakdownLine,
    FailureKind,
    ItemTaxes,
    ProviderFailure,
    ProviderTaxes,
    Purpose,
    Reported,
    TaxConnection,
    TaxedItem,
    TaxQuestion,
)


def refused(code: str = "customerAddressCouldNotResolve", message: str = "no such address") -> ProviderFailure:
    return ProviderFailure(code=code, message=message)


def unreachable() -> ProviderFailure:
    return ProviderFailure(code="network_error", message="no route", kind=FailureKind.UNREACHABLE)


def throttled() -> ProviderFailure:
    return ProviderFailure(code="too_many_requests", message="slow down", kind=FailureKind.THROTTLED)


class Provider:
    """Taxes every item at `rate`. `failures` replace the next answers, one after another.

    `meanwhile` is called once, between a request and its answer. `items_left_out` items are missing from the answer.
    """

    def __init__(self, rate: str = "0.1") -> None:
        self.rate = Decimal(rate)
        self.asked: list[TaxQuestion] = []
        self.connections: list[str] = []
        self.failures: list[ProviderFailure] = []
        self.meanwhile: Callable[[], object] | None = None
        self.customer_id: str | None = None
        self.items_left_out = 0

    def purposes(self) -> list[str]:
        return [question.purpose.value for question in self.asked]

    def ask(self, connection: TaxConnection, question: TaxQuestion) -> ProviderTaxes | Reported | ProviderFailure:
        self.asked.append(question)
        self.connections.append(connection.code)
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        if self.failures:
            return self.failures.pop(0)
        if question.purpose not in (Purpose.DRAFT, Purpose.FINALIZED):
            return Reported()
        items = question.items[self.items_left_out :]
        return ProviderTaxes(items=tuple(self._taxes(item) for item in items), customer_id=self.customer_id)

    def _taxes(self, item: TaxedItem) -> ItemTaxes:
        cents = int(item.amount_cents * self.rate)
        line = BreakdownLine(name="Sales tax", rate=self.rate, amount_cents=cents, type="state")
        return ItemTaxes(item_id=item.id, requested_cents=item.amount_cents, amount_cents=cents, lines=(line,))
