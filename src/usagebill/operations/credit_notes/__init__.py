"""Credit notes: issued by request, or for an early end, a void or a surplus; listed, changed, voided, estimated."""

from usagebill.operations.credit_notes.automatic import on_late_activation, on_surplus, on_termination, on_void
from usagebill.operations.credit_notes.changes import (
    CreditNoteUpdate,
    MetadataInput,
    delete_metadata,
    delete_metadata_key,
    merge_metadata,
    replace_metadata,
    update,
    void,
)
from usagebill.operations.credit_notes.creation import create
from usagebill.operations.credit_notes.estimates import estimate
from usagebill.operations.credit_notes.inputs import CreditNoteEstimateInput, CreditNoteInput
from usagebill.operations.credit_notes.listing import CreditNoteFilters, list_all, list_of_customer
from usagebill.queries.credit_notes import finalized_credit_note

__all__ = [
    "CreditNoteEstimateInput",
    "CreditNoteFilters",
    "CreditNoteInput",
    "CreditNoteUpdate",
    "MetadataInput",
    "create",
    "delete_metadata",
    "delete_metadata_key",
    "estimate",
    "finalized_credit_note",
    "list_all",
    "list_of_customer",
    "merge_metadata",
    "on_late_activation",
    "on_surplus",
    "on_termination",
    "on_void",
    "replace_metadata",
    "update",
    "void",
]
