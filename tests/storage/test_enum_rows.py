"""Enums in rows: a column holds the plain text of a member, as any tool reads and writes it."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from usagebill import Billing
from usagebill.core.webhooks import MessageStatus, WebhookMessage
from usagebill.storage.sqlite.rows import codec_of
from usagebill.storage.tables import TABLES

NOW = datetime(2024, 2, 1, tzinfo=UTC)


def enum_of(hint: Any) -> type[Enum] | None:
    kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and issubclass(kind, Enum)]
    return kinds[0] if kinds and hint in (kinds[0], kinds[0] | None) else None


COLUMNS = {
    f"{table.kind.__name__}.{name}": (table.kind, name, members)
    for table in TABLES
    for name, hint in get_type_hints(table.kind).items()
    if (members := enum_of(hint)) is not None
}


@pytest.mark.parametrize("column", COLUMNS)
def test_each_member_is_written_as_its_plain_text_and_read_as_itself(column: str) -> None:
    kind, name, members = COLUMNS[column]
    codec = next(item for item in codec_of(kind).columns if item.name == name)
    assert codec.encode is not None
    assert codec.decode is not None
    for member in members:
        stored = codec.encode(member)
        assert (type(stored), stored) == (str, member.value)
        assert codec.decode(stored) is member


def test_a_status_is_plain_text_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Billing(file) as billing:
        message = WebhookMessage(
            id="message",
            organization_id=billing.organization.id,
            webhook_endpoint_id="endpoint",
            webhook_type="plan.created",
            object_type="plan",
            object_id=None,
            payload="{}",
            endpoint="https://example.com",
            created_at=NOW,
            updated_at=NOW,
            status=MessageStatus.RETRYING,
        )
        billing.writing(lambda work: work.tx.insert(message))
        with sqlite3.connect(file) as connection:
            ((status, storage_class),) = connection.execute("SELECT status, typeof(status) FROM webhook_messages")
        connection.close()
        kept = billing.reading(lambda reader: reader.tx.get(WebhookMessage, "message"))
    assert (status, storage_class) == ("retrying", "text")
    assert kept is not None
    assert kept.status is MessageStatus.RETRYING
