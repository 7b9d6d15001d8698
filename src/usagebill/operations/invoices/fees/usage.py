"""Usage fees: what the events of a period cost, priced by `operations.usage`."""

from __future__ import annotations

from usagebill.core.fees import Fee
from usagebill.core.periods import Succession
from usagebill.operations.invoices.billed import TERMINATING, Billed
from usagebill.operations.plans import PlanDefinition, definition
from usagebill.operations.usage import fees as usage
from usagebill.operations.usage.charges import usage_window
from usagebill.views.subscriptions import successor_of
from usagebill.work import Work

__all__ = ["usage_fees"]


def usage_fees(work: Work, billed: Billed) -> list[Fee]:
    """The fees of the usage charges that this billing period carries, in the order of the charges."""
    charges = billed.boundaries.charges
    if charges is None or billed.invoice.skip_charges or charges.start > charges.end:
        return []
    if charges.start == charges.end and billed.period.invoicing_reason != TERMINATING:
        # A start has nothing to bill; an end at the very start of a period still has that instant, which it includes.
        return []
    upgraded = billed.ended and billed.cycle.succession is Succession.UPGRADE
    return usage.usage_fees(
        work,
        usage.UsageToBill(
            invoice_id=billed.invoice.id,
            subscription=billed.subscription,
            definition=billed.definition,
            window=usage_window(charges, billed.cycle.tz, ended_by_upgrade=upgraded),
            created_at=billed.invoice.created_at,
            known_at=work.now,
            next_plan=_next_plan(work, billed) if upgraded else None,
        ),
    )


def _next_plan(work: Work, billed: Billed) -> PlanDefinition | None:
    following = successor_of(work, billed.subscription)
    return None if following is None else definition(work, following.plan_id)
