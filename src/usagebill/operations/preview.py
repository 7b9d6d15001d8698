"""Previews: the coming invoice, made by the same operations that would make it, and rolled back.

A preview plays the future in its own transaction: it creates the subscription, changes its plan, ends it or lets its
period close, each at the instant at which that would happen, copies the invoice, and rolls everything back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import TypeVar
from zoneinfo import ZoneInfo

from usagebill.core import limits
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupons import (
    AppliedCoupon,
    Coupon,
    CouponExpiration,
    CouponFrequency,
    CouponStatus,
    CouponType,
    applied_to,
)
from usagebill.core.customers import Customer
from usagebill.core.days import local_date
from usagebill.core.errors import BadRequest, Invalid, NotFound
from usagebill.core.instants import MICROSECOND, parse_instant
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.invoices.changes import finalized_before
from usagebill.core.invoices.explained import ExplainedInvoice
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.limits import LONGEST_FORESIGHT
from usagebill.core.periods import day_start, first_opening
from usagebill.core.periods.calendar import BillingTime
from usagebill.core.periods.schedule import (
    end_before_run,
    next_close,
    trial_end_before_run,
)
from usagebill.core.phases import day_of
from usagebill.core.plans import Plan
from usagebill.core.subscription_requests import preview_problem
from usagebill.core.subscriptions import (
    UNENDED,
    Start,
    Subscription,
    SubscriptionStatus,
    cycle_of,
    is_upgrade,
    known_since,
    start_of,
)
from usagebill.operations import coupons, customers
from usagebill.operations.backlog import Unrelated, catch_up, without_backlog
from usagebill.operations.coupons import CouponInput
from usagebill.operations.customer_currency import bill_in
from usagebill.operations.customers import CustomerInput
from usagebill.operations.invoices.provider_taxes import previewed
from usagebill.operations.invoices.subscription import bill, compute, finalize
from usagebill.operations.subscriptions.change import apply_downgrade
from usagebill.operations.subscriptions.creation import create
from usagebill.operations.subscriptions.inputs import PhaseInput, StatusOptions, SubscriptionInput, SubscriptionUpdate
from usagebill.operations.subscriptions.termination import terminate
from usagebill.operations.subscriptions.update import update
from usagebill.process.json_text import JsonObject
from usagebill.queries.billing_periods import billed_through_day
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_by_external_id, customer_of, zone_of
from usagebill.queries.subscriptions import plan_of, scheduled_after
from usagebill.queries.takeovers import takeover
from usagebill.rating.explain import explain
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.invoice import Entry
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, is_given, read
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, within
from usagebill.views.invoices import invoice_view

T = TypeVar("T")


class NoInvoice(NotFound):
    """What was to be previewed leads to no invoice."""

    def __init__(self) -> None:
        super().__init__("subscription")


@Input
class PreviewInput:
    """`customer` and `plan_code` for a new subscription; `subscriptions` {external_ids, plan_code, terminated_at} for
    the next invoice of an existing customer."""

    customer: Maybe[Mapping[str, object]] = described(
        "The customer: an `external_id`, fields that replace the stored ones, or both.",
        required="create",
        shape=CustomerInput,
    )
    plan_code: Maybe[str] = ABSENT
    subscription_at: Maybe[str] = ABSENT
    bill_from: Maybe[str] = ABSENT
    billing_time: Maybe[str] = ABSENT
    coupons: Maybe[object] = described(
        "Coupons for a customer without any: by `code`, or with the fields of a new one.", shape=tuple[CouponInput, ...]
    )
    subscriptions: Maybe[object] = described("Existing subscriptions to preview the next invoice of.")
    billing_entity_code: Maybe[str] = ABSENT
    phases: Maybe[tuple[PhaseInput, ...]] = described(
        "Phases of the new subscription, or those that a single existing one would have instead of its own.",
        most=limits.MOST_PHASES,
    )


@Input
class CourseInput(PreviewInput):
    """What `PreviewInput` says, and how far to look."""

    until: Maybe[object] = described(
        "The last day, in the customer's time zone, on which an invoice is previewed.",
        example="2027-01-01",
        default="the day on which the first period of the last phase has ended",
    )


@without_backlog(Unrelated.ROLLED_BACK)
def preview(work: Work, request: PreviewInput) -> JsonObject:
    """The coming invoice, as JSON without a number. Nothing is stored, so its ids name nothing afterwards.

    Without `subscriptions` a new subscription on `plan_code` is billed for the first time; with them, their next
    invoice, or the one of their end (`terminated_at`) or change of plan (`plan_code` inside). Raises `BadRequest`,
    `NotFound` and `Invalid` as the fields demand.
    """
    return _foreseen(work, request, _shown)


@without_backlog(Unrelated.ROLLED_BACK)
def explain_preview(work: Work, request: PreviewInput) -> ExplainedInvoice:
    """The coming invoice of `preview`, each of its lines explained from the events so far; nothing is stored.

    Raises as `preview` does.
    """
    return _foreseen(work, request, _explained)


@without_backlog(Unrelated.ROLLED_BACK)
def preview_all(work: Work, request: CourseInput) -> list[JsonObject]:
    """All coming invoices until a day, oldest first, as JSON without a number: those of a ramp, for example, each with
    the plan and the prices that will count then. Nothing is stored, so their ids name nothing afterwards.

    They are of a new subscription on `plan_code`, or of `subscriptions`, whose plan or phases may change now. Usage is
    that of so far. Raises as `preview` does, and `Invalid` for an `until` that is no day to come or too far off.
    """

    def play(future: Work, customer: Customer) -> list[JsonObject]:
        known = {invoice.id for invoice in _invoices(future, customer.id)}
        begun, chosen = _entered(future, customer, request)
        zone = zone_of(future, customer)
        day = _last_day(begun, chosen, request.until, zone)
        # The last moment of the day: its runs are over.
        later = future.at(day_start(day + timedelta(days=1), zone) - MICROSECOND)
        _settle(later, customer.id)
        names = {subscription.external_id for subscription in chosen}
        ids = {found.id for found in later.tx.find(Subscription, within("external_id", sorted(names)))}
        billed = {period.invoice_id for period in later.tx.find(BillingPeriod, within("subscription_id", sorted(ids)))}
        made = [found for found in _invoices(later, customer.id) if found.id in billed and found.id not in known]
        in_order = sorted(made, key=lambda invoice: (invoice.created_at, invoice.id))
        return [_shown(later, previewed(later, _complete(later, invoice))) for invoice in in_order]

    return _in_future(work, request, play)


def _foreseen(work: Work, request: PreviewInput, shown: Callable[[Work, Invoice], T]) -> T:
    """What is shown of the coming invoice, which exists until then."""

    def play(future: Work, customer: Customer) -> T:
        at, invoice = _played(future, customer, request)
        return shown(future.at(at), previewed(future.at(at), invoice))

    return _in_future(work, request, play)


def _in_future(work: Work, request: PreviewInput, play: Callable[[Work, Customer], T]) -> T:
    """The result of `play`, which gets the customer with its coupons, and is rolled back."""
    if request.coupons and not isinstance(request.coupons, (list, tuple)):
        raise BadRequest("coupons_must_be_an_array")
    if request.subscriptions and not isinstance(request.subscriptions, Mapping):
        raise BadRequest("subscriptions_must_be_an_object")
    if not request.customer:
        raise BadRequest("BadRequest: param is missing or the value is empty or invalid: customer")

    def act(future: Work) -> T:
        customer = _customer(future, request)
        _coupons(future, customer, request.coupons)
        return play(future, customer)

    return work.dry_run(act)


def plan_change(
    work: Work, subscription: Subscription, plan_code: str, shown: Callable[[Work, Invoice], T]
) -> T | None:
    """What `shown` makes of the next invoice after a change of plan; None if the change leads to none.

    Nothing is stored. Raises as `preview` does.
    """

    def play(future: Work) -> T | None:
        catch_up(future, (subscription.customer_id,))
        current = future.tx.get(Subscription, subscription.id) or subscription
        try:
            at, invoice = _changed(future, current, plan_code)
        except NoInvoice:
            return None
        later = future.at(at)
        return shown(later, previewed(later, invoice))

    return work.dry_run(play)


def _customer(work: Work, request: PreviewInput) -> Customer:
    """The customer with the sent fields in place of its own; without an external id, one created for this preview."""
    sent = dict(request.customer or {})
    external_id = sent.get("external_id")
    if request.billing_entity_code:
        known = eq("code", request.billing_entity_code), missing("archived_at")
        if work.tx.first(BillingEntity, *known) is None:
            raise NotFound("billing_entity", request.billing_entity_code)
    if external_id:
        customer_by_external_id(work, str(external_id))
    elif _external_ids(request):
        raise Invalid(customer="must_be_persisted")
    else:
        sent["external_id"] = work.new_id()
        if request.billing_entity_code:
            sent["billing_entity_code"] = request.billing_entity_code
    # A preview calls no integrations, and has no metadata.
    for name in ("integration_customers", "metadata"):
        sent.pop(name, None)
    if external_id and len(sent) == 1:
        # Nothing of the customer changes, so nothing has to be decided again.
        stored = customer_by_external_id(work, str(external_id))
        catch_up(work, (stored.id,))
        return customer_by_external_id(work, str(external_id))
    return customers.upsert(work, read(CustomerInput, sent))


def _coupons(work: Work, customer: Customer, sent: object) -> None:
    """Attach the sent coupons to a customer without any: by code if it exists, else as described."""
    if work.tx.first(AppliedCoupon, eq("customer_id", customer.id), eq("status", CouponStatus.ACTIVE)) is not None:
        return
    for item in sent if isinstance(sent, (list, tuple)) else ():
        if not isinstance(item, Mapping):
            continue
        request = read(CouponInput, item)
        coupon = work.tx.first(Coupon, eq("code", request.code)) if request.code else None
        if coupon is None:
            frequency = CouponFrequency.RECURRING if request.frequency_duration else CouponFrequency.ONCE
            kind = request.coupon_type or (
                CouponType.PERCENTAGE if request.percentage_rate else CouponType.FIXED_AMOUNT
            )
            described = {
                **item,
                "name": request.name or "Coupon",
                "code": request.code or work.new_id(),
                "coupon_type": kind,
                "frequency": request.frequency or frequency,
                "expiration": CouponExpiration.NO_EXPIRATION,
            }
            coupon = coupons.create(work, read(CouponInput, described))
        applied = applied_to(coupon, customer.id, id=work.new_id(), now=work.now)
        if applied.amount_currency is not None:
            customer = bill_in(work, customer, applied.amount_currency)
        work.tx.insert(applied)


def _chosen(request: PreviewInput) -> Mapping[str, object]:
    """Which subscriptions are to be previewed, and what happens to them."""
    return request.subscriptions if isinstance(request.subscriptions, Mapping) else {}


def _external_ids(request: PreviewInput) -> tuple[str, ...]:
    ids = _chosen(request).get("external_ids")
    return tuple(str(id) for id in ids) if isinstance(ids, (list, tuple)) else ()


def _played(work: Work, customer: Customer, request: PreviewInput) -> tuple[datetime, Invoice]:
    """Play the requested change. Returns the instant of the invoice, and the invoice."""
    ids = _external_ids(request)
    if not ids:
        return _purchased(work, customer, request)
    chosen = _chosen(request)
    subscriptions = _with_phases(work, _subscriptions(work, customer, ids), request)
    if chosen.get("terminated_at") is not None:
        return _ended(work, _only(subscriptions, "termination"), _terminated_at(work, chosen["terminated_at"]))
    if chosen.get("plan_code"):
        return _changed(work, _only(subscriptions, "plan_change"), str(chosen["plan_code"]))
    if len(subscriptions) == 1 and subscriptions[0].status == SubscriptionStatus.PENDING:
        return _begun(work, subscriptions[0])
    if len(subscriptions) == 1 and (at := _end_before_run(work, subscriptions[0])) is not None:
        return _ended(work, subscriptions[0], at)
    return _continued(work, subscriptions)


def _entered(work: Work, customer: Customer, request: CourseInput) -> tuple[Work, list[Subscription]]:
    """Enter the requested change. Returns the instant of it, and the subscriptions to be previewed."""
    ids = _external_ids(request)
    if not ids:
        start, _, create_it = _purchase(work, customer, request)
        return start, [create_it()]
    if _chosen(request).get("terminated_at") is not None:
        raise Invalid({"subscriptions.terminated_at": ["incompatible_params"]})
    subscriptions = _with_phases(work, _subscriptions(work, customer, ids), request)
    if code := _chosen(request).get("plan_code"):
        changing = _only(subscriptions, "plan_change")
        request_of_change = _change_request(work, changing, str(code))
        return work, [create(work, request_of_change)]
    return work, subscriptions


def _with_phases(work: Work, subscriptions: list[Subscription], request: PreviewInput) -> list[Subscription]:
    """The subscriptions, the only one with the phases that were sent in place of its own."""
    if not is_given(request.phases):
        return subscriptions
    if len(subscriptions) > 1:
        raise Invalid(phases="only_one_subscription_allowed_for_plan_change")
    (subscription,) = subscriptions
    status = StatusOptions(status=subscription.status)
    return [update(work, subscription.external_id, SubscriptionUpdate(phases=request.phases), status)]


def _last_day(work: Work, subscriptions: Sequence[Subscription], until: object, zone: ZoneInfo) -> date:
    """The day up to which invoices are previewed: `until`, or when each has been billed for its last phase once."""
    today = local_date(work.now, zone)
    if until is not None and is_given(until):
        day = day_of(until)
        if day is None:
            raise Invalid(until="invalid_date")
        if day < today:
            raise Invalid(until="cannot_be_in_past")
    else:
        day = max(_billed_once(work, subscription, today) for subscription in subscriptions)
    if timedelta(days=(day - today).days) > LONGEST_FORESIGHT:
        raise Invalid(until="value_is_out_of_range")
    return day


def _billed_once(reader: Reader, subscription: Subscription, today: date) -> date:
    """The day on which the period has ended that the last phase begins with; without any, that of its next invoice."""
    contract = contract_of(reader, subscription)
    begun = replace(subscription, started_at=subscription.started_at or subscription.subscription_at)
    cycle = cycle_of(begun, contract.plan, contract.zone)
    days = [coming.phase_from for coming in scheduled_after(reader, subscription) if coming.phase_from is not None]
    last = first_opening(cycle, days[-1]) if days else max(today, cycle.start_date)
    return first_opening(cycle, last + timedelta(days=1))


def _subscriptions(work: Work, customer: Customer, ids: Sequence[str]) -> list[Subscription]:
    subscriptions = work.tx.find(
        Subscription,
        eq("customer_id", customer.id),
        within("external_id", ids),
        within("status", UNENDED),
    )
    # A scheduled downgrade belongs to the subscription that it will follow.
    subscriptions = [
        subscription
        for subscription in subscriptions
        if subscription.status == SubscriptionStatus.ACTIVE or subscription.previous_subscription_id is None
    ]
    if unknown := set(ids) - {subscription.external_id for subscription in subscriptions}:
        raise NotFound("subscription", min(unknown))
    return subscriptions


def _only(subscriptions: Sequence[Subscription], context: str) -> Subscription:
    if len(subscriptions) > 1:
        raise Invalid(subscriptions=f"only_one_subscription_allowed_for_{context}")
    return subscriptions[0]


def _terminated_at(work: Work, sent: object) -> datetime:
    at = parse_instant(sent) if isinstance(sent, str) else None
    if at is None:
        raise Invalid(terminated_at="invalid_timestamp")
    if at < work.now:
        raise Invalid(terminated_at="cannot_be_in_past")
    _check_foresight(work, at, "terminated_at")
    return at


def _check_foresight(work: Work, at: datetime, field: str) -> None:
    if at - work.now > LONGEST_FORESIGHT:
        raise Invalid({field: ["value_is_out_of_range"]})


def _plan(work: Work, code: object) -> Plan:
    plan = work.tx.first(Plan, eq("code", code), missing("parent_id")) if code else None
    if plan is None:
        raise NotFound("plan", code)
    return plan


def _next_run(work: Work, subscription: Subscription) -> datetime:
    """The local midnight at which the running period of the subscription ends."""
    contract = contract_of(work, subscription)
    periods = contract.cycle()
    billed = billed_through_day(work, contract, periods)
    return next_close(periods, work.now, billed_on=billed, known_since=known_since(subscription))


def _end_before_run(work: Work, subscription: Subscription) -> datetime | None:
    """The end of the subscription, if that is on or before the day of its next run."""
    if subscription.ending_at is None:
        return None
    zone = zone_of(work, customer_of(work, subscription))
    return end_before_run(subscription.ending_at, _next_run(work, subscription), work.now, zone)


def _trial_end_before(work: Work, subscription: Subscription, run: datetime) -> datetime | None:
    """The instant at which the end of a trial is billed (the first fee in advance), if that precedes the next run."""
    plan = plan_of(work, subscription)
    ends_at = end_of_trial(work, subscription, plan.trial_period) if plan.pay_in_advance else None
    if ends_at is None or subscription.trial_ended_at is not None:
        return None
    return trial_end_before_run(ends_at, run, work.now)


def _made(work: Work, customer_id: str, act: Callable[[], object]) -> Invoice | None:
    """The last of the customer's subscription invoices that `act` makes."""
    before = {invoice.id for invoice in _invoices(work, customer_id)}
    act()
    created = [invoice for invoice in _invoices(work, customer_id) if invoice.id not in before]
    return max(created, key=lambda invoice: invoice.id, default=None)


def _invoices(work: Work, customer_id: str) -> list[Invoice]:
    return work.tx.find(Invoice, eq("customer_id", customer_id), eq("invoice_type", InvoiceType.SUBSCRIPTION))


def _complete(work: Work, invoice: Invoice | None) -> Invoice:
    """The invoice with all credits used at its finalization, even if it would be a draft first."""
    if invoice is None:
        raise NoInvoice
    if invoice.status != InvoiceStatus.DRAFT:
        return invoice
    # Drafts issued before it use up coupons and credits, and issue credit notes that may pay it.
    drafts = work.tx.find(Invoice, eq("customer_id", invoice.customer_id), eq("status", InvoiceStatus.DRAFT))
    for earlier in finalized_before(invoice, drafts):
        finalize(work, earlier)
    return compute(work, invoice, finalizing=True)


def _settle(later: Work, customer_id: str) -> None:
    """Run the jobs that will be due by then and that the customer's bill depends on: its own, its checks of thresholds,
    and those of everybody, such as a change of the VAT rate.
    """
    catch_up(later, (customer_id,), needed=True, foreseen=True)


def _purchase(
    work: Work, customer: Customer, sent_fields: PreviewInput
) -> tuple[Work, bool, Callable[[], Subscription]]:
    """The instant at which a subscription is created, whether it has started before, and how it is created."""
    plan = _plan(work, sent_fields.plan_code)
    begins = parse_instant(sent_fields.subscription_at) if sent_fields.subscription_at else work.now
    if begins is None:
        raise Invalid(subscription_at="invalid_date")
    _check_foresight(work, begins, "subscription_at")
    billing_time = (
        sent_fields.billing_time if sent_fields.billing_time in tuple(BillingTime) else BillingTime.CALENDAR.value
    )
    in_past = start_of(begins, work.now, zone_of(work, customer)) is Start.PAST
    start = work if in_past else work.at(begins)
    request = SubscriptionInput(
        external_customer_id=customer.external_id,
        external_id=work.new_id(),
        plan_code=plan.code,
        billing_time=billing_time,
        subscription_at=begins.isoformat(),
        bill_from=sent_fields.bill_from,
        phases=sent_fields.phases,
    )
    return start, in_past, lambda: create(start, request)


def _purchased(work: Work, customer: Customer, sent_fields: PreviewInput) -> tuple[datetime, Invoice]:
    start, in_past, create_it = _purchase(work, customer, sent_fields)
    created: list[Subscription] = []
    starting = _made(start, customer.id, lambda: created.append(create_it()))
    if starting is not None and (in_past or plan_of(start, created[0]).pay_in_advance):
        return start.now, _complete(start, starting)
    return _continued(start, created)


def _begun(work: Work, pending: Subscription) -> tuple[datetime, Invoice]:
    """The preview of a subscription that starts later: its start, or its first run."""
    begins = day_start(
        local_date(pending.subscription_at, zone_of(work, customer_of(work, pending))),
        zone_of(work, customer_of(work, pending)),
    )
    at = max(begins, work.now) + timedelta(minutes=5)
    later = work.at(at)
    starting = _made(later, pending.customer_id, lambda: _settle(later, pending.customer_id))
    if starting is not None:
        return at, _complete(later, starting)
    active = later.tx.get(Subscription, pending.id)
    return _continued(later, [active or pending])


def _continued(work: Work, subscriptions: Sequence[Subscription]) -> tuple[datetime, Invoice]:
    """The next run of these subscriptions, which must be the same for all; a scheduled downgrade is applied."""
    runs = [_next_run(work, subscription) for subscription in subscriptions]
    currencies = [plan_of(work, subscription).amount_currency for subscription in subscriptions]
    problem = preview_problem(currencies, [subscription.billing_entity_id for subscription in subscriptions], runs)
    if problem is not None:
        raise Invalid(base=problem)
    at = max(runs[0], work.now)
    customer_id = subscriptions[0].customer_id
    if len(subscriptions) == 1 and (noticed := _trial_end_before(work, subscriptions[0], at)) is not None:
        later = work.at(noticed)
        invoice = _made(later, customer_id, lambda: _settle(later, customer_id))
        if invoice is not None:
            return noticed, _complete(later, invoice)
    later = work.at(at)
    _settle(later, customer_id)
    staying = []
    invoice = None
    for subscription in subscriptions:
        contract = contract_of(later, later.tx.get(Subscription, subscription.id) or subscription)
        due = takeover(later, contract)
        if due is not None:
            closing = _made(later, customer_id, partial(apply_downgrade, later, contract, due))
            ended = later.tx.get(Subscription, subscription.id)
            if ended is not None and ended.status == SubscriptionStatus.TERMINATED:
                invoice = closing
                continue
        staying.append(Entry(contract=contract, reason=InvoicingReason.PERIODIC))
    if staying:
        invoice = bill(later, staying, at=at, trigger=Trigger.RUN)
    return at, _complete(later, invoice)


def _ended(work: Work, subscription: Subscription, at: datetime) -> tuple[datetime, Invoice]:
    later = work.at(at)
    _settle(later, subscription.customer_id)
    current = later.tx.get(Subscription, subscription.id) or subscription
    if current.status == SubscriptionStatus.ACTIVE:
        ending = replace(current, on_termination_invoice="generate")
        invoice = _made(later, current.customer_id, lambda: terminate(later, ending, invoice="generate"))
    else:
        period = later.tx.first(
            BillingPeriod, eq("subscription_id", current.id), eq("invoicing_reason", InvoicingReason.TERMINATING)
        )
        invoice = None if period is None else later.tx.get(Invoice, period.invoice_id)
    return at, _complete(later, invoice)


def _change_request(work: Work, subscription: Subscription, plan_code: str) -> SubscriptionInput:
    chosen, contract = _plan(work, plan_code), contract_of(work, subscription)
    if chosen.id in (contract.plan.id, contract.plan.parent_id):
        raise Invalid(base="new_plan_should_be_different_from_existing_plan")
    if chosen.amount_currency != contract.plan.amount_currency:
        raise Invalid(base="subscription_currencies_does_not_match")
    return SubscriptionInput(
        external_customer_id=contract.customer.external_id,
        external_id=subscription.external_id,
        plan_code=plan_code,
    )


def _changed(work: Work, subscription: Subscription, plan_code: str) -> tuple[datetime, Invoice]:
    request = _change_request(work, subscription, plan_code)
    chosen, contract = _plan(work, plan_code), contract_of(work, subscription)
    current_plan, periods = contract.plan, contract.cycle()
    interval = type(periods.interval)
    if is_upgrade(current_plan.amount_cents, periods.interval, chosen.amount_cents, interval(chosen.interval)):
        made = _made(work, subscription.customer_id, lambda: create(work, request))
        return work.now, _complete(work, made)
    create(work, request)
    return _continued(work, [subscription])


def _shown(work: Work, invoice: Invoice) -> JsonObject:
    """The JSON of the invoice, as finalized but without a number; its ids are of records that are never stored."""
    shown: JsonObject = dict(invoice_view(work, _unnumbered(work, invoice)))
    for name in ("metadata", "billing_periods", "error_details", "applied_invoice_custom_sections"):
        shown.pop(name, None)
    return shown


def _explained(work: Work, invoice: Invoice) -> ExplainedInvoice:
    return replace(explain(work, invoice.id), invoice=_unnumbered(work, invoice))


def _unnumbered(work: Work, invoice: Invoice) -> Invoice:
    """The invoice as finalized, but without a number."""
    current = work.tx.get(Invoice, invoice.id) or invoice
    return replace(current, status=InvoiceStatus.FINALIZED, number="", sequential_id=None)
