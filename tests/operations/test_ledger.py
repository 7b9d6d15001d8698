"""Every change of a document is posted as it happens, and the audit finds a planted difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from beancount import loader
from click import UsageError
from tests.scenarios import Scenario

from usagebill.cli.beancount import beancount, beancount_accounts
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.ledger import Account, Movement
from usagebill.core.tasks import PostPast
from usagebill.operations import ledger
from usagebill.operations.audit import audit
from usagebill.operations.exports import EXPORTS
from usagebill.runtime.work import Work
from usagebill.storage import tables
from usagebill.storage.conditions import asc, eq

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")

Plant = Callable[[Work], None]


class Undone(Exception):
    """Raised to undo what a test planted."""


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """An invoice over 119.00, of which 50.00 were paid, and a wallet with 10.00 bought and 5.00 granted."""
    box.customer(country="DE")
    box.tax(19)
    box.plan(amount_cents=10000, pay_in_advance=True)
    box.subscribe()
    _pay(box, _invoice(box), 5000, paid_at="2024-02-28")
    body = {"rate_amount": "1", "currency": "EUR", "granted_credits": "5", "paid_credits": "10"}
    box.post("/wallets", wallet={"external_customer_id": "acme", **body})
    (top_up,) = (one["svc_id"] for one in box.invoices() if one["invoice_type"] == "credit")
    _pay(box, top_up, 1000)
    box.run_due()
    return box


def _invoice(box: Scenario) -> str:
    return next(str(one["svc_id"]) for one in box.invoices() if one["invoice_type"] == "subscription")


def _pay(box: Scenario, invoice_id: str, cents: int, **fields: str) -> None:
    box.post("/payments", payment={"invoice_id": invoice_id, "amount_cents": cents, "reference": "bank", **fields})


def movements(box: Scenario) -> list[Movement]:
    return box.billing.reading(lambda reader: reader.tx.find(Movement, order=[asc("id")]))


def balances(box: Scenario, until: str = "9999-12-31") -> dict[str, int]:
    """The balance of each account by the day's end, without zeros."""
    sums: dict[str, int] = {}
    for movement in movements(box):
        if movement.posting_date.isoformat() <= until:
            sums[movement.account] = sums.get(movement.account, 0) + movement.amount_cents
    return {account: cents for account, cents in sums.items() if cents}


BEGUN = {
    "receivable": 6900,
    "revenue": -10000,
    "tax": -1900,
    "cash": 6000,
    "prepaid_purchased": -1000,
    "prepaid_granted": -500,
    "promotion": 500,
}


def test_what_happens_is_posted(box: Scenario) -> None:
    assert balances(box) == BEGUN
    # Money received by hand is dated the day on which it was received.
    assert balances(box, "2024-02-28") == {"receivable": -5000, "cash": 5000}
    assert box.billing.audit().findings == ()


def test_a_void_takes_the_sale_back_on_its_own_day(box: Scenario) -> None:
    box.travel_to("2024-04-20T00:00:00Z")
    before = balances(box, "2024-03-31")
    box.post(f"/invoices/{_invoice(box)}/void", generate_credit_note=True, refund_amount=2000, credit_amount=3000)
    assert balances(box, "2024-03-31") == before
    after = balances(box)
    assert (after["refunds_due"], after["customer_credit"]) == (-2000, -3000)
    (voided,) = (one for one in box.invoices() if one["status"] == "voided")
    of_invoice = [movement for movement in movements(box) if movement.number == voided["number"]]
    assert sum(movement.amount_cents for movement in of_invoice if movement.account == Account.TAX) == 0
    assert box.billing.audit().findings == ()


def test_the_end_of_a_wallet_forfeits_its_credits(box: Scenario) -> None:
    (wallet,) = box.get("/wallets?external_customer_id=acme")["wallets"]
    box.delete(f"/wallets/{wallet['svc_id']}")
    kept = {name: cents for name, cents in BEGUN.items() if not name.startswith("prepaid") and name != "promotion"}
    assert balances(box) == {**kept, "forfeited": -1000}
    assert box.billing.audit().findings == ()


def test_what_comes_after_a_month_was_closed_is_dated_in_the_next(box: Scenario) -> None:
    box.travel_to("2024-04-02T00:00:00Z")
    box.billing.ledger.close(month="2024-03")
    before = movements(box)
    box.travel_to("2024-04-03T00:00:00Z")
    _pay(box, _invoice(box), 100, paid_at="2024-03-29")
    after = movements(box)
    assert [movement for movement in after if movement in before] == before
    late = [movement for movement in after if movement.amount_cents == 100]
    assert [(str(one.posting_date), str(one.document_date)) for one in late] == [("2024-04-01", "2024-03-29")]


def test_documents_older_than_the_ledger_are_posted_by_a_job(box: Scenario) -> None:
    def key(movement: Movement) -> str:
        return repr((movement.document_id, movement.place, movement.amount_cents, movement.document_date))

    before = sorted(map(key, movements(box)))

    def forget(work: Work) -> None:
        work.tx.delete(*work.tx.find(Movement))
        (customer,) = work.tx.find(Customer)
        work.schedule(PostPast(customer_id=customer.id), work.now)
        # Until it has run, there is nothing to compare.
        assert audit(work).findings == ()

    box.billing.writing(forget)
    box.run_due()
    assert sorted(map(key, movements(box))) == before
    assert box.billing.audit().findings == ()


def one_of(work: Work, account: Account) -> Movement:
    movement = work.tx.first(Movement, eq("account", account))
    assert movement is not None
    return movement


def a_cent_more(work: Work) -> None:
    movement = one_of(work, Account.RECEIVABLE)
    work.tx.replace(replace(movement, amount_cents=movement.amount_cents + 1))


def a_group_left_out(work: Work) -> None:
    work.tx.delete(*work.tx.find(Movement, eq("group_id", one_of(work, Account.CASH).group_id)))


def credits_left_out(work: Work) -> None:
    work.tx.delete(*work.tx.find(Movement, eq("group_id", one_of(work, Account.PROMOTION).group_id)))


def a_debt_on_the_wrong_invoice(work: Work) -> None:
    work.tx.replace(replace(one_of(work, Account.RECEIVABLE), invoice_id="another"))


def a_tax_as_revenue(work: Work) -> None:
    work.tx.replace(replace(one_of(work, Account.TAX), account=Account.REVENUE))


def test_every_kind_of_record_that_is_posted_is_told() -> None:
    assert ledger.POSTED.keys() == tables.POSTED


def a_cent_more_in_the_books(work: Work) -> None:
    (movement, *_) = work.tx.find(Movement, eq("account", Account.CASH))
    work.tx.replace(replace(movement, base_amount_cents=(movement.base_amount_cents or 0) + 1))


PLANTS: tuple[tuple[Plant, str], ...] = (
    (a_cent_more, "ledger"),
    (a_group_left_out, "ledger"),
    (credits_left_out, "ledger"),
    (a_debt_on_the_wrong_invoice, "ledger"),
    (a_tax_as_revenue, "ledger"),
    (a_cent_more_in_the_books, "ledger"),
)


@pytest.mark.parametrize(("plant", "check"), PLANTS)
def test_each_kind_of_error_is_found(box: Scenario, plant: Plant, check: str) -> None:
    found: list[set[str]] = []

    def tried(work: Work) -> None:
        plant(work)
        found.append({finding.check for finding in audit(work).findings})
        raise Undone

    with pytest.raises(Undone):
        box.billing.writing(tried)
    assert found == [{check}]


def test_movements_are_listed_by_day_and_filtered(box: Scenario) -> None:
    def listed(**filters: str) -> list[tuple[str, str, int]]:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        answer = box.get(f"/ledger?per_page=100&{query}")
        assert answer["meta"]["total_count"] == len(answer["movements"])
        return [(one["posting_date"], one["account"], one["amount_cents"]) for one in answer["movements"]]

    everything = listed()
    assert sum(cents for *_, cents in everything) == 0
    assert [day for day, *_ in everything] == sorted(day for day, *_ in everything)
    assert listed(account="tax") == [("2024-03-01", "tax", -1900)]
    assert listed(from_date="2024-02-29", account="cash") == [("2024-03-01", "cash", 1000)]
    assert listed(to_date="2024-02-28", account="cash") == [("2024-02-28", "cash", 5000)]
    assert listed(document_type="payment", currency="USD") == []
    assert len(listed(external_customer_id="acme", billing_entity_code="default")) == len(everything)
    assert listed(external_customer_id="nobody") == []
    assert box.get("/ledger?billing_entity_code=nobody", 404)["code"] == "billing_entity_not_found"
    (tax,) = box.get("/ledger?account=tax")["movements"]
    assert (tax["tax_code"], tax["tax_rate"], tax["tax_country"], tax["external_customer_id"]) == (
        "vat",
        "19.0",
        "DE",
        "acme",
    )
    refused = box.get("/ledger?from_date=2024-02-30", 422)
    assert refused["error_details"] == {"from_date": ["invalid_date"]}


def test_a_month_is_closed_once_it_is_over(box: Scenario) -> None:
    close = box.billing.ledger.close
    for month, code in (("2024-03", "value_is_out_of_range"), ("2024-13", "invalid_date"), ("", "invalid_date")):
        with pytest.raises(Invalid) as refused:
            close(month=month)
        assert refused.value.details == {"month": [code]}
    box.travel_to("2024-04-01T00:00:00Z")
    closed = close(month="2024-03")
    assert closed.last_day.isoformat() == "2024-03-31"
    # An earlier month is closed already.
    assert close(month="2024-02").last_day == close(month="2024-03").last_day == closed.last_day


@pytest.mark.parametrize("accounts", ["", 'receivable = "Assets:Debtors:{billing_entity}"\n'])
def test_beancount_accepts_the_ledger(box: Scenario, tmp_path: Path, accounts: str) -> None:
    box.post(f"/invoices/{_invoice(box)}/void", generate_credit_note=True, refund_amount=2000, credit_amount=3000)
    table, book = EXPORTS["ledger"], tmp_path / "books.beancount"
    named = tmp_path / "accounts.toml"
    named.write_text(accounts)
    with beancount(str(book), list(table.columns), beancount_accounts(str(named))) as file:
        for row in box.billing.reading(lambda reader: list(table.rows(reader, None, None))):
            file.write([row[name] for name in table.columns])
    entries, errors, _ = loader.load_file(str(book))
    assert errors == []
    sums: dict[str, Decimal] = {}
    for entry in entries:
        for posting in getattr(entry, "postings", ()):
            sums[posting.account] = sums.get(posting.account, Decimal(0)) + posting.units.number
    assert sums["Assets:Cash:Manual"] == 60
    assert sums["Assets:Debtors:Default" if accounts else "Assets:Receivable"] == 0
    assert sums["Liabilities:Tax:DE:19"] == 0
    assert sums["Liabilities:Prepaid:Purchased"] == -10


@pytest.mark.parametrize("text", ["debtors = 'Assets:Debtors'", "receivable = 'Debtors'", "receivable = 1400", "x"])
def test_a_wrong_file_of_accounts_is_refused(tmp_path: Path, text: str) -> None:
    named = tmp_path / "accounts.toml"
    named.write_text(text)
    with pytest.raises(UsageError, match=r"accounts\.toml"):
        beancount_accounts(str(named))
