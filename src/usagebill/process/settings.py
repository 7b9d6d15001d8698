"""The settings of an installation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from usagebill.core.contacts import is_email
from usagebill.core.users import Role

# A hundred years.
_MOST_LOG_DAYS = 36_525
_MOST_DOCUMENT_YEARS = 100
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_MAIL_PORTS = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """A mail server. `tls`: from the start, always (STARTTLS), offered (STARTTLS if it is), or never."""

    host: str
    port: int
    tls: Literal["start", "always", "offered", "never"]
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str) -> MailServer:
        """The server at `smtp://user:password@host:587?starttls=always` (or `offered`, `never`) or `smtps://host`.

        User and password are percent-encoded. Without `starttls` it is `always` with a user and `offered` without. The
        default ports are 25 and 465. Raises `ValueError`; neither it nor its traceback contains the password.
        """
        server = cls._understood(url)
        if isinstance(server, str):
            del url
            raise ValueError(server)
        return server

    @classmethod
    def _understood(cls, url: str) -> MailServer | str:
        """The server at `url`, or the problem with it."""
        try:
            parts = urlsplit(url)
            port = parts.port or _MAIL_PORTS[parts.scheme]
        except (KeyError, ValueError):
            return (
                "the address of a mail server is smtp://host:port or smtps://host:port, user and password"
                " percent-encoded"
            )
        if not parts.hostname or parts.path not in ("", "/") or parts.fragment:
            return "the address of a mail server names a host, and no path"
        user = unquote(parts.username) if parts.username else None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        wanted = options.pop("starttls", "always" if user else "offered")
        if options or wanted not in ("always", "offered", "never") or (parts.scheme == "smtps" and parts.query):
            return "the only option of a mail server is starttls=always, offered or never, with smtp://"
        tls: Literal["start", "always", "offered", "never"] = "never"
        if parts.scheme == "smtps":
            tls = "start"
        elif wanted != "never":
            tls = "always" if wanted == "always" else "offered"
        password = unquote(parts.password) if parts.password else None
        if not f"{user}{password}".isascii():
            return "user and password of a mail server are ASCII"
        return cls(host=parts.hostname, port=port, tls=tls, user=user, password=password)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`id_prefix` begins the names of service-owned ids (`svc_id`) in bodies, query parameters and headers.

    It is lower-case letters and digits, then an underscore; ValueError otherwise. The API and the command line refuse
    one that other fields begin with, such as `external_`.

    `public_url` is the issuer named in webhook signatures. `events_per_batch` bounds one batch of events.
    `requests_per_minute` bounds the requests of each API key, for each process that serves; None sets no bound.
    `request_timeout` is how many seconds the answer to a request over HTTP may take to compute; then it is ended, and
    changes nothing.
    `webhook_timeout` is in seconds, for all of one attempt; `vat_registry_timeout` likewise. `webhook_attempts`: a
    message is given up after this many; 24 take three days, 3 take 22 seconds. `private_networks`: whether webhooks may
    be sent to addresses that are not on the public internet. `auto` allows it while the store holds a single
    organization: several would reach each other's services behind the shared firewall. `vat_registry_url` is the
    registry that checks EU VAT numbers (`vat_registry.HttpVatRegistry`); without it none is checked. `smtp_url` is the
    mail server (`MailServer.at`); without it no e-mail is sent. The sender is `email_from`, else the address of the
    billing entity. `smtp_timeout` is in seconds, for each step. `tax_provider_timeout`, `bridge_timeout` (of accounting
    systems and CRMs) and `payment_provider_timeout` are in seconds likewise. `provider_audit_days`: how many days of
    payments are compared with their providers' lists every day; 0 compares none. `documents`: PDF and XML of invoices
    and credit notes are made on first request, or `at_once` when they are issued. Their URLs begin with `public_url`.
    `document_formats`: amounts, dates and addresses in the format of the language (`locale`), or of the reference
    service. `clock_ahead_days` is how far the machine's clock may be ahead of the newest instant in the file; beyond
    that nothing is written until an operator confirms it (`Billing.clock_watch`). `listed_log_days`: how far lists of
    activities and requests reach back; None sets no bound. `activity_log_days`, `api_log_days` and `security_log_days`
    are how long entries of each log are kept: None is for ever, 0 not at all. `document_years`: how long invoices,
    credit notes and receipts of anonymized customers show the person, from the end of the year of issue.
    `log_ingestion`: requests that send events are logged too, which slows them down. `metrics_key` is the bearer token
    of `/metrics`; without one there are no metrics. With `ready_max_age`, `/ready` is 503 while a job has been due for
    that many seconds. `strict`: the API refuses unknown fields and fractions in integer fields instead of ignoring or
    truncating them. A single request opts in with the header `Usagebill-Strict: true`. `termination_alert_days`: how
    many days before its planned end a subscription's termination is announced. `oidc_issuer` is the OpenID Connect
    provider at which users of the console may sign in, as the client `oidc_client_id` (with `oidc_client_secret`,
    unless it is a public one); the extra `oidc` has what this needs. `oidc_domains`: only e-mail addresses of these
    domains are let in. With `oidc_role`, whoever has such an address and is no user yet is added, with this role.

    `events_ahead_days`: an event whose timestamp lies further ahead of the clock is refused; None refuses none, and
    `usagebill serve` allows one day.
    """

    id_prefix: str = "svc_"
    public_url: str = "http://localhost:8000"
    events_per_batch: int = 100
    requests_per_minute: int | None = None
    request_timeout: float = 60
    webhook_timeout: float = 30
    webhook_attempts: int = 24
    private_networks: Literal["auto", "allowed", "refused"] = "auto"
    vat_registry_url: str | None = None
    vat_registry_timeout: float = 20
    # It may hold a password.
    smtp_url: str | None = field(default=None, repr=False)
    email_from: str | None = None
    smtp_timeout: float = 30
    tax_provider_timeout: float = 20
    bridge_timeout: float = 20
    payment_provider_timeout: float = 30
    provider_audit_days: int = 30
    documents: Literal["on_demand", "at_once"] = "on_demand"
    document_formats: Literal["locale", "reference"] = "locale"
    termination_alert_days: tuple[int, ...] = (15, 45)
    clock_ahead_days: int = 100
    events_ahead_days: int | None = None
    listed_log_days: int | None = 30
    activity_log_days: int | None = 365
    api_log_days: int | None = 90
    security_log_days: int | None = 90
    document_years: int = 10
    log_ingestion: bool = False
    metrics_key: str | None = field(default=None, repr=False)
    ready_max_age: float | None = None
    strict: bool = False
    oidc_issuer: str | None = None
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = field(default=None, repr=False)
    oidc_domains: tuple[str, ...] = ()
    oidc_role: str | None = None

    def changed(self) -> dict[str, object]:
        """The settings that differ from their defaults; of those that may hold a secret, only that they do."""
        return {
            known.name: getattr(self, known.name) if known.repr else "(set)"
            for known in fields(self)
            if getattr(self, known.name) != known.default
        }

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9]*_", self.id_prefix):
            raise ValueError(f"the prefix of ids is lower-case letters and digits, then _, not {self.id_prefix!r}")
        if self.webhook_attempts < 1:
            raise ValueError(f"webhook_attempts must be at least 1, not {self.webhook_attempts}")
        for days in (self.listed_log_days, self.activity_log_days, self.api_log_days, self.security_log_days):
            if days is not None and not 0 <= days <= _MOST_LOG_DAYS:
                raise ValueError(f"logs are kept and listed for 0 to {_MOST_LOG_DAYS} days or for ever, not {days}")
        if self.events_ahead_days is not None and not 0 <= self.events_ahead_days <= _MOST_LOG_DAYS:
            raise ValueError(f"events may lie 0 to {_MOST_LOG_DAYS} days ahead, not {self.events_ahead_days}")
        if not 0 <= self.document_years <= _MOST_DOCUMENT_YEARS:
            raise ValueError(f"documents are kept for 0 to {_MOST_DOCUMENT_YEARS} years, not {self.document_years}")
        if self.smtp_url:
            MailServer.at(self.smtp_url)
        if self.email_from and ("," in self.email_from or not is_email(self.email_from)):
            raise ValueError(f"e-mails come from one address, such as billing@example.com, not {self.email_from!r}")
        self._check_oidc()

    def _check_oidc(self) -> None:
        if self.oidc_issuer is None:
            if self.oidc_client_id or self.oidc_client_secret or self.oidc_domains or self.oidc_role:
                raise ValueError("the settings of OpenID Connect need its issuer, oidc_issuer")
            return
        parts = urlsplit(self.oidc_issuer)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)
        if not is_safe or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ValueError(f"an issuer of OpenID Connect is an https:// address, not {self.oidc_issuer!r}")
        if not self.oidc_client_id:
            raise ValueError("OpenID Connect needs the id that the provider has given to this client, oidc_client_id")
        for domain in self.oidc_domains:
            if not is_email(f"a@{domain}"):
                raise ValueError(f"oidc_domains are domains such as example.com, not {domain!r}")
        if self.oidc_role is not None and self.oidc_role not in tuple(Role):
            raise ValueError(f"oidc_role is one of {', '.join(Role)}, not {self.oidc_role!r}")
        if self.oidc_role is not None and not self.oidc_domains:
            # At a public provider that would be everybody.
            raise ValueError("with oidc_role users are added by themselves: name their oidc_domains")
