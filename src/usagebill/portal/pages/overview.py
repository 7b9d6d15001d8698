"""The overview: what is due, what was used so far, prepaid credits, and invoices."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.responses import Response

from usagebill.core.customers import Customer
from usagebill.core.days import local_date
from usagebill.core.documents.locales import credits_text, date_text, money_text
from usagebill.core.documents.words.portal import PortalWords, portal_words_of
from usagebill.core.errors import BillingError, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import round_cents
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallets import Wallet
from usagebill.operations.portal import Account, Place, account, payment_page, running_subscriptions
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.process.logs import Log
from usagebill.queries.holds import held_of_wallet
from usagebill.queries.plans import plan_definition
from usagebill.rating.current_usage import UsageOptions, current
from usagebill.runtime.work import Reader

# Subscriptions whose usage is counted for one look.
_MOST_COUNTED = 10
_log = Log("usagebill.portal")


def _shown(visit: Visit, problem: bool = False) -> Response:
    number = _page_number(visit.request.query_params.get("page", ""))

    def read(reader: Reader, place: Place) -> tuple[Account, list[Mapping[str, object]], list[int]]:
        found = account(reader, place.customer, number)
        held = [round_cents(held_of_wallet(reader, wallet)) for wallet in found.wallets]
        return found, _usages(reader, place.customer, place), held

    place, (found, usages, held) = visit.reading(read)
    words, locale, invoices = portal_words_of(place.locale), place.locale, found.invoices
    last = -(-invoices.total_count // invoices.per_page)
    return visit.page(
        "overview.html",
        place,
        422 if problem else 200,
        problem=problem,
        ordered="ordered" in visit.request.query_params,
        due=[money_text(cents, currency, locale) for currency, cents in found.due.items()],
        usages=usages,
        wallets=[_wallet(*pair, place, words) for pair in zip(found.wallets, held, strict=True)],
        invoices=[_invoice(invoice, found, place, words) for invoice in invoices.items],
        newer=f"?page={min(invoices.page - 1, last)}" if invoices.page > 1 and last else None,
        older=f"?page={invoices.page + 1}" if invoices.page < last else None,
    )


def _page_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= len("100000") and int(text) else 1


def _usages(reader: Reader, customer: Customer, place: Place) -> list[Mapping[str, object]]:
    words, locale = portal_words_of(place.locale), place.locale
    rows: list[Mapping[str, object]] = []
    for subscription in running_subscriptions(reader, customer)[:_MOST_COUNTED]:
        options = UsageOptions(external_subscription_id=subscription.external_id)
        used = current(reader, customer.external_id, options)
        with_taxes = money_text(used.amount_cents + used.taxes_amount_cents, used.currency, locale)
        first, last = (date_text(local_date(at, place.zone), locale) for at in (used.start, used.end))
        plan = plan_definition(reader, subscription.plan_id).plan
        rows.append(
            {
                "id": subscription.external_id,
                "name": subscription.name or plan.invoice_display_name or plan.name,
                "amount": money_text(used.amount_cents, used.currency, locale),
                "with_taxes": words.with_taxes.format(amount=with_taxes) if used.taxes_amount_cents else "",
                "period": f"{first} – {last}",
            }
        )
    return rows


def _invoice(invoice: Invoice, found: Account, place: Place, words: PortalWords) -> Mapping[str, object]:
    is_final = invoice.status == InvoiceStatus.FINALIZED
    is_paid = invoice.payment_status == PaymentStatus.SUCCEEDED
    is_overdue = is_final and not is_paid and invoice.payment_overdue
    if not is_final:
        status = words.voided
    elif is_paid:
        status = words.paid
    else:
        status = words.overdue if is_overdue else words.unpaid
    address = f"/invoices/{quote(invoice.id, safe='')}"
    return {
        "number": invoice.number,
        "date": date_text(invoice.issuing_date, place.locale),
        "total": money_text(invoice.total_amount_cents, invoice.currency, place.locale),
        "status": status,
        "is_overdue": is_overdue,
        "address": address if is_final else None,
        "is_payable": found.has_payment_pages and is_final and not is_paid and invoice.due_cents > 0,
    }


def _wallet(wallet: Wallet, held_cents: int, place: Place, words: PortalWords) -> Mapping[str, object]:
    expires = None
    if wallet.expiration_at is not None:
        day = local_date(wallet.expiration_at, place.zone)
        expires = words.expires.format(date=date_text(day, place.locale))
    return {
        "id": wallet.id,
        "name": wallet.name or wallet.code,
        "credits": credits_text(wallet.credits_balance, "", place.locale).strip(),
        "balance": money_text(wallet.balance_cents, wallet.currency, place.locale),
        "ongoing": money_text(wallet.ongoing_balance_cents, wallet.currency, place.locale),
        "held": money_text(held_cents, wallet.currency, place.locale) if held_cents else "",
        "expires": expires,
    }


def _paid(visit: Visit) -> Response:
    invoice_id = visit.named("invoice_id")
    try:
        page = visit.writing(lambda work: payment_page(work, visit.customer_id, invoice_id))
    except NotFound:
        raise
    except BillingError as problem:
        _log.warning("payment_page_refused", invoice_id=invoice_id, code=problem.code)
        return _shown(visit, problem=True)
    return visit.away(page.url)


PAGES = (
    Page("", _shown),
    Page("/invoices/{invoice_id}/pay", _paid, "POST", writes=True),
)
