"""Settings: what an installation chooses once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`id_prefix` leads the names of service-owned ids (`svc_id`) in bodies, query parameters and headers.

    It is lower-case letters and digits, then an underscore; ValueError otherwise. The API and the command line refuse
    one that other fields begin with, such as `external_`.

    `public_url` is the issuer named in webhook signatures. `events_per_batch` bounds one batch of events.
    `requests_per_minute` bounds the requests of each API key, for each process that serves; None sets no bound.
    `webhook_timeout` is in seconds, for connecting, reading and writing each; `vat_registry_timeout` likewise.
    `vat_registry_url` is where VAT numbers of the EU are checked (`vat_registry.HttpVatRegistry`); without it none is.
    `documents`: PDF and XML of invoices and credit notes are made when they are first asked for, or `at_once` when they
    are issued. Their addresses begin with `public_url`.
    `termination_alert_days` are how many days before its planned end a subscription is announced to end.
    """

    id_prefix: str = "svc_"
    public_url: str = "http://localhost:8000"
    events_per_batch: int = 100
    requests_per_minute: int | None = None
    webhook_timeout: float = 30
    vat_registry_url: str | None = None
    vat_registry_timeout: float = 20
    documents: Literal["on_demand", "at_once"] = "on_demand"
    termination_alert_days: tuple[int, ...] = (15, 45)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9]*_", self.id_prefix):
            raise ValueError(f"the prefix of ids is lower-case letters and digits, then _, not {self.id_prefix!r}")
