"""What can be done with an invoice: each action shows its effect before it is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from usagebill.console.fields import Field, Kind, choices, text_of, values_of
from usagebill.console.pages.page import Page
from usagebill.console.rendering import money
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.credit_notes import CreditNoteReason
from usagebill.core.errors import BillingError, Forbidden, Invalid, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.statuses import PaymentStatus

_Invoice = Mapping[str, Any]
_Form = Mapping[str, str]
_MOST_NOTES = 100


def _is_draft(invoice: _Invoice) -> bool:
    return bool(invoice["status"] == InvoiceStatus.DRAFT)


def _is_computed(invoice: _Invoice) -> bool:
    return _is_draft(invoice) and bool(invoice["invoice_type"] == InvoiceType.SUBSCRIPTION)


def _is_issued(invoice: _Invoice) -> bool:
    return bool(invoice["status"] == InvoiceStatus.FINALIZED)


def _is_due(invoice: _Invoice) -> bool:
    unpaid = invoice["payment_status"] != PaymentStatus.SUCCEEDED
    return _is_issued(invoice) and unpaid and invoice["total_due_amount_cents"] > 0


def _is_charged(invoice: _Invoice) -> bool:
    provider = (invoice["customer"] or {}).get("billing_configuration", {}).get("payment_provider")
    return _is_due(invoice) and provider is not None


def _is_credited(invoice: _Invoice) -> bool:
    return _is_issued(invoice) and invoice["total_amount_cents"] > 0


@dataclass(frozen=True, slots=True)
class Request:
    """How an operation is called: the ids in its path, and its fields."""

    path: Sequence[str] = ()
    fields: Mapping[str, object] | None = None


def _by_id(seat: Seat, invoice: _Invoice, form: _Form) -> Request:
    return Request((invoice["svc_id"],))


def _no_fields(seat: Seat, invoice: _Invoice) -> Sequence[Field]:
    return ()


@dataclass(frozen=True, slots=True)
class Action:
    """An action on an invoice that is as `applies` says. `about` tells what else it does.

    `fields` are those that its effect depends on, `filled` at first as it says; `remarks` are those that it does not
    depend on. An action without an effect in
    money (`shows_effect`) is confirmed at once.
    """

    path: str
    title: str
    operation: str
    about: str
    applies: Callable[[_Invoice], bool]
    request: Callable[[Seat, _Invoice, _Form], Request] = _by_id
    fields: Callable[[Seat, _Invoice], Sequence[Field]] = _no_fields
    filled: Callable[[_Invoice], _Form] = lambda _: {}
    remarks: Sequence[Field] = ()
    is_final: bool = False
    shows_effect: bool = True


_REFERENCE = Field("reference", "Reference, such as that of the transfer", required=True)
_RECEIVED = Field("amount_cents", "Amount received", Kind.MONEY, required=True)


def _due(invoice: _Invoice) -> _Form:
    return {_RECEIVED.name: text_of(_RECEIVED, invoice["total_due_amount_cents"], invoice["currency"])}


def _payment(seat: Seat, invoice: _Invoice, form: _Form) -> Request:
    amount = values_of((_RECEIVED,), form, invoice["currency"])
    reference = form.get("reference", "").strip() or "console"
    return Request(fields={"invoice_id": invoice["svc_id"], "reference": reference, "amount_cents": 0, **amount})


_RECIPIENTS = Field("to", "To", Kind.LIST, hint="Addresses, apart by commas; without any, the customer's own.")


def _email(seat: Seat, invoice: _Invoice, form: _Form) -> Request:
    return Request((invoice["svc_id"],), values_of((_RECIPIENTS,), form))


# Where a credit goes -> the argument that says how much.
_CREDITED_TO = (
    ("credit_amount_cents", "The customer's next invoices"),
    ("refund_amount_cents", "Back to the customer, who has paid it"),
    ("offset_amount_cents", "What is still due of this invoice"),
)
_TO = Field("credited_to", "It goes to", Kind.CHOICE, _CREDITED_TO)
_WHOLE_AMOUNT = Field("total", "Or an amount, with taxes, over all lines", Kind.MONEY)
_LINE = "line-"


def _credit_fields(seat: Seat, invoice: _Invoice) -> Sequence[Field]:
    """A field for each line of which something is left, then one for all, and where it goes."""
    left = {fee["svc_id"]: fee["amount_cents"] for fee in invoice["fees"]}
    if invoice["number"]:
        notes = seat.listed("credit_notes.list", invoice_number=invoice["number"], per_page=_MOST_NOTES).items
        for item in (item for note in notes for item in note["items"] if item["fee"]):
            if item["fee"]["svc_id"] in left:
                left[item["fee"]["svc_id"]] -= item["amount_cents"]
    lines = [
        Field(
            f"{_LINE}{fee['svc_id']}",
            fee["item"]["invoice_display_name"] or fee["item"]["name"] or fee["item"]["code"],
            Kind.MONEY,
            hint=f"{money(left[fee['svc_id']], invoice['currency'])} is left, before taxes",
        )
        for fee in invoice["fees"]
        if left[fee["svc_id"]] > 0
    ]
    return (*lines, _WHOLE_AMOUNT, _TO)


def _credit(seat: Seat, invoice: _Invoice, form: _Form) -> Request:
    id, currency = invoice["svc_id"], invoice["currency"]
    part = form.get(_TO.name, "")
    part = part if part in dict(_CREDITED_TO) else _CREDITED_TO[0][0]
    remarks = values_of(_CREDIT_REMARKS, form)
    amounts = values_of([field for field in _credit_fields(seat, invoice) if field.kind == Kind.MONEY], form, currency)
    items = [
        {"fee_id": name.removeprefix(_LINE), "amount_cents": cents}
        for name, cents in amounts.items()
        if name.startswith(_LINE)
    ]
    if not items:
        return Request(fields={"invoice_id": id, part: amounts.get(_WHOLE_AMOUNT.name, 0), **remarks})
    if _WHOLE_AMOUNT.name in amounts:
        problem = Invalid({_WHOLE_AMOUNT.name: ["invalid_value"]})
        problem.message = "Credit some lines, or an amount over all of them: not both in one credit note."
        raise problem
    estimate = seat.ask("credit_notes.estimate", invoice_id=id, items=items)
    cents = max(estimate["max_creditable_amount_cents"], estimate["max_refundable_amount_cents"])
    return Request(fields={"invoice_id": id, "items": items, part: cents, **remarks})


_CREDIT_REMARKS = (
    Field(
        "reason",
        "Reason",
        Kind.CHOICE,
        choices(sorted(CreditNoteReason, key=lambda reason: reason != CreditNoteReason.OTHER)),
    ),
    Field("description", "Description, on the document"),
)

ACTIONS: Sequence[Action] = (
    Action(
        "finalize",
        "Finalize",
        "invoices.finalize",
        "The invoice gets its number and is sent and collected as if its grace period had ended.",
        _is_draft,
    ),
    Action(
        "refresh",
        "Refresh",
        "invoices.refresh",
        "The draft is computed anew from today's usage, plan, coupons and taxes.",
        _is_computed,
    ),
    Action(
        "pay",
        "Record payment",
        "payments.create",
        "You have received this amount by other means, such as a bank transfer. Less than what is due is a part.",
        _is_due,
        request=_payment,
        fields=lambda _, __: (_RECEIVED,),
        filled=_due,
        remarks=(_REFERENCE,),
    ),
    Action(
        "retry-payment",
        "Retry payment",
        "invoices.retry_payment",
        "The customer's payment provider is asked to charge the amount due again.",
        _is_charged,
    ),
    Action(
        "credit",
        "Credit",
        "credit_notes.create",
        "A credit note gives back a part of some lines, or an amount of the whole invoice.",
        _is_credited,
        request=_credit,
        fields=_credit_fields,
        remarks=_CREDIT_REMARKS,
    ),
    Action(
        "email",
        "Send by e-mail",
        "invoices.resend_email",
        "The invoice is sent as it was issued, with its PDF.",
        _is_issued,
        request=_email,
        remarks=(_RECIPIENTS,),
        shows_effect=False,
    ),
    Action(
        "void",
        "Void",
        "invoices.void",
        "The invoice keeps its number and is owed no longer. Coupons, credits and wallets that paid it are given back;"
        " payments are not. It cannot be undone.",
        _is_issued,
        is_final=True,
    ),
)


def possible_actions(seat: Seat, invoice: _Invoice) -> Sequence[Action]:
    """The actions that the invoice's state and the user's role permit."""
    return [action for action in ACTIONS if seat.may(action.operation) and action.applies(invoice)]


def _shown_for(fields: Sequence[Field], form: _Form) -> str:
    """What an effect was shown for: the values of these fields."""
    return urlencode({field.name: form.get(field.name, "").strip() for field in fields})


def _asked(action: Action, visit: Visit, problem: str = "", status: int = 200) -> Response:
    seat, id = visit.seat, visit.named("id")
    invoice = seat.ask("invoices.get", id)
    seat.require(action.operation)
    applies = action.applies(invoice)
    fields = action.fields(seat, invoice) if applies else ()
    form = visit.form or action.filled(invoice)
    after = made = None
    if not applies:
        problem = problem or "That is not possible for this invoice now."
    elif not problem and action.shows_effect and (form or not fields):
        try:
            request = action.request(seat, invoice, form)
            made, after = seat.tried(
                action.operation, *request.path, then=("invoices.get", id), **(request.fields or {})
            )
        except NotFound:
            raise
        except BillingError as refusal:
            problem = refusal.message or refusal.code
            status = refusal.status if visit.form else status
    return visit.page(
        "invoice_action.html",
        status,
        action=action,
        invoice=invoice,
        after=after,
        note=made if action.operation == "credit_notes.create" else None,
        fields=fields,
        remarks=action.remarks,
        shown_for=_shown_for(fields, form),
        is_ready=applies and (after is not None or not action.shows_effect),
        problem=problem,
        form=form,
    )


def _done(action: Action, visit: Visit) -> Response:
    seat, id, form = visit.seat, visit.named("id"), visit.form
    seat.require(action.operation)
    invoice = seat.ask("invoices.get", id)
    # Whoever changes an amount sees its effect before it is confirmed.
    if form.get("shown_for", "") != _shown_for(action.fields(seat, invoice), form):
        return _asked(action, visit)
    try:
        request = action.request(seat, invoice, form)
        seat.ask(action.operation, *request.path, **(request.fields or {}))
    except (Forbidden, NotFound):
        raise
    except BillingError as refusal:
        return _asked(action, visit, refusal.message or refusal.code, refusal.status)
    return visit.to(f"/invoices/{id}")


PAGES = tuple(
    Page(f"/invoices/{{id}}/{action.path}", partial(act, action), method)
    for action in ACTIONS
    for act, method in ((_asked, "GET"), (_done, "POST"))
)
