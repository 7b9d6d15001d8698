"""Credit notes over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.credit_notes import CreditNote
from usagebill.core.metadata import Metadata
from usagebill.http.endpoints import Endpoint
from usagebill.operations import credit_notes, refunds
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.runtime.work import Work
from usagebill.views.credit_notes import CreditNoteView, credit_note_estimate_view, credit_note_view


def _metadata_view(_: Work, metadata: Metadata | None) -> Mapping[str, str | None] | None:
    return metadata


class DownloadedCreditNoteView(TypedDict):
    credit_note: CreditNoteView


def _downloaded(work: Work, credit_note: CreditNote | None) -> DownloadedCreditNoteView | bytes:
    return b"" if credit_note is None else {"credit_note": credit_note_view(work, credit_note)}


ENDPOINTS = [
    Endpoint(
        "POST",
        "/credit_notes",
        credit_notes.create,
        body=credit_notes.CreditNoteInput,
        root="credit_note",
        returns="credit_note",
        view=credit_note_view,
        summary="Create a credit note",
    ),
    Endpoint(
        "POST",
        "/credit_notes/estimate",
        credit_notes.estimate,
        body=credit_notes.CreditNoteEstimateInput,
        root="credit_note",
        returns="estimated_credit_note",
        view=credit_note_estimate_view,
        summary="Estimate a credit note",
    ),
    Endpoint(
        "GET",
        "/credit_notes",
        credit_notes.list_all,
        query=credit_notes.CreditNoteFilters,
        paged=True,
        returns="credit_notes",
        view=credit_note_view,
        summary="List credit notes",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/credit_notes",
        credit_notes.list_of_customer,
        query=credit_notes.CreditNoteFilters,
        paged=True,
        returns="credit_notes",
        view=credit_note_view,
        summary="List the credit notes of a customer",
    ),
    Endpoint(
        "GET",
        "/credit_notes/{credit_note_id}",
        finalized_credit_note,
        returns="credit_note",
        view=credit_note_view,
        summary="Get a credit note",
    ),
    Endpoint(
        "POST",
        "/credit_notes/{credit_note_id}/retry_refund",
        refunds.retry,
        returns="credit_note",
        view=credit_note_view,
        summary="Order the refund of a credit note again, as far as it failed",
    ),
    Endpoint(
        "PUT",
        "/credit_notes/{credit_note_id}",
        credit_notes.update,
        body=credit_notes.CreditNoteUpdate,
        root="credit_note",
        find=finalized_credit_note,
        found_first=True,
        returns="credit_note",
        view=credit_note_view,
        summary="Set the refund status, and merge metadata",
    ),
    Endpoint(
        "PUT",
        "/credit_notes/{credit_note_id}/void",
        credit_notes.void,
        one_verb=True,
        returns="credit_note",
        view=credit_note_view,
        summary="Void the remaining credit of a credit note",
    ),
    Endpoint(
        "POST",
        "/credit_notes/{credit_note_id}/metadata",
        credit_notes.replace_metadata,
        body=credit_notes.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Replace the metadata of a credit note",
    ),
    Endpoint(
        "PUT",
        "/credit_notes/{credit_note_id}/metadata",
        credit_notes.merge_metadata,
        body=credit_notes.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Merge metadata of a credit note",
    ),
    Endpoint(
        "DELETE",
        "/credit_notes/{credit_note_id}/metadata",
        credit_notes.delete_metadata,
        returns="metadata",
        view=_metadata_view,
        summary="Remove the metadata of a credit note",
    ),
    Endpoint(
        "DELETE",
        "/credit_notes/{credit_note_id}/metadata/{key}",
        credit_notes.delete_metadata_key,
        returns="metadata",
        view=_metadata_view,
        summary="Remove one key of the metadata of a credit note",
    ),
    Endpoint(
        "POST",
        "/credit_notes/{credit_note_id}/download",
        documents.download_credit_note,
        view=_downloaded,
        summary="The PDF of a credit note: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/credit_notes/{credit_note_id}/download_pdf",
        documents.download_credit_note,
        view=_downloaded,
        summary="The PDF of a credit note: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/credit_notes/{credit_note_id}/download_xml",
        documents.download_credit_note_xml,
        view=_downloaded,
        summary="The XML of a credit note: its address, or an empty body while it is made",
    ),
    Endpoint(
        "POST",
        "/credit_notes/{credit_note_id}/resend_email",
        emails.resend_credit_note,
        body=emails.ResendInput,
        summary="Send a credit note by e-mail, to the customer or to others",
    ),
]
