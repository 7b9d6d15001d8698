"""Payment providers: their kinds and abilities, connections to them, and amounts in their own units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from usagebill.core.currencies import CURRENCIES, cents_from_major, major_from_cents
from usagebill.core.numbers import is_bounded, parse_decimal, truncate_cents
from usagebill.core.secrets import Secret
from usagebill.core.statuses import ChargeStatus

_LONGEST_REDIRECT = 1024
_LONGEST_FLOW = 20
_URL = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")
# Apps have URL schemes of their own.
_ANY_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+([/?#]\S*)?")
# Characters allowed in a header.
_CREDENTIAL = re.compile(r"[!-~]+( +[!-~]+)*")
_HEX = re.compile(r"([0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKind:
    """The abilities of a kind of provider, and the fields of a connection to it. `title` is its name for people.

    `required` and `optional` name the credentials; `settings` the other fields of a connection. `notices_need` is the
    credential that notices are verified with; `fetches` says that `Connect` can fetch it. `statuses` maps the
    provider's own charge states to ours. `debits`: its charges are debits of bank accounts, which take days. `lists`:
    it has a list of all charges, to compare with. `decimals` are its exceptions from ISO 4217, for amounts in minor
    units; `steps` are the numbers that such amounts must be multiples of; `currencies` the only ones it accepts, if
    known.
    """

    name: str
    title: str
    required: tuple[str, ...]
    redirect_url: str
    statuses: Mapping[str, ChargeStatus]
    optional: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    notices_need: str = "webhook_secret"
    fetches: bool = False
    creates_customers: bool = False
    sets_up: bool = False
    charges: bool = False
    pages: bool = True
    request_pages: bool = True
    refunds: bool = False
    cancels: bool = False
    authorizes: bool = False
    debits: bool = False
    lists: bool = False
    decimals: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    currencies: frozenset[str] | None = None


def _words(processing: str, succeeded: str, failed: str) -> dict[str, ChargeStatus]:
    return {
        **dict.fromkeys(processing.split(), ChargeStatus.PROCESSING),
        **dict.fromkeys(succeeded.split(), ChargeStatus.SUCCEEDED),
        **dict.fromkeys(failed.split(), ChargeStatus.FAILED),
    }


KINDS: Mapping[str, ProviderKind] = {
    kind.name: kind
    for kind in (
        ProviderKind(
            name="stripe",
            title="Stripe",
            required=("secret_key",),
            optional=("webhook_secret",),
            settings=("supports_3ds", "require_terms_of_service_consent"),
            fetches=True,
            redirect_url="https://stripe.com/",
            creates_customers=True,
            sets_up=True,
            charges=True,
            refunds=True,
            cancels=True,
            authorizes=True,
            lists=True,
            statuses=_words(
                "processing requires_capture requires_action requires_confirmation",
                "succeeded",
                "canceled requires_payment_method",
            ),
            # ISK and UGX for compatibility with the time when they had decimals; an ariary is not divided there.
            decimals={"ISK": 2, "UGX": 2, "MGA": 0},
            steps={"BHD": 10, "JOD": 10, "KWD": 10},
        ),
        ProviderKind(
            name="gocardless",
            title="GoCardless",
            required=("access_token",),
            optional=("webhook_secret",),
            redirect_url="https://gocardless.com/",
            creates_customers=True,
            sets_up=True,
            charges=True,
            pages=False,
            request_pages=False,
            refunds=True,
            cancels=True,
            debits=True,
            lists=True,
            statuses=_words(
                "pending_customer_approval pending_submission submitted confirmed",
                "paid_out",
                "cancelled customer_approval_denied failed charged_back",
            ),
            currencies=frozenset(("AUD", "CAD", "DKK", "EUR", "GBP", "NZD", "SEK", "USD")),
        ),
        ProviderKind(
            name="adyen",
            title="Adyen",
            required=("api_key", "merchant_account"),
            optional=("hmac_key",),
            notices_need="hmac_key",
            settings=("live_prefix",),
            redirect_url="https://www.adyen.com/",
            sets_up=True,
            charges=True,
            refunds=True,
            cancels=True,
            statuses=_words(
                "AuthorisedPending Received Pending",
                "Authorised SentForSettle SettleScheduled Settled Refunded",
                "Cancelled CaptureFailed Error Expired Refused RedirectShopper ChallengeShopper IdentifyShopper"
                " PresentToShopper AuthenticationFinished",
            ),
            decimals={"CLP": 2, "CVE": 0, "IDR": 0, "ISK": 2},
        ),
        ProviderKind(
            name="cashfree",
            title="Cashfree",
            required=("client_id", "client_secret"),
            # Set if the account signs its notices with a separate secret.
            optional=("webhook_secret",),
            notices_need="client_secret",
            redirect_url="https://cashfree.com/",
            statuses=_words("PARTIALLY_PAID", "PAID", "EXPIRED CANCELLED"),
        ),
        ProviderKind(
            name="flutterwave",
            title="Flutterwave",
            required=("secret_key",),
            optional=("webhook_secret",),
            redirect_url="https://www.flutterwave.com/ng",
            statuses=_words("pending", "successful", "failed cancelled"),
        ),
        ProviderKind(
            name="moneyhash",
            title="MoneyHash",
            required=("api_key", "flow_id"),
            optional=("signature_key",),
            notices_need="signature_key",
            fetches=True,
            redirect_url="",
            creates_customers=True,
            sets_up=True,
            charges=True,
            request_pages=False,
            # An intent that was closed or has expired fails whatever was pending on it.
            statuses=_words(
                "PENDING PENDING_AUTHENTICATION UNPROCESSED",
                "SUCCESSFUL PROCESSED",
                "FAILED CLOSED EXPIRED TIME_EXPIRED",
            ),
        ),
    )
}

# Credentials that grant no access, and may be shown.
_SHOWN_CREDENTIALS = ("merchant_account", "flow_id")
# Our own states, which some providers use too.
_OURS = {status.value: status for status in ChargeStatus}


def charge_status(kind: str, word: str) -> ChargeStatus | None:
    """Our state for a provider's own charge state; None if it is unknown."""
    return KINDS[kind].statuses.get(word) or _OURS.get(word)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentConnection:
    """An account with a payment provider, to which customers are linked by `kind` and `code`.

    Its API is at `url`, or if that is null, at the hosts of its kind: for tests or, if `live`, for real money.
    `credentials` are keyed by the names in `ProviderKind`, including those that we fetched. `webhook_id` is the
    provider's id of the webhook that we registered for notices; `connect_error` says why that failed.
    """

    id: str
    organization_id: str
    kind: str
    code: str
    name: str
    created_at: datetime
    updated_at: datetime
    url: str | None = None
    live: bool = False
    success_redirect_url: str | None = None
    supports_3ds: bool = False
    require_terms_of_service_consent: bool = False
    live_prefix: str | None = None
    webhook_id: str | None = None
    connect_error: str | None = None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    deleted_at: datetime | None = None

    def secret(self, name: str) -> Secret:
        """The credential of this name, empty if the connection has none."""
        return Secret(self.credentials.get(name, ""))

    @property
    def traits(self) -> ProviderKind:
        """The abilities of its kind of provider."""
        return KINDS[self.kind]

    @property
    def accepts_notices(self) -> bool:
        """Whether it has the credential that notices are verified with; without it each notice is refused."""
        return bool(self.credentials.get(self.traits.notices_need))

    def shown_credentials(self) -> dict[str, str]:
        """The credentials as they may be shown: of a secret, only its last four characters, and only if it is long
        enough.
        """
        return {name: self._shown(name, value) for name, value in sorted(self.credentials.items())}

    def _shown(self, name: str, value: str) -> str:
        if name in _SHOWN_CREDENTIALS:
            return value
        return f"…{value[-4:]}" if len(value) >= 16 else "…"


def redirect_url(connection: PaymentConnection) -> str:
    """The address that the customer is sent back to: the connection's, else the provider's own site."""
    return connection.success_redirect_url or connection.traits.redirect_url


def connection_errors(connection: PaymentConnection) -> dict[str, list[str]]:
    """Errors in the fields of a connection, as field -> codes; empty if there are none."""
    kind = KINDS.get(connection.kind)
    if kind is None:
        return {"kind": ["value_is_invalid"]}
    errors: dict[str, list[str]] = {}
    for name in kind.required:
        if not connection.credentials.get(name):
            errors[name] = ["value_is_mandatory"]
    for name, value in connection.credentials.items():
        if name not in (*kind.required, *kind.optional) or (value and not _CREDENTIAL.fullmatch(value)):
            errors[name] = ["value_is_invalid"]
    if len(connection.credentials.get("flow_id", "")) > _LONGEST_FLOW:
        errors["flow_id"] = ["value_is_too_long"]
    hmac_key = connection.credentials.get("hmac_key")
    if hmac_key and not _HEX.fullmatch(hmac_key):
        errors["hmac_key"] = ["value_is_invalid"]
    if not connection.code:
        errors["code"] = ["value_is_mandatory"]
    if not connection.name:
        errors["name"] = ["value_is_mandatory"]
    if connection.url is not None and not _URL.fullmatch(connection.url):
        errors["url"] = ["url_is_invalid"]
    if connection.success_redirect_url is not None and not _is_redirect(connection):
        errors["success_redirect_url"] = ["url_invalid"]
    return errors


def _is_redirect(connection: PaymentConnection) -> bool:
    url = connection.success_redirect_url or ""
    allowed = _ANY_URL if connection.kind == "adyen" else _URL
    return len(url) <= _LONGEST_REDIRECT and allowed.fullmatch(url) is not None


# Amounts


class UnsupportedAmount(ValueError):
    """The provider does not accept this currency, or this number of decimals in it; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def minor_units(kind: str, amount_cents: int, currency: str) -> int:
    """An amount in the minor units of this kind of provider. Raises `UnsupportedAmount`.

    They are those of ISO 4217, with exceptions for a few currencies: 500 ISK are 50000 at Stripe.
    """
    traits = KINDS[kind]
    _check_currency(traits, currency)
    shift = traits.decimals.get(currency, CURRENCIES[currency]) - CURRENCIES[currency]
    step = traits.steps.get(currency, 1) if shift >= 0 else 10**-shift
    if amount_cents % step:
        raise UnsupportedAmount("amount_not_representable", f"{kind} takes {currency} in steps of {step} cents")
    return int(amount_cents * 10**shift) if shift >= 0 else amount_cents // step


def from_minor_units(kind: str, amount: int, currency: str) -> int:
    """An amount in the minor units of this kind of provider, in cents of the currency. Raises `UnsupportedAmount`."""
    traits = KINDS[kind]
    _check_currency(traits, currency)
    shift = CURRENCIES[currency] - traits.decimals.get(currency, CURRENCIES[currency])
    if shift >= 0:
        return int(amount * 10**shift)
    whole, remainder = divmod(amount, 10**-shift)
    if remainder:
        raise UnsupportedAmount("amount_not_representable", f"{amount} minor units of {currency} at {kind}")
    return int(whole)


def major_units(kind: str, amount_cents: int, currency: str) -> Decimal:
    """An amount in major units, for kinds that use those: 10.5 for 1050 cents. Raises `UnsupportedAmount`."""
    _check_currency(KINDS[kind], currency)
    return major_from_cents(amount_cents, currency)


def from_major_units(kind: str, amount: object, currency: str) -> int:
    """An amount in major units, a number or a text, in cents of the currency. Raises `UnsupportedAmount`."""
    _check_currency(KINDS[kind], currency)
    number = parse_decimal(amount) if isinstance(amount, str) else amount
    if isinstance(number, int) and not isinstance(number, bool):
        number = Decimal(number)
    if isinstance(number, Decimal) and is_bounded(number):
        cents = cents_from_major(number, currency)
        if cents == truncate_cents(cents):
            return truncate_cents(cents)
    raise UnsupportedAmount("amount_not_representable", f"{amount} of {currency} at {kind}")


def _check_currency(traits: ProviderKind, currency: str) -> None:
    is_taken = traits.currencies is None or currency in traits.currencies
    # It is undocumented how units of account (CLF, with four decimals) are divided for charges.
    if not is_taken or CURRENCIES.get(currency, 4) > 3:
        raise UnsupportedAmount("currency_not_supported", f"{traits.name} does not take {currency}")
