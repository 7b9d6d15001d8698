"""An invoice as it would look with the settings of a billing entity that were typed, before they are saved."""

from __future__ import annotations

from starlette.responses import Response

from usagebill.console.forms import BY_PATH
from usagebill.console.pages.document import pdf_file
from usagebill.console.pages.form import changes_typed
from usagebill.console.pages.page import Page
from usagebill.console.seat import operation_named
from usagebill.console.visits import Visit
from usagebill.operations.entity_samples import sample_invoice

_UPDATE = "billing_entities.update"


def _drawn(visit: Visit) -> Response:
    code = visit.named("key")
    visit.seat.require(_UPDATE)
    sent = changes_typed(BY_PATH["entities"], visit.form)
    arguments = operation_named(_UPDATE).arguments((code,), sent)
    draw = visit.billing.writing(
        lambda work: sample_invoice(work, code, arguments["request"]), visit.seat.who.organization
    )
    return pdf_file("sample", draw())


PAGES = (Page("/entities/{key}/sample", _drawn, "POST"),)
