"""URLs of documents."""

from __future__ import annotations

from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.documents.files import document_token
from usagebill.runtime.work import Reader


def document_url(reader: Reader, document_id: str | None) -> str | None:
    """The URL of a document, which opens without an API key; None if it has not been generated."""
    if document_id is None:
        return None
    base = reader.settings.public_url.rstrip("/")
    key = derived_key(reader.organization.root_key, Purpose.DOCUMENT_LINK)
    return f"{base}/documents/{document_token(key, document_id)}"
