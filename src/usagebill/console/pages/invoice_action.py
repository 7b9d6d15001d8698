"""What can be done with an invoice: each action shows its effect before it is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.statuses import PaymentStatus

_Invoice = Mapping[str, Any]


def _is_draft(invoice: _Invoice) -> bool:
    return bool(invoice["status"] == InvoiceStatus.DRAFT)


def _is_issued(invoice: _Invoice) -> bool:
    return bool(invoice["status"] == InvoiceStatus.FINALIZED)


def _is_due(invoice: _Invoice) -> bool:
    unpaid = invoice["payment_status"] != PaymentStatus.SUCCEEDED
    return _is_issued(invoice) and unpaid and invoice["total_due_amount_cents"] > 0


def _is_charged(invoice: _Invoice) -> bool:
    provider = (invoice["customer"] or {}).get("billing_configuration", {}).get("payment_provider")
    return _is_due(invoice) and provider is not None


@dataclass(frozen=True, slots=True)
class Action:
    """An action on an invoice that is as `applies` says. `about` tells what else it does; `pays` takes a reference."""

    path: str
    title: str
    operation: str
    about: str
    applies: Callable[[_Invoice], bool]
    pays: bool = False
    is_final: bool = False

    def run(self, call: Callable[..., Any], id: str, form: Mapping[str, str], **more: object) -> Any:
        """Call the operation with what the form says."""
        if not self.pays:
            return call(self.operation, id, **more)
        amount = form.get("amount_cents", "")
        given = {"reference": form.get("reference", "").strip() or "console"}
        cents = int(amount) if amount.isdecimal() and len(amount) < 19 else 0
        return call(self.operation, invoice_id=id, amount_cents=cents, **given, **more)


ACTIONS: Sequence[Action] = (
    Action(
        "finalize",
        "Finalize",
        "invoices.finalize",
        "The invoice gets its number and is sent and collected as if its grace period had ended.",
        _is_draft,
    ),
    Action(
        "pay",
        "Record payment",
        "payments.create",
        "You have received the whole amount due by other means, such as a bank transfer.",
        _is_due,
        pays=True,
    ),
    Action(
        "retry-payment",
        "Retry payment",
        "invoices.retry_payment",
        "The customer's payment provider is asked to charge the amount due again.",
        _is_charged,
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


def _asked(action: Action, visit: Visit, problem: str = "", status: int = 200) -> Response:
    seat, id = visit.seat, visit.named("id")
    invoice = seat.ask("invoices.get", id)
    if not seat.may(action.operation):
        raise Forbidden(f"write_action_not_allowed_for_{action.operation}")
    form = {"amount_cents": str(invoice["total_due_amount_cents"]), **visit.form}
    after = None
    if not action.applies(invoice):
        problem = problem or "That is not possible for this invoice now."
    elif not problem:
        try:
            after = action.run(seat.tried, id, form, then=("invoices.get", id))
        except NotFound:
            raise
        except BillingError as refusal:
            problem = refusal.message or refusal.code
    return visit.page(
        "invoice_action.html", status, action=action, invoice=invoice, after=after, problem=problem, form=form
    )


def _done(action: Action, visit: Visit) -> Response:
    id = visit.named("id")
    try:
        action.run(visit.seat.ask, id, visit.form)
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
