"""The year 2013, billed: subscribe every airline, take in every flight, bill every month.

One airline pays in advance: it buys credits, which pay its invoices until they run out and are topped up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from zoneinfo import ZoneInfo

from usagebill.billing import Billing
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.demo.flights import Flight, airlines
from usagebill.demo.price_list import CURRENCY, PLAN, set_up
from usagebill.operations import api_keys
from usagebill.process.settings import Settings
from usagebill.runtime.clock import ManualClock

YEAR = 2013
ZONE = ZoneInfo("America/New_York")
# The airline that buys credits, and how many: at first, and again whenever none are left.
PREPAID = "HA"
_CREDITS = "25000"
_BATCH = 1000
# Invoices are issued shortly after midnight.
_LATER = timedelta(hours=1)
Months = dict[str, dict[int, int]]


def _first(month: int) -> datetime:
    return datetime(YEAR + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=ZONE).astimezone(UTC)


class Year:
    """A billing system in `file` that runs through the year on its own clock."""

    def __init__(self, file: Path) -> None:
        self.clock = ManualClock(_first(1))
        self.billing = Billing(file, clock=self.clock, settings=Settings(events_per_batch=_BATCH))

    def close(self) -> None:
        self.billing.close()

    def begin(self) -> str:
        """Create prices, customers and subscriptions; returns the value of an API key."""
        set_up(self.billing)
        for carrier, name in airlines().items():
            self.billing.customers.upsert(
                external_id=carrier, name=name, currency=CURRENCY, timezone="America/New_York", country="US"
            )
            self.billing.subscriptions.create(
                external_customer_id=carrier, plan_code=PLAN, external_id=carrier, name=f"{name}, New York"
            )
        self._prepay()
        self.billing.run_due()
        self._pay_top_ups()
        return self.billing.writing(lambda work: api_keys.create(work, "Demo")[1])

    def _prepay(self) -> None:
        self.billing.wallets.create(
            external_customer_id=PREPAID,
            name="Landing credits",
            rate_amount="1",
            currency=CURRENCY,
            paid_credits=_CREDITS,
            recurring_transaction_rules=[
                {"trigger": "threshold", "threshold_credits": "0", "paid_credits": _CREDITS},
            ],
        )

    def _pay_top_ups(self) -> None:
        """Have the airline pay for credits on the day of their invoice."""
        unpaid = self.billing.invoices.list(invoice_type="credit", payment_status="pending").items
        for invoice in unpaid:
            self.billing.payments.create(
                invoice_id=invoice.id, amount_cents=invoice.total_amount_cents, reference=f"transfer {invoice.number}"
            )
        if unpaid:
            self.billing.run_due()

    def live(self, flights: Sequence[Flight], tell: Callable[[int], None]) -> None:
        """Ingest the flights as they happen, and bill each month when it is over; `tell` is called with the size of
        each batch.
        """
        for month, of_month in groupby(flights, key=lambda flight: flight.departure.astimezone(ZONE).month):
            for batch in _batches(of_month):
                self.clock.set(max(batch[-1].departure, self.clock.now()))
                self.billing.events.ingest([flight.event() for flight in batch])
                tell(len(batch))
            self._bill(_first(month + 1) + _LATER)

    def end(self) -> None:
        """End the subscriptions, so that nothing is billed for the years since when the file is served."""
        for carrier in airlines():
            self.billing.subscriptions.terminate(carrier, on_termination_invoice="skip")
        self.billing.run_due()

    def _bill(self, until: datetime) -> None:
        while (due := self.billing.next_due()) is not None and due <= until:
            self.clock.set(max(due, self.clock.now()))
            self.billing.run_due()
            self._pay_top_ups()
        self.clock.set(until)

    def invoices(self) -> Iterator[Invoice]:
        """Every invoice, newest first."""
        page = 1
        while (listed := self.billing.invoices.list(page=page)).items:
            yield from listed.items
            page += 1

    def revenue(self) -> Months:
        """Carrier -> month -> cents billed for it, including tax, however they were paid."""
        carriers = {customer.id: customer.external_id for customer in self.billing.customers.list(per_page=100).items}
        months: Months = {carrier: {} for carrier in sorted(carriers.values())}
        for invoice in self.invoices():
            if invoice.invoice_type == InvoiceType.CREDIT:
                continue
            # An invoice in arrears is issued on the first day after its month.
            month = (invoice.issuing_date.month - 2) % 12 + 1
            of_carrier = months[carriers[invoice.customer_id]]
            of_carrier[month] = (
                of_carrier.get(month, 0) + invoice.total_amount_cents + invoice.prepaid_credit_amount_cents
            )
        return months

    def credits(self) -> Iterator[tuple[WalletTransaction, Invoice | None, Decimal]]:
        """The movements of the bought credits: each with its invoice and the balance after it."""
        wallet = self.billing.wallets.list(external_customer_id=PREPAID).items[0]
        moves = self.billing.wallet_transactions.list_of_wallet(wallet.id, per_page=1000).items
        balance = Decimal(0)
        for move in sorted(moves, key=lambda move: (move.settled_at or move.created_at, move.id)):
            balance += move.credit_amount if move.is_inbound else -move.credit_amount
            yield move, None if move.invoice_id is None else self.billing.invoices.get(move.invoice_id), balance


def _batches(flights: Iterator[Flight]) -> Iterator[list[Flight]]:
    batch: list[Flight] = []
    for flight in flights:
        batch.append(flight)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
