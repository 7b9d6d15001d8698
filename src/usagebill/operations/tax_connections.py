"""Connections to tax providers, managed by the operator of the installation, and the scheduling of requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from usagebill.core.customers import Customer, IntegrationCategory, links_of, without_links
from usagebill.core.errors import Invalid
from usagebill.core.tasks import AskTaxProvider, TaxWaitingInvoices
from usagebill.core.tax_providers import KINDS as TAX_KINDS, Purpose, TaxConnection, TaxSubject, connection_errors
from usagebill.operations import draft_invoices
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.queries.connections import connection_by_code, connections_of, is_code_taken, linked_customers
from usagebill.requests.inputs import ABSENT, Input, Maybe, changes, described, value_or
from usagebill.runtime.work import Reader, Work


@Input
class TaxConnectionInput:
    """`item_codes` maps codes of billable metrics, add-ons and plans to the provider's."""

    kind: Maybe[str] = described("The kind of tax provider.", values=TAX_KINDS, required="create")
    code: Maybe[str] = described(required="create")
    name: Maybe[str] = ABSENT
    url: Maybe[str] = described("The URL of the provider.", example="https://taxes.example", required="create")
    api_key: Maybe[str] = described(secret=True)
    item_codes: Maybe[Mapping[str, str]] = described(
        "Code of what is billed -> the provider's code; `default` for all others."
    )


@without_backlog(Unrelated.NEW)
def create(work: Work, request: TaxConnectionInput) -> TaxConnection:
    """A new connection. Raises `Invalid`, also if a connection of this kind has the code."""
    code = value_or(request.code, "")
    connection = TaxConnection(
        id=work.new_id(),
        organization_id=work.organization.id,
        kind=value_or(request.kind, ""),
        code=code,
        name=value_or(request.name, code),
        url=value_or(request.url, ""),
        api_key=value_or(request.api_key, None),
        item_codes=dict(value_or(request.item_codes, {})),
        created_at=work.now,
        updated_at=work.now,
    )
    _check(connection)
    if is_code_taken(work, connection):
        raise Invalid(code="value_already_exist")
    work.tx.insert(connection)
    return connection


def _check(connection: TaxConnection) -> None:
    problems = connection_errors(connection)
    if problems:
        raise Invalid(problems)


def list_all(reader: Reader) -> list[TaxConnection]:
    """All connections, oldest first."""
    return connections_of(reader, TaxConnection)


def get(reader: Reader, code: str) -> TaxConnection:
    """The connection with this code, the oldest if several kinds have it. Raises `NotFound`."""
    return connection_by_code(reader, TaxConnection, code)


@after_backlog(of_everyone)
def update(work: Work, code: str, request: TaxConnectionInput) -> TaxConnection:
    """Change the name, address, key or item codes (replaced as a whole) of a connection.

    Its kind and code stay. Raises `NotFound` and `Invalid`.
    """
    before = get(work, code)
    codes = changes(request, "item_codes")
    if codes:
        codes["item_codes"] = dict(codes["item_codes"] or {})
    connection = replace(before, **changes(request, "name", "url", "api_key"), **codes, updated_at=work.now)
    _check(connection)
    work.tx.replace(connection)
    return connection


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> TaxConnection:
    """Delete a connection: the organization's own taxes apply to its customers again."""
    connection = get(work, code)
    deleted = replace(connection, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    for customer in linked_customers(work, connection.id):
        kept = without_links(customer, connection.id)
        after = replace(customer, integration_customers=kept, tax_error=None, updated_at=work.now)
        work.tx.replace(after)
        follow(work, customer, after)
    return deleted


def ask_about(
    work: Work,
    subject: TaxSubject,
    id: str,
    *,
    request_id: str | None = None,
    attempts: int = 0,
    at: datetime | None = None,
    purpose: Purpose | None = None,
) -> None:
    """Schedule a request to the tax provider about a record at `at` (by default now), replacing an earlier one."""
    task = AskTaxProvider(subject=subject, subject_id=id, request_id=request_id, attempts=attempts, purpose=purpose)
    work.cancel(task)
    work.schedule(task, at or work.now)


def follow(work: Work, before: Customer, after: Customer) -> None:
    """Update the customer's drafts and waiting invoices, if another provider, or none, decides its taxes now."""
    if decided_by_another(before, after):
        draft_invoices.flag(work, draft_invoices.drafts_of_customers([after.id]))
        work.schedule(TaxWaitingInvoices(customer_id=after.id), work.now)


def decided_by_another(before: Customer, after: Customer) -> bool:
    """Whether a change of the customer has another tax provider, or none, decide its taxes."""
    return _decides(before) != _decides(after)


def _decides(customer: Customer) -> str | None:
    links = links_of(customer, IntegrationCategory.TAX)
    return links[0].connection_id if links else None
