"""A quarter of a seller in the European Union, whose last month is to be closed: taxes of several countries, purchases,
corrections, refunds, prepaid credits and fees in advance.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from usagebill.billing import Billing
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    Charge,
    Charged,
    FailureKind,
    ListMethods,
    MethodDetails,
    Methods,
    Notice,
    Outcome,
    ProviderFailed,
    ProviderFailure,
    Refund,
    Refunded,
    Request,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.core.vat import Registered, VatNumber
from usagebill.runtime.clock import ManualClock

if TYPE_CHECKING:
    from usagebill.fields import BillingConfigurationFields, ChargeFields, CreditNoteItemFields, OneOffFeeFields

A = TypeVar("A")

CURRENCY = "EUR"
_CARD: BillingConfigurationFields = {"payment_provider": "stripe", "payment_provider_code": "stripe"}


class _Registry:
    """A VAT registry that knows every number."""

    def check(self, number: VatNumber) -> Registered:
        return Registered(country_code=number.prefix, vat_number=number.digits)


class _Provider:
    """A payment provider that takes every charge and every refund."""

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        if isinstance(request, ListMethods):
            return cast(A, Methods(methods=(MethodDetails(provider_method_id="card", type="card"),)))
        if isinstance(request, Charge):
            paid = ChargeStatus.SUCCEEDED
            return cast(A, Charged(provider_payment_id=f"pi_{request.key}", status="succeeded", payment_status=paid))
        if isinstance(request, Refund):
            done = PaymentStatus.SUCCEEDED
            return cast(A, Refunded(provider_refund_id=f"re_{request.key}", status="succeeded", refund_status=done))
        failure = ProviderFailure(kind=FailureKind.NOT_SUPPORTED, code=None, message="the demo does not do that")
        raise ProviderFailed(failure)

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        return ()

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        return ()


class Quarter:
    """January to March 2024 of Lumen GmbH in Berlin, in `file`."""

    def __init__(self, file: Path) -> None:
        self.clock = ManualClock(datetime(2024, 1, 1, 8, tzinfo=UTC))
        self.billing = Billing(file, clock=self.clock, vat_registry=_Registry(), payment_providers=_Provider())

    def close(self) -> None:
        self.billing.close()

    def live(self) -> None:
        """Bill the quarter, pay and correct; nothing is billed after it, whenever the file is opened."""
        self._set_up()
        self._begin()
        self._until("2024-02-10T09:00")
        self._prepay()
        self._until("2024-03-05T09:00")
        self._correct()
        self._until("2024-03-20T09:00")
        self._pay("dupont", "2024-03-19")
        self._until("2024-04-02T09:00")
        self.billing.invoices.void(self._latest("smith", until="2024-03-31").id)
        for subscription in self.billing.subscriptions.list(per_page=100):
            self.billing.subscriptions.terminate(
                subscription.external_id, on_termination_invoice="skip", on_termination_credit_note="skip"
            )
        self.billing.run_due()

    def _set_up(self) -> None:
        billing = self.billing
        billing.billing_entities.update(
            "default",
            name="Lumen GmbH",
            country="DE",
            city="Berlin",
            zipcode="10115",
            timezone="Europe/Berlin",
            address_line1="Invalidenstraße 1",
            tax_identification_number="DE123456789",
            document_number_prefix="LUM",
            document_numbering="per_billing_entity",
            default_currency=CURRENCY,
            eu_tax_management=True,
            net_payment_term=14,
        )
        billing.payment_connections.create(
            kind="stripe", code="stripe", secret_key="sk_demo", webhook_secret="whsec_demo"
        )
        billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        charge: ChargeFields = {
            "billable_metric_code": "calls",
            "charge_model": "standard",
            "properties": {"amount": "0.50"},
        }
        plans: tuple[tuple[Literal["yearly", "monthly"], str, int], ...] = (
            ("yearly", "year", 1200_00),
            ("monthly", "team", 300_00),
            ("monthly", "usage", 0),
        )
        for interval, code, cents in plans:
            billing.plans.create(
                name=code.capitalize(),
                code=code,
                interval=interval,
                amount_cents=cents,
                amount_currency=CURRENCY,
                pay_in_advance=cents > 0,
                charges=[] if cents else [charge],
            )
        for code, cents in (("setup", 200_00), ("referral", 100_00)):
            billing.add_ons.create(name=code.capitalize(), code=code, amount_cents=cents, amount_currency=CURRENCY)

    def _begin(self) -> None:
        customers: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
            ("koch", "Koch KG", "DE", {"tax_identification_number": "DE136695976", "card": True}),
            ("mayr", "Eva Mayr", "AT", {"card": True}),
            ("dupont", "Dupont SA", "FR", {"tax_identification_number": "FR40303265045"}),
            ("smith", "Smith Inc.", "US", {}),
            ("neri", "Anna Neri", "IT", {}),
            ("agent", "Agentur Beck", "DE", {"account_type": "partner"}),
        )
        for id, name, country, more in customers:
            card: BillingConfigurationFields = (
                {**_CARD, "provider_customer_id": f"cus_{id}"} if more.pop("card", False) else {}
            )
            self.billing.customers.upsert(
                external_id=id, name=name, country=country, currency=CURRENCY, billing_configuration=card, **more
            )
        self.billing.run_due()
        for id, plan in (("koch", "year"), ("mayr", "team"), ("dupont", "team"), ("smith", "team"), ("neri", "usage")):
            self.billing.subscriptions.create(external_customer_id=id, plan_code=plan, external_id=id)
        self.billing.run_due()

    def _prepay(self) -> None:
        """Credits that one customer buys, with some on top, and uses; the others pay January and February."""
        self.billing.wallets.create(
            external_customer_id="neri", rate_amount="1", currency=CURRENCY, paid_credits="100", granted_credits="20"
        )
        self.billing.run_due()
        self._pay("neri", "2024-02-10")
        for number in range(80):
            self.billing.events.create(transaction_id=f"call-{number}", code="calls", external_subscription_id="neri")
        for id in ("dupont", "smith"):
            for invoice in self.billing.invoices.list(external_customer_id=id):
                self._settle(invoice, "2024-02-09")

    def _correct(self) -> None:
        """A part of a fee is paid back; something is sold once, and something is bought from a partner."""
        invoice = self.billing.invoices.get(self._latest("mayr").id)
        item: CreditNoteItemFields = {"fee_id": invoice.fees[0].id, "amount_cents": 50_00}
        self.billing.credit_notes.create(
            invoice_id=invoice.id, reason="order_change", refund_amount_cents=60_00, items=[item]
        )
        for id, code in (("koch", "setup"), ("agent", "referral")):
            fees: list[OneOffFeeFields] = [{"add_on_code": code, "units": 1}]
            self.billing.invoices.create_one_off(external_customer_id=id, currency=CURRENCY, fees=fees)
        self.billing.run_due()

    def _latest(self, id: str, until: str = "2024-12-31") -> Invoice:
        return self.billing.invoices.list(external_customer_id=id, issuing_date_to=until).items[0]

    def _pay(self, id: str, day: str) -> None:
        self._settle(self._latest(id), day)

    def _settle(self, invoice: Invoice, day: str) -> None:
        self.billing.payments.create(
            invoice_id=invoice.id, amount_cents=invoice.due_cents, reference=f"transfer {invoice.number}", paid_at=day
        )
        self.billing.run_due()

    def _until(self, instant: str) -> None:
        end = datetime.fromisoformat(instant).replace(tzinfo=UTC)
        while (due := self.billing.next_due()) is not None and due <= end:
            self.clock.set(max(due, self.clock.now()))
            self.billing.run_due()
        self.clock.set(end)
