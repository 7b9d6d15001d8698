"""Organizations: created by the command line or library, changed together with their default billing entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from secrets import token_hex
from typing import Annotated
from uuid import uuid4

from usagebill.core import limits
from usagebill.core.billing_entities import ORGANIZATION_NUMBERINGS, BillingEntity, default_document_number_prefix
from usagebill.core.derived_keys import ROOT_KEY_BYTES
from usagebill.core.errors import Forbidden, Invalid, NotAllowed, NotFound
from usagebill.core.limits import ORGANIZATION_LIMIT
from usagebill.core.organizations import ArchiveContents, Organization, deletion_refusal, limit_errors
from usagebill.core.webhooks import WebhookEndpoint
from usagebill.operations import billing_entities, customers, event_retention, vat, webhook_endpoints
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.operations.webhook_endpoints import WebhookEndpointInput
from usagebill.process.ids import new_id
from usagebill.requests.inputs import ABSENT, Input, Maybe, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc
from usagebill.storage.ports import Transaction

# The code of refusals while an organization is disabled.
DISABLED = "organization_disabled"


@Input
class OrganizationInput(billing_entities.EntitySettingsInput):
    webhook_url: Maybe[str] = ABSENT
    eu_tax_management: Maybe[bool] = ABSENT
    event_retention_months: Maybe[Annotated[int, limits.RETENTION_MONTHS]] = described(
        "Events of billed periods are removed so many months after the period; null: never.", unit="months"
    )


@Input
class OrganizationLimitsInput:
    """Null lifts a limit."""

    requests_per_second: Maybe[Annotated[int, ORGANIZATION_LIMIT]] = described(
        "The most requests in a second, at all processes together.", example=50
    )
    events_per_day: Maybe[Annotated[int, ORGANIZATION_LIMIT]] = described(
        "The most events that requests may bring on a day of UTC.", example=1_000_000
    )
    customers: Maybe[Annotated[int, ORGANIZATION_LIMIT]] = described("The most customers at a time.", example=1000)


def create(tx: Transaction, now: datetime, name: str) -> Organization:
    """A new organization and its default billing entity, whose code is `default`."""
    id = new_id(now)
    prefix = default_document_number_prefix(name, id)
    organization = Organization(
        id=id,
        organization_id=id,
        name=name,
        hmac_key=str(uuid4()),
        root_key=token_hex(ROOT_KEY_BYTES),
        created_at=now,
        updated_at=now,
        document_number_prefix=prefix,
    )
    tx.insert(organization)
    tx.insert(
        BillingEntity(
            id=new_id(now),
            organization_id=id,
            code="default",
            name=name,
            created_at=now,
            updated_at=now,
            document_number_prefix=prefix,
        )
    )
    return organization


def find_all(tx: Transaction) -> list[Organization]:
    """Every organization of the store, oldest first."""
    return tx.find(Organization, order=[asc("created_at")])


def find(tx: Transaction, id: str) -> Organization:
    """The organization with this id. Raises `NotFound`."""
    organization = tx.get(Organization, id)
    if organization is None:
        raise NotFound("organization", id)
    return organization


def check_enabled(organization: Organization | None) -> None:
    """Raises `Forbidden` if the organization is disabled."""
    if organization is not None and organization.disabled_at is not None:
        raise Forbidden(DISABLED)


def disable(tx: Transaction, id: str, now: datetime) -> Organization:
    """Refuse the keys of the organization and every change of it, and let its jobs stand still. Raises `NotFound`."""
    organization = find(tx, id)
    if organization.disabled_at is None:
        organization = replace(organization, disabled_at=now, updated_at=now)
        tx.replace(organization)
    return organization


def enable(tx: Transaction, id: str, now: datetime) -> Organization:
    """Undo `disable`: jobs that have become due meanwhile run, each as of its instant. Raises `NotFound`."""
    organization = replace(find(tx, id), disabled_at=None, updated_at=now)
    tx.replace(organization)
    tx.scoped(id).jobs.release(DISABLED)
    return organization


def delete(tx: Transaction, id: str, archive: ArchiveContents, rows: Mapping[str, int]) -> None:
    """Remove every row of the organization, which has these `rows`, for good.

    Raises `NotFound`, and `NotAllowed` unless it is disabled and everything of it is in the archive.
    """
    reason = deletion_refusal(find(tx, id), archive, rows)
    if reason is not None:
        raise NotAllowed(reason)
    tx.scoped(id).remove_organization()


def get(reader: Reader) -> Organization:
    """The current organization."""
    organization = reader.tx.get(Organization, reader.organization.id)
    if organization is None:
        raise LookupError(f"no organization {reader.organization.id}")
    return organization


@without_backlog(Unrelated.CONNECTION)
def set_limits(work: Work, request: OrganizationLimitsInput) -> Organization:
    """Set the sent limits of what the organization may do. Nothing that exists is removed. Raises `Invalid`."""
    organization = get(work)
    limits = replace(organization.limits, **changes(request, "requests_per_second", "events_per_day", "customers"))
    if problems := limit_errors(limits):
        raise Invalid(problems)
    limited = replace(organization, limits=limits, updated_at=work.now)
    work.tx.replace(limited)
    return limited


@after_backlog(of_everyone)
def update(work: Work, request: OrganizationInput) -> Organization:
    """Change the sent fields of the organization and of its default billing entity.

    `webhook_url` is the address of its oldest webhook endpoint, which is created if there is none. Raises `Invalid`.
    """
    if request.document_numbering and request.document_numbering not in ORGANIZATION_NUMBERINGS:
        raise Invalid(document_numbering="value_is_invalid")
    entity = customers.default_entity(work)
    settings = billing_entities.settings_of(request)
    managed = value_or(request.eu_tax_management, entity.eu_tax_management)
    try:
        billing_entities.apply(work, entity, replace(entity, **settings, eu_tax_management=managed))
    except Invalid as problem:
        raise _of_organization(problem) from problem
    if request.eu_tax_management is True:
        vat.make_taxes(work)
    kept = {name: settings[name] for name in ("name", "document_number_prefix") if name in settings}
    retention = changes(request, "event_retention_months")
    if (months := retention.get("event_retention_months")) is not None and months < 1:
        raise Invalid(event_retention_months="value_is_out_of_range")
    organization = replace(get(work), updated_at=work.now, **kept, **retention)
    work.tx.replace(organization)
    if retention:
        event_retention.schedule(work)
    if is_given(request.webhook_url):
        endpoint = WebhookEndpointInput(webhook_url=request.webhook_url)
        oldest = work.tx.first(WebhookEndpoint, order=[asc("created_at"), asc("id")])
        if oldest is None:
            webhook_endpoints.create(work, endpoint)
        else:
            webhook_endpoints.update(work, oldest.id, endpoint)
    return organization


def _of_organization(problem: Invalid) -> Invalid:
    """The error of the billing entity, with the organization's own error code."""
    if "eu_tax_management" not in problem.details:
        return problem
    return Invalid({**problem.details, "eu_tax_management": ["org_must_be_in_eu"]})
