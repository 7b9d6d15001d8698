"""Views of operations' results that are not records."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.payments import PaymentPage
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.core.webhooks import public_key_text
from usagebill.operations.api_keys import IssuedKey
from usagebill.operations.estimates import InstantFee
from usagebill.operations.payment_pages import SetupPage
from usagebill.operations.progressive_billing import LifetimeUsageNow
from usagebill.operations.users import SignInLink
from usagebill.operations.wallet_transactions import TopUpPage
from usagebill.operations.webhook_endpoints import RotatedSecret
from usagebill.operations.webhooks import RotatedKey
from usagebill.queries.customers import customer_of
from usagebill.runtime.work import Reader
from usagebill.views.api_keys import ApiKeyView, api_key_view
from usagebill.views.estimates import InstantFeeView, instant_fee_view
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.lifetime_usage import LifetimeUsageView, lifetime_usage_object
from usagebill.views.payment_providers import CheckoutUrlView, checkout_url_view
from usagebill.views.plans import ChargeFilterView, filter_view
from usagebill.views.users import UserView, user_view
from usagebill.views.webhooks import RotatedKeyView, RotatedSecretView, webhook_endpoint_view


class PaymentDetailsView(TypedDict):
    svc_customer_id: Id
    external_customer_id: str
    payment_provider: str
    svc_invoice_id: Id
    payment_url: str


class TopUpPaymentView(TypedDict):
    svc_customer_id: Id
    external_customer_id: str
    payment_provider: str
    svc_wallet_transaction_id: Id
    payment_url: str


def shown_filter(_: Reader, charge_and_filter: tuple[Charge, ChargeFilter]) -> ChargeFilterView:
    """A filter as its own endpoints show it."""
    return filter_view(*charge_and_filter)


def lifetime_usage_view(_: Reader, usage: LifetimeUsageNow) -> LifetimeUsageView:
    """The usage of a subscription over its whole lifetime."""
    return lifetime_usage_object(
        usage.record,
        usage.subscription,
        invoiced_cents=usage.invoiced_cents,
        current_cents=usage.current_cents,
        at=usage.at,
        completions=usage.completions,
    )


def issued_key_view(reader: Reader, issued: IssuedKey) -> ApiKeyView:
    """A key with its value, which is shown only now."""
    return {**api_key_view(reader, issued.key), "value": issued.value}


class SignInLinkView(TypedDict):
    user: UserView
    url: str
    expires_at: Instant


def sign_in_link_view(reader: Reader, link: SignInLink) -> SignInLinkView:
    """A link that signs a user in, which is shown only now."""
    return {"user": user_view(reader, link.user), "url": link.url, "expires_at": instant_text(link.expires_at)}


def rotated_key_view(_: Reader, rotated: RotatedKey) -> RotatedKeyView:
    """The public key of the newest key pair, and when the one before stops signing."""
    shown: RotatedKeyView = {"public_key": public_key_text(rotated.key.public_key)}
    if rotated.old_key_expires_at is not None:
        shown["old_key_expires_at"] = instant_text(rotated.old_key_expires_at)
    return shown


def rotated_secret_view(reader: Reader, rotated: RotatedSecret) -> RotatedSecretView:
    """An endpoint with its new secret, which is shown only now."""
    return {**webhook_endpoint_view(reader, rotated.endpoint), "secret": rotated.secret}


def setup_page_view(_: Reader, page: SetupPage) -> CheckoutUrlView:
    """The page on which a customer saves a payment method."""
    return checkout_url_view(page.customer, page.connection, page.url)


def payment_page_view(reader: Reader, page: PaymentPage) -> PaymentDetailsView:
    """The page on which an invoice is paid."""
    customer = customer_of(reader, page)
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "payment_provider": customer.payment_provider or "",
        "svc_invoice_id": page.invoice_id or "",
        "payment_url": page.url,
    }


def top_up_page_view(reader: Reader, shown: TopUpPage) -> TopUpPaymentView:
    """The page on which a top-up is paid."""
    customer = customer_of(reader, shown.page)
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "payment_provider": customer.payment_provider or "",
        "svc_wallet_transaction_id": shown.transaction.id,
        "payment_url": shown.page.url,
    }


def instant_fee_details(reader: Reader, fee: InstantFee) -> InstantFeeView:
    """The price of one event, regardless of other usage."""
    return instant_fee_view(
        reader,
        fee.subscription,
        fee.charge,
        fee.metric,
        fee.estimate,
        currency=fee.definition.plan.amount_currency,
        transaction_id=fee.transaction_id,
        charge_filter=fee.part.filter,
        filter_name=fee.part.display_name,
    )
