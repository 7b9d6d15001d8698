"""Organizations: each is one tenant, to which every other record belongs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """A tenant. Addresses, taxes and defaults are its billing entities'.

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
