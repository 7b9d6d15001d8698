"""Event sources: files and message brokers that events are taken from, how far, and what could not be taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

__all__ = ["LONGEST_PAYLOAD", "EventSource", "IngestedEvents", "RefusedEvent"]

# Characters of a payload that is kept. Brokers and lines of files rarely exceed it; what does is refused and kept cut.
LONGEST_PAYLOAD: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """How far one part of a source was taken.

    `source` is a broker's topic or stream ("kafka:usage"), or "file:" and a path. `part` is the partition of a topic,
    "" where there are none. `position` counts what was taken, refusals included: lines of a text file, rows of a
    Parquet file; of a broker it is the offset of the next message. `checksum` is that of a file up to there: a file
    that was replaced by another is taken from its beginning.
    """

    id: str
    organization_id: str
    source: str
    part: str = ""
    position: int = 0
    checksum: str | None = None
    events_count: int = 0
    duplicates_count: int = 0
    refused_count: int = 0
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEvent:
    """Something that a source held and that is no event: what it was, where it stood, and what is wrong with it.

    `payload` is the text as it stood there, `event` what was read from it, None where it could not be read. It stays
    until it is retried with success, or deleted.
    """

    id: str
    organization_id: str
    source: str
    part: str
    position: int
    payload: str
    event: Mapping[str, object] | None
    problem: Mapping[str, object]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class IngestedEvents:
    """How many events were stored, and how many were known already."""

    events_count: int
    duplicates_count: int
