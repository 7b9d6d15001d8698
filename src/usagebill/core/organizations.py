"""Organizations: each is one tenant, to which every other record belongs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """A tenant. Addresses, taxes and defaults are its billing entities'.

    While it is `disabled_at` an instant, its keys are refused, nothing of it is changed and its jobs stand still.

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
