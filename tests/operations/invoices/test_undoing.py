"""Voided invoices, and those regenerated from them: money, credits, wallets and coupons are as they were."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario

from usagebill.core.errors import Forbidden, Invalid
from usagebill.fields import RegeneratedFeeFields
from usagebill.operations.audit import audit

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.customer()
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.add_on("setup", 100)
    return box


def subscribed(box: Scenario) -> Any:
    """An invoice of 31.00."""
    box.subscribe()
    return box.invoices()[-1]


def bought(box: Scenario, units: int) -> Any:
    fees = [{"add_on_code": "setup", "units": units}]
    return box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]


def pay(box: Scenario, invoice: Any, cents: int) -> None:
    body = {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": f"transfer of {cents}"}
    box.post("/payments", payment=body)


def credit(box: Scenario, invoice: Any, cents: int, part: str = "credit") -> Any:
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": cents}]
    body = {"invoice_id": invoice["svc_id"], f"{part}_amount_cents": cents, "items": items}
    return box.post("/credit_notes", credit_note=body)["credit_note"]


def granted(box: Scenario, credits: int, **fields: Any) -> str:
    body = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": str(credits)}
    return str(box.post("/wallets", wallet={**body, **fields})["wallet"]["svc_id"])


def void(box: Scenario, invoice: Any, status: int = 200, **body: Any) -> Any:
    return box.ask("POST", f"/invoices/{invoice['svc_id']}/void", body or None, status)


def regenerated(box: Scenario, invoice: Any) -> Any:
    lines: list[RegeneratedFeeFields] = [{"id": fee["svc_id"]} for fee in box.invoice(invoice["svc_id"])["fees"]]
    return box.invoice(box.billing.invoices.regenerate(invoice["svc_id"], fees=lines).id)


def balances(box: Scenario) -> tuple[list[int], list[int]]:
    """What can still be spent of credit notes, and of wallets."""
    notes = box.get("/credit_notes")["credit_notes"]
    wallets = box.get("/wallets?external_customer_id=acme")["wallets"]
    of_notes = sorted(note["balance_amount_cents"] for note in notes if note["balance_amount_cents"])
    return of_notes, [wallet["balance_cents"] for wallet in wallets]


def check(box: Scenario) -> None:
    assert box.billing.reading(audit).findings == ()


def test_a_part_paid_invoice_is_not_voided(box: Scenario) -> None:
    """20.00 of 31.00 are paid: they would be lost, and 31.00 be due again."""
    invoice = subscribed(box)
    pay(box, invoice, 2000)
    refused = void(box, invoice, status=405)
    assert refused["code"] == "not_voidable"
    assert "20.00 EUR came in and must go back" in refused["message"]
    assert box.invoice(invoice["svc_id"])["total_due_amount_cents"] == 1100
    refused = void(box, invoice, status=405, generate_credit_note=True, credit_amount=500)
    assert "15.00 EUR came in and must go back" in refused["message"]
    assert box.get("/credit_notes")["credit_notes"] == []


def test_what_was_paid_of_an_invoice_pays_the_one_that_replaces_it(box: Scenario) -> None:
    """20.00 of 31.00 were paid, and are credited: 11.00 are due, as before."""
    invoice = subscribed(box)
    pay(box, invoice, 500)
    pay(box, invoice, 1500)
    void(box, invoice, generate_credit_note=True, credit_amount=2000)
    again = regenerated(box, invoice)
    assert (again["credit_notes_amount_cents"], again["total_due_amount_cents"]) == (2000, 1100)
    assert balances(box) == ([], [])
    check(box)


def test_what_a_credit_note_had_paid_goes_back_to_it(box: Scenario) -> None:
    """A note of 10.00 pays a part of 31.00; voided and regenerated, 21.00 are due again."""
    first = bought(box, 10)
    pay(box, first, 1000)
    credit(box, first, 1000)
    invoice = subscribed(box)
    assert invoice["total_amount_cents"] == 2100
    void(box, invoice)
    assert balances(box) == ([1000], [])
    check(box)
    assert regenerated(box, invoice)["total_amount_cents"] == 2100
    assert balances(box) == ([], [])
    check(box)


def test_a_note_of_which_a_part_was_voided_gets_back_what_it_had_paid(box: Scenario) -> None:
    """8.00 of a note of 10.00 pay an invoice, 2.00 are voided by hand: a void gives 8.00 back."""
    first = bought(box, 10)
    pay(box, first, 1000)
    note = credit(box, first, 1000)
    box.plan(code="small", amount_cents=800, pay_in_advance=True)
    box.subscribe("small")
    invoice = box.invoices()[-1]
    assert (invoice["credit_notes_amount_cents"], balances(box)) == (800, ([200], []))
    box.put(f"/credit_notes/{note['svc_id']}/void")
    void(box, invoice, generate_credit_note=True)
    assert balances(box) == ([800], [])
    check(box)
    assert regenerated(box, invoice)["credit_notes_amount_cents"] == 800
    check(box)


def test_notes_of_a_voided_invoice_are_withdrawn_and_made_anew(box: Scenario) -> None:
    """10.00 of 31.00 were credited and nothing paid: the void leaves 0.00, the regenerated invoice 10.00 once more."""
    invoice = subscribed(box)
    credit(box, invoice, 1000)
    void(box, invoice)
    assert balances(box) == ([], [])
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["credit_status"] == "voided"
    check(box)
    again = regenerated(box, invoice)
    assert (again["total_due_amount_cents"], balances(box)) == (3100, ([1000], []))
    numbers = {note["number"]: note["total_amount_cents"] for note in box.get("/credit_notes")["credit_notes"]}
    assert numbers[f"{again['number']}-CN001"] == 1000
    check(box)


def test_a_wallet_gets_its_payment_back_once(box: Scenario) -> None:
    """10.00 of 31.00 came from a wallet, 31.00 were credited: 10.00 go back, not 41.00."""
    granted(box, 10)
    invoice = subscribed(box)
    credit(box, invoice, 3100)
    void(box, invoice)
    assert balances(box) == ([], [1000])
    check(box)
    again = regenerated(box, invoice)
    assert (again["total_due_amount_cents"], balances(box)) == (2100, ([3100], [0]))
    check(box)


def test_what_was_offset_is_offset_again(box: Scenario) -> None:
    """31.00, of which 10.00 were offset: 21.00 are due, and again after void and regeneration, also of that."""
    invoice = subscribed(box)
    credit(box, invoice, 1000, "offset")
    for _ in range(2):
        void(box, invoice)
        invoice = regenerated(box, invoice)
        assert (invoice["total_amount_cents"], invoice["total_due_amount_cents"]) == (3100, 2100)
        check(box)
    pay(box, invoice, 2100)
    assert box.invoice(invoice["svc_id"])["payment_status"] == "succeeded"
    void(box, invoice, generate_credit_note=True, credit_amount=2100)
    again = regenerated(box, invoice)
    assert (again["total_due_amount_cents"], again["payment_status"], balances(box)) == (0, "succeeded", ([], []))
    check(box)


def test_notes_are_made_anew_on_the_lines_that_are_kept(box: Scenario) -> None:
    """Of 4.00 and 6.00, 1.00 and 6.00 are credited; the second line is then dropped, or lowered to 2.00."""
    fees = [{"add_on_code": "setup", "units": 4}, {"add_on_code": "setup", "units": 6}]
    made = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
    first, second = sorted(made["fees"], key=lambda fee: int(fee["amount_cents"]))
    items = [{"fee_id": first["svc_id"], "amount_cents": 100}, {"fee_id": second["svc_id"], "amount_cents": 600}]
    box.post("/credit_notes", credit_note={"invoice_id": made["svc_id"], "credit_amount_cents": 700, "items": items})
    void(box, made)
    only = box.billing.invoices.regenerate(made["svc_id"], fees=[{"id": first["svc_id"]}])
    assert balances(box)[0] == [100]
    void(box, {"svc_id": only.id})
    lines: list[RegeneratedFeeFields] = [{"id": first["svc_id"]}, {"id": second["svc_id"], "units": 2}]
    box.billing.invoices.regenerate(made["svc_id"], fees=lines)
    # The first line alone was regenerated last, so its note goes over.
    assert balances(box)[0] == [100]
    check(box)


def test_a_note_that_other_invoices_have_used_keeps_an_unpaid_invoice_from_being_voided(box: Scenario) -> None:
    """10.00 of 31.00 were credited, and pay another invoice: nobody has paid for them, so they cannot be withdrawn."""
    invoice = subscribed(box)
    note = credit(box, invoice, 1000)
    box.subscribe(external_id="other")
    other = box.invoices()[-1]
    assert other["credit_notes_amount_cents"] == 1000
    refused = void(box, invoice, status=405)
    assert f"credited by {note['number']}, of which other invoices have used 10.00 EUR" in refused["message"]
    void(box, invoice, status=405, generate_credit_note=True)
    void(box, other)
    void(box, invoice)
    assert balances(box) == ([], [])
    check(box)


def test_a_paid_invoice_whose_note_is_used_elsewhere_gives_back_the_rest(box: Scenario) -> None:
    """31.00 were paid, 10.00 of them credited and used: 21.00 are left to give back, and pay it again, less 10.00."""
    invoice = subscribed(box)
    pay(box, invoice, 3100)
    credit(box, invoice, 1000)
    box.subscribe(external_id="other")
    void(box, invoice, generate_credit_note=True, credit_amount=2100)
    check(box)
    again = regenerated(box, invoice)
    assert (again["total_amount_cents"], again["total_due_amount_cents"], balances(box)) == (1000, 0, ([], []))
    check(box)


def test_a_void_with_a_credit_note_gives_wallets_and_notes_what_it_does_not_cover(box: Scenario) -> None:
    """Of 31.00 a note paid 5.00, a wallet 10.00, and 16.00 came in: those are refunded, the rest goes back."""
    first = bought(box, 5)
    pay(box, first, 500)
    credit(box, first, 500)
    granted(box, 10)
    invoice = subscribed(box)
    pay(box, invoice, 1600)
    refused = void(box, invoice, status=405, generate_credit_note=True)
    assert "16.00 EUR came in and must go back" in refused["message"]
    void(box, invoice, generate_credit_note=True, refund_amount=1600)
    assert balances(box) == ([500], [1000])
    check(box)
    again = regenerated(box, invoice)
    assert (again["total_due_amount_cents"], balances(box)) == (1600, ([], [0]))
    check(box)


def test_a_part_of_what_a_wallet_paid_goes_back_to_it(box: Scenario) -> None:
    """10.00 of 31.00 came from a wallet; 4.00 are credited, so 6.00 go back, in credits worth 2.00 each."""
    wallet = granted(box, 5, rate_amount="2")
    invoice = subscribed(box)
    void(box, invoice, generate_credit_note=True, credit_amount=400)
    assert balances(box) == ([400], [600])
    shown = box.get(f"/wallets/{wallet}")["wallet"]
    assert (shown["credits_balance"], shown["consumed_credits"]) == ("3.0", "2.0")
    check(box)


def test_an_invoice_that_is_wholly_paid_by_credits_is_voided_with_them_given_back(box: Scenario) -> None:
    granted(box, 50)
    invoice = subscribed(box)
    assert (invoice["total_amount_cents"], invoice["payment_status"]) == (0, "succeeded")
    void(box, invoice, status=405)
    void(box, invoice, generate_credit_note=True)
    assert balances(box) == ([], [5000])
    check(box)
    regenerated(box, invoice)
    assert balances(box) == ([], [1900])


def test_an_invoice_paid_by_a_wallet_that_has_ended_is_voided_with_a_credit(box: Scenario) -> None:
    wallet = granted(box, 10)
    invoice = subscribed(box)
    box.delete(f"/wallets/{wallet}")
    assert "paid with 10.00 EUR of a wallet that has ended" in void(box, invoice, status=405)["message"]
    void(box, invoice, generate_credit_note=True, credit_amount=1000)
    assert balances(box)[0] == [1000]
    assert regenerated(box, invoice)["total_due_amount_cents"] == 2100
    check(box)


def test_a_voided_invoice_takes_no_more_credit_notes(box: Scenario) -> None:
    invoice = subscribed(box)
    void(box, invoice)
    items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 1000}]
    body = {"invoice_id": invoice["svc_id"], "credit_amount_cents": 1000, "items": items}
    assert box.post("/credit_notes", status=405, credit_note=body)["code"] == "invalid_type_or_status"


def test_an_unpaid_top_up_is_regenerated_with_its_purchase(box: Scenario) -> None:
    """10.00 of credits: voided, regenerated and paid, they come; another amount is refused."""
    granted(box, 0, paid_credits="10")
    box.run_due()
    (invoice,) = box.invoices()
    void(box, invoice)
    line: RegeneratedFeeFields = {"id": box.invoice(invoice["svc_id"])["fees"][0]["svc_id"], "units": 5}
    with pytest.raises(Invalid, match="fees"):
        box.billing.invoices.regenerate(invoice["svc_id"], fees=[line])
    again = regenerated(box, invoice)
    assert (again["invoice_type"], again["total_due_amount_cents"]) == ("credit", 1000)
    pay(box, again, 1000)
    box.run_due()
    assert balances(box) == ([], [1000])
    check(box)


def test_a_paid_top_up_is_voided_once_its_credits_are_refunded(box: Scenario) -> None:
    granted(box, 0, paid_credits="10")
    box.run_due()
    (invoice,) = box.invoices()
    pay(box, invoice, 1000)
    box.run_due()
    invoice = box.invoice(invoice["svc_id"])
    refused = void(box, invoice, status=405, generate_credit_note=True)
    assert "10.00 EUR came in and must go back; a credit note refunds them first" in refused["message"]
    credit(box, invoice, 1000, "refund")
    assert balances(box) == ([], [0])
    void(box, invoice, generate_credit_note=True)
    check(box)
    # Its credits have come and gone; nobody would get any for paying again.
    with pytest.raises(Forbidden):
        regenerated(box, invoice)


@pytest.mark.parametrize("ended", ["applied", "coupon"])
@pytest.mark.parametrize("fields", [{}, {"frequency": "recurring", "frequency_duration": 2}, {"frequency": "forever"}])
def test_a_coupon_that_ends_between_a_void_and_the_regeneration_is_not_used(
    box: Scenario, fields: dict[str, Any], ended: str
) -> None:
    box.coupon(500, **fields)
    invoice = subscribed(box)
    assert invoice["total_amount_cents"] == 3100 - 500
    box.post(f"/invoices/{invoice['svc_id']}/void")
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert applied["status"] == "active"
    if ended == "applied":
        box.delete(f"/customers/acme/applied_coupons/{applied['svc_id']}")
    else:
        box.delete("/coupons/off")
    again = regenerated(box, invoice)
    # Coupons, like taxes, are those of the day of the regeneration.
    assert (again["coupons_amount_cents"], again["total_amount_cents"]) == (0, 3100)
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert applied["status"] == "terminated"
    # A void of that one gives nothing back that it has not used.
    box.post(f"/invoices/{again['svc_id']}/void")
    assert box.get("/applied_coupons")["applied_coupons"] == [applied]
    assert box.billing.reading(audit).findings == ()
