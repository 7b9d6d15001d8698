"""The security log: written from the changes of a unit of work, in its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from usagebill.core.activity_logs import Actor, Change
from usagebill.core.errors import NotFound
from usagebill.core.security_logs import LOG_TYPES, SecurityEvent, SecurityLog, security_events
from usagebill.process.json_text import encode_json
from usagebill.queries.filters import log_span
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, within
from usagebill.storage.ports import Page


def record(work: Work, changes: Sequence[Change], written_at: datetime) -> None:
    """Log the changes of keys, users, endpoints, key pairs, connections and billing entities in this unit of work."""
    for event in security_events(changes):
        note(work, event, work.actor, written_at)


def note(work: Work, event: SecurityEvent, actor: Actor, written_at: datetime) -> None:
    """Log an event that the actor has caused."""
    key, client = actor.api_key, actor.client
    work.tx.insert(
        SecurityLog(
            id=work.new_id(),
            organization_id=work.organization.id,
            log_type=event.log_type,
            log_event=event.name,
            resources=encode_json(event.resources).decode(),
            device_info=encode_json({} if client is None else {"user_agent": client}).decode(),
            api_key_id=None if key is None else key.id,
            user_id=actor.user_id,
            user_email=actor.user_email,
            logged_at=work.now,
            written_at=written_at,
        )
    )


@Input
class SecurityFilters:
    """All filters must match, each with any of its values. The bounds of `logged_at` are inclusive.

    `api_key_ids` are those of the keys that were used.
    """

    from_date: Maybe[str] = ABSENT
    to_date: Maybe[str] = ABSENT
    user_ids: Maybe[tuple[str, ...]] = described("Only those of these users of the console, by id.")
    api_key_ids: Maybe[tuple[str, ...]] = described("Only those of these API keys, by id.")
    log_types: Maybe[tuple[str, ...]] = described("Only these types of entry.", values=LOG_TYPES)
    log_events: Maybe[tuple[str, ...]] = described("Only these events.", example=["api_key.created"])


def list_all(reader: Reader, options: SecurityFilters, paging: Paging) -> Page[SecurityLog]:
    """Events, newest first. Raises `Invalid` for malformed dates."""
    conditions = log_span(reader, options.from_date, options.to_date, reader.settings.security_log_days)
    for column, values in (
        ("log_type", options.log_types),
        ("log_event", options.log_events),
        ("api_key_id", options.api_key_ids),
        ("user_id", options.user_ids),
    ):
        if values:
            conditions.append(within(column, values))
    return reader.page(SecurityLog, *conditions, paging=paging, order=(desc("logged_at"),))


def get(reader: Reader, log_id: str) -> SecurityLog:
    """The event with this id, while it is kept. Raises `NotFound`."""
    entry = reader.tx.get(SecurityLog, log_id)
    days = reader.settings.security_log_days
    if entry is None or (days is not None and entry.logged_at < reader.now - timedelta(days=days)):
        raise NotFound("security_log", log_id)
    return entry
