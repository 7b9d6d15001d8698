"""Tax providers over the network: the client that requests taxes, and the jobs that use it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from urllib.parse import urlsplit

from usagebill.core.currencies import major_from_cents
from usagebill.core.jobs import Job
from usagebill.core.limits import INVOICE_PART
from usagebill.core.numbers import decimal_text, parse_decimal, round_to
from usagebill.core.organizations import Organization
from usagebill.core.tasks import AskTaxProvider
from usagebill.core.tax_providers import (
    CALCULATIONS,
    BreakdownLine,
    FailureKind,
    ItemTaxes,
    ProviderFailure,
    ProviderTaxes,
    Purpose,
    Reported,
    TaxConnection,
    TaxedItem,
    TaxQuestion,
)
from usagebill.operations.invoices import provider_taxes
from usagebill.outside.bounded_http import Asking
from usagebill.outside.job_host import (
    JobHost,
    TaxProvider as TaxProvider,
)
from usagebill.process.json_text import Json, JsonObject, encode_json, parse_json

_LARGEST_ANSWER = 16 * 1024 * 1024
# The path that a document is posted to, below the connection's address.
_PATHS: Mapping[Purpose, str] = {
    Purpose.DRAFT: "draft_invoices",
    Purpose.FINALIZED: "finalized_invoices",
    Purpose.CREDIT_NOTE: "credit_notes",
    Purpose.VOID: "void_invoices",
    Purpose.NEGATE: "negate_invoices",
    Purpose.RETURN: "return_invoices",
}
_UNREADABLE = "invalid_response"
# The lengths to which a provider's names, types and codes, and its messages, are cut; and the decimals of its rates.
_LONGEST_TEXT = 255
_LONGEST_MESSAGE = 1000
_RATE_DECIMALS = 30


class HttpTaxProvider:
    """A provider, or a bridge to one, that accepts each document as JSON at the connection's address.

    `docs/tax-providers.md` describes the requests and the expected answers. `timeout` is in seconds, for connecting,
    writing and each wait for a part of the answer.
    """

    def __init__(self, timeout: float) -> None:
        self._asking = Asking(timeout, _LARGEST_ANSWER)

    def close(self) -> None:
        self._asking.close()

    def ask(self, connection: TaxConnection, question: TaxQuestion) -> ProviderTaxes | Reported | ProviderFailure:
        """See `TaxProvider`. Raises nothing: any error on the way is a failure."""
        headers = {"content-type": "application/json"}
        if connection.api_key:
            headers["authorization"] = f"Bearer {connection.api_key}"
        if question.document_id is not None:
            parts = (question.purpose.value, question.document_id, question.request_id)
            headers["idempotency-key"] = ":".join(part for part in parts if part is not None)
        try:
            base = urlsplit(connection.url)
            url = base._replace(path=f"{base.path.rstrip('/')}/{_PATHS[question.purpose]}").geturl()
            status, body = self._asking.post(url, headers, encode_json(_document(connection, question)))
        except Exception as problem:
            return _unreachable(problem)
        return _answer(question, status, body)


def _unreachable(problem: Exception) -> ProviderFailure:
    text = f"{type(problem).__name__}: {problem}"
    return _failed("network_error", text, FailureKind.UNREACHABLE)


def _failed(code: str, message: str, kind: FailureKind = FailureKind.REFUSED) -> ProviderFailure:
    return ProviderFailure(code=code[:_LONGEST_TEXT], message=message[:_LONGEST_MESSAGE], kind=kind)


def _document(connection: TaxConnection, question: TaxQuestion) -> JsonObject:
    address, party = question.party.address, question.party
    return {
        "provider": connection.kind,
        "connection": connection.code,
        "document": {
            "id": question.document_id,
            "number": question.number,
            "issuing_date": question.issuing_date.isoformat(),
            "currency": question.currency,
        },
        "customer": {
            "id": party.provider_id,
            "external_id": party.external_id,
            "name": party.name,
            "taxable": party.tax_identification_number is not None,
            "tax_identification_number": party.tax_identification_number,
            "address_line1": address.address_line1,
            "address_line2": address.address_line2,
            "city": address.city,
            "state": address.state,
            "zipcode": address.zipcode,
            "country": address.country,
        },
        "items": [_item(connection, question, item) for item in question.items],
    }


def _item(connection: TaxConnection, question: TaxQuestion, item: TaxedItem) -> JsonObject:
    item_fields: JsonObject = {"id": item.id, "code": item.code, "type": item.fee_type, "name": item.name}
    if connection.kind == "anrok":
        return {**item_fields, "amount_cents": item.amount_cents}
    amount = major_from_cents(item.amount_cents, question.currency)
    return {**item_fields, "amount": decimal_text(amount), "units": decimal_text(item.units)}


def _answer(question: TaxQuestion, status: int, body: bytes) -> ProviderTaxes | Reported | ProviderFailure:
    try:
        said: Json = parse_json(body) if body else None
    except ValueError:
        said = None
    if not 200 <= status < 300:
        return _failure(status, said)
    if question.purpose not in CALCULATIONS:
        return Reported()
    try:
        return _taxes(question, said)
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        text = f"the answer cannot be read: {type(problem).__name__} {problem}"
        return _failed(_UNREADABLE, text)


def _failure(status: int, said: Json) -> ProviderFailure:
    error = said.get("error") if isinstance(said, dict) else None
    details = error if isinstance(error, dict) else {}
    code = details.get("code") if isinstance(details.get("code"), str) else f"status_{status}"
    message = details.get("message") if isinstance(details.get("message"), str) else f"the provider answered {status}"
    if status == 429:
        kind = FailureKind.THROTTLED
    elif status >= 500 or status == 408:
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.REFUSED
    return _failed(code or f"status_{status}", message or "", kind)


def _taxes(question: TaxQuestion, said: Json) -> ProviderTaxes:
    """The taxes in the answer. Raises ValueError unless it has those of the requested items."""
    taxed_fees = {str(item["id"]): item for item in said["items"]}
    wanted = [item.id for item in question.items]
    if len(said["items"]) != len(taxed_fees) or set(taxed_fees) != set(wanted):
        raise ValueError("its items do not match those of the request")
    customer = said.get("customer_id")
    return ProviderTaxes(
        items=tuple(_item_taxes(item, taxed_fees[item.id]) for item in question.items),
        customer_id=customer if isinstance(customer, str) and customer else None,
    )


def _item_taxes(item: TaxedItem, said: Json) -> ItemTaxes:
    cents = _cents(item, said["tax_amount_cents"])
    lines = tuple(_line(item, line) for line in said.get("tax_breakdown") or ())
    if cents and not lines:
        raise ValueError("taxes without tax_breakdown, whose rates are applied")
    return ItemTaxes(item_id=item.id, requested_cents=item.amount_cents, amount_cents=cents, lines=lines)


def _line(item: TaxedItem, said: Json) -> BreakdownLine:
    name, rate, kind, cents = said.get("name"), said.get("rate"), said.get("type"), said.get("tax_amount_cents")
    return BreakdownLine(
        name=name[:_LONGEST_TEXT] if isinstance(name, str) and name else "Tax",
        rate=None if rate is None else _rate(rate),
        amount_cents=None if cents is None else _cents(item, cents),
        type=kind[:_LONGEST_TEXT] if isinstance(kind, str) else None,
    )


def _cents(item: TaxedItem, value: Json) -> int:
    """The taxes of an item; negative for a negative item."""
    if isinstance(value, bool) or not isinstance(value, int) or value * (-1 if item.amount_cents < 0 else 1) < 0:
        raise ValueError(f"not an amount in cents: {value!r}")
    if INVOICE_PART.is_beyond(value):
        raise ValueError("more than any amount in cents")
    return value


def _rate(value: Json) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        raise ValueError(f"not a rate: {value!r}")
    rate = parse_decimal(value) if isinstance(value, str) else Decimal(value)
    if rate is None or not 0 <= rate <= 10:
        raise ValueError(f"not a rate: {value!r}")
    exponent = rate.as_tuple().exponent
    return rate if isinstance(exponent, int) and exponent >= -_RATE_DECIMALS else round_to(rate, _RATE_DECIMALS)


def taxes_of(
    provider: TaxProvider | None, connection: TaxConnection, question: TaxQuestion, *, patient: bool = True
) -> ProviderTaxes | ProviderFailure:
    """The provider's taxes of a document that is not stored. Without `patient` it is no longer asked."""
    if not patient:
        return ProviderFailure(code="too_many_questions", message="what is to be taxed changes all the time")
    answer = _answer_of(provider, connection, question)
    if isinstance(answer, Reported):
        return ProviderFailure(code=_UNREADABLE, message="the answer has no taxes")
    return answer


def _answer_of(
    provider: TaxProvider | None, connection: TaxConnection, question: TaxQuestion
) -> ProviderTaxes | Reported | ProviderFailure:
    if provider is None:
        return ProviderFailure(code="no_tax_provider", message="there is no tax provider to ask")
    try:
        answer = provider.ask(connection, question)
    except Exception as problem:
        # A provider that raises counts as one that does not answer.
        return _unreachable(problem)
    wanted = question.purpose in CALCULATIONS and not isinstance(answer, ProviderFailure)
    if wanted and not (isinstance(answer, ProviderTaxes) and answer.answers(question)):
        return _failed(_UNREADABLE, "the answer does not have the taxes of each item asked about, once")
    return answer


def ask_tax_provider(host: JobHost, organization: Organization, job: Job, task: AskTaxProvider) -> None:
    """Ask a tax provider about the task's subject, once, and act on the answer."""
    prepared = host.writing(lambda work: provider_taxes.prepare(work, job, task), organization)
    if prepared is None:
        return
    answer = _answer_of(host.tax_provider, prepared.connection, prepared.question)
    host.writing(lambda work: provider_taxes.conclude(work, job, task, prepared, answer), organization)
