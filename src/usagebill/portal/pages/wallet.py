"""Credits of a wallet: their price, and their purchase."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import quote

from starlette.responses import Response

from usagebill.core.documents.locales import credits_text, money_text
from usagebill.core.documents.words.portal import portal_words_of
from usagebill.core.errors import BillingError, Invalid, NotFound
from usagebill.core.wallets import Wallet
from usagebill.operations.portal import Place
from usagebill.operations.self_service import Purchase, buy_credits, purchase_of, purchase_page
from usagebill.portal.pages.page import Page
from usagebill.portal.visit import Visit
from usagebill.process.logs import Log
from usagebill.queries.payment_providers import has_payment_pages

_log = Log("usagebill.portal")


def _shown(visit: Visit) -> Response:
    return _page(visit, visit.request.query_params.get("credits", ""))


def _page(visit: Visit, sent: str, *, is_refused: bool = False) -> Response:
    wallet_id = visit.named("id")
    place, purchase = visit.reading(lambda reader, place: purchase_of(reader, place.customer, wallet_id, sent))
    refused = is_refused or (bool(sent) and purchase.problem is not None)
    return visit.page(
        "wallet.html",
        place,
        422 if refused else 200,
        address=f"/wallets/{quote(wallet_id, safe='')}",
        sent=sent,
        problem=refused,
        order_key=secrets.token_urlsafe(16),
        price=_price(purchase, place) if sent and not refused else None,
        limits=_limits(purchase.wallet, place),
        **_balance(purchase.wallet, place),
    )


def _balance(wallet: Wallet, place: Place) -> Mapping[str, str]:
    return {
        "name": wallet.name or wallet.code,
        "credits": credits_text(wallet.credits_balance, "", place.locale).strip(),
        "balance": money_text(wallet.balance_cents, wallet.currency, place.locale),
    }


def _price(purchase: Purchase, place: Place) -> Mapping[str, str]:
    words, amount = portal_words_of(place.locale), money_text(purchase.cents, purchase.wallet.currency, place.locale)
    credits = credits_text(purchase.credits, "", place.locale).strip()
    return {
        "text": words.they_cost.format(credits=credits, amount=amount),
        "button": words.buy_for.format(amount=amount),
    }


def _limits(wallet: Wallet, place: Place) -> str:
    words = portal_words_of(place.locale)
    limits = (
        (words.at_least, wallet.paid_top_up_min_amount_cents),
        (words.at_most, wallet.paid_top_up_max_amount_cents),
    )
    return " · ".join(
        text.format(amount=money_text(cents, wallet.currency, place.locale))
        for text, cents in limits
        if cents is not None
    )


def _bought(visit: Visit) -> Response:
    place, _ = visit.reading(lambda reader, place: None)
    customer, wallet_id, sent = place.customer, visit.named("id"), visit.form.get("credits", "")
    key = visit.form.get("order", "")
    try:
        bought = visit.writing(lambda work: buy_credits(work, customer, wallet_id, sent, order_key=key))
    except Invalid as problem:
        _log.warning("purchase_refused", wallet_id=wallet_id, code=problem.code)
        return _page(visit, sent, is_refused=True)
    if has_payment_pages(customer):
        try:
            return visit.away(visit.writing(lambda work: purchase_page(work, customer, bought)).url)
        except NotFound:
            raise
        except BillingError as problem:
            # It is ordered: what a stored method does not pay is paid later, from the overview.
            _log.warning("payment_page_refused", wallet_transaction_id=bought, code=problem.code)
    return visit.to("?ordered")


PAGES = (
    Page("/wallets/{id}", _shown),
    Page("/wallets/{id}", _bought, "POST", writes=True),
)
