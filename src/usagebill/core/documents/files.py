"""Files: documents as stored."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DocumentKind(StrEnum):
    """The file type of a document."""

    PDF = "pdf"
    XML = "xml"


# The files of each document, in the order of their creation: the PDF embeds the XML.
ALL_KINDS = (DocumentKind.XML, DocumentKind.PDF)


class DocumentSubject(StrEnum):
    """The kinds of records with documents."""

    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    PAYMENT_RECEIPT = "payment_receipt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The file of an issued invoice, credit note or receipt (its `subject`). It is created once and never changes.

    `name` is the file name for saving it.
    """

    id: str
    organization_id: str
    subject_type: DocumentSubject
    subject_id: str
    kind: DocumentKind
    name: str
    content: bytes
    created_at: datetime
    updated_at: datetime

    @property
    def content_type(self) -> str:
        """The media type of the file."""
        return "application/pdf" if self.kind == DocumentKind.PDF else "application/xml"


def document_token(key: str, document_id: str) -> str:
    """The token in a document's address: its id, and a signature with the key for document links."""
    signature = hmac.new(key.encode(), f"document:{document_id}".encode(), hashlib.sha256).hexdigest()
    return f"{document_id}.{signature}"


def id_of_token(token: str) -> str:
    """The id of the document in a token, whether or not its signature is valid."""
    return token.partition(".")[0]
