"""Event sources: files and message brokers that events are read from, the progress, and the refused entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

# The most characters of a payload that are kept. Brokers and lines of files rarely exceed it; longer payloads are
# refused and stored cut.
LONGEST_PAYLOAD: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """The progress in one part of a source.

    `source` is a broker's topic or stream ("kafka:usage"), or "file:" and a path. `part` is the partition of a topic,
    else "". `position` counts the entries read, including refused ones: lines of a text file, rows of a Parquet file;
    for a broker it is the offset of the next message. `checksum` is that of a file up to there: a replaced file is read
    from its beginning.
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
    """An entry of a source that is no valid event, with its position and its errors.

    `payload` is the original text, `event` what was read from it, None if it could not be read. It is kept until a
    retry succeeds or it is deleted.
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
    """The number of events stored, and the number of duplicates."""

    events_count: int
    duplicates_count: int
