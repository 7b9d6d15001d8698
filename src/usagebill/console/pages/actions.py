"""What can be done with an invoice, a payment, a credit note or a receipt: what moves money shows its effect before it
is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from usagebill.console.fields import Field, Kind, choices, text_of, values_of
from usagebill.console.pages.page import Page
from usagebill.console.rendering import money, words
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.credit_notes import CreditNoteReason
from usagebill.core.errors import BillingError, Invalid
from usagebill.core.holds import HoldStatus
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.statuses import ChargeStatus, PaymentStatus

_Record = Mapping[str, Any]
_Form = Mapping[str, str]
_MOST_NOTES = 100
# Resource -> the folder of its pages, the field that names a record, and (name, field) of what an action may change.
_PAGES: Mapping[str, tuple[str, str, Sequence[tuple[str, str]]]] = {
    "invoices": (
        "invoices",
        "number",
        (
            ("Total", "total_amount_cents"),
            ("Paid", "total_paid_amount_cents"),
            ("Due", "total_due_amount_cents"),
            ("Status", "status"),
            ("Payment", "payment_status"),
        ),
    ),
    "credit_notes": (
        "credit-notes",
        "number",
        (
            ("Total", "total_amount_cents"),
            ("Left for the next invoices", "balance_amount_cents"),
            ("Credit", "credit_status"),
            ("Refund", "refund_status"),
        ),
    ),
    "payments": ("payments", "svc_id", ()),
    "holds": ("holds", "svc_id", ()),
    "payment_receipts": ("receipts", "number", ()),
}


def _is_draft(invoice: _Record) -> bool:
    return bool(invoice["status"] == InvoiceStatus.DRAFT)


def _is_computed(invoice: _Record) -> bool:
    return _is_draft(invoice) and bool(invoice["invoice_type"] == InvoiceType.SUBSCRIPTION)


def _has_lines(invoice: _Record) -> bool:
    return _is_computed(invoice) and bool(invoice["fees"])


def _is_voided(invoice: _Record) -> bool:
    return bool(invoice["status"] == InvoiceStatus.VOIDED) and bool(invoice["fees"])


def _is_issued(invoice: _Record) -> bool:
    return bool(invoice["status"] == InvoiceStatus.FINALIZED)


def _is_due(invoice: _Record) -> bool:
    unpaid = invoice["payment_status"] != PaymentStatus.SUCCEEDED
    return _is_issued(invoice) and unpaid and invoice["total_due_amount_cents"] > 0


def _is_charged(invoice: _Record) -> bool:
    provider = (invoice["customer"] or {}).get("billing_configuration", {}).get("payment_provider")
    return _is_due(invoice) and provider is not None


def _is_failed(invoice: _Record) -> bool:
    return bool(invoice["status"] == InvoiceStatus.FAILED)


def _is_credited(invoice: _Record) -> bool:
    return _is_issued(invoice) and invoice["total_amount_cents"] > 0


def _always(record: _Record) -> bool:
    return True


def _is_refundable(payment: _Record) -> bool:
    return payment["payment_provider_code"] is not None and payment["payment_status"] == ChargeStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Request:
    """How an operation is called: the ids in its path, and its fields; `tried` are further ones with which its effect
    is that of later, such as once a provider has answered.
    """

    path: Sequence[str] = ()
    fields: Mapping[str, object] = field(default_factory=dict)
    tried: Mapping[str, object] = field(default_factory=dict)


def _by_id(seat: Seat, invoice: _Record, form: _Form) -> Request:
    return Request((invoice["svc_id"],))


def _no_fields(seat: Seat, invoice: _Record) -> Sequence[Field]:
    return ()


class Outcome(StrEnum):
    """What an action leaves: the record, changed; nothing of it; or another one in its place."""

    CHANGED = "changed"
    GONE = "gone"
    ANOTHER = "another"


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a record of the resource `of` that is as `applies` says. `about` tells what else it does.

    `fields` are those that its effect depends on, `filled` at first as it says; `remarks` are those that it does not
    depend on. An action without an effect in money (`shows_effect`) is confirmed at once.
    """

    path: str
    title: str
    operation: str
    about: str
    applies: Callable[[_Record], bool]
    request: Callable[[Seat, _Record, _Form], Request] = _by_id
    fields: Callable[[Seat, _Record], Sequence[Field]] = _no_fields
    filled: Callable[[_Record], _Form] = lambda _: {}
    remarks: Sequence[Field] = ()
    is_final: bool = False
    shows_effect: bool = True
    of: str = "invoices"
    outcome: Outcome = Outcome.CHANGED


_REFERENCE = Field("reference", "Reference, such as that of the transfer", required=True)
_RECEIVED = Field("amount_cents", "Amount received", Kind.MONEY, required=True)


def _due(invoice: _Record) -> _Form:
    return {_RECEIVED.name: text_of(_RECEIVED, invoice["total_due_amount_cents"], invoice["currency"])}


def _payment(seat: Seat, invoice: _Record, form: _Form) -> Request:
    amount = values_of((_RECEIVED,), form, invoice["currency"])
    reference = form.get("reference", "").strip() or "console"
    return Request(fields={"invoice_id": invoice["svc_id"], "reference": reference, "amount_cents": 0, **amount})


_RECIPIENTS = Field("to", "To", Kind.LIST, hint="Addresses, apart by commas; without any, the customer's own.")


def _email(seat: Seat, record: _Record, form: _Form) -> Request:
    return Request((record["svc_id"],), values_of((_RECIPIENTS,), form))


_GIVEN_BACK = Field("amount_cents", "Amount", Kind.MONEY, hint="Empty: all that was paid beyond what is due")
_BY_HAND = Field("by_hand", "You have given it back yourself: the provider is not asked", Kind.FLAG)


def _refund(seat: Seat, payment: _Record, form: _Form) -> Request:
    fields = values_of((_GIVEN_BACK, _BY_HAND), form, payment["amount_currency"])
    asked = {name: value for name, value in fields.items() if value is not False}
    return Request((payment["svc_id"],), asked, tried={_BY_HAND.name: True})


_VOIDED = (
    Field("refund_amount", "Refunded of what was paid", Kind.MONEY),
    Field("credit_amount", "Credited to the next invoices", Kind.MONEY),
)


def _void_fields(seat: Seat, invoice: _Record) -> Sequence[Field]:
    return _VOIDED if invoice["total_paid_amount_cents"] > 0 else ()


def _void_filled(invoice: _Record) -> _Form:
    paid_cents = invoice["total_paid_amount_cents"]
    return {_VOIDED[0].name: text_of(_VOIDED[0], paid_cents, invoice["currency"])} if paid_cents > 0 else {}


def _void(seat: Seat, invoice: _Record, form: _Form) -> Request:
    given = values_of(_void_fields(seat, invoice), form, invoice["currency"])
    return Request((invoice["svc_id"],), {"generate_credit_note": True, **given} if given else {})


# Where a credit goes -> the argument that says how much.
_CREDITED_TO = (
    ("credit_amount_cents", "The customer's next invoices"),
    ("refund_amount_cents", "Back to the customer, who has paid it"),
    ("offset_amount_cents", "What is still due of this invoice"),
)
_TO = Field("credited_to", "It goes to", Kind.CHOICE, _CREDITED_TO)
_WHOLE_AMOUNT = Field("total", "Or an amount, with taxes, over all lines", Kind.MONEY)
_LINE = "line-"


def _credit_fields(seat: Seat, invoice: _Record) -> Sequence[Field]:
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


def _credit(seat: Seat, invoice: _Record, form: _Form) -> Request:
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

# The lines of an invoice: which one is meant, and what a form asks about one.
_FEE = "fee_id"
_UNITS = Field("units", "Units", Kind.NUMBER)
_UNIT_AMOUNT = Field("unit_precise_amount", "Price of a unit", Kind.NUMBER)
# Operations that list what a plan charges -> the argument that names one.
_CHARGES = {"charges": "charge_id", "fixed_charges": "fixed_charge_id"}
_MOST_CHARGES = 100
_LINE_NAME = Field("invoice_display_name", "Name on the invoice")


def _line_name(fee: _Record) -> str:
    item = fee["item"]
    name: str = item["invoice_display_name"] or item["name"] or item["code"]
    groups = ", ".join(str(value) for value in (fee.get("grouped_by") or {}).values() if value)
    return f"{name} ({groups})" if groups else name


def _line_field(invoice: _Record) -> Field:
    lines = [
        (fee["svc_id"], f"{_line_name(fee)}: {money(fee['amount_cents'], invoice['currency'])}")
        for fee in invoice["fees"]
    ]
    return Field(_FEE, "Line", Kind.CHOICE, lines)


def _priced_as_planned(invoice: _Record) -> Field:
    return replace(_UNIT_AMOUNT, hint=f"In {invoice['currency']}, like 1.25. Empty: that of the plan, for these units")


def _adjust_fields(seat: Seat, invoice: _Record) -> Sequence[Field]:
    units = replace(_UNITS, hint="Empty: as they were counted")
    return (_line_field(invoice), units, _priced_as_planned(invoice), _LINE_NAME)


def _adjust(seat: Seat, invoice: _Record, form: _Form) -> Request:
    return Request((invoice["svc_id"],), values_of(_adjust_fields(seat, invoice), form))


# The charges of which a draft has no line: "charge", or "charge/filter", behind the subscription.
_MISSING = "missing"


def _missing_lines(seat: Seat, invoice: _Record) -> Sequence[tuple[str, str]]:
    """What the plans of a draft's subscriptions could bill and the draft has no line of, with its name."""
    billed = {
        (fee["svc_subscription_id"], fee["svc_charge_id"] or fee["svc_fixed_charge_id"], fee["svc_charge_filter_id"])
        for fee in invoice["fees"]
    }
    missing = []
    for subscription in invoice["subscriptions"]:
        asked = {"subscription_status": subscription["status"], "per_page": _MOST_CHARGES}
        id, name = subscription["svc_id"], subscription["external_id"]
        for kind in _CHARGES:
            for charge in seat.listed(f"subscriptions.list_{kind}", name, **asked).items:
                if kind == "charges" and charge["pay_in_advance"]:
                    # Its events are billed one by one.
                    continue
                title = f"{charge['invoice_display_name'] or charge['code']} of {name}"
                for part in (None, *charge.get("filters", ())):
                    filter_id = part and part["svc_id"]
                    if (id, charge["svc_id"], filter_id) not in billed:
                        of = "" if part is None else f": {part['invoice_display_name'] or _values(part['values'])}"
                        value = "/".join(filter(None, (id, kind, charge["svc_id"], filter_id)))
                        missing.append((value, f"{title}{of}"))
    return missing


def _values(values: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{key} {' or '.join(accepted)}" for key, accepted in values.items())


def _add_fields(seat: Seat, invoice: _Record) -> Sequence[Field]:
    missing = _missing_lines(seat, invoice)
    hint = "" if missing else "The draft has a line of all that its plans charge for usage: adjust one of these."
    line = Field(_MISSING, "What it bills", Kind.CHOICE, missing, hint=hint)
    return (line, replace(_UNITS, required=True), _priced_as_planned(invoice), _LINE_NAME)


def _add(seat: Seat, invoice: _Record, form: _Form) -> Request:
    fields = values_of(_add_fields(seat, invoice), form)
    subscription, kind, charge, part = [*str(fields.pop(_MISSING, "")).split("/"), "", "", ""][:4]
    named = {"subscription_id": subscription, _CHARGES.get(kind, "charge_id"): charge, "charge_filter_id": part}
    return Request((invoice["svc_id"],), {**named, **fields})


def _reset(seat: Seat, invoice: _Record, form: _Form) -> Request:
    return Request((invoice["svc_id"], form.get(_FEE, "")))


def _regenerate_fields(seat: Seat, invoice: _Record) -> Sequence[Field]:
    """Units and price of each line of the voided invoice."""
    fields = []
    for fee in invoice["fees"]:
        name, amount = _line_name(fee), money(fee["amount_cents"], invoice["currency"])
        fields.append(
            Field(
                f"{_UNITS.name}-{fee['svc_id']}",
                f"{name}: units",
                Kind.NUMBER,
                hint=f"It came to {amount}. Empty: without this line",
            )
        )
        fields.append(
            Field(
                f"{_UNIT_AMOUNT.name}-{fee['svc_id']}",
                f"{name}: another price of a unit",
                Kind.NUMBER,
                hint=f"In {invoice['currency']}. Empty: as it was",
            )
        )
    return fields


def _regenerate_filled(invoice: _Record) -> _Form:
    return {f"{_UNITS.name}-{fee['svc_id']}": text_of(_UNITS, fee["units"]) for fee in invoice["fees"]}


def _regenerate(seat: Seat, invoice: _Record, form: _Form) -> Request:
    typed, filled = values_of(_regenerate_fields(seat, invoice), form), _regenerate_filled(invoice)
    lines = []
    for fee in invoice["fees"]:
        units, price = (typed.get(f"{name}-{fee['svc_id']}") for name in (_UNITS.name, _UNIT_AMOUNT.name))
        if units is None:
            continue
        changed = {} if units == filled[f"{_UNITS.name}-{fee['svc_id']}"] and price is None else {"units": units}
        lines.append({"id": fee["svc_id"], **changed, **({} if price is None else {"unit_amount": price})})
    if not lines:
        problem = Invalid({"fees": ["value_is_mandatory"]})
        problem.message = "Without a line there is nothing to invoice: the voided invoice can stay as it is."
        raise problem
    return Request((invoice["svc_id"],), {"fees": lines})


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
        "adjust",
        "Adjust a line",
        "invoices.adjust_fee",
        "The line is billed with these units, this price or this name, however usage and prices change; minimums,"
        " coupons and taxes follow. A line that was adjusted before is reset first.",
        _has_lines,
        request=_adjust,
        fields=_adjust_fields,
    ),
    Action(
        "add-line",
        "Add a line",
        "invoices.adjust_fee",
        "The draft bills these units of a charge that it has no line of, however much was used; minimums, coupons and"
        " taxes follow. It is reset like an adjusted line.",
        _is_computed,
        request=_add,
        fields=_add_fields,
    ),
    Action(
        "reset",
        "Reset a line",
        "invoices.reset_fee",
        "The line is billed as usage and plan say: its adjustment is taken away.",
        _has_lines,
        request=_reset,
        fields=lambda _, invoice: (_line_field(invoice),),
    ),
    Action(
        "delete",
        "Delete",
        "invoices.delete",
        "The draft is gone, with the credit notes on it. The period that it bills is billed by no other invoice. It"
        " cannot be undone.",
        _is_draft,
        is_final=True,
        outcome=Outcome.GONE,
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
        " payments as far as you say. It cannot be undone.",
        _is_issued,
        request=_void,
        fields=_void_fields,
        filled=_void_filled,
        is_final=True,
    ),
    Action(
        "regenerate",
        "Invoice again",
        "invoices.regenerate",
        "A new invoice takes the place of the voided one: with these lines, a number of its own, and today's coupons,"
        " taxes and credits. It is sent and collected as others are.",
        _is_voided,
        request=_regenerate,
        fields=_regenerate_fields,
        filled=_regenerate_filled,
        outcome=Outcome.ANOTHER,
    ),
    Action(
        "retry",
        "Make it again",
        "invoices.retry",
        "What failed is done again: its taxes are asked for, or the invoice is made.",
        _is_failed,
    ),
    Action(
        "refund",
        "Refund",
        "payments.refund",
        "The provider gives back what was paid beyond what is due; the effect is that of its success. To give back"
        " more, credit the invoice.",
        _is_refundable,
        request=_refund,
        fields=lambda _, __: (_GIVEN_BACK, _BY_HAND),
        filled=lambda _: {_GIVEN_BACK.name: ""},
        of="payments",
    ),
    Action(
        "void",
        "Void",
        "credit_notes.void",
        "What is left of it is taken off no further invoice. It cannot be undone.",
        lambda note: note["balance_amount_cents"] > 0,
        is_final=True,
        of="credit_notes",
    ),
    Action(
        "retry-refund",
        "Retry refund",
        "credit_notes.retry_refund",
        "The payment providers are asked again to give back what failed.",
        lambda note: bool(note["refund_status"] == PaymentStatus.FAILED),
        of="credit_notes",
    ),
    Action(
        "email",
        "Send by e-mail",
        "credit_notes.resend_email",
        "The credit note is sent as it was issued, with its PDF.",
        _always,
        request=_email,
        remarks=(_RECIPIENTS,),
        shows_effect=False,
        of="credit_notes",
    ),
    Action(
        "release",
        "Release",
        "holds.release",
        "What is held is free again for other usage. The program that holds it can capture it no more.",
        lambda hold: bool(hold["status"] == HoldStatus.HELD),
        is_final=True,
        shows_effect=False,
        of="holds",
    ),
    Action(
        "email",
        "Send by e-mail",
        "payment_receipts.resend_email",
        "The receipt is sent with its PDF.",
        _always,
        request=_email,
        remarks=(_RECIPIENTS,),
        shows_effect=False,
        of="payment_receipts",
    ),
)


def possible_actions(seat: Seat, resource: str, record: _Record) -> Sequence[Action]:
    """The actions that the record's state and the user's role permit."""
    return [
        action for action in ACTIONS if action.of == resource and seat.may(action.operation) and action.applies(record)
    ]


@dataclass(frozen=True, slots=True)
class Effect:
    """What an action changes of a record: its kind and number, its currency, and (name, field, now, then)."""

    kind: str
    number: str
    currency: str
    rows: Sequence[tuple[str, str, Any, Any]]


def _affected(seat: Seat, action: Action, record: _Record) -> Sequence[tuple[str, _Record]]:
    """The records whose change is shown, with their resources: of a payment, its invoices."""
    if action.of == "payments":
        return [("invoices", seat.ask("invoices.get", id)) for id in record["invoice_ids"]]
    return [(action.of, record)]


def _effects(
    seat: Seat, action: Action, record: _Record, request: Request
) -> tuple[_Record | None, Sequence[Effect], Sequence[_Record]]:
    """What the operation would answer, what it would change, and the affected records after it."""
    affected = _affected(seat, action, record)
    changes = action.outcome == Outcome.CHANGED
    then = [(f"{resource}.get", before["svc_id"]) for resource, before in affected if changes]
    made, after = seat.tried(action.operation, *request.path, then=then, **{**request.fields, **request.tried})
    after = after if changes else [made]
    effects = []
    for (resource, before), later in zip(affected, after, strict=True):
        _, name, fields = _PAGES[resource]
        gone = action.outcome == Outcome.GONE
        rows = [
            (label, column, before[column], 0 if gone and column.endswith("_cents") else later[column])
            for label, column in fields
            if not gone or column != "payment_status"
        ]
        effects.append(Effect(words(resource.removesuffix("s")), before[name] or "Draft", before["currency"], rows))
    return made, effects, after


def _shown_for(fields: Sequence[Field], form: _Form) -> str:
    """What an effect was shown for: the values of these fields."""
    return urlencode({field.name: form.get(field.name, "").strip() for field in fields})


def _asked(action: Action, visit: Visit, problem: str = "", status: int = 200) -> Response:
    seat, id = visit.seat, visit.named("id")
    record = seat.ask(f"{action.of}.get", id)
    seat.require(action.operation)
    applies = action.applies(record)
    fields = action.fields(seat, record) if applies else ()
    form = visit.form or {**action.filled(record), **visit.asked()}
    is_filled = bool(visit.form or action.filled(record))
    made: _Record | None = None
    effects: Sequence[Effect] = ()
    paid_cents = 0
    if not applies:
        problem = problem or "That is not possible now."
    elif not problem and action.shows_effect and (is_filled or not fields):
        try:
            made, effects, after = _effects(seat, action, record, action.request(seat, record, form))
            if action.operation == "payments.create":
                paid_cents = after[0]["total_paid_amount_cents"] - record["total_paid_amount_cents"]
        except BillingError as refusal:
            problem = refusal.message or refusal.code
            status = refusal.status if visit.form else status
    folder, name, _ = _PAGES[action.of]
    return visit.page(
        "action.html",
        status,
        action=action,
        record=record,
        folder=folder,
        number=record[name] or "Draft",
        effects=effects,
        paid_cents=paid_cents,
        note=made if action.operation == "credit_notes.create" else None,
        fields=fields,
        remarks=action.remarks,
        shown_for=_shown_for(fields, form),
        is_ready=applies and (bool(effects) or not action.shows_effect),
        problem=problem,
        form=form,
    )


def _done(action: Action, visit: Visit) -> Response:
    seat, id, form = visit.seat, visit.named("id"), visit.form
    seat.require(action.operation)
    record = seat.ask(f"{action.of}.get", id)
    # Whoever changes an amount sees its effect before it is confirmed.
    if form.get("shown_for", "") != _shown_for(action.fields(seat, record), form):
        return _asked(action, visit)
    try:
        request = action.request(seat, record, form)
        made = seat.ask(action.operation, *request.path, **request.fields)
    except BillingError as refusal:
        return _asked(action, visit, refusal.message or refusal.code, refusal.status)
    folder = f"/{_PAGES[action.of][0]}"
    if action.outcome == Outcome.GONE:
        return visit.to(folder)
    return visit.to(f"{folder}/{made['svc_id'] if action.outcome == Outcome.ANOTHER else id}")


PAGES = tuple(
    Page(f"/{_PAGES[action.of][0]}/{{id}}/{action.path}", partial(act, action), method)
    for action in ACTIONS
    for act, method in ((_asked, "GET"), (_done, "POST"))
)
