"""The customer portal: plain pages, in the customer's language, behind a signed link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from urllib.parse import quote

import jinja2
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from usagebill.billing import Billing
from usagebill.core.days import local_date
from usagebill.core.documents.locales import credits_text, date_text, language_of, money_text
from usagebill.core.documents.words import words_of
from usagebill.core.documents.words.portal import PortalWords, portal_words_of
from usagebill.core.errors import BillingError, DatabaseFailed, DeadlinePassed, NotFound, Unauthorized
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization
from usagebill.core.statuses import PaymentStatus
from usagebill.core.wallets import Wallet
from usagebill.http.errors import error_headers
from usagebill.operations.portal import Portal, invoice_pdf, opened, payment_page, portal
from usagebill.process.logs import Log
from usagebill.storage import deadline

# No scripts, no outside content (the logo is inlined), and no trace of the link in other sites' logs.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex",
}
_EXPIRED = "This link is not valid, or has expired. Please ask for a new one."
_UNPAYABLE = "The payment page cannot be opened now. Please try again later."
_Act = Callable[[Request], Response]
_log = Log("usagebill.portal")


def routes(billing: Billing, readers: CapacityLimiter, writers: CapacityLimiter) -> Sequence[Route]:
    """The routes of the portal. Every one carries the token of the link in its path."""

    def visitor(request: Request) -> tuple[Organization, str]:
        token = request.path_params["token"]
        return billing.store.read(None, lambda tx: opened(tx, token, billing.clock.now()))

    def shown(request: Request, problem: str | None = None) -> Response:
        organization, customer_id = visitor(request)
        page = _page_number(request.query_params.get("page", ""))
        content = billing.reading(lambda reader: portal(reader, customer_id, page), organization)
        base = f"{request.scope.get('root_path', '')}/customer-portal/{quote(request.path_params['token'], safe='')}"
        text = _template().render(_context(content, base, problem))
        return HTMLResponse(text, 200 if problem is None else 422, headers=_HEADERS)

    def downloaded(request: Request) -> Response:
        organization, customer_id = visitor(request)
        invoice_id = request.path_params["invoice_id"]
        invoice, content = billing.writing(lambda work: invoice_pdf(work, customer_id, invoice_id), organization)
        name = quote(f"{invoice.number}.pdf", safe="")
        disposition = {"content-disposition": f"inline; filename*=UTF-8''{name}"}
        return Response(content, media_type="application/pdf", headers={**_HEADERS, **disposition})

    def paid(request: Request) -> Response:
        organization, customer_id = visitor(request)
        invoice_id = request.path_params["invoice_id"]
        try:
            page = billing.writing(lambda work: payment_page(work, customer_id, invoice_id), organization)
        except NotFound:
            raise
        except BillingError as problem:
            _log.warning("payment_page_refused", invoice_id=invoice_id, code=problem.code)
            return shown(request, _UNPAYABLE)
        return RedirectResponse(page.url, 303, headers=_HEADERS)

    def in_time(act: _Act, request: Request) -> Response:
        with deadline.within(billing.settings.request_timeout):
            return act(request)

    def served(act: _Act, limiter: CapacityLimiter) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            try:
                return await to_thread.run_sync(in_time, act, request, limiter=limiter)
            except Unauthorized:
                return PlainTextResponse(_EXPIRED, 401, headers=_HEADERS)
            except NotFound:
                return PlainTextResponse("Not Found", 404, headers=_HEADERS)
            except (DeadlinePassed, DatabaseFailed) as problem:
                headers = {**_HEADERS, **error_headers(problem)}
                return PlainTextResponse("Service Unavailable", problem.status, headers=headers)

        return handler

    page = "/customer-portal/{token}"
    return [
        Route(page, served(shown, readers)),
        Route(page + "/invoices/{invoice_id}/pdf", served(downloaded, writers)),
        Route(page + "/invoices/{invoice_id}/pay", served(paid, writers), methods=["POST"]),
    ]


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(resources.files("usagebill.http").joinpath("portal.html").read_text("utf-8"))


def _page_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= len("100000") and int(text) else 1


def _context(content: Portal, base: str, problem: str | None) -> Mapping[str, object]:
    words, locale, invoices = portal_words_of(content.locale), content.locale, content.invoices
    last = -(-invoices.total_count // invoices.per_page)
    return {
        "locale": language_of(locale),
        "words": words,
        "document": words_of(locale),
        "entity": content.entity.legal_name or content.entity.name,
        "logo": content.entity.logo_url,
        "customer": content.customer.legal_name or content.customer.name or content.customer.external_id,
        "problem": problem,
        "due": [money_text(cents, currency, locale) for currency, cents in content.due.items()],
        "wallets": [_wallet(wallet, content, words) for wallet in content.wallets],
        "invoices": [_invoice(invoice, content, words, base) for invoice in invoices.items],
        "newer": f"{base}?page={min(invoices.page - 1, last)}" if invoices.page > 1 and last else None,
        "older": f"{base}?page={invoices.page + 1}" if invoices.page < last else None,
    }


def _invoice(invoice: Invoice, content: Portal, words: PortalWords, base: str) -> Mapping[str, object]:
    is_final = invoice.status == InvoiceStatus.FINALIZED
    is_paid = invoice.payment_status == PaymentStatus.SUCCEEDED
    is_payable = content.has_payment_pages and is_final and not is_paid and invoice.due_cents > 0
    is_overdue = is_final and not is_paid and invoice.payment_overdue
    if not is_final:
        status = words.voided
    elif is_paid:
        status = words.paid
    else:
        status = words.overdue if is_overdue else words.unpaid
    address = f"{base}/invoices/{quote(invoice.id, safe='')}"
    return {
        "number": invoice.number,
        "date": date_text(invoice.issuing_date, content.locale),
        "total": money_text(invoice.total_amount_cents, invoice.currency, content.locale),
        "status": status,
        "is_overdue": is_overdue,
        "pdf": f"{address}/pdf" if is_final else None,
        "pay": f"{address}/pay" if is_payable else None,
    }


def _wallet(wallet: Wallet, content: Portal, words: PortalWords) -> Mapping[str, object]:
    expires = None
    if wallet.expiration_at is not None:
        day = local_date(wallet.expiration_at, content.zone)
        expires = words.expires.format(date=date_text(day, content.locale))
    return {
        "name": wallet.name or wallet.code,
        "credits": credits_text(wallet.credits_balance, "", content.locale).strip(),
        "balance": money_text(wallet.balance_cents, wallet.currency, content.locale),
        "ongoing": money_text(wallet.ongoing_balance_cents, wallet.currency, content.locale),
        "expires": expires,
    }
