"""`usagebill payments refund`: what was paid beyond what is due, given back from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from tests.payment_servers.stripe import StripeServer

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.payments import Payment
from usagebill.fields import BillingConfigurationFields


def overpaid(file: Path, stripe: StripeServer) -> Any:
    """A payment of 20.00 on a page of an invoice of 10.50, in a file."""
    stripe.knows("cus_1")
    with Billing(file) as billing:
        credentials: dict[str, Any] = stripe.credentials
        connection = billing.payment_connections.create(kind="stripe", code="main", url=stripe.url, **credentials)
        account: BillingConfigurationFields = {
            "payment_provider": "stripe",
            "payment_provider_code": "main",
            "provider_customer_id": "cus_1",
        }
        billing.customers.upsert(external_id="acme", currency="EUR", billing_configuration=account)
        billing.add_ons.create(name="Setup", code="setup", amount_cents=1050, amount_currency="EUR")
        invoice = billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
        billing.run_due()
        billing.invoices.payment_url(invoice.id)
        notice = stripe.page_paid(next(iter(stripe.sessions)), amount=2000)
        path = billing.view(connection)["notice_path"]
        organization = path.split("/")[3].partition("?")[0]
        assert billing.receive_notice("stripe", organization, "main", dict(notice.headers), notice.body)
        billing.run_due()
        return billing.payments.list().items[0]


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["payments", "refund", *arguments])


def test_a_surplus_is_given_back_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    stripe = StripeServer(now=lambda: datetime.now(UTC))
    with stripe:
        paid: Payment = overpaid(file, stripe)
        made = asked(paid.id, "--amount-cents", "300", "--db", str(file))
        assert (made.exit_code, made.output) == (0, f"payment {paid.id}: surplus_refund_pending\n")
        by_hand = asked(paid.id, "--by-hand", "--json", "--db", str(file))
        assert json.loads(by_hand.output)["svc_id"] == paid.id
        nothing = asked(paid.id, "--db", str(file))
        assert nothing.exit_code == 1
        assert "the payment has brought nothing beyond what is due" in nothing.output
        with Billing(file) as billing:
            billing.run_due()
        assert [item["amount"] for item in stripe.refunds.values()] == [300]


def test_a_payment_that_there_is_not_is_named(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    Billing(file).close()
    missing = asked("none", "--db", str(file))
    assert (missing.exit_code, "there is no payment none" in missing.output) == (1, True)
