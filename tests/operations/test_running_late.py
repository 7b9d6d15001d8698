"""Running late changes nothing: every command of the library, before and after overdue runs and finalizations.

The workers of a seller stop on 31 January and come back on 5 February, after a command. Its papers are those of a
seller whose workers never stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from tests.examples import mostly_slow
from tests.scenarios import charge_in_advance_on, charge_on, filter_on, fixed_charge_on, plan_fields

from usagebill import Billing
from usagebill.core.credit_notes import CreditNote
from usagebill.core.emails import Email
from usagebill.core.errors import BillingError
from usagebill.core.event_sources import RefusedEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payments import Payment, PaymentMethod
from usagebill.core.statuses import PaymentStatus
from usagebill.http.app import endpoints
from usagebill.operations.backlog import declared_backlog
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work

DOWN = datetime(2024, 1, 31, 12, tzinfo=UTC)
# The runs of 1 February, 00:10, and the finalizations of 1 and 2 February are overdue.
BACK = datetime(2024, 2, 5, 9, 30, tzinfo=UTC)
END = datetime(2024, 3, 8, tzinfo=UTC)
# One customer for each way of being late: a run; the finalization of a draft of a running subscription, of one that
# ended, and of one that was upgraded; and an end.
CUSTOMERS = ("run", "draft", "ended", "upgraded", "ending")
DRAFTS = ("draft", "ended", "upgraded")
# Requests are sent as a caller without types would send them.
Act = Callable[[Any], object]


class Outbox:
    def send(self, email: Email) -> dict[str, str]:
        return {}


class Seller(Billing):
    """A seller in a file of its own, with a clock."""

    def __init__(self, file: Path, now: datetime) -> None:
        self.time = ManualClock(now)
        super().__init__(file, clock=self.time, deliver=False, mailer=Outbox())

    def __enter__(self) -> Seller:
        return self

    def run_until(self, end: datetime) -> None:
        """Run each job at its own instant."""
        while (due := self.next_due()) is not None and due <= end:
            self.time.set(max(due, self.time.now()))
            self.run_due(strict=True)
        self.time.set(end)

    def of(self, customer: str, name: str) -> Any:
        """A record of a customer, made before the workers stopped: `one_off`, `spare`, `top_up`, `note`, `draft`."""
        listed = self.invoices.list_of_customer(customer, per_page=100).items
        made = [invoice for invoice in reversed(listed) if invoice.created_at < DOWN]
        one_offs = [invoice for invoice in made if invoice.invoice_type == "one_off"]
        if name in ("one_off", "spare", "credited"):
            return one_offs[("one_off", "spare", "credited").index(name)]
        if name == "top_up":
            return next(invoice for invoice in made if invoice.invoice_type == "credit")
        if name == "wallet":
            return self.wallets.list(external_customer_id=customer).items[0]
        if name == "applied":
            return self.applied_coupons.list_of_customer(customer).items[0]
        if name == "note":
            return self.credit_notes.list(external_customer_id=customer, per_page=100).items[-1]
        assert name == "subscription"
        (made_for_usage,) = [invoice for invoice in made if invoice.invoice_type == "subscription"][-1:]
        return made_for_usage


def set_up(billing: Any) -> None:
    """January of five customers, with everything that a bill can be made of."""
    billing.billing_entities.update(
        billing.billing_entities.list()[0].code,
        email="seller@example.com",
        email_settings=["invoice.finalized", "credit_note.created", "payment_receipt.created"],
        country="FR",
        city="Paris",
        zipcode="75001",
        address_line1="Rue 1",
        einvoicing=True,
        tax_identification_number="FR40303265045",
    )
    billing.taxes.create(name="VAT", code="vat", rate=10, applied_to_organization=True)
    billing.taxes.create(name="Extra", code="extra", rate=3)
    section = billing.invoice_custom_sections.create(name="Terms", code="terms", details="30 days")
    calls = billing.billable_metrics.create(
        name="Calls",
        code="calls",
        aggregation_type="sum_agg",
        field_name="n",
        filters=[{"key": "region", "values": ["eu", "us"]}],
    )
    seats = billing.billable_metrics.create(name="Seats", code="seats", aggregation_type="count_agg")
    support = billing.add_ons.create(name="Support", code="support", amount_cents=1000, amount_currency="EUR")
    billing.add_ons.create(name="Unused", code="unused", amount_cents=1000, amount_currency="EUR")
    # One that was passed in January, one that later usage passes, and one that much usage passes again and again; not
    # for the customer whose weeks are drafts.
    thresholds = [{"amount_cents": 2000}, {"amount_cents": 4500}, {"amount_cents": 1500, "recurring": True}]
    for code, cents, interval in (("pro", 3100, "monthly"), ("big", 6200, "monthly"), ("weekly", 700, "weekly")):
        billing.plans.create(
            **plan_fields(
                charge_on(calls.id, code="calls", amount="1", filters=[filter_on({"region": ["eu"]}, amount="2")]),
                charge_in_advance_on(seats.id, code="seats", amount="3"),
                code=code,
                amount_cents=cents,
                interval=interval,
                fixed_charges=[{**fixed_charge_on(support.id, amount="4"), "code": "support", "units": "1"}],
                minimum_commitment={"amount_cents": 2000},
                metadata={"team": "growth"},
                **({} if code == "weekly" else {"usage_thresholds": thresholds}),
            )
        )
    billing.features.create(code="sso", name="SSO", privileges=[{"code": "most", "value_type": "integer"}])
    billing.entitlements.replace_of_plan("pro", entitlements={"sso": {"most": 5}})
    billing.coupons.create(
        name="Ten",
        code="ten",
        coupon_type="percentage",
        percentage_rate="10",
        frequency="forever",
        expiration="no_expiration",
    )
    billing.coupons.create(
        name="Half",
        code="half",
        coupon_type="percentage",
        percentage_rate="50",
        frequency="once",
        expiration="no_expiration",
    )
    billing.dunning_campaigns.create(
        name="Reminders",
        code="reminders",
        days_between_attempts=2,
        max_attempts=2,
        thresholds=[{"amount_cents": 100, "currency": "EUR"}],
    )
    billing.webhook_endpoints.create(webhook_url="https://hooks.example.com/x")
    billing.sync_connections.create(kind="netsuite", code="ledger", url="https://ledger.example.com")
    for customer in CUSTOMERS:
        grace = 0 if customer in ("run", "ending") else 3
        billing.customers.upsert(
            external_id=customer,
            currency="EUR",
            email="books@example.com",
            net_payment_term=1,
            invoice_custom_section_codes=[section.code],
            applied_dunning_campaign_code="reminders",
            billing_configuration={"invoice_grace_period": grace},
            country="FR",
            city="Lyon",
            zipcode="69001",
            address_line1="Rue 2",
            integration_customers=[
                {"integration_type": "netsuite", "integration_code": "ledger", "sync_with_provider": True}
            ],
        )
        billing.wallets.create(
            external_customer_id=customer,
            name="Prepaid",
            code="prepaid",
            rate_amount="1",
            currency="EUR",
            granted_credits="3",
            metadata={"team": "growth"},
        )
        billing.applied_coupons.apply(external_customer_id=customer, coupon_code="ten")
        plan = "weekly" if customer == "draft" else "pro"
        # The 5th is a Friday: weeks begin on Mondays.
        ending = {"ending_at": "2024-02-02T10:00:00Z"} if customer == "ending" else {}
        billing.subscriptions.create(external_customer_id=customer, plan_code=plan, external_id=customer, **ending)
        billing.alerts.create(
            customer, alert_type="current_usage_amount", code="watch", thresholds=[{"value": "1000", "code": "warn"}]
        )
        billing.alerts.create_of_wallet(
            customer, "prepaid", alert_type="wallet_credits_balance", code="low", thresholds=[{"value": "1"}]
        )
        use(billing, customer, "first")
    billing.run_until(datetime(2024, 1, 15, tzinfo=UTC))
    for customer in CUSTOMERS:
        for _ in range(3):
            made = billing.invoices.create_one_off(
                external_customer_id=customer,
                currency="EUR",
                fees=[{"add_on_code": "support", "units": 10 if customer == "ending" else 2}],
            )
            billing.run_due(strict=True)
            billing.time.set(billing.time.now().replace(second=billing.time.now().second + 1))
        # More than two bills of "ending".
        cents = 9000 if customer == "ending" else 400
        billing.credit_notes.create(
            invoice_id=made.id,
            reason="other",
            credit_amount_cents=cents * 11 // 10,
            items=[{"fee_id": billing.view(made)["fees"][0]["svc_id"], "amount_cents": cents}],
            metadata={"team": "growth"},
        )
        wallet = billing.of(customer, "wallet")
        billing.wallet_transactions.create(wallet_id=wallet.id, paid_credits="5")
    billing.run_until(datetime(2024, 1, 20, tzinfo=UTC))
    for customer in CUSTOMERS:
        use(billing, customer, "second")
    for customer in CUSTOMERS:
        equip(billing, customer)
    billing.run_until(datetime(2024, 1, 30, 12, tzinfo=UTC))
    billing.subscriptions.terminate("ended")
    billing.subscriptions.create(external_customer_id="upgraded", plan_code="big", external_id="upgraded")
    billing.run_until(DOWN)


def equip(billing: Any, customer: str) -> None:
    """A payment with a receipt, two payment methods, an event that could not be counted when a source sent it, and a
    payment through a provider that brought too much, with a refund that failed.
    """
    paid = billing.invoices.create_one_off(
        external_customer_id=customer, currency="EUR", fees=[{"add_on_code": "support"}]
    )
    billing.payments.create(invoice_id=paid.id, amount_cents=paid.total_amount_cents, reference=customer)
    surplus = billing.invoices.create_one_off(
        external_customer_id=customer, currency="EUR", fees=[{"add_on_code": "support"}]
    )
    payment = billing.payments.create(
        invoice_id=surplus.id, amount_cents=surplus.total_amount_cents, reference=f"{customer} twice"
    )
    fee = billing.view(surplus)["fees"][0]["svc_id"]
    refund = billing.credit_notes.create(
        invoice_id=surplus.id, reason="other", refund_amount_cents=110, items=[{"fee_id": fee, "amount_cents": 100}]
    )
    owner = billing.customers.get(customer)
    named = {"organization_id": billing.organization.id, "customer_id": owner.id, "connection_id": "none"}
    dated = {"created_at": billing.time.now(), "updated_at": billing.time.now()}

    def write(work: Work) -> None:
        of_january = {"timestamp": 1706180400, "properties": {"n": 7}}
        event = {"transaction_id": "refused", "code": "calls", "external_subscription_id": customer, **of_january}
        work.tx.insert(
            RefusedEvent(
                id=work.new_id(),
                organization_id=billing.organization.id,
                source=f"kafka:{customer}",
                part="",
                position=0,
                payload="{}",
                event=event,
                problem={"properties": ["expression_evaluation_failed"]},
                **dated,
            )
        )
        for number in (1, 2):
            method = PaymentMethod(id=work.new_id(), provider_method_id=f"pm_{number}", **named, **dated)
            work.tx.insert(replace(method, is_default=number == 1))
        connection = PaymentConnection(
            id=work.new_id(), organization_id=billing.organization.id, kind="stripe", code=customer, name="S", **dated
        )
        work.tx.insert(connection)
        brought, asked, note = (
            work.tx.get(Payment, payment.id),
            work.tx.get(Invoice, surplus.id),
            work.tx.get(CreditNote, refund.id),
        )
        assert brought is not None
        assert asked is not None
        assert note is not None
        through_it = replace(brought, connection_id=connection.id, provider_payment_id=f"pi_{customer}")
        work.tx.replace(replace(through_it, amount_cents=brought.amount_cents + 500))
        work.tx.replace(replace(asked, total_paid_amount_cents=asked.total_paid_amount_cents + 500))
        work.tx.replace(replace(note, refund_status=PaymentStatus.FAILED))

    billing.writing(write)


def use(billing: Billing, customer: str, tag: str) -> None:
    billing.events.ingest(
        [
            {
                "transaction_id": f"{customer}-{tag}-{code}",
                "code": code,
                "external_subscription_id": customer,
                "properties": {"n": 7, "region": "eu"},
            }
            for code in ("calls", "seats")
        ]
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Path]:
    """The file of a seller whose workers stopped, and of one whose workers did not, on 5 February."""
    folder = tmp_path_factory.mktemp("sellers")
    late, on_time = folder / "late.db", folder / "on_time.db"
    with Seller(late, datetime(2024, 1, 5, tzinfo=UTC)) as seller:
        set_up(seller)
    shutil.copy(late, on_time)
    with Seller(on_time, DOWN) as seller:
        seller.run_until(BACK)
    return {True: late, False: on_time}


# Papers

_NOT_PAPER = frozenset({"updated_at", "file_url", "xml_url", "svc_id"})


def _paper(value: Any) -> Any:
    """A view without ids, estimates as of the last refresh, and what says when a record was touched."""
    if isinstance(value, Mapping):
        return {
            key: _paper(item)
            for key, item in value.items()
            if key.startswith("external_")
            or not (
                key in _NOT_PAPER
                or key.endswith(("_id", "_ids"))
                or "ongoing" in key
                or key == "available_balance_cents"
            )
        }
    if isinstance(value, (list, tuple)):
        return sorted((_paper(item) for item in value), key=repr)
    return value


def papers(billing: Billing) -> dict[str, list[Any]]:
    """All invoices, credit notes, wallets, and what else the next bills are made of."""
    everything: dict[str, Callable[[], Any]] = {
        "invoices": lambda: billing.invoices.list(per_page=500).items,
        "credit notes": lambda: billing.credit_notes.list(per_page=500).items,
        "wallets": lambda: billing.wallets.list(per_page=500).items,
        "coupons": lambda: billing.applied_coupons.list(per_page=500).items,
        "fees": lambda: billing.fees.list(per_page=500).items,
        "subscriptions": lambda: (
            billing.subscriptions.list(per_page=500, status=["active", "pending", "terminated", "canceled"]).items
        ),
        "payment requests": lambda: billing.payment_requests.list(per_page=500).items,
        "payments": lambda: billing.payments.list(per_page=500).items,
    }
    shown = {name: _paper([billing.view(item) for item in read()]) for name, read in everything.items()}
    wallets = billing.wallets.list(per_page=500).items
    shown["credits"] = [
        _paper([billing.view(i) for i in billing.wallet_transactions.list_of_wallet(w.id).items]) for w in wallets
    ]
    return shown


# Commands


def each(act: Callable[[Any, str], object], *customers: str) -> Act:
    """The command for each customer; one that is refused to some is not held back from the others."""

    def acts(seller: Any) -> None:
        refusals = []
        for customer in customers or CUSTOMERS:
            try:
                act(seller, customer)
            except BillingError as problem:
                refusals.append(problem)
        if len(refusals) == len(customers or CUSTOMERS):
            raise refusals[0]

    return acts


def filter_of(seller: Any) -> str:
    return str(seller.plans.get_charge("pro", "calls").filters[0].id)


def scheduled_of(seller: Any) -> int:
    """The version of a price that waits for a day."""
    plan = seller.plans.update("pro", amount_cents=9900, effective="2024-04-01")
    return int(plan.scheduled_prices[0].version)


def own_filter_of(seller: Any, customer: str) -> str:
    charge = seller.subscriptions.get_charge(customer, "calls")
    return str(charge.filters[0].id)


_RANGE = {"charge_model": "standard", "properties": {"amount": "9"}}
_MAIL = {"to": ["anna@example.com"]}
_FIXED = {"charge_model": "standard", "units": "3", "properties": {"amount": "9"}}


def _user(seller: Seller) -> str:
    return seller.users.add(email="user@example.com", role="admin").user.id


def _hmac_endpoint(seller: Seller) -> str:
    (endpoint,) = seller.webhook_endpoints.list().items
    return seller.webhook_endpoints.update(endpoint.id, signature_algo="hmac").id


ACTS: dict[str, Act] = {
    "add_ons.create": lambda s: s.add_ons.create(name="A", code="a", amount_cents=1, amount_currency="EUR"),
    "add_ons.update": lambda s: s.add_ons.update("support", name="Other", amount_cents=7777),
    "add_ons.delete": lambda s: s.add_ons.delete("unused"),
    "alerts.create": each(
        lambda s, c: s.alerts.create(c, alert_type="lifetime_usage_amount", code="more", thresholds=[{"value": "1"}]),
    ),
    "alerts.create_all": each(
        lambda s, c: s.alerts.create_all(
            c, alerts=[{"alert_type": "lifetime_usage_amount", "code": "more", "thresholds": [{"value": "1"}]}]
        ),
    ),
    "alerts.update": each(lambda s, c: s.alerts.update(c, "watch", thresholds=[{"value": "2"}])),
    "alerts.delete": each(lambda s, c: s.alerts.delete(c, "watch")),
    "alerts.delete_all": each(lambda s, c: s.alerts.delete_all(c)),
    "alerts.create_of_wallet": each(
        lambda s, c: s.alerts.create_of_wallet(
            c, "prepaid", alert_type="wallet_balance_amount", code="more", thresholds=[{"value": "1"}]
        ),
    ),
    "alerts.create_all_of_wallet": each(
        lambda s, c: s.alerts.create_all_of_wallet(
            c,
            "prepaid",
            alerts=[{"alert_type": "wallet_balance_amount", "code": "more", "thresholds": [{"value": "1"}]}],
        ),
    ),
    "alerts.update_of_wallet": each(
        lambda s, c: s.alerts.update_of_wallet(c, "prepaid", "low", thresholds=[{"value": "2"}])
    ),
    "alerts.delete_of_wallet": each(lambda s, c: s.alerts.delete_of_wallet(c, "prepaid", "low")),
    "alerts.delete_all_of_wallet": each(lambda s, c: s.alerts.delete_all_of_wallet(c, "prepaid")),
    "api_keys.create": lambda s: s.api_keys.create(name="K"),
    "api_keys.update": lambda s: s.api_keys.update(s.api_keys.create(name="K").key.id, name="L"),
    "api_keys.rotate": lambda s: s.api_keys.rotate(s.api_keys.create(name="K").key.id),
    "api_keys.revoke": lambda s: (
        s.api_keys.create(name="Left"),
        s.api_keys.revoke(s.api_keys.create(name="K").key.id),
    ),
    "users.add": lambda s: s.users.add(email="a@b.example", role="admin"),
    "users.update": lambda s: s.users.update(_user(s), role="admin"),
    "users.remove": lambda s: (s.users.add(email="c@d.example", role="admin"), s.users.remove(_user(s))),
    "users.link": lambda s: s.users.link(_user(s)),
    "users.send_link": lambda s: s.users.send_link(_user(s)),
    "users.end_session": lambda s: s.users.end_session(s.users.sessions(_user(s))[0].id),
    "applied_coupons.apply": each(lambda s, c: s.applied_coupons.apply(external_customer_id=c, coupon_code="half")),
    "applied_coupons.terminate": each(lambda s, c: s.applied_coupons.terminate(c, s.of(c, "applied").id)),
    "billable_metrics.create": lambda s: s.billable_metrics.create(name="M", code="m", aggregation_type="count_agg"),
    # Its filters go, and with them the price of 2.00 in "eu".
    "billable_metrics.update": lambda s: s.billable_metrics.update("calls", name="Other", filters=[]),
    "billable_metrics.delete": lambda s: s.billable_metrics.delete("calls"),
    "billing_entities.create": lambda s: s.billing_entities.create(name="Second", code="second"),
    "billing_entities.update": lambda s: s.billing_entities.update(
        s.billing_entities.list()[0].code,
        timezone="Asia/Tokyo",
        net_payment_term=9,
        tax_codes=["extra"],
        document_number_prefix="NEW",
        billing_configuration={"invoice_grace_period": 5},
    ),
    "coupons.create": lambda s: s.coupons.create(
        name="C", code="c", coupon_type="percentage", percentage_rate="1", frequency="once", expiration="no_expiration"
    ),
    "coupons.update": lambda s: s.coupons.update("ten", name="Other"),
    "coupons.delete": lambda s: s.coupons.delete("ten"),
    "credit_notes.create": each(
        lambda s, c: s.credit_notes.create(
            invoice_id=s.of(c, "one_off").id,
            reason="other",
            credit_amount_cents=1100,
            items=[{"fee_id": s.view(s.of(c, "one_off"))["fees"][0]["svc_id"], "amount_cents": 1000}],
        ),
    ),
    "credit_notes.update": each(lambda s, c: s.credit_notes.update(s.of(c, "note").id, metadata={"a": "b"})),
    "credit_notes.void": each(lambda s, c: s.credit_notes.void(s.of(c, "note").id), "ending"),
    "credit_notes.replace_metadata": each(
        lambda s, c: s.credit_notes.replace_metadata(s.of(c, "note").id, metadata={"a": "b"}),
    ),
    "credit_notes.merge_metadata": each(
        lambda s, c: s.credit_notes.merge_metadata(s.of(c, "note").id, metadata={"a": "b"}),
    ),
    "credit_notes.delete_metadata": each(lambda s, c: s.credit_notes.delete_metadata(s.of(c, "note").id)),
    "credit_notes.delete_metadata_key": each(
        lambda s, c: s.credit_notes.delete_metadata_key(s.of(c, "note").id, "team"),
    ),
    "credit_notes.download": each(lambda s, c: s.credit_notes.download(s.of(c, "note").id)),
    "credit_notes.xml": each(lambda s, c: s.credit_notes.xml(s.of(c, "note").id)),
    "credit_notes.download_xml": each(lambda s, c: s.credit_notes.download_xml(s.of(c, "note").id)),
    "credit_notes.pdf": each(lambda s, c: s.credit_notes.pdf(s.of(c, "note").id), "run"),
    "credit_notes.retry_refund": each(lambda s, c: s.credit_notes.retry_refund(failed_of(s, c))),
    "credit_notes.resend_email": each(lambda s, c: s.credit_notes.resend_email(s.of(c, "note").id, **_MAIL)),
    "customers.checkout_url": each(lambda s, c: s.customers.checkout_url(c)),
    "customers.upsert": each(
        lambda s, c: s.customers.upsert(
            external_id=c,
            name="Other",
            timezone="Asia/Tokyo",
            tax_codes=["extra"],
            net_payment_term=9,
            skip_invoice_custom_sections=True,
            billing_configuration={"invoice_grace_period": 1},
        ),
    ),
    "customers.anonymize": each(lambda s, c: s.customers.anonymize(c)),
    "customers.delete": each(lambda s, c: s.customers.delete(c)),
    "entitlements.replace_of_plan": lambda s: s.entitlements.replace_of_plan("pro", entitlements={"sso": {"most": 9}}),
    "entitlements.merge_of_plan": lambda s: s.entitlements.merge_of_plan("pro", entitlements={"sso": {"most": 9}}),
    "entitlements.remove_from_plan": lambda s: s.entitlements.remove_from_plan("pro", "sso"),
    "entitlements.remove_privilege_from_plan": lambda s: s.entitlements.remove_privilege_from_plan(
        "pro", "sso", "most"
    ),
    "entitlements.change_of_subscription": each(
        lambda s, c: s.entitlements.change_of_subscription(c, entitlements={"sso": {"most": 9}}),
    ),
    "entitlements.remove_from_subscription": each(
        lambda s, c: s.entitlements.remove_from_subscription(c, "sso"),
    ),
    "entitlements.remove_privilege_from_subscription": each(
        lambda s, c: s.entitlements.remove_privilege_from_subscription(c, "sso", "most"),
    ),
    "dunning_campaigns.create": lambda s: s.dunning_campaigns.create(
        name="D",
        code="d",
        days_between_attempts=1,
        max_attempts=1,
        thresholds=[{"amount_cents": 1, "currency": "EUR"}],
    ),
    "dunning_campaigns.update": lambda s: s.dunning_campaigns.update("reminders", max_attempts=5),
    "dunning_campaigns.delete": lambda s: s.dunning_campaigns.delete("reminders"),
    "event_sources.ingest_cloud_events": each(
        lambda s, c: s.event_sources.ingest_cloud_events(
            events=[
                {
                    "specversion": "1.0",
                    "id": f"{c}-{code}-cloud",
                    "source": "/meter",
                    "type": code,
                    "subject": c,
                    "time": "2024-01-30T10:00:00Z",
                    "data": {"n": 100, "region": "eu"},
                }
                for code in ("calls", "seats")
            ]
        ),
    ),
    "events.create": each(
        lambda s, c: s.events.create(
            transaction_id=f"{c}-late",
            code="seats",
            external_subscription_id=c,
            timestamp=datetime(2024, 1, 30, 10, tzinfo=UTC),
        ),
    ),
    "event_sources.retry": each(lambda s, c: s.event_sources.retry(refused_of(s, c))),
    "event_sources.retry_all": lambda s: s.event_sources.retry_all(),
    "event_sources.delete_refused": each(lambda s, c: s.event_sources.delete_refused(refused_of(s, c))),
    "events.create_batch": each(
        lambda s, c: s.events.create_batch(
            [
                {
                    "transaction_id": f"{c}-{code}-late",
                    "code": code,
                    "external_subscription_id": c,
                    "timestamp": datetime(2024, 1, 30, 10, tzinfo=UTC),
                    "properties": {"n": 100},
                }
                for code in ("calls", "seats")
            ],
            enforce=True,
        ),
    ),
    "events.ingest": each(
        lambda s, c: s.events.ingest(
            [
                {
                    "transaction_id": f"{c}-{code}-late",
                    "code": code,
                    "external_subscription_id": c,
                    "timestamp": datetime(2024, 1, 30, 10, tzinfo=UTC),
                    "properties": {"n": 100},
                }
                for code in ("calls", "seats")
            ]
        ),
    ),
    "events.estimate_fees": each(lambda s, c: s.events.estimate_fees(code="seats", external_subscription_id=c)),
    "events.estimate_instant_fees": each(
        lambda s, c: s.events.estimate_instant_fees(code="seats", external_subscription_id=c),
    ),
    "features.create": lambda s: s.features.create(code="f", name="F"),
    "features.update": lambda s: s.features.update("sso", name="F"),
    "features.delete": lambda s: s.features.delete("sso"),
    "features.delete_privilege": lambda s: s.features.delete_privilege("sso", "most"),
    "fees.update": each(lambda s, c: s.fees.update(free_fee(s, c), payment_status="succeeded")),
    "fees.delete": each(lambda s, c: s.fees.delete(free_fee(s, c))),
    "invoice_custom_sections.create": lambda s: s.invoice_custom_sections.create(name="S", code="s"),
    "invoice_custom_sections.update": lambda s: s.invoice_custom_sections.update("terms", details="60 days"),
    "invoice_custom_sections.delete": lambda s: s.invoice_custom_sections.delete("terms"),
    "invoices.payment_url": each(lambda s, c: s.invoices.payment_url(s.of(c, "one_off").id)),
    "invoices.retry": each(lambda s, c: s.invoices.retry(s.of(c, "one_off").id)),
    "invoices.retry_payment": each(lambda s, c: s.invoices.retry_payment(s.of(c, "one_off").id)),
    "invoices.xml": each(lambda s, c: s.invoices.xml(s.of(c, "one_off").id)),
    "invoices.download_xml": each(lambda s, c: s.invoices.download_xml(s.of(c, "one_off").id)),
    "invoices.update": each(lambda s, c: s.invoices.update(s.of(c, "top_up").id, payment_status="succeeded")),
    "invoices.finalize": each(lambda s, c: s.invoices.finalize(s.of(c, "subscription").id), *DRAFTS),
    "invoices.refresh": each(lambda s, c: s.invoices.refresh(s.of(c, "subscription").id), *DRAFTS),
    "invoices.delete": each(lambda s, c: s.invoices.delete(s.of(c, "subscription").id), *DRAFTS),
    "invoices.void": each(lambda s, c: s.invoices.void(s.of(c, "spare").id)),
    "invoices.lose_dispute": each(lambda s, c: s.invoices.lose_dispute(s.of(c, "spare").id)),
    "invoices.preview": each(
        lambda s, c: s.invoices.preview(customer={"external_id": c}, subscriptions={"external_ids": [c]}),
    ),
    "invoices.preview_all": each(
        lambda s, c: s.invoices.preview_all(customer={"external_id": c}, subscriptions={"external_ids": [c]}),
    ),
    "invoices.explain_preview": each(
        lambda s, c: s.invoices.explain_preview(customer={"external_id": c}, subscriptions={"external_ids": [c]}),
    ),
    "invoices.create_one_off": each(
        lambda s, c: s.invoices.create_one_off(
            external_customer_id=c, currency="EUR", fees=[{"add_on_code": "support", "units": 1}]
        ),
    ),
    "invoices.adjust_fee": each(
        lambda s, c: s.invoices.adjust_fee(s.of(c, "subscription").id, fee_id=first_fee(s, c), units=1),
        *DRAFTS,
    ),
    "invoices.reset_fee": each(lambda s, c: s.invoices.reset_fee(s.of(c, "subscription").id, first_fee(s, c)), *DRAFTS),
    "invoices.estimate_adjusted_fee": each(
        lambda s, c: s.invoices.estimate_adjusted_fee(s.of(c, "subscription").id, fee_id=first_fee(s, c), units=1),
        *DRAFTS,
    ),
    "invoices.regenerate": each(lambda s, c: regenerated(s, c)),
    "invoices.download": each(lambda s, c: s.invoices.download(s.of(c, "spare").id)),
    "invoices.pdf": each(lambda s, c: s.invoices.pdf(s.of(c, "spare").id), "run"),
    "invoices.resend_email": each(lambda s, c: s.invoices.resend_email(s.of(c, "spare").id, **_MAIL)),
    "exchange_rates.create": lambda s: s.exchange_rates.create(currency="GBP", rate="1.25", valid_from="2023-01-01"),
    "exchange_rates.delete": lambda s: s.exchange_rates.delete(
        s.exchange_rates.create(currency="GBP", rate="1.25", valid_from="2023-01-01").id
    ),
    "ledger.close": lambda s: s.ledger.close(month="2023-01"),
    "lists.recount": lambda s: s.lists.recount(),
    "jobs.retry": lambda s: s.jobs.retry("none"),
    "organizations.set_limits": lambda s: s.organizations.set_limits(customers=1000),
    "organizations.update": lambda s: s.organizations.update(timezone="Asia/Tokyo", net_payment_term=9),
    "payment_connections.create": lambda s: stripe(s),
    "payment_connections.update": lambda s: s.payment_connections.update(stripe(s), name="Other"),
    "payment_connections.delete": lambda s: s.payment_connections.delete(stripe(s)),
    "payment_requests.create": each(
        lambda s, c: s.payment_requests.create(
            external_customer_id=c, email="b@example.com", svc_invoice_ids=[s.of(c, "spare").id]
        ),
    ),
    "payment_methods.delete": each(lambda s, c: s.payment_methods.delete(c, method_of(s, c))),
    "payment_methods.set_as_default": each(lambda s, c: s.payment_methods.set_as_default(c, method_of(s, c))),
    "payment_receipts.download": each(lambda s, c: s.payment_receipts.download(receipt_of(s, c)), "run"),
    "payment_receipts.pdf": each(lambda s, c: s.payment_receipts.pdf(receipt_of(s, c)), "run"),
    "payment_receipts.resend_email": each(lambda s, c: s.payment_receipts.resend_email(receipt_of(s, c), **_MAIL)),
    "payments.create": each(
        lambda s, c: s.payments.create(invoice_id=s.of(c, "top_up").id, amount_cents=500, reference="bank"),
    ),
    "payments.refund": each(lambda s, c: s.payments.refund(surplus_of(s, c), amount_cents=300, by_hand=True)),
    "plans.create": lambda s: s.plans.create(**plan_fields(code="new", amount_cents=1)),
    "plans.update": lambda s: [
        s.plans.update(code, name="Other", amount_cents=9900, minimum_commitment={"amount_cents": 99000})
        for code in ("pro", "weekly")
    ],
    "prices.diff": lambda s: s.prices.diff(dearer(s)),
    "prices.apply": lambda s: s.prices.apply(dearer(s), effective="immediately"),
    "plans.preview_change": lambda s: s.plans.preview_change("pro", amount_cents=1),
    "plans.compare": lambda s: s.plans.compare("pro", "big"),
    "plans.delete": lambda s: [s.plans.delete(code) for code in ("pro", "weekly")],
    "plans.create_charge": lambda s: s.plans.create_charge(
        "pro", billable_metric_id=s.billable_metrics.get("calls").id, code="again", **_RANGE
    ),
    "plans.update_charge": lambda s: [s.plans.update_charge(code, "calls", **_RANGE) for code in ("pro", "weekly")],
    "plans.delete_charge": lambda s: [s.plans.delete_charge(code, "calls") for code in ("pro", "weekly")],
    "plans.create_filter": lambda s: s.plans.create_filter(
        "pro", "calls", values={"region": ["us"]}, properties={"amount": "9"}
    ),
    "plans.update_filter": lambda s: s.plans.update_filter("pro", "calls", filter_of(s), properties={"amount": "9"}),
    "plans.delete_filter": lambda s: s.plans.delete_filter("pro", "calls", filter_of(s)),
    "plans.create_fixed_charge": lambda s: s.plans.create_fixed_charge(
        "pro", add_on_code="unused", code="more", **_FIXED
    ),
    "plans.update_fixed_charge": lambda s: s.plans.update_fixed_charge("pro", "support", **_FIXED),
    "plans.delete_fixed_charge": lambda s: s.plans.delete_fixed_charge("pro", "support"),
    "plans.update_scheduled_prices": lambda s: s.plans.update_scheduled_prices(
        "pro", scheduled_of(s), effective_on="2024-05-01"
    ),
    "plans.delete_scheduled_prices": lambda s: s.plans.delete_scheduled_prices("pro", scheduled_of(s)),
    "plans.replace_metadata": lambda s: s.plans.replace_metadata("pro", metadata={"a": "b"}),
    "plans.merge_metadata": lambda s: s.plans.merge_metadata("pro", metadata={"a": "b"}),
    "plans.delete_metadata": lambda s: s.plans.delete_metadata("pro"),
    "plans.delete_metadata_key": lambda s: s.plans.delete_metadata_key("pro", "team"),
    "pricing_units.create": lambda s: s.pricing_units.create(name="Credits", code="credits", short_name="CR"),
    "subscriptions.create": each(
        lambda s, c: s.subscriptions.create(external_customer_id=c, plan_code="big", external_id=c),
    ),
    "subscriptions.update": each(
        lambda s, c: s.subscriptions.update(c, name="Other", ending_at="2024-02-20T00:00:00Z"),
    ),
    "subscriptions.terminate": each(lambda s, c: s.subscriptions.terminate(c)),
    "subscriptions.update_charge": each(lambda s, c: s.subscriptions.update_charge(c, "calls", **_RANGE)),
    "subscriptions.create_filter": each(
        lambda s, c: s.subscriptions.create_filter(c, "calls", values={"region": ["us"]}, properties={"amount": "9"}),
    ),
    "subscriptions.update_filter": each(
        lambda s, c: s.subscriptions.update_filter(c, "calls", own_filter_of(s, c), properties={"amount": "9"}),
    ),
    "subscriptions.delete_filter": each(
        lambda s, c: s.subscriptions.delete_filter(c, "calls", own_filter_of(s, c)),
    ),
    "subscriptions.update_fixed_charge": each(lambda s, c: s.subscriptions.update_fixed_charge(c, "support", **_FIXED)),
    "subscriptions.set_lifetime_usage": each(
        lambda s, c: s.subscriptions.set_lifetime_usage(c, external_historical_usage_amount_cents=12000),
    ),
    "sync_connections.create": lambda s: netsuite(s),
    "sync_connections.update": lambda s: s.sync_connections.update(netsuite(s), name="Other"),
    "sync_connections.delete": lambda s: s.sync_connections.delete(netsuite(s)),
    "synced_documents.push_invoice": each(lambda s, c: s.synced_documents.push_invoice(s.of(c, "one_off").id)),
    "synced_documents.resend": lambda s: s.synced_documents.resend(s.synced_documents.list().items[-1].id),
    "synced_documents.resend_failed": lambda s: s.synced_documents.resend_failed(),
    "tax_connections.create": lambda s: anrok(s),
    "tax_connections.update": lambda s: s.tax_connections.update(anrok(s), name="Other"),
    "tax_connections.delete": lambda s: s.tax_connections.delete(anrok(s)),
    "taxes.create": lambda s: s.taxes.create(name="T", code="t", rate=7, applied_to_organization=True),
    "taxes.update": lambda s: s.taxes.update("vat", rate=20),
    "taxes.delete": lambda s: s.taxes.delete("vat"),
    "usage.rebuild": lambda s: s.usage.rebuild(),
    "wallet_transactions.payment_url": each(
        lambda s, c: s.wallet_transactions.payment_url(purchase_of(s, c)),
    ),
    "holds.create": each(lambda s, c: s.holds.create(external_subscription_id=c, amount_cents=1)),
    "holds.capture": each(
        lambda s, c: s.holds.capture(
            s.holds.create(external_subscription_id=c, amount_cents=1).id, code="calls", timestamp=0
        )
    ),
    "holds.release": each(lambda s, c: s.holds.release(s.holds.create(external_subscription_id=c, amount_cents=1).id)),
    "holds.hold": each(lambda s, c: held_within(s, c)),
    "spend_limits.create_of_customer": each(
        lambda s, c: s.spend_limits.create_of_customer(c, code="a", amount_cents=1)
    ),
    "spend_limits.create_of_subscription": each(
        lambda s, c: s.spend_limits.create_of_subscription(c, code="a", amount_cents=1)
    ),
    "spend_limits.create_of_plan": lambda s: s.spend_limits.create_of_plan("pro", code="a", amount_cents=1),
    "spend_limits.update_of_customer": each(
        lambda s, c: (
            s.spend_limits.create_of_customer(c, code="a", amount_cents=1),
            s.spend_limits.update_of_customer(c, "a", amount_cents=2),
        )
    ),
    "spend_limits.update_of_subscription": each(
        lambda s, c: (
            s.spend_limits.create_of_subscription(c, code="a", amount_cents=1),
            s.spend_limits.update_of_subscription(c, "a", amount_cents=2),
        )
    ),
    "spend_limits.update_of_plan": lambda s: (
        s.spend_limits.create_of_plan("pro", code="a", amount_cents=1),
        s.spend_limits.update_of_plan("pro", "a", amount_cents=2),
    ),
    "spend_limits.delete_of_customer": each(
        lambda s, c: (
            s.spend_limits.create_of_customer(c, code="a", amount_cents=1),
            s.spend_limits.delete_of_customer(c, "a"),
        )
    ),
    "spend_limits.delete_of_subscription": each(
        lambda s, c: (
            s.spend_limits.create_of_subscription(c, code="a", amount_cents=1),
            s.spend_limits.delete_of_subscription(c, "a"),
        )
    ),
    "spend_limits.delete_of_plan": lambda s: (
        s.spend_limits.create_of_plan("pro", code="a", amount_cents=1),
        s.spend_limits.delete_of_plan("pro", "a"),
    ),
    "spend_limits.standings": each(lambda s, c: s.spend_limits.standings(c)),
    "spend_limits.check": each(lambda s, c: s.spend_limits.check(external_subscription_id=c, amount_cents=1)),
    "wallet_transactions.create": each(
        lambda s, c: s.wallet_transactions.create(wallet_id=s.of(c, "wallet").id, granted_credits="9"),
    ),
    "wallets.create": each(
        lambda s, c: s.wallets.create(
            external_customer_id=c, code="new", rate_amount="1", currency="EUR", granted_credits="9", priority=1
        ),
    ),
    "wallets.create_of_customer": each(
        lambda s, c: s.wallets.create_of_customer(c, code="new", rate_amount="1", currency="EUR", granted_credits="9"),
    ),
    "wallets.update": each(
        lambda s, c: s.wallets.update(
            s.of(c, "wallet").id, priority=1, expiration_at="2024-02-10T00:00:00Z", applies_to={"fee_types": ["charge"]}
        ),
    ),
    "wallets.update_of_customer": each(
        lambda s, c: s.wallets.update_of_customer(c, "prepaid", expiration_at="2024-02-10T00:00:00Z"),
    ),
    "wallets.terminate": each(lambda s, c: s.wallets.terminate(s.of(c, "wallet").id)),
    "wallets.terminate_of_customer": each(lambda s, c: s.wallets.terminate_of_customer(c, "prepaid")),
    "wallets.replace_metadata": each(
        lambda s, c: s.wallets.replace_metadata(s.of(c, "wallet").id, metadata={"a": "b"}),
    ),
    "wallets.replace_metadata_of_customer": each(
        lambda s, c: s.wallets.replace_metadata_of_customer(c, "prepaid", metadata={"a": "b"}),
    ),
    "wallets.merge_metadata": each(lambda s, c: s.wallets.merge_metadata(s.of(c, "wallet").id, metadata={"a": "b"})),
    "wallets.merge_metadata_of_customer": each(
        lambda s, c: s.wallets.merge_metadata_of_customer(c, "prepaid", metadata={"a": "b"}),
    ),
    "wallets.delete_metadata": each(lambda s, c: s.wallets.delete_metadata(s.of(c, "wallet").id)),
    "wallets.delete_metadata_of_customer": each(lambda s, c: s.wallets.delete_metadata_of_customer(c, "prepaid")),
    "wallets.delete_metadata_key": each(
        lambda s, c: s.wallets.delete_metadata_key(s.of(c, "wallet").id, "team"),
    ),
    "wallets.delete_metadata_key_of_customer": each(
        lambda s, c: s.wallets.delete_metadata_key_of_customer(c, "prepaid", "team"),
    ),
    "webhook_endpoints.create": lambda s: s.webhook_endpoints.create(webhook_url="https://hooks.example.com/y"),
    "webhook_endpoints.update": lambda s: s.webhook_endpoints.update(
        s.webhook_endpoints.list().items[0].id, event_types=["invoice.created"]
    ),
    "webhooks.rotate_key": lambda s: s.webhooks.rotate_key(),
    "webhooks.end_old_key": lambda s: s.webhooks.end_old_key(),
    "webhook_endpoints.rotate_secret": lambda s: s.webhook_endpoints.rotate_secret(_hmac_endpoint(s)),
    "webhook_endpoints.end_old_secret": lambda s: s.webhook_endpoints.end_old_secret(_hmac_endpoint(s)),
    "webhook_endpoints.delete": lambda s: s.webhook_endpoints.delete(s.webhook_endpoints.list().items[0].id),
    "webhooks.resend": lambda s: s.webhooks.resend(s.webhooks.list(per_page=500).items[-1].id),
    "webhooks.resend_failed": lambda s: s.webhooks.resend_failed(),
    "webhooks.public_key": lambda s: s.webhooks.public_key(),
}
# Refused both on time and late: overdue or not, a draft was finalized before.
TOO_LATE = frozenset(
    {
        "invoices.estimate_adjusted_fee",
        "invoices.finalize",
        "invoices.delete",
        "invoices.adjust_fee",
        "invoices.reset_fee",
    }
)
# Refused both on time and late: an overdue run makes an invoice that is due, and a subscription runs on.
OPEN = frozenset({"customers.anonymize"})
# Refused both on time and late, for want of what no overdue job makes: a payment provider, something that failed.
LACKING = frozenset(
    {
        "customers.checkout_url",
        "invoices.payment_url",
        "invoices.retry",
        "jobs.retry",
        "wallet_transactions.payment_url",
    }
)
# They act on a charge at a provider, which no overdue job of this seller makes.
# Methods that are no commands.
QUERIES = frozenset({"entitlements.of", "prices.pull"})


def dearer(seller: Any) -> dict[str, Any]:
    """The price list with a plan that costs more."""
    prices = seller.prices.pull()
    (plan,) = (plan for plan in prices["plans"] if plan["code"] == "pro")
    return {**prices, "plans": [{**plan, "amount_cents": plan["amount_cents"] + 100}]}


def method_of(seller: Any, customer: str) -> str:
    """The payment method that is not the default."""
    methods = seller.payment_methods.list_of_customer(customer).items
    return str(next(method for method in methods if not method.is_default).id)


def receipt_of(seller: Any, customer: str) -> str:
    (payment,) = (one for one in seller.payments.list(external_customer_id=customer).items if one.reference == customer)
    listed = seller.payment_receipts.list(per_page=100).items
    return str(next(receipt.id for receipt in listed if receipt.payment_id == payment.id))


def surplus_of(seller: Any, customer: str) -> str:
    """The payment that brought more than was due."""
    listed = seller.payments.list(external_customer_id=customer).items
    return str(next(one.id for one in listed if one.reference == f"{customer} twice"))


def failed_of(seller: Any, customer: str) -> str:
    """The credit note whose refund failed."""
    listed = seller.credit_notes.list(external_customer_id=customer, per_page=100).items
    return str(next(one.id for one in listed if one.refund_status == "failed"))


def refused_of(seller: Any, customer: str) -> str:
    return str(seller.event_sources.refused(source=f"kafka:{customer}").items[0].id)


def purchase_of(seller: Any, customer: str) -> str:
    listed = seller.wallet_transactions.list_of_wallet(seller.of(customer, "wallet").id).items
    return str(next(one.id for one in listed if one.transaction_status == "purchased"))


def free_fee(seller: Any, customer: str) -> str:
    fees = seller.fees.list(fee_type="charge", external_customer_id=customer, per_page=100).items
    return str(next(fee for fee in reversed(fees) if fee.item.code == "seats" and fee.invoice_id is None).id)


def first_fee(seller: Any, customer: str) -> str:
    fees = seller.view(seller.of(customer, "subscription"))["fees"]
    return str(fees[0]["svc_id"])


def regenerated(seller: Any, customer: str) -> None:
    seller.invoices.void(seller.of(customer, "spare").id)
    fee = seller.view(seller.of(customer, "spare"))["fees"][0]["svc_id"]
    seller.invoices.regenerate(seller.of(customer, "spare").id, fees=[{"id": fee, "units": 3}])


def stripe(seller: Any) -> str:
    made = seller.payment_connections.create(
        kind="stripe", code="main", url="https://stripe.example.com", secret_key="sk", webhook_secret="wh"
    )
    return str(made.code)


def netsuite(seller: Any) -> str:
    return str(seller.sync_connections.create(kind="netsuite", code="books", url="https://books.example.com").code)


def anrok(seller: Any) -> str:
    return str(seller.tax_connections.create(kind="anrok", code="taxes", url="https://anrok.example.com").code)


def held_within(seller: Any, customer: str) -> None:
    with seller.holds.hold(customer, amount_cents=1):
        pass


def commands() -> Iterator[tuple[str, object]]:
    """The name of every method that may write, and its operation."""
    for name, resource in RESOURCES.items():
        for method, value in vars(resource).items():
            if (isinstance(value, Operation) and value._changes) or (isfunction(value) and not method.startswith("_")):
                yield f"{name}.{method}", value


def test_every_command_is_tried_here_and_declares_its_backlog() -> None:
    named = dict(commands())
    assert set(named) == set(ACTS) | QUERIES
    undeclared = [
        name for name, op in named.items() if isinstance(op, Operation) and declared_backlog(op.function) is None
    ]
    assert undeclared == []


def test_every_request_that_writes_declares_its_backlog() -> None:
    writing = {endpoint.call for endpoint in endpoints() if endpoint.method != "GET" or endpoint.writes}
    names = {f"{call.__module__}.{call.__name__}" for call in writing if declared_backlog(call) is None}
    # They are rolled back, or only read.
    assert {name.removeprefix("usagebill.operations.") for name in names} == {
        "billable_metrics.evaluate_expression",
        "credit_notes.estimates.estimate",
        "estimates.estimate_batch_instant_fees",
        "estimates.estimate_fees",
        "estimates.estimate_instant_fees",
    }


def papers_after(file: Path, act: Act, folder: Path) -> tuple[bool, dict[str, list[Any]]]:
    """Whether the command of 5 February was refused, and the papers of the following month."""
    copied = folder / "seller.db"
    shutil.copy(file, copied)
    with Seller(copied, BACK) as seller:
        refused = False
        try:
            act(seller)
        except BillingError:
            refused = True
        # Immediate jobs are not waited for, and may overtake those that are overdue.
        seller.run_due(immediate=True, strict=True)
        seller.run_due(strict=True)
        seller.run_until(END)
        return refused, papers(seller)


@pytest.mark.parametrize("name", mostly_slow(sorted(ACTS), "payments.create"))
def test_a_command_before_overdue_jobs_leaves_the_papers_of_one_after_them(
    files: Mapping[bool, Path], tmp_path: Path, name: str
) -> None:
    on_time_refused, on_time = papers_after(files[False], ACTS[name], tmp_path)
    _, late = papers_after(files[True], ACTS[name], tmp_path)
    assert on_time_refused is (name in TOO_LATE | LACKING | OPEN)
    for kind, expected in on_time.items():
        assert late[kind] == expected, kind
    assert Decimal(len(on_time["invoices"])) > 20
