"""Which facts make which invoice: of which type and status, dated when, or none at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.core.builders import invoice

from usagebill.core.bills import Step, issuing_event
from usagebill.core.dates import DatingSettings, dates_at_creation
from usagebill.core.invoice_triggers import (
    KINDS,
    Trigger,
    at_end,
    at_start,
    at_trial_end,
    occasion_of_reasons,
    of_event,
    step_of,
    waits_for_taxes,
)
from usagebill.core.invoices.life_cycle import InvoiceEvent, InvoiceStatus, InvoiceType, transition
from usagebill.core.statuses import TaxStatus
from usagebill.core.subscriptions import TerminationInvoice

GRACE_DAYS = 3
BILLED_AT = datetime(2024, 6, 21, 9, 30, tzinfo=UTC)


def status_of(
    trigger: Trigger,
    cents: int = 100,
    *,
    grace_period: int = 0,
    hidden: bool = False,
    taxed_elsewhere: bool = False,
    sends_empty: bool = False,
) -> InvoiceStatus:
    """The status in which an invoice of one fee is stored."""
    kind = KINDS[trigger]
    waits = taxed_elsewhere and waits_for_taxes(kind.invoice_type, [cents], sends_empty=sends_empty)
    computed = invoice(
        invoice_type=kind.invoice_type, fees_amount_cents=cents, tax_status=TaxStatus.PENDING if waits else None
    )
    match step_of(trigger, grace_period=grace_period, hidden=hidden):
        case Step.DRAFT:
            event = InvoiceEvent.DRAFT
        case Step.AWAIT_PAYMENT:
            event = InvoiceEvent.AWAIT_PAYMENT
        case _:
            event = issuing_event(computed, may_be_empty=kind.may_be_empty, sends_empty=sends_empty)
    return transition(computed.status, event)


@pytest.mark.parametrize(
    ("trigger", "invoice_type", "reasons", "bills_closed_usage", "message"),
    [
        ("run", "subscription", ["subscription_periodic"], True, "invoice.created"),
        ("start", "subscription", ["subscription_starting"], False, "invoice.created"),
        ("trial_end", "subscription", ["subscription_starting"], False, "invoice.created"),
        ("plan_change", "subscription", ["subscription_terminating", "subscription_starting"], True, "invoice.created"),
        ("end", "subscription", ["subscription_terminating"], True, "invoice.created"),
        ("added_units", "subscription", ["in_advance_charge"], True, "invoice.created"),
        ("event", "subscription", ["in_advance_charge"], True, "invoice.created"),
        ("threshold", "progressive_billing", ["progressive_billing"], True, "invoice.created"),
        ("paid_fees", "advance_charges", ["in_advance_charge_periodic"], False, "invoice.created"),
        ("one_off", "one_off", [], True, "invoice.one_off_created"),
        ("purchase", "credit", [], True, "invoice.created"),
    ],
)
def test_what_a_trigger_makes(
    trigger: str, invoice_type: str, reasons: list[str], bills_closed_usage: bool, message: str
) -> None:
    kind = KINDS[Trigger(trigger)]
    assert (kind.invoice_type, list(kind.reasons), not kind.skip_charges, kind.message) == (
        invoice_type,
        reasons,
        bills_closed_usage,
        message,
    )


# Whether the invoice waits for a grace period, and whether it is made although its customer owes nothing.
@pytest.mark.parametrize(
    ("trigger", "in_grace_period", "over_nothing", "taxed_elsewhere"),
    [
        ("run", "draft", "closed", "pending"),
        ("start", "draft", "closed", "pending"),
        ("trial_end", "draft", "closed", "pending"),
        ("plan_change", "draft", "closed", "pending"),
        ("end", "draft", "closed", "pending"),
        ("added_units", "finalized", "closed", "pending"),
        ("event", "finalized", "closed", "pending"),
        ("threshold", "finalized", "finalized", "pending"),
        ("paid_fees", "finalized", "closed", "finalized"),
        ("one_off", "finalized", "closed", "pending"),
        ("purchase", "finalized", "finalized", "finalized"),
    ],
)
def test_the_status_of_a_new_invoice(
    trigger: str, in_grace_period: str, over_nothing: str, taxed_elsewhere: str
) -> None:
    facts = Trigger(trigger)
    assert status_of(facts) == InvoiceStatus.FINALIZED
    assert status_of(facts, grace_period=GRACE_DAYS) == in_grace_period
    assert status_of(facts, 0) == over_nothing
    assert status_of(facts, 0, sends_empty=True) == InvoiceStatus.FINALIZED
    assert status_of(facts, taxed_elsewhere=True) == taxed_elsewhere
    # Nobody is asked about the taxes of an invoice that is not to be sent.
    assert status_of(facts, 0, taxed_elsewhere=True) == over_nothing
    assert status_of(facts, 0, taxed_elsewhere=True, sends_empty=True) == taxed_elsewhere
    # What a subscription or a purchase waits for is paid before anybody sees it.
    assert status_of(facts, grace_period=GRACE_DAYS, hidden=True) == InvoiceStatus.OPEN


@pytest.mark.parametrize("trigger", Trigger)
def test_an_invoice_is_dated_after_its_grace_period_if_it_has_one(trigger: Trigger) -> None:
    settings = DatingSettings(grace_period=GRACE_DAYS)
    waits = step_of(trigger, grace_period=GRACE_DAYS) is Step.DRAFT
    dates = dates_at_creation(KINDS[trigger].occasion, settings, BILLED_AT, UTC)
    assert dates.issuing == dates.expected_finalization == BILLED_AT.date() + timedelta(days=GRACE_DAYS if waits else 0)


@pytest.mark.parametrize("trigger", Trigger)
def test_the_occasion_of_a_stored_invoice_is_that_of_its_trigger(trigger: Trigger) -> None:
    kind = KINDS[trigger]
    assert occasion_of_reasons(kind.invoice_type, kind.reasons) is kind.occasion


def test_a_run_that_also_bills_an_end_is_dated_as_a_run() -> None:
    reasons = (*KINDS[Trigger.END].reasons, *KINDS[Trigger.RUN].reasons)
    assert occasion_of_reasons(InvoiceType.SUBSCRIPTION, reasons) is KINDS[Trigger.RUN].occasion


@pytest.mark.parametrize(
    ("pay_in_advance", "in_trial", "fixed_in_advance", "trigger"),
    [
        (False, False, False, None),
        (False, True, False, None),
        (False, False, True, Trigger.ADDED_UNITS),
        (False, True, True, Trigger.ADDED_UNITS),
        (True, False, False, Trigger.START),
        # The fee and the fixed charges are on one invoice.
        (True, False, True, Trigger.START),
        (True, True, False, None),
        # A trial covers the fee, not the fixed charges.
        (True, True, True, Trigger.ADDED_UNITS),
    ],
)
def test_what_a_subscription_owes_when_it_starts(
    pay_in_advance: bool, in_trial: bool, fixed_in_advance: bool, trigger: Trigger | None
) -> None:
    assert at_start(pay_in_advance=pay_in_advance, in_trial=in_trial, fixed_in_advance=fixed_in_advance) is trigger


@pytest.mark.parametrize(
    ("pay_in_advance", "is_billed", "trigger"),
    [
        (True, False, Trigger.TRIAL_END),
        # The start or a run has billed the period in which it ends.
        (True, True, None),
        # The next run bills what is due in arrears.
        (False, False, None),
    ],
)
def test_whether_the_end_of_a_trial_is_billed(pay_in_advance: bool, is_billed: bool, trigger: Trigger | None) -> None:
    assert at_trial_end(pay_in_advance=pay_in_advance, is_billed=is_billed) is trigger


@pytest.mark.parametrize(
    ("option", "trigger"), [(TerminationInvoice.GENERATE, Trigger.END), (TerminationInvoice.SKIP, None)]
)
def test_whether_an_end_is_invoiced(option: TerminationInvoice, trigger: Trigger | None) -> None:
    assert at_end(option) is trigger


@pytest.mark.parametrize(
    ("invoiceable", "regroup_paid_fees", "trigger"),
    [(True, None, Trigger.EVENT), (False, "invoice", Trigger.PAID_FEES), (False, None, None)],
)
def test_the_invoice_that_the_fee_of_an_event_is_on(
    invoiceable: bool, regroup_paid_fees: str | None, trigger: Trigger | None
) -> None:
    assert of_event(invoiceable=invoiceable, regroup_paid_fees=regroup_paid_fees) is trigger
