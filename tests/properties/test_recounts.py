"""Whatever happens to prices, usage and invoices, a recount finds nothing but what was changed behind their back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, strategies as st

from tests.examples import examples
from tests.properties.priced_lives import PricedLife, PricedPlan, Step, live, priced_lives
from tests.scenarios import Scenario
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.recounts import CHANGED, UNUSED_TIME
from usagebill.operations.audit import AuditReport, audit
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, missing, related, within

pytestmark = pytest.mark.slow

START = datetime(2024, 1, 5, 11, tzinfo=UTC)
_moderate = examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Renewed in advance, and given an override while the invoice is a draft.
_PLAN = PricedPlan(
    charges=(17, 18),
    amount_cents=0,
    interval="weekly",
    pay_in_advance=False,
    fixed_in_advance=True,
    fixed_prorated=False,
    trial_days=0,
    commitment=0,
    threshold=0,
)
_OVERRIDDEN_DRAFT = PricedLife(
    zone="UTC",
    grace_days=5,
    anniversary=True,
    plans=(_PLAN, replace(_PLAN, charges=(16, 0, 18), pay_in_advance=True, fixed_in_advance=False)),
    steps=(
        Step(wait=timedelta(0), what="usage", number=31),
        Step(wait=timedelta(hours=19), what="charge", number=23),
        Step(wait=timedelta(days=27), what="override", number=31),
        Step(wait=timedelta(days=30), what="usage", number=6),
    ),
)


@_moderate
@given(priced_lives(), st.booleans())
@example(_OVERRIDDEN_DRAFT, True)
def test_a_recount_of_what_was_billed_by_the_rules_finds_nothing(life: PricedLife, jump: bool) -> None:
    with Scenario(now=START) as box:
        live(box, life, jump=jump)
        report = box.billing.audit()
        assert [str(finding) for finding in report.findings] == []
        assert CHANGED not in {left.reason for left in report.not_recounted}
        # Credits for unused time are lines of credit notes.
        done = sum(count for kind, count in report.recounted.items() if kind != UNUSED_TIME)
        left = sum(reason.count for reason in report.not_recounted if reason.kind != UNUSED_TIME)
        # What is left may be a line that the rules of today would bill, and that there is none of.
        assert done <= len(box.billing.reading(recountable)) <= done + left


def recountable(work: Reader) -> list[Fee]:
    """The fees of issued invoices, and those without one, that follow from something."""
    kinds = within("fee_type", ("charge", "subscription", "fixed_charge", "commitment"))
    issued = related(Invoice, "invoice_id", within("status", ("finalized", "voided")))
    order = [asc("created_at"), asc("id")]
    return [
        *work.tx.find(Fee, kinds, issued, order=order),
        *work.tx.find(Fee, eq("fee_type", "charge"), missing("invoice_id"), order=order),
    ]


@_moderate
@given(priced_lives(10), st.integers(0, 1000))
def test_a_fee_that_is_twice_what_it_was_is_found_or_was_not_recounted(life: PricedLife, place: int) -> None:
    with Scenario(now=START) as box:
        live(box, life)

        def planted(work: Work) -> AuditReport | None:
            fees = [fee for fee in recountable(work) if fee.amount_cents]
            if not fees:
                return None
            fee = fees[place % len(fees)]
            precise = fee.precise_amount_cents * 2
            doubled = replace(fee, units=fee.units * 2, amount_cents=fee.amount_cents * 2, precise_amount_cents=precise)
            work.tx.replace(doubled)
            return audit(work)

        before, after = box.billing.audit(), box.billing.writing(planted)
        if after is None:
            return
        recounted = any(finding.check == "fee_recount" for finding in after.findings)
        assert recounted or sum(reason.count for reason in after.not_recounted) > 0
        assert sum(before.recounted.values()) >= sum(after.recounted.values())
