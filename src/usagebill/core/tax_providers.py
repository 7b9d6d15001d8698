"""Tax providers: external services that calculate taxes; the requests to them, and the effects of their answers.

A provider returns, for each fee, its tax in cents and the breakdown: lines with a rate each. The rates are stored and
applied to the fee here, so that the taxes of an invoice add up like all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import INTEGRATION_CATEGORIES, Address, Customer, IntegrationCategory
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import ISSUED
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ONE, ZERO, divide, multiply, round_cents, round_to, total, truncate_cents
from usagebill.core.taxes import TaxTerms, net_of_coupons, taxable, with_terms

# The kinds of provider, by their names in `integration_type`.
KINDS = tuple(kind for kind, category in INTEGRATION_CATEGORIES.items() if category is IntegrationCategory.TAX)

_BASE_RATE_DECIMALS = 30
# Anrok accepts dates of documents up to this far in the future.
_LATEST_DATE = timedelta(days=30)
# A request is retried this often before it fails.
_ATTEMPTS = 6
_ATTEMPTS_THROTTLED = 25
# A name and a password in an address would be shown wherever the address is.
_URL = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")
# Characters allowed in a header.
_API_KEY = re.compile(r"[!-~]+( +[!-~]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxConnection:
    """An account with a tax provider, to which customers are linked by `kind` and `code`.

    Its API is at `url`, with `api_key`. `item_codes` are the provider's codes: the code of a billable metric, add-on or
    plan -> its code there; items that are not listed use their own code.
    """

    id: str
    organization_id: str
    kind: str
    code: str
    name: str
    url: str
    created_at: datetime
    updated_at: datetime
    api_key: str | None = field(default=None, repr=False)
    item_codes: Mapping[str, str] = field(default_factory=dict)
    deleted_at: datetime | None = None


class AddressedConnection(Protocol):
    """A connection to a system that documents are posted to."""

    @property
    def kind(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def api_key(self) -> str | None: ...


def connection_errors(connection: AddressedConnection, kinds: Collection[str] = KINDS) -> dict[str, list[str]]:
    """Errors in the fields of a connection, as field -> codes; empty if there are none."""
    errors: dict[str, list[str]] = {}
    if connection.kind not in kinds:
        errors["kind"] = ["value_is_invalid"]
    if not connection.code:
        errors["code"] = ["value_is_mandatory"]
    if not connection.name:
        errors["name"] = ["value_is_mandatory"]
    if not _URL.fullmatch(connection.url or ""):
        errors["url"] = ["url_is_invalid"]
    if connection.api_key is not None and not _API_KEY.fullmatch(connection.api_key):
        errors["api_key"] = ["value_is_invalid"]
    return errors


# Requests


class Purpose(StrEnum):
    """The kinds of requests to a provider."""

    DRAFT = "draft"  # the taxes of a document that is not issued yet
    FINALIZED = "finalized"  # the taxes of an invoice that is issued with them
    CREDIT_NOTE = "credit_note"  # an invoice is partly taken back
    VOID = "void"  # an invoice is cancelled
    NEGATE = "negate"  # an invoice frozen for filing is cancelled
    RETURN = "return"  # a locked invoice is cancelled


# Requests that are answered with taxes; the others report documents issued with them.
CALCULATIONS = (Purpose.DRAFT, Purpose.FINALIZED)


class TaxSubject(StrEnum):
    """The subject of a request."""

    INVOICE = "invoice"
    FEE = "fee"  # a fee without an invoice
    VOID = "void"  # a voided invoice
    CREDIT_NOTE = "credit_note"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxedParty:
    """The taxed party. `provider_id` is the provider's id of the customer."""

    external_id: str
    provider_id: str
    name: str
    tax_identification_number: str | None
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxedItem:
    """A fee in the provider's terms: whole cents after coupons, negative if they are taken back."""

    id: str
    code: str
    fee_type: FeeType
    name: str
    units: Decimal
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxQuestion:
    """A provider-neutral request about a document.

    `document_id` is null for one that does not exist: a preview, an estimate, current usage. A changed document needs a
    new request, with another `request_id`; a repeated request keeps its own.
    """

    purpose: Purpose
    document_id: str | None
    number: str | None
    issuing_date: date
    currency: str
    party: TaxedParty
    items: tuple[TaxedItem, ...]
    request_id: str | None = None


def address_of(customer: Customer) -> Address:
    """The address where the customer is taxed: the shipping address, field by field, else the billing address."""
    shipping = customer.shipping_address
    return Address(
        address_line1=shipping.address_line1 or customer.address_line1,
        address_line2=shipping.address_line2 or customer.address_line2,
        city=shipping.city or customer.city,
        state=shipping.state or customer.state,
        zipcode=shipping.zipcode or customer.zipcode,
        country=shipping.country or customer.country,
    )


def fee_items(
    fees: Iterable[Fee], item_codes: Mapping[str, str], *, named_by: Callable[[Fee], str]
) -> tuple[TaxedItem, ...]:
    """The fees as items of a request; `named_by` returns the id of each."""
    return tuple(_item(fee, item_codes, named_by(fee), truncate_cents(net_of_coupons(fee))) for fee in fees)


def _item(fee: Fee, item_codes: Mapping[str, str], id: str, cents: int) -> TaxedItem:
    return TaxedItem(
        id=id,
        code=item_codes.get(fee.item.code, fee.item.code),
        fee_type=fee.fee_type,
        name=fee.item.invoice_display_name or fee.item.name,
        units=fee.units,
        amount_cents=cents,
    )


def withdrawn(items: Iterable[TaxedItem]) -> tuple[TaxedItem, ...]:
    """The items with negated amounts, which withdraw what a voided invoice reported."""
    return tuple(replace(item, amount_cents=-item.amount_cents) for item in items)


def credit_note_items(
    note: CreditNote, fees: Mapping[str, Fee], item_codes: Mapping[str, str]
) -> tuple[TaxedItem, ...]:
    """The amounts that a note credits on each fee, after coupons, as negative cents. `fees` are by id."""
    items = []
    for item in note.items:
        fee = fees[item.fee_id]
        if fee.amount_cents == 0:
            continue
        part = multiply(divide(Decimal(item.amount_cents), Decimal(fee.amount_cents)), net_of_coupons(fee))
        items.append(_item(fee, item_codes, fee.id, -round_cents(part)))
    return tuple(items)


def issuing_date_told(kind: str, issuing_date: date, today: date) -> date:
    """The date sent to a provider of this kind: anrok accepts dates up to 30 days ahead."""
    return min(issuing_date, today + _LATEST_DATE) if kind == "anrok" else issuing_date


# Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownLine:
    """One tax on an item: `rate` as a fraction (0.2 is 20 %), null if the provider returns none, as is its amount."""

    name: str
    rate: Decimal | None
    amount_cents: int | None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTaxes:
    """The taxes on an item of `requested_cents`, with their breakdown."""

    item_id: str
    requested_cents: int
    amount_cents: int
    lines: tuple[BreakdownLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTaxes:
    """The taxes of all items of a request. `customer_id` is the provider's own id of the customer, if it returns
    one.
    """

    items: tuple[ItemTaxes, ...]
    customer_id: str | None = None

    def answers(self, question: TaxQuestion) -> bool:
        """Whether these are the taxes of exactly the items of the request, each once."""
        return sorted(item.item_id for item in self.items) == sorted(item.id for item in question.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The provider has accepted the report."""


class FailureKind(StrEnum):
    """Why there is no answer; it decides whether to retry."""

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFailure:
    """No answer: the provider's code and message."""

    code: str
    message: str
    kind: FailureKind = FailureKind.REFUSED


def retry_delay(failure: ProviderFailure, attempts: int) -> timedelta | None:
    """How long to wait before the next try after `attempts` attempts; None if it has failed.

    A refusal is final. An unreachable provider is tried 6 times in total, a throttling one 25 times; the first wait is
    15 seconds, each further one twice as long, at most 15 minutes.
    """
    most = {FailureKind.REFUSED: 1, FailureKind.UNREACHABLE: _ATTEMPTS, FailureKind.THROTTLED: _ATTEMPTS_THROTTLED}
    if attempts >= most[failure.kind]:
        return None
    return timedelta(seconds=min(900, 15 * 2 ** (attempts - 1)))


# Types of lines that give a reason for no tax.
_REASONS = ("exempt", "notCollecting", "productNotTaxed", "jurisNotTaxed", "jurisHasNoTax")
_UNKNOWN = "unknown_taxation"


def provider_taxed(fee: Fee, taxes: ItemTaxes, now: datetime, new_id: Callable[[], str]) -> Fee:
    """The fee with the provider's taxes.

    If the first line that is a tax comes to less than its rate of the whole fee, only that part of the fee is taxed.
    Lines with the same code are merged. Lines without a rate, or that give a reason for no tax, become lines of 0 %
    with that name; so does a tax borne by the seller.
    """
    return with_terms(fee, _terms(taxes), now, new_id, base_rate=_base_rate(net_of_coupons(fee), taxes))


def _base_rate(net: Decimal, taxes: ItemTaxes) -> Decimal:
    first = next((line for line in taxes.lines if line.type not in _REASONS and line.rate is not None), None)
    if first is None or first.rate is None or first.amount_cents is None:
        return ONE
    # Usage may have grown since the request: the share is of the requested amount.
    requested = net if truncate_cents(net) == taxes.requested_cents else Decimal(taxes.requested_cents)
    expected = multiply(requested, first.rate)
    if expected == ZERO:
        return ONE
    part = divide(Decimal(first.amount_cents), expected)
    return round_to(part, _BASE_RATE_DECIMALS) if ZERO <= part < ONE else ONE


def _terms(taxes: ItemTaxes) -> list[TaxTerms]:
    terms_by_code: dict[str, TaxTerms] = {}
    for line in taxes.lines:
        terms = _line_terms(line, borne_by_seller=taxes.amount_cents == 0 and line.amount_cents != 0)
        merged = terms_by_code.get(terms.code)
        terms_by_code[terms.code] = terms if merged is None else replace(merged, rate=total((merged.rate, terms.rate)))
    return list(terms_by_code.values())


def _line_terms(line: BreakdownLine, *, borne_by_seller: bool) -> TaxTerms:
    name, rate = line.name, line.rate
    if line.type in _REASONS or rate is None:
        name, rate = _humanised(line.type or _UNKNOWN), ZERO
    elif borne_by_seller:
        name, rate = "Tax", ZERO
    return TaxTerms(tax_id=None, name=name, code=_code(name), rate=multiply(rate, Decimal(100)), description=line.type)


def _humanised(reason: str) -> str:
    """`notCollecting` as "Not collecting"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", reason).replace("_", " ").lower().split()
    return " ".join(words).capitalize()


def _code(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def items_taxes_cents(amounts: Mapping[str, Decimal], taxes: ProviderTaxes) -> int:
    """The taxes on amounts (item id -> cents) not invoiced yet, rounded once over all of them."""
    parts = []
    for item in taxes.items:
        net = amounts[item.item_id]
        base = taxable(net, _base_rate(net, item))
        parts += [divide(multiply(base, terms.rate), Decimal(100)) for terms in _terms(item)]
    return round_cents(total(parts))


# Providers' answers about documents that can no longer be cancelled, and the request to send instead.
_WITHDRAWALS = {"transactionFrozenForFiling": Purpose.NEGATE, "CannotModifyLockedTransaction": Purpose.RETURN}


def withdrawal_after(purpose: Purpose, failure: ProviderFailure) -> Purpose | None:
    """The way to withdraw an invoice that could not be cancelled: frozen ones are negated, locked ones returned."""
    return _WITHDRAWALS.get(failure.code) if purpose is Purpose.VOID else None


def number_told(invoice: Invoice) -> str | None:
    """The number of the invoice, null while it is not numbered."""
    return invoice.number if invoice.status in ISSUED else None
