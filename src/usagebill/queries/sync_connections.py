"""Accounting systems and CRMs: their connections and synced documents."""

from __future__ import annotations

from usagebill.core.statuses import SyncStatus
from usagebill.core.sync_connections import SyncConnection, SyncedDocument
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq


def find_connection(reader: Reader, id: str) -> SyncConnection | None:
    """The live connection with this id."""
    return reader.cached(("sync_connection", id), lambda: reader.tx.get(SyncConnection, id))


def document_of(reader: Reader, connection_id: str, subject_id: str) -> SyncedDocument | None:
    """The record's document at a connection; None if it was never to be pushed there."""
    return reader.tx.first(SyncedDocument, eq("subject_id", subject_id), eq("connection_id", connection_id))


def failed_documents_of(reader: Reader, subject_id: str) -> list[SyncedDocument]:
    """The record's documents that systems have refused."""
    return reader.tx.find(SyncedDocument, eq("subject_id", subject_id), eq("status", SyncStatus.FAILED))
