"""Lists of customers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.countries import COUNTRIES
from usagebill.core.currencies import CURRENCIES
from usagebill.core.customers import ACCOUNT_TYPES, CUSTOMER_TYPES, Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.queries.filters import metadata_conditions
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import (
    Condition,
    all_of,
    contains,
    eq,
    missing,
    ne,
    negate,
    present,
    within,
)
from usagebill.storage.ports import Page

_SEARCHED = ("name", "firstname", "lastname", "legal_name", "external_id", "email")
_BOOLEANS = ("true", "false")


@Input
class CustomerFilters:
    """All filters must match; one with several values matches any of them. `metadata` maps keys to values; an empty
    value matches customers without that key. `search_term` is ignored beside `external_id`.
    """

    external_id: Maybe[str] = ABSENT
    search_term: Maybe[str] = ABSENT
    account_type: Maybe[tuple[str, ...]] = described("Only those of these types of account.", values=ACCOUNT_TYPES)
    customer_type: Maybe[str] = described("Only those of this type.", values=CUSTOMER_TYPES)
    has_customer_type: Maybe[str] = described(
        "Only those with a type, or only those without.", values=("true", "false")
    )
    has_tax_identification_number: Maybe[str] = described(
        "Only those with a tax number, or only those without.", values=("true", "false")
    )
    countries: Maybe[tuple[str, ...]] = described("Only those in these countries.", example=["BE"])
    states: Maybe[tuple[str, ...]] = described("Only those in these states.")
    zipcodes: Maybe[tuple[str, ...]] = described("Only those with these postal codes.")
    currencies: Maybe[tuple[str, ...]] = described(
        "Only those with one of these currencies, ISO 4217.", example=["EUR"]
    )
    billing_entity_codes: Maybe[tuple[str, ...]] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT


def entity_ids_of_codes(reader: Reader, codes: Sequence[str]) -> tuple[str, ...]:
    """The ids of the active billing entities with these codes. Raises `NotFound` for an unknown one."""
    ids_by_code = {entity.code: entity.id for entity in reader.tx.find(BillingEntity, missing("archived_at"))}
    if not ids_by_code.keys() >= set(codes):
        raise NotFound("billing_entity", next(code for code in codes if code not in ids_by_code))
    return tuple(ids_by_code[code] for code in codes)


def list_all(reader: Reader, options: CustomerFilters, paging: Paging) -> Page[Customer]:
    """Customers, newest first. Raises `Invalid` for meaningless filters, `NotFound` for a billing entity."""
    problems = _problems(options)
    conditions = metadata_conditions(options.metadata, problems)
    if problems:
        raise Invalid(problems)
    if options.billing_entity_codes:
        conditions.append(within("billing_entity_id", entity_ids_of_codes(reader, options.billing_entity_codes)))
    if options.external_id:
        conditions.append(eq("external_id", options.external_id))
    elif options.search_term and options.search_term.strip():
        conditions.append(contains(_SEARCHED, options.search_term.strip()))
    for column, values in (
        ("account_type", options.account_type),
        ("country", options.countries),
        ("state", options.states),
        ("zipcode", options.zipcodes),
        ("currency", options.currencies),
    ):
        if values:
            conditions.append(within(column, values))
    if options.customer_type:
        conditions.append(eq("customer_type", options.customer_type))
    if options.has_customer_type:
        conditions.append(_filled("customer_type", options.has_customer_type))
    if options.has_tax_identification_number:
        conditions.append(_filled("tax_identification_number", options.has_tax_identification_number))
    return reader.page(Customer, *conditions, paging=paging)


def _filled(column: str, value: str) -> Condition:
    filled = all_of(present(column), ne(column, ""))
    return filled if value == "true" else negate(filled)


def _problems(options: CustomerFilters) -> dict[str, object]:
    problems: dict[str, object] = {}
    for name, allowed in (("account_type", ACCOUNT_TYPES), ("countries", COUNTRIES), ("currencies", CURRENCIES)):
        wrong = [position for position, value in enumerate(getattr(options, name) or ()) if value not in allowed]
        if wrong:
            problems[name] = {str(position): [f"must be one of: {', '.join(allowed)}"] for position in wrong}
    for name, allowed in (
        ("customer_type", CUSTOMER_TYPES),
        ("has_customer_type", _BOOLEANS),
        ("has_tax_identification_number", _BOOLEANS),
    ):
        value = getattr(options, name)
        if value and value not in allowed:
            problems[name] = [f"must be one of: {', '.join(allowed)}"]
    if options.has_customer_type == "false" and options.customer_type:
        problems["customer_type"] = ["must be nil when has_customer_type is false"]
    return problems
