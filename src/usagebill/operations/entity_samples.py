"""Samples: how the invoices of a billing entity would look after a change of its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from usagebill.core.documents.files import DocumentKind
from usagebill.core.errors import NotFound
from usagebill.core.invoices.life_cycle import ISSUED
from usagebill.core.invoices.records import Invoice
from usagebill.operations import billing_entities
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.billing_entities import BillingEntityInput
from usagebill.operations.documents.drawing import drawing
from usagebill.runtime.work import Work
from usagebill.storage.conditions import desc, eq, within


@without_backlog(Unrelated.ROLLED_BACK)
def sample_invoice(work: Work, code: str, request: BillingEntityInput) -> Callable[[], bytes]:
    """What draws the latest invoice of a billing entity as it would be issued after the change; nothing is stored.

    Raises as `billing_entities.update` does, and `NotFound` without an invoice.
    """

    def play(future: Work) -> Callable[[], bytes]:
        entity = billing_entities.update(future, code, request)
        latest = [desc("created_at"), desc("id")]
        of_entity = eq("billing_entity_id", entity.id), within("status", sorted(ISSUED))
        invoice = future.tx.first(Invoice, *of_entity, order=latest)
        if invoice is None:
            raise NotFound("invoice")
        # Without its own copies it shows the entity and the customer as they are.
        return drawing(future, replace(invoice, customer_snapshot=None, issuer_version_id=None), DocumentKind.PDF)

    return work.dry_run(play)
