"""Organizations: each is one tenant, to which every other record belongs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime

from usagebill.core.errors import Forbidden, TooManyRequests
from usagebill.core.limits import ORGANIZATION_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationLimits:
    """What an organization may do; None: any number.

    `requests_per_second` are those of its API keys, at all processes together. `events_per_day` are those that requests
    bring on a day of UTC; `customers` are those that exist at a time.
    """

    requests_per_second: int | None = None
    events_per_day: int | None = None
    customers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """A tenant. Addresses, taxes and defaults are its billing entities'.

    While it is `disabled_at` an instant, its keys are refused, nothing of it is changed and its jobs stand still.

    Events of billed periods are removed `event_retention_months` after the end of the period; None: never.

    `hmac_key` signs its webhook messages, so their receivers know it. `root_key` is shown to nobody: the keys for links
    and bridge calls are derived from it (`derived_keys`).
    """

    id: str
    organization_id: str
    name: str
    hmac_key: str = field(repr=False)
    created_at: datetime
    updated_at: datetime
    document_number_prefix: str
    granular_permissions: bool = True
    root_key: str = field(default="", repr=False)
    disabled_at: datetime | None = None
    limits: OrganizationLimits = OrganizationLimits()
    event_retention_months: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveContents:
    """What an organization's archive has: `rows` are the numbers of rows by table, with those of events and jobs;
    `schema` is the version of the records.
    """

    organization_id: str
    name: str
    schema: int
    written_at: datetime
    rows: Mapping[str, int]


def deletion_refusal(organization: Organization, archive: ArchiveContents, rows: Mapping[str, int]) -> str | None:
    """The code of the reason why an organization that has these `rows` cannot be deleted; None if everything of it is
    in the archive, and stays as it is.
    """
    if organization.disabled_at is None:
        return "organization_not_disabled"
    is_its_own = archive.organization_id == organization.id
    if not is_its_own or archive.written_at < organization.disabled_at or archive.rows != rows:
        return "archive_incomplete"
    return None


def limit_errors(limits: OrganizationLimits) -> dict[str, list[str]]:
    """The errors of limits to be stored, as field -> codes."""
    values = {item.name: getattr(limits, item.name) for item in fields(limits)}
    return {
        name: ["value_is_out_of_range"]
        for name, value in values.items()
        if value is not None and not ORGANIZATION_LIMIT.holds(value)
    }


def check_customers(limits: OrganizationLimits, customers: int) -> None:
    """Raises `Forbidden` if there may not be one more customer than these."""
    if limits.customers is not None and customers >= limits.customers:
        raise Forbidden("customer_limit_reached")


def check_events(limits: OrganizationLimits, events: int) -> None:
    """Raises `Forbidden` if there may not be so many events on a day."""
    if limits.events_per_day is not None and events > limits.events_per_day:
        raise Forbidden("daily_event_limit_reached")


def check_requests(limits: OrganizationLimits, requests: int) -> None:
    """Raises `TooManyRequests` if there may not be so many requests in a second."""
    if limits.requests_per_second is not None and requests > limits.requests_per_second:
        raise TooManyRequests("organization")
