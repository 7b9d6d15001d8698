"""The published Python client of this interface, unmodified, against a real server: every method of every resource."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import certifi
import lago_python_client
import pytest
from lago_python_client import Client, models
from lago_python_client.base_client import BaseClient
from lago_python_client.exceptions import LagoApiError

from tests.payment_servers.stripe import StripeServer
from tests.service import Service, command_here
from usagebill import Billing
from usagebill.fields import EventFields
from usagebill.operations import api_keys
from usagebill.runtime.clock import ManualClock

pytestmark = pytest.mark.slow

# Methods of operations that the interface does not have: they answer 404.
NOT_IN_THE_INTERFACE = {
    "OrderClient.execute",
    "OrderClient.find",
    "OrderClient.find_all",
    "OrderFormClient.find",
    "OrderFormClient.find_all",
    "OrderFormClient.mark_as_signed",
    "OrderFormClient.void",
    "QuoteClient.find",
    "QuoteClient.find_all",
    "QuoteClient.versions",
    "QuoteVersionClient.approve",
    "QuoteVersionClient.clone",
    "QuoteVersionClient.find",
    "QuoteVersionClient.void",
}
# Methods that no server can serve, and what is wrong with what they send.
FAULTY = {"BillableMetricClient.evaluate_expression": "sends no body, so neither the expression nor the event"}


def _all_methods() -> dict[str, set[str]]:
    """The methods of every client class, as `Class.method`."""
    for module in pkgutil.walk_packages(lago_python_client.__path__, "lago_python_client."):
        importlib.import_module(module.name)
    classes = list(BaseClient.__subclasses__())
    return {
        cls.__name__: {
            f"{cls.__name__}.{name}"
            for name, _ in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_") and name != "api_resource"  # the path of a resource, for its methods
        }
        for cls in classes
    }


METHODS = _all_methods()


class Recorder:
    """A client, or a resource of one, that notes which methods have returned."""

    def __init__(self, subject: Any, called: set[str]) -> None:
        self._subject, self._called = subject, called

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._subject, name)
        if isinstance(getattr(attribute, "_obj", None), BaseClient):
            return Recorder(attribute._obj, self._called)

        def call(*arguments: Any, **rest: Any) -> Any:
            answer = attribute(*arguments, **rest)
            self._called.add(f"{type(self._subject).__name__}.{name}")
            return answer

        return call


class Shop:
    """A running server with a price list and a customer, seen by the client.

    The customer `acme` has subscribed 40 days ago to a plan of 0.50 per call, has made 10 calls in the first month, and
    has not paid an invoice over 12.00 of that day. `paula` pays by a card at a payment provider.
    """

    def __init__(self, client: Client, file: Path) -> None:
        self.called: set[str] = set()
        self._file = file
        self.client: Any = Recorder(client, self.called)
        self._numbers = count(1)

    def code(self, word: str) -> str:
        """A code that nothing has yet."""
        return f"{word}-{next(self._numbers)}"

    def run_due(self) -> None:
        command_here("run-due", "--db", str(self._file))

    def customer(self, **fields: Any) -> Any:
        """A customer without a payment provider, in euros."""
        sent = {"external_id": self.code("customer"), "currency": "EUR", "name": "Someone", **fields}
        return self.client.customers.create(models.Customer(**sent))

    def without_card(self) -> Any:
        """A customer that the payment provider knows, but has nothing to charge of."""
        link = {"payment_provider": "stripe", "payment_provider_code": "main", "sync_with_provider": True}
        customer = self.customer(email="bare@example.com", billing_configuration=link)
        self.run_due()
        return customer

    def plan(self, **fields: Any) -> Any:
        """A plan of 10.00 a month in advance, with a charge `calls` of 0.50 a call and a fixed charge `seats`."""
        metric = self.client.billable_metrics.find("calls")
        add_on = self.client.add_ons.find("setup")
        prices = {
            "charges": [self.charge(metric, code="calls")],
            "fixed_charges": [
                models.FixedCharge(
                    add_on_id=add_on.lago_id, code="seats", charge_model="standard", units=1, properties={"amount": "0"}
                )
            ],
        }
        return self.client.plans.create(models.Plan(**{**PLAN, "code": self.code("plan"), **prices, **fields}))

    def charge(self, metric: Any, **fields: Any) -> Any:
        sent = {"billable_metric_id": metric.lago_id, "charge_model": "standard", "properties": {"amount": "0.5"}}
        return models.Charge(**{**sent, **fields})

    def subscription(self, customer: Any = None, **plan: Any) -> Any:
        """A subscription that began just now."""
        return self.client.subscriptions.create(
            models.Subscription(
                external_customer_id=(customer or self.customer()).external_id,
                plan_code=self.plan(**plan).code,
                external_id=self.code("subscription"),
                billing_time="anniversary",
            )
        )

    def invoice(self, customer: str | None = None, cents: int = 1200) -> Any:
        """An invoice over one add-on."""
        fee = models.InvoiceFee(add_on_code="setup", unit_amount_cents=cents, units=1)
        return self.client.invoices.create(
            models.OneOffInvoice(
                external_customer_id=customer or self.customer().external_id, currency="EUR", fees=[fee]
            )
        )

    def draft(self) -> Any:
        """The draft of a subscription's first invoice, over 10.00."""
        customer = self.customer(billing_configuration={"invoice_grace_period": 3})
        self.subscription(customer)
        self.run_due()
        (draft,) = self.client.customer_invoices.find_all(customer.external_id)["invoices"]
        return draft


PLAN: dict[str, Any] = {
    "name": "Plan",
    "interval": "monthly",
    "amount_cents": 1000,
    "amount_currency": "EUR",
    "pay_in_advance": True,
}


def _past(file: Path) -> str:
    """Set up the events before the server starts; returns an API key."""
    with Billing(str(file), clock=ManualClock(datetime.now(UTC) - timedelta(days=40))) as billing:
        metric = billing.billable_metrics.create(
            name="Calls",
            code="calls",
            aggregation_type="sum_agg",
            field_name="count",
            filters=[{"key": "region", "values": ["eu", "us"]}],
        )
        billing.add_ons.create(name="Setup", code="setup", amount_cents=1200, amount_currency="EUR")
        price = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "0.5"}}
        billing.plans.create(
            **{**PLAN, "code": "basic", "amount_cents": 0, "pay_in_advance": False, "charges": [price]}
        )
        billing.customers.upsert(external_id="acme", name="Acme", currency="EUR", email="pay@acme.example")
        billing.subscriptions.create(
            external_customer_id="acme", plan_code="basic", external_id="sub", billing_time="anniversary"
        )
        usage: EventFields = {"transaction_id": "past", "code": "calls", "external_subscription_id": "sub"}
        billing.events.ingest([{**usage, "properties": {"count": 10, "region": "eu"}}])
        billing.invoices.create_one_off(external_customer_id="acme", currency="EUR", fees=[{"add_on_code": "setup"}])
        billing.run_due()
        _, key = billing.writing(lambda work: api_keys.create(work))
    return key


@pytest.fixture(scope="module")
def few_authorities() -> Iterator[None]:
    """One certificate authority to trust: the client reads all of them for each request, which takes longer than the
    request. None is needed, for the server speaks plain HTTP."""
    loaded = ssl.create_default_context(cafile=certifi.where()).get_ca_certs(binary_form=True)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file, pytest.MonkeyPatch.context() as patch:
        file.write(ssl.DER_cert_to_PEM_cert(loaded[0]))
        file.flush()
        patch.setenv("SSL_CERT_FILE", file.name)
        yield


@pytest.fixture(scope="module")
def running_shop(few_authorities: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("client")
    file = folder / "billing.db"
    key = _past(file)
    with ExitStack() as stack:
        stripe = stack.enter_context(StripeServer(now=lambda: datetime.now(UTC)))
        stripe.knows("cus_paula", "pm_one", "pm_two")
        words: list[str] = []
        for name, value in stripe.credentials.items():
            (folder / name).write_text(value)
            words += ["--credential", f"{name}=@{folder / name}"]
        where = ("--kind", "stripe", "--code", "main", "--url", stripe.url, "--db", str(file))
        made = json.loads(command_here("payment-connections", "create", *where, *words, "--json"))
        # A server that is not a tax provider refuses every request.
        there = (
            "--kind",
            "anrok",
            "--code",
            "tax",
            "--url",
            f"{stripe.url}/taxes",
            "--api-key",
            "k",
            "--db",
            str(file),
        )
        command_here("tax-connections", "create", *there)
        command_here("run-due", "--db", str(file))
        options = ("--id-prefix", "lago_", "--workers-in-process", "0")
        server = stack.enter_context(Service(file, *options, key=key))
        # Some methods of the client send no header; the key in the address is sent with every request.
        address = server.announced["url"].replace("://", f"://:{key}@")
        shop = Shop(Client(api_key=key, api_url=address), file)
        card = {"payment_provider": "stripe", "payment_provider_code": "main", "provider_customer_id": "cus_paula"}
        shop.customer(external_id="paula", email="paula@example.com", billing_configuration=card)
        shop.run_due()
        notice = stripe.card_added("cus_paula", "pm_two")
        server.client.post(made["notice_path"], content=notice.body, headers=dict(notice.headers)).raise_for_status()
        shop.run_due()
        yield shop


@pytest.fixture
def shop(running_shop: Shop) -> Shop:
    running_shop.called.clear()
    return running_shop


def _crud(shop: Shop, resource: str, made: Any, changed: Any, key: str = "code", field: str = "name") -> Any:
    """Makes, reads, changes, lists and deletes a record whose `field` becomes what `changed` says."""
    client = getattr(shop.client, resource)
    record = client.create(made)
    assert record.lago_id
    assert getattr(record, field) == getattr(made, field)
    id = getattr(record, key)
    assert client.find(id) == record
    assert getattr(client.update(changed, id), field) == getattr(changed, field) != getattr(record, field)
    listed = client.find_all({"per_page": "100"})
    assert listed["meta"]["total_count"] >= 1
    assert record.lago_id in [item.lago_id for item in listed[resource]]
    return client.destroy(id)


def add_ons(shop: Shop) -> None:
    made = models.AddOn(name="Help", code=shop.code("help"), amount_cents=500, amount_currency="EUR")
    assert _crud(shop, "add_ons", made, models.AddOn(name="Support")).amount_cents == 500


def applied_coupons(shop: Shop) -> None:
    customer = shop.customer().external_id
    coupon = models.Coupon(
        name="Off",
        code=shop.code("off"),
        coupon_type="fixed_amount",
        amount_cents=300,
        amount_currency="EUR",
        frequency="once",
        expiration="no_expiration",
    )
    made = shop.client.coupons.create(coupon)
    applied = shop.client.applied_coupons.create(
        models.AppliedCoupon(external_customer_id=customer, coupon_code=made.code)
    )
    assert (applied.amount_cents, applied.amount_cents_remaining, applied.status) == (300, 300, "active")
    listed = shop.client.applied_coupons.find_all({"external_customer_id": customer})["applied_coupons"]
    assert [item.lago_coupon_id for item in listed] == [made.lago_id]
    (item,) = shop.client.customer_applied_coupons.find_all(customer)["applied_coupons"]
    assert item.lago_id == applied.lago_id
    assert shop.client.applied_coupons.destroy(customer, applied.lago_id).terminated_at is not None


def billable_metrics(shop: Shop) -> None:
    made = models.BillableMetric(name="Bytes", code=shop.code("bytes"), aggregation_type="sum_agg", field_name="n")
    gone = _crud(shop, "billable_metrics", made, models.BillableMetric(name="Octets"))
    assert (gone.aggregation_type, gone.field_name) == ("sum_agg", "n")


def billing_entities(shop: Shop) -> None:
    entity = shop.client.billing_entities.create(models.BillingEntity(code=shop.code("branch"), name="Branch"))
    assert (entity.name, entity.is_default) == ("Branch", False)
    assert shop.client.billing_entities.find(entity.code).lago_id == entity.lago_id
    changed = shop.client.billing_entities.update(models.BillingEntityUpdate(name="North"), entity.code)
    assert changed.name == "North"
    listed = shop.client.billing_entities.find_all()["billing_entities"]
    assert {"North"} <= {item.name for item in listed}


def coupons(shop: Shop) -> None:
    made = models.Coupon(
        name="Tenth",
        code=shop.code("tenth"),
        coupon_type="percentage",
        percentage_rate=10,
        frequency="forever",
        expiration="no_expiration",
    )
    changed = models.Coupon(**{**made.dict(), "name": "A tenth"})
    assert _crud(shop, "coupons", made, changed).percentage_rate == 10


def credit_notes(shop: Shop) -> None:
    invoice = shop.invoice()
    shop.client.payments.create(models.Payment(invoice_id=invoice.lago_id, amount_cents=1200, reference="cheque"))
    (fee,) = shop.client.fees.find_all({"external_customer_id": invoice.customer.external_id})["fees"]
    items = [models.Item(fee_id=fee.lago_id, amount_cents=700)]
    client = shop.client.credit_notes
    estimate = client.estimate(models.CreditNoteEstimate(invoice_id=invoice.lago_id, items=items))
    assert (estimate.lago_invoice_id, estimate.max_creditable_amount_cents) == (invoice.lago_id, 700)
    note = client.create(
        models.CreditNote(
            invoice_id=invoice.lago_id,
            reason="other",
            credit_amount_cents=500,
            refund_amount_cents=200,
            items=items,
            metadata={"ticket": "1"},
        )
    )
    assert (note.total_amount_cents, note.balance_amount_cents, note.credit_status) == (700, 500, "available")
    assert note.items.__root__[0].fee.lago_id == fee.lago_id
    assert client.find(note.lago_id).number == note.number
    assert client.update(models.CreditNoteUpdate(refund_status="succeeded"), note.lago_id).refund_status == "succeeded"
    assert client.replace_metadata(note.lago_id, {"a": "1"}) == {"a": "1"}
    assert client.merge_metadata(note.lago_id, {"b": "2"}) == {"a": "1", "b": "2"}
    assert client.delete_metadata_key(note.lago_id, "a") == {"b": "2"}
    assert not client.delete_all_metadata(note.lago_id)
    assert client.download(note.lago_id) is None  # it is being made
    shop.run_due()
    assert client.download(note.lago_id).file_url.startswith("http")
    (listed,) = client.find_all({"external_customer_id": invoice.customer.external_id})["credit_notes"]
    assert listed.lago_id == note.lago_id
    (of_customer,) = shop.client.customer_credit_notes.find_all(invoice.customer.external_id)["credit_notes"]
    assert of_customer.lago_id == note.lago_id
    assert (client.void(note.lago_id).credit_status, client.find(note.lago_id).balance_amount_cents) == ("voided", 0)


def customers(shop: Shop) -> None:
    client = shop.client.customers
    made = shop.customer(name="Before")
    assert client.find(made.external_id).lago_id == made.lago_id
    assert made.lago_id in [item.lago_id for item in client.find_all({"per_page": "100"})["customers"]]
    assert client.portal_url("acme").startswith("http")
    assert client.checkout_url("paula").startswith("http")
    subscription = shop.subscription(made)
    shop.client.events.create(
        models.Event(
            transaction_id=shop.code("t"),
            external_subscription_id=subscription.external_id,
            code="calls",
            properties={"count": 4, "region": "eu"},
        )
    )
    usage = client.current_usage(made.external_id, subscription.external_id)
    (line,) = usage.charges_usage
    assert (usage.amount_cents, line.units, line.billable_metric.code) == (200, "4.0", "calls")
    projected = client.projected_usage(made.external_id, subscription.external_id)
    assert (projected.amount_cents, projected.currency) == (200, "EUR")
    assert projected.projected_amount_cents >= 200
    (period,) = client.past_usage("acme", "sub")["usage_periods"]
    assert (period.amount_cents, period.charges_usage[0].units) == (500, "10.0")
    assert period.lago_invoice_id
    assert client.destroy(made.external_id).lago_id == made.lago_id


def customer_lists(shop: Shop) -> None:
    """The lists of a customer's invoices, payments, subscriptions."""
    invoices = shop.client.customer_invoices.find_all("acme")["invoices"]
    assert {(item.invoice_type, item.total_amount_cents) for item in invoices} == {
        ("one_off", 1200),
        ("subscription", 500),
    }
    (subscription,) = shop.client.customer_subscriptions.find_all("acme")["subscriptions"]
    assert (subscription.external_id, subscription.status) == ("sub", "active")
    invoice = shop.invoice()
    payment = shop.client.payments.create(
        models.Payment(invoice_id=invoice.lago_id, amount_cents=400, reference="cheque", paid_at="2024-01-02")
    )
    (listed,) = shop.client.customer_payments.find_all(invoice.customer.external_id)["payments"]
    assert listed == payment


def payment_methods(shop: Shop) -> None:
    client = shop.client.customer_payment_methods
    methods = client.find_all("paula")["payment_methods"]
    assert sorted(item.provider_method_id for item in methods) == ["pm_one", "pm_two"]
    (other,) = [item for item in methods if not item.is_default]
    changed = client.set_as_default("paula", other.lago_id)
    assert (changed.lago_id, changed.is_default) == (other.lago_id, True)
    (former,) = [item for item in client.find_all("paula")["payment_methods"] if not item.is_default]
    assert client.destroy("paula", former.lago_id).lago_id == former.lago_id


def _wallet(shop: Shop, **fields: Any) -> Any:
    sent = {"rate_amount": "1", "currency": "EUR", "granted_credits": "30", "name": "Credits", "code": "credits"}
    if "external_customer_id" not in fields:
        sent["external_customer_id"] = shop.customer().external_id
    return shop.client.wallets.create(models.Wallet(**{**sent, **fields}))


def customer_wallets(shop: Shop) -> None:
    client = shop.client.customers.wallets
    customer = shop.customer().external_id
    made = models.Wallet(
        external_customer_id=customer, rate_amount="1", currency="EUR", name="A", code="a", granted_credits="5"
    )
    wallet = client.create(customer, made)
    assert (wallet.status, wallet.rate_amount, wallet.code) == ("active", "1.0", "a")
    shop.run_due()
    assert client.find(customer, "a").balance_cents == 500
    assert client.update(customer, "a", models.Wallet(name="B")).name == "B"
    assert [item.lago_id for item in client.find_all(customer)["wallets"]] == [wallet.lago_id]
    assert [item.lago_id for item in shop.client.customer_wallets.find_all(customer)["wallets"]] == [wallet.lago_id]
    metadata = client.metadata
    assert metadata.replace(customer, "a", {"a": "1"}) == {"a": "1"}
    assert metadata.merge(customer, "a", {"b": "2"}) == {"a": "1", "b": "2"}
    assert metadata.delete_key(customer, "a", "a") == {"b": "2"}
    assert not metadata.delete_all(customer, "a")
    alert = models.Alert(
        alert_type="wallet_balance_amount", code="low", name="Low", thresholds=[models.AlertThreshold(value="100")]
    )
    low = client.alerts.create(customer, "a", alert)
    assert (low.code, low.wallet_code, low.thresholds.__root__[0].value) == ("low", "a", "100.0")
    assert client.alerts.find(customer, "a", "low").lago_id == low.lago_id
    assert client.alerts.update(customer, "a", "low", models.Alert(name="Lower")).name == "Lower"
    assert [item.code for item in client.alerts.find_all(customer, "a")["alerts"]] == ["low"]
    assert client.alerts.destroy(customer, "a", "low").lago_id == low.lago_id
    batch = client.alerts.create_batch(customer, "a", models.AlertsList(alerts=[alert]))
    assert [item.code for item in batch["alerts"]] == ["low"]
    client.alerts.destroy_all(customer, "a")
    assert client.alerts.find_all(customer, "a")["alerts"] == []
    assert client.destroy(customer, "a").status == "terminated"


def wallets(shop: Shop) -> None:
    client = shop.client.wallets
    wallet = _wallet(shop)
    shop.run_due()
    assert (client.find(wallet.lago_id).balance_cents, wallet.currency) == (3000, "EUR")
    assert client.update(models.Wallet(name="More"), wallet.lago_id).name == "More"
    (listed,) = client.find_all({"external_customer_id": wallet.external_customer_id})["wallets"]
    assert listed.lago_id == wallet.lago_id
    assert client.replace_metadata(wallet.lago_id, {"a": "1"}) == {"a": "1"}
    assert client.merge_metadata(wallet.lago_id, {"b": "2"}) == {"a": "1", "b": "2"}
    assert client.delete_metadata_key(wallet.lago_id, "a") == {"b": "2"}
    assert not client.delete_all_metadata(wallet.lago_id)
    assert client.destroy(wallet.lago_id).status == "terminated"


def wallet_transactions(shop: Shop) -> None:
    client = shop.client.wallet_transactions
    wallet = _wallet(shop)
    shop.run_due()
    (granted,) = client.find_all(wallet.lago_id)["wallet_transactions"]
    assert (granted.credit_amount, granted.transaction_type, granted.status) == ("30.0", "inbound", "settled")
    # The client sends null for every field that it is not given.
    (voided,) = client.create(models.WalletTransaction(wallet_id=wallet.lago_id, voided_credits="4"))[
        "wallet_transactions"
    ]
    assert (voided.transaction_status, voided.credit_amount) == ("voided", "4.0")
    (consumption,) = client.consumptions(granted.lago_id)["wallet_transaction_consumptions"]
    assert (consumption.amount_cents, consumption.wallet_transaction.lago_id) == (400, voided.lago_id)
    (funding,) = client.fundings(voided.lago_id)["wallet_transaction_fundings"]
    assert (funding.amount_cents, funding.wallet_transaction.lago_id) == (400, granted.lago_id)
    bought_wallet = _wallet(shop, external_customer_id=shop.without_card().external_id, paid_credits="10")
    shop.run_due()
    (bought,) = client.find_all(bought_wallet.lago_id, {"transaction_status": "purchased"})["wallet_transactions"]
    assert bought.lago_invoice_id
    assert client.payment_url(bought.lago_id).startswith("http")


def events(shop: Shop) -> None:
    client = shop.client.events
    event = models.Event(
        transaction_id=shop.code("t"),
        external_subscription_id="sub",
        code="calls",
        properties={"count": 1, "region": "us"},
    )
    made = client.create(event)
    assert (made.transaction_id, made.properties) == (event.transaction_id, {"count": 1, "region": "us"})
    assert client.find(made.transaction_id).lago_id == made.lago_id
    batch = models.BatchEvent(events=[models.Event(**{**event.dict(), "transaction_id": shop.code("t")})])
    client.batch_create(batch)
    assert client.find(batch.events[0].transaction_id).code == "calls"
    metric = shop.client.billable_metrics.find("calls")
    subscription = shop.subscription(charges=[shop.charge(metric, pay_in_advance=True, code="now")])
    event_to_estimate = models.Event(**{**event.dict(), "external_subscription_id": subscription.external_id})
    (fee,) = client.estimate_fees(event_to_estimate)["fees"]
    assert (fee.amount_cents, fee.units, fee.item.code) == (50, "1.0", "calls")


def fees(shop: Shop) -> None:
    client = shop.client.fees
    metric = shop.client.billable_metrics.find("calls")
    charge = shop.charge(metric, pay_in_advance=True, invoiceable=False, code="now")
    subscription = shop.subscription(charges=[charge])
    shop.client.events.create(
        models.Event(
            transaction_id=shop.code("t"),
            external_subscription_id=subscription.external_id,
            code="calls",
            properties={"count": 3},
        )
    )
    shop.run_due()
    filters = {"external_subscription_id": subscription.external_id, "fee_type": "charge"}
    (fee,) = client.find_all(filters)["fees"]
    assert (fee.amount_cents, fee.units, fee.payment_status) == (150, "3.0", "pending")
    assert client.find(fee.lago_id) == fee
    assert client.update(models.Fee(payment_status="failed"), fee.lago_id).payment_status == "failed"
    assert client.destroy(fee.lago_id).lago_id == fee.lago_id


def invoices(shop: Shop) -> None:
    client = shop.client.invoices
    invoice = shop.invoice()
    assert (invoice.total_amount_cents, invoice.status, invoice.payment_status) == (1200, "finalized", "pending")
    assert client.find(invoice.lago_id).number == invoice.number
    (listed,) = client.find_all({"external_customer_id": invoice.customer.external_id})["invoices"]
    assert listed.lago_id == invoice.lago_id
    assert client.download(invoice.lago_id) is None  # it is being made
    shop.run_due()
    assert client.download(invoice.lago_id).file_url.startswith("http")
    changed = models.Invoice(metadata=[models.InvoiceMetadata(key="po", value="7")])
    assert client.update(changed, invoice.lago_id).metadata.__root__[0].value == "7"
    assert client.lose_dispute(invoice.lago_id).payment_dispute_lost_at is not None
    assert client.void(shop.invoice().lago_id).status == "voided"
    assert client.void_invoice(shop.invoice().lago_id, {"generate_credit_note": False}).status == "voided"
    draft = shop.draft()
    assert (draft.status, draft.total_amount_cents) == ("draft", 1000)
    assert client.refresh(draft.lago_id).status == "draft"
    assert client.finalize(draft.lago_id).status == "finalized"
    unwanted = shop.draft()
    assert client.destroy(unwanted.lago_id).lago_id == unwanted.lago_id
    unpaid = shop.invoice(shop.without_card().external_id)
    shop.run_due()
    assert client.payment_url(unpaid.lago_id).startswith("http")
    client.retry_payment(unpaid.lago_id)
    preview = client.preview(models.InvoicePreview(plan_code="basic", customer=models.Customer(external_id="acme")))
    assert preview.lago_id
    assert (preview.currency, preview.total_amount_cents) == ("EUR", 0)
    # The tax provider of this customer refuses.
    link = {"integration_type": "anrok", "integration_code": "tax", "external_customer_id": "x"}
    shop.customer(external_id="taxed", integration_customers=[link])
    failed = shop.invoice("taxed")
    shop.run_due()
    assert client.find(failed.lago_id).status == "failed"
    assert client.retry(failed.lago_id).status == "pending"


def payments(shop: Shop) -> None:
    client = shop.client.payments
    invoice = shop.invoice()
    payment = client.create(
        models.Payment(invoice_id=invoice.lago_id, amount_cents=1200, reference="cheque", paid_at="2024-01-02")
    )
    assert (payment.invoice_ids, payment.amount_cents, payment.type) == ([invoice.lago_id], 1200, "manual")
    assert client.find(payment.lago_id) == payment
    (listed,) = client.find_all({"external_customer_id": invoice.customer.external_id})["payments"]
    assert listed == payment
    shop.run_due()
    receipts = shop.client.payment_receipts
    (receipt,) = receipts.find_all({"invoice_id": invoice.lago_id})["payment_receipts"]
    assert receipt.payment == payment
    assert receipts.find(receipt.lago_id).number == receipt.number


def payment_requests(shop: Shop) -> None:
    client = shop.client.payment_requests
    (overdue,) = shop.client.invoices.find_all({"external_customer_id": "acme", "invoice_type": "one_off"})["invoices"]
    assert overdue.payment_overdue is True
    made = client.create(
        models.PaymentRequest(email="pay@acme.example", external_customer_id="acme", lago_invoice_ids=[overdue.lago_id])
    )
    assert (made.amount_cents, made.amount_currency, made.payment_status) == (1200, "EUR", "pending")
    assert client.find(made.lago_id).invoices.__root__[0].lago_id == overdue.lago_id
    assert [item.lago_id for item in client.find_all()["payment_requests"]] == [made.lago_id]
    (listed,) = shop.client.customer_payment_requests.find_all("acme")["payment_requests"]
    assert listed.lago_id == made.lago_id


def plans(shop: Shop) -> None:
    client = shop.client.plans
    made = shop.plan(name="Before")
    assert (made.amount_cents, made.charges.__root__[0].billable_metric_code) == (1000, "calls")
    assert client.find(made.code).lago_id == made.lago_id
    changed = models.Plan(**{**PLAN, "name": "After", "code": made.code})
    assert client.update(changed, made.code).name == "After"
    assert made.lago_id in [item.lago_id for item in client.find_all({"per_page": "100"})["plans"]]
    _metadata(client, made.code)
    made = shop.plan()
    _filters(client, made.code, "calls")
    assert client.destroy(made.code).lago_id == made.lago_id


def _metadata(client: Any, id: str) -> None:
    assert client.replace_metadata(id, {"a": "1"}) == {"a": "1"}
    assert client.merge_metadata(id, {"b": "2"}) == {"a": "1", "b": "2"}
    assert client.delete_metadata_key(id, "a") == {"b": "2"}
    assert not client.delete_all_metadata(id)


def _filters(client: Any, parent: str, charge: str) -> None:
    sent = models.ChargeFilter(values={"region": ["eu"]}, properties={"amount": "0.4"}, invoice_display_name="Europe")
    made = client.create_charge_filter(parent, charge, sent)
    assert (made.values, made.properties["amount"]) == ({"region": ["eu"]}, "0.4")
    assert client.find_charge_filter(parent, charge, made.lago_id) == made
    (listed,) = client.find_all_charge_filters(parent, charge)["filters"]
    assert listed.lago_id == made.lago_id
    changed = client.update_charge_filter(parent, charge, made.lago_id, models.ChargeFilter(properties={"amount": "1"}))
    assert changed.properties["amount"] == "1"
    assert client.destroy_charge_filter(parent, charge, changed.lago_id).lago_id == changed.lago_id


def plan_charges(shop: Shop) -> None:
    plan = shop.plan().code
    client = shop.client.plan_charges
    sent = shop.charge(shop.client.billable_metrics.find("calls"), code="more", invoice_display_name="More")
    made = client.create(plan, sent)
    assert (made.code, made.charge_model, made.properties["amount"]) == ("more", "standard", "0.5")
    assert client.find(plan, "more") == made
    changed = models.Charge(charge_model="standard", properties={"amount": "2"})
    assert client.update(plan, "more", changed).properties["amount"] == "2"
    assert {item.code for item in client.find_all(plan)["charges"]} == {"calls", "more"}
    assert client.destroy(plan, "more").lago_id == made.lago_id


def plan_fixed_charges(shop: Shop) -> None:
    plan = shop.plan().code
    client = shop.client.plan_fixed_charges
    sent = models.FixedCharge(
        add_on_code="setup", code="desks", charge_model="standard", units=2, properties={"amount": "3"}
    )
    made = client.create(plan, sent)
    # It is called like its add-on where it has no name of its own.
    assert (made.code, made.units, made.invoice_display_name) == ("desks", 2, "Setup")
    assert client.find(plan, "desks") == made
    assert client.update(plan, "desks", models.FixedCharge(units=5)).units == 5
    assert {item.code for item in client.find_all(plan)["fixed_charges"]} == {"seats", "desks"}
    assert client.destroy(plan, "desks").lago_id == made.lago_id


def subscriptions(shop: Shop) -> None:
    client = shop.client.subscriptions
    made = shop.subscription()
    id = made.external_id
    assert (made.status, made.plan_amount_cents) == ("active", "1000")
    assert client.find(id).lago_id == made.lago_id
    assert client.update(models.Subscription(name="Ours"), id).name == "Ours"
    (listed,) = client.find_all({"external_customer_id": made.external_customer_id})["subscriptions"]
    assert listed.lago_id == made.lago_id
    assert client.update_lifetime_usage(id, 700).external_historical_usage_amount_cents == 700
    assert client.lifetime_usage(id).external_subscription_id == id
    alert = models.Alert(
        alert_type="current_usage_amount", code="high", name="High", thresholds=[models.AlertThreshold(value="100")]
    )
    (high,) = client.create_alerts(id, models.AlertsList(alerts=[alert]))["alerts"]
    assert (high.code, high.external_subscription_id) == ("high", id)
    client.delete_alerts(id)
    _filters(client, id, "calls")
    charges = shop.client.subscription_charges
    assert charges.find(id, "calls").properties["amount"] == "0.5"
    assert [item.code for item in charges.find_all(id)["charges"]] == ["calls"]
    assert charges.update(id, "calls", models.Charge(properties={"amount": "2"})).properties["amount"] == "2"
    fixed = shop.client.subscription_fixed_charges
    assert fixed.find(id, "seats").units == 1
    assert [item.code for item in fixed.find_all(id)["fixed_charges"]] == ["seats"]
    assert fixed.update(id, "seats", models.FixedCharge(units=3)).units == 3
    assert client.destroy(id).status == "terminated"


def taxes(shop: Shop) -> None:
    made = models.Tax(name="VAT", code=shop.code("vat"), rate=20)
    assert _crud(shop, "taxes", made, models.Tax(name="Value added")).rate == 20


def webhook_endpoints(shop: Shop) -> None:
    made = models.WebhookEndpoint(webhook_url="https://hooks.example/a", signature_algo="hmac", name="A")
    changed = models.WebhookEndpoint(webhook_url="https://hooks.example/a", name="B")
    assert _crud(shop, "webhook_endpoints", made, changed, key="lago_id").signature_algo == "hmac"
    assert shop.client.webhooks.public_key().startswith(b"-----BEGIN PUBLIC KEY-----")


def organizations(shop: Shop) -> None:
    organization = shop.client.organizations.update(models.Organization(default_currency="EUR", city="Ghent"))
    assert organization.city == "Ghent"


def analytics(shop: Shop) -> None:
    client = shop.client
    revenue = client.gross_revenues.find_all({"currency": "EUR"})["gross_revenues"]
    assert sum(item.amount_cents or 0 for item in revenue) >= 1700
    collected = client.invoice_collections.find_all({"currency": "EUR"})["invoice_collections"]
    assert {item.payment_status for item in collected} >= {"pending"}
    (used,) = client.invoiced_usages.find_all({"external_customer_id": "acme"})["invoiced_usages"]
    assert (used.code, used.amount_cents, used.currency) == ("calls", 500, "EUR")
    assert {item.currency for item in client.mrrs.find_all({"currency": "EUR"})["mrrs"]} <= {"EUR", None}
    overdue = client.overdue_balances.find_all({"currency": "EUR"})["overdue_balances"]
    assert [(item.amount_cents, len(item.lago_invoice_ids)) for item in overdue] != []
    past = (datetime.now(UTC) - timedelta(days=45)).date().isoformat()
    usage = client.usages.find_all({"external_subscription_id": "sub", "from_date": past})["usages"]
    assert sum(item.units for item in usage if item.billable_metric_code == "calls") >= 10


def logs(shop: Shop) -> None:
    shop.client.add_ons.create(
        models.AddOn(name="Logged", code=shop.code("log"), amount_cents=1, amount_currency="EUR")
    )
    activities = shop.client.activity_logs.find_all({"activity_types[]": "add_on.created"})["activity_logs"]
    assert activities[0].activity_object["name"] == "Logged"
    assert shop.client.activity_logs.find(activities[0].activity_id) == activities[0]
    requests = shop.client.api_logs.find_all({"http_methods[]": "post"})["api_logs"]
    assert (requests[0].http_method, requests[0].http_status) == ("post", 200)
    assert shop.client.api_logs.find(requests[0].request_id) == requests[0]


DRIVERS: tuple[tuple[Callable[[Shop], None], tuple[str, ...]], ...] = (
    (add_ons, ("AddOnClient",)),
    (applied_coupons, ("AppliedCouponClient", "CustomerAppliedCouponsClient")),
    (billable_metrics, ("BillableMetricClient",)),
    (billing_entities, ("BillingEntityClient",)),
    (coupons, ("CouponClient",)),
    (credit_notes, ("CreditNoteClient", "CustomerCreditNotesClient")),
    (customers, ("CustomerClient",)),
    (customer_lists, ("CustomerInvoicesClient", "CustomerSubscriptionsClient", "CustomerPaymentsClient")),
    (
        customer_wallets,
        (
            "CustomerWalletClient",
            "CustomerWalletsClient",
            "CustomerWalletMetadataClient",
            "CustomerWalletAlertClient",
        ),
    ),
    (payment_methods, ("CustomerPaymentMethodsClient",)),
    (wallets, ("WalletClient",)),
    (wallet_transactions, ("WalletTransactionClient",)),
    (events, ("EventClient",)),
    (fees, ("FeeClient",)),
    (invoices, ("InvoiceClient",)),
    (payments, ("PaymentClient", "PaymentReceiptClient")),
    (payment_requests, ("PaymentRequestClient", "CustomerPaymentRequestsClient")),
    (plans, ("PlanClient",)),
    (plan_charges, ("PlanChargesClient",)),
    (plan_fixed_charges, ("PlanFixedChargesClient",)),
    (subscriptions, ("SubscriptionClient", "SubscriptionChargesClient", "SubscriptionFixedChargesClient")),
    (taxes, ("TaxClient",)),
    (webhook_endpoints, ("WebhookEndpointClient", "WebhookClient")),
    (organizations, ("OrganizationClient",)),
    (
        analytics,
        (
            "GrossRevenueClient",
            "InvoiceCollectionClient",
            "InvoicedUsageClient",
            "MrrClient",
            "OverdueBalanceClient",
            "UsageClient",
        ),
    ),
    (logs, ("ActivityLogClient", "ApiLogClient")),
)


@pytest.mark.parametrize(("drive", "classes"), DRIVERS, ids=[drive.__name__ for drive, _ in DRIVERS])
def test_every_method_works(shop: Shop, drive: Callable[[Shop], None], classes: tuple[str, ...]) -> None:
    drive(shop)
    methods = set().union(*(METHODS[name] for name in classes))
    assert methods - shop.called == methods & (NOT_IN_THE_INTERFACE | set(FAULTY))


def test_no_class_is_left_out() -> None:
    driven = {name for _, classes in DRIVERS for name in classes}
    left_out = {method for name in set(METHODS) - driven for method in METHODS[name]}
    assert left_out <= NOT_IN_THE_INTERFACE
    assert set().union(*METHODS.values()) >= NOT_IN_THE_INTERFACE | set(FAULTY)


RESOURCES = {
    "OrderClient": "orders",
    "OrderFormClient": "order_forms",
    "QuoteClient": "quotes",
    "QuoteVersionClient": "quote_versions",
}


@pytest.mark.parametrize("method", sorted(NOT_IN_THE_INTERFACE))
def test_what_the_interface_does_not_have_is_not_found(shop: Shop, method: str) -> None:
    resource, name = method.split(".")
    call = getattr(getattr(shop.client, RESOURCES[resource]), name)
    with pytest.raises(LagoApiError) as refused:
        call(*([] if name == "find_all" else ["1"]))
    # No record is missing, but the operation.
    assert (refused.value.status_code, refused.value.response["code"]) == (404, "resource_not_found")


def test_a_request_without_its_body_is_refused(shop: Shop) -> None:
    expression = models.BillableMetricEvaluateExpression(expression="1", event={"code": "calls"})
    with pytest.raises(LagoApiError) as refused:
        shop.client.billable_metrics.evaluate_expression(expression)
    assert 400 <= refused.value.status_code < 500
