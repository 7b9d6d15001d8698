"""The backlog: overdue jobs, run before anything changes that they depend on.

Every command declares whose backlog it settles first (`after_backlog`), or why no bill can depend on it
(`without_backlog`); `bindings.command` refuses one that declares neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial, wraps
from inspect import signature, unwrap
from typing import Any, TypeVar

from usagebill.core.customers import Customer
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.jobs import Job
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import HOLDING_ID, Subscription
from usagebill.core.tasks import (
    ChangeEuRates,
    CheckUsageThresholds,
    EndPlan,
    ExpireCoupon,
    PlanAmountChanged,
    PricesTakeEffect,
    ProcessEvents,
    RescheduleEntity,
)
from usagebill.runtime.ahead import Wanted
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import any_of, eq, has, missing, related, within
from usagebill.storage.jobs import task_of

Operation = TypeVar("Operation", bound=Callable[..., Any])
# The ids of the customers whose backlog is settled, from the operation's first argument; None means everyone's.
Whose = Callable[[Work, Any], Iterable[str] | None]


class Unrelated(StrEnum):
    """Why no bill depends on whether a command comes before or after an overdue job."""

    NEW = "nothing refers yet to what it creates"
    NOT_BILLED = "no bill is made of what it changes"
    OWN_INSTANT = "an event counts from the instant at which it is received, and a job acts as of the one it was due"
    STORED = "it shows or sends what is stored"
    ITSELF = "it settles the backlog itself, where it knows more"
    ROLLED_BACK = "everything it does is rolled back"
    CONNECTION = "it decides who may call, and how others are reached"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a command declares: `whose` backlog it settles, or the reason why it settles none. `on_snapshot`: it changes
    nothing, and is run as a query.
    """

    whose: Whose | None = None
    reason: Unrelated | None = None
    on_snapshot: bool = False


_DECLARED: dict[Callable[..., Any], Backlog] = {}


def declared_backlog(operation: Callable[..., Any]) -> Backlog | None:
    """The declaration of an operation; None if it has none."""
    return _DECLARED.get(unwrap(operation))


def is_query(operation: Callable[..., Any]) -> bool:
    """Whether a command changes nothing, and is run as a query."""
    declared = declared_backlog(operation)
    return declared is not None and declared.on_snapshot


def after_backlog(whose: Whose, *, needed: bool = False) -> Callable[[Operation], Operation]:
    """Decorate an operation so that it first settles the backlog of the customers that `whose` names.

    `whose` gets the operation's first argument after the work: an id, a code or the request. See `settle_backlog` for
    `needed`.
    """

    def declare(operation: Operation) -> Operation:
        name = list(signature(operation).parameters)[1]

        @wraps(operation)
        def settled(work: Work, *path: Any, **fields: Any) -> Any:
            if work.tx.jobs.overdue(None, work.now) is not None:
                customer_ids = whose(work, path[0] if path else fields[name])
                if customer_ids is None:
                    _settle_everyone(work)
                else:
                    catch_up(work, customer_ids, needed=needed)
            return operation(work, *path, **fields)

        _DECLARED[operation] = Backlog(whose=whose)
        # `wraps` keeps the signature, which the type of a generic wrapper cannot express.
        return settled  # type: ignore[return-value]

    return declare


def without_backlog(reason: Unrelated, *, on_snapshot: bool = False) -> Callable[[Operation], Operation]:
    """Declare that no bill depends on whether the operation comes before or after an overdue job, and perhaps that it
    is run as a query (`Backlog`).
    """

    def declare(operation: Operation) -> Operation:
        _DECLARED[unwrap(operation)] = Backlog(reason=reason, on_snapshot=on_snapshot)
        return operation

    return declare


def catch_up(work: Work, customer_ids: Iterable[str], *, needed: bool = False, foreseen: bool = False) -> None:
    """Run the overdue jobs that the customers' bills depend on in order, each as of its due instant: their own, and
    those of their events, of their subscriptions' thresholds and of everybody.

    So a period that closed while no worker was running is billed as if the change had not been made yet, and the change
    cannot lose it. A failing job fails the operation if the backlog is `needed`; otherwise the customer's jobs are left
    to the next retry, which the change may let succeed. `foreseen`: for a preview, jobs of everybody that are yet to
    come run without those of other customers, whose periods are nothing to it.
    """
    ids = list(dict.fromkeys(customer_ids))
    if not ids:
        return
    # Subjects with a failing job that is not the customers' own.
    left: list[str] = []
    subjects = _subjects(work, ids)
    while (job := work.tx.jobs.overdue(subjects, work.now, but_of=left)) is not None:
        if job.kind in _OF_EVERYONE and not foreseen:
            # Others' periods that closed before belong before it too.
            _settle_everyone(work.at(job.due_at))
            if work.tx.jobs.get(job.key) == job:
                left.append(job.subject_id)
        elif (problem := _problem_with(work, job)) is not None:
            if job.subject_id not in ids:
                left.append(job.subject_id)
            elif needed:
                # The error comes from the overdue job, not from this request.
                raise RuntimeError(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}") from problem
            else:
                return
        if job.kind not in _OF_SOME:
            subjects = _subjects(work, ids)


def is_behind(reader: Reader, external_ids: Collection[str]) -> bool:
    """Whether `catch_up` has anything to do for the customers of these subscriptions."""
    if reader.tx.jobs.overdue(None, reader.now) is None:
        return False
    customer_ids = of_named_subscriptions(reader, external_ids)
    return reader.tx.jobs.overdue(_subjects(reader, customer_ids), reader.now) is not None


# The subjects of these are no customers: events (of some customers), a subscription, and what everybody's bills are
# made of.
_OF_SOME = (ProcessEvents.kind, CheckUsageThresholds.kind)
_OF_EVERYONE = (
    ChangeEuRates.kind,
    ExpireCoupon.kind,
    RescheduleEntity.kind,
    PlanAmountChanged.kind,
    PricesTakeEffect.kind,
    EndPlan.kind,
)


def _subjects(reader: Reader, customer_ids: Sequence[str]) -> list[str]:
    """The customers, and the subjects of overdue jobs of other subjects that their bills depend on."""
    jobs = reader.tx.jobs.overdue_of((*_OF_SOME, *_OF_EVERYONE), reader.now)
    if not jobs:
        return [*customer_ids]
    named = {job.id: set(task_of(ProcessEvents, job).events) for job in jobs if job.kind == ProcessEvents.kind}
    checked = {job.subject_id for job in jobs if job.kind == CheckUsageThresholds.kind}
    theirs = within("customer_id", customer_ids)
    ids = {one.id for one in reader.tx.find(Subscription, theirs, within("id", checked))} if checked else set()
    events = set().union(*named.values())
    names = {one.external_id for one in reader.tx.find(Subscription, theirs, within("external_id", events))}
    return [
        *customer_ids,
        *(
            job.subject_id
            for job in jobs
            if job.kind in _OF_EVERYONE or job.subject_id in ids or not names.isdisjoint(named.get(job.id, ()))
        ),
    ]


def catch_up_before(work: Work, customer_ids: Collection[str], *, needed: bool = False) -> None:
    """What `catch_up` runs, but of this very instant the customers' own jobs alone: for jobs that run at once, ahead of
    overdue ones. Others of this instant follow from the same change, and have their turn.
    """
    catch_up(work.at(work.now - MICROSECOND), customer_ids, needed=needed)
    settle_backlog(work, *customer_ids, needed=needed)


def settle_backlog(work: Work, *customer_ids: str, needed: bool = True) -> None:
    """Run the customers' own overdue jobs in order, as `catch_up` does, but no checks of thresholds: after `catch_up`,
    and for what is yet to come.
    """
    while customer_ids and (job := work.tx.jobs.overdue(customer_ids, work.now)) is not None:
        problem = _problem_with(work, job)
        if problem is None:
            continue
        if needed:
            raise RuntimeError(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}") from problem
        return


def _settle_everyone(work: Work) -> None:
    """Run the overdue jobs of the organization in order. Those of a subject with a failing job are left to its retry,
    so that one customer's failure does not keep anybody from changing a price.
    """
    left: list[str] = []
    while (job := work.tx.jobs.overdue(None, work.now, but_of=left)) is not None:
        if _problem_with(work, job) is not None:
            left.append(job.subject_id)


def _problem_with(work: Work, job: Job) -> Exception | None:
    """Run an overdue job as of its due instant; the error, if it fails, with nothing left of its effects."""
    try:
        # A reader of another instant shares the messages and the memory.
        work.attempt(partial(work.at(job.due_at).perform, job))
    except Wanted:
        raise
    except Exception as problem:
        return problem
    return None


def of_everyone(work: Work, _: object) -> None:
    """The backlog of the whole organization: the change may concern any customer."""


def of_customer(work: Work, external_id: object) -> list[str]:
    """The backlog of the customer with this external id."""
    customer = work.tx.first(Customer, eq("external_id", external_id)) if isinstance(external_id, str) else None
    return [] if customer is None else [customer.id]


def of_customer_in(work: Work, request: Any) -> list[str]:
    """The backlog of the customer that a request names by its `external_customer_id`."""
    return of_customer(work, request.external_customer_id)


def of_record(kind: type, field: str | None = None) -> Whose:
    """The backlog of the customer whose record of a kind has this id, or the id in a field of the request."""

    def whose(work: Work, argument: Any) -> list[str]:
        id = argument if field is None else getattr(argument, field)
        record: Any = work.tx.get(kind, id) if isinstance(id, str) else None
        return [] if record is None else [record.customer_id]

    return whose


def of_subscriptions(work: Work, external_id: str) -> list[str]:
    """The backlog before a request about the subscription with this external id: an overdue start, plan change or end
    may decide which subscription that is.
    """
    return of_named_subscriptions(work, (external_id,))


def of_named_subscriptions(reader: Reader, external_ids: Collection[str]) -> list[str]:
    """The backlog of the customers that have or had a subscription with one of these external ids."""
    named = reader.tx.find(Subscription, within("external_id", external_ids))
    return [subscription.customer_id for subscription in named]


def of_plan(work: Work, code: str) -> list[str]:
    """The backlog of every customer with a subscription on the plan or an override of it, or, of one that has ended,
    with a draft that bills it or an event that is not priced yet, before prices change.
    """
    plan = work.tx.first(Plan, eq("code", code), missing("parent_id"))
    if plan is None:
        return []
    on_it = any_of(eq("plan_id", plan.id), related(Plan, "plan_id", eq("parent_id", plan.id)))
    concerned = work.tx.find(Subscription, on_it, within("status", HOLDING_ID))
    drafts = work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT), has(BillingPeriod, "invoice_id", on_it))
    unpriced = work.tx.jobs.overdue_of((ProcessEvents.kind,), work.now)
    names = set().union(*(task_of(ProcessEvents, job).events for job in unpriced))
    if names:
        concerned += work.tx.find(Subscription, on_it, within("external_id", names))
    return [*(subscription.customer_id for subscription in concerned), *(draft.customer_id for draft in drafts)]
