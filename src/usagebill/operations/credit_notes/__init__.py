"""Credit notes: issued by request, or for an early end, a void or a surplus; listed, changed, voided, estimated."""

from usagebill.operations.credit_notes.automatic import (
    on_carried_usage as on_carried_usage,
    on_late_activation as on_late_activation,
    on_surplus as on_surplus,
    on_termination as on_termination,
    on_void as on_void,
)
from usagebill.operations.credit_notes.changes import (
    CreditNoteUpdate as CreditNoteUpdate,
    MetadataInput as MetadataInput,
    delete_metadata as delete_metadata,
    delete_metadata_key as delete_metadata_key,
    merge_metadata as merge_metadata,
    replace_metadata as replace_metadata,
    update as update,
    void as void,
)
from usagebill.operations.credit_notes.creation import create as create
from usagebill.operations.credit_notes.estimates import estimate as estimate
from usagebill.operations.credit_notes.inputs import (
    CreditNoteEstimateInput as CreditNoteEstimateInput,
    CreditNoteInput as CreditNoteInput,
)
from usagebill.operations.credit_notes.listing import (
    CreditNoteFilters as CreditNoteFilters,
    list_all as list_all,
    list_of_customer as list_of_customer,
)
from usagebill.queries.credit_notes import finalized_credit_note as finalized_credit_note
