"""The backlog: a customer's overdue jobs, run before anything of that customer changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar

from usagebill.core.plans import Plan
from usagebill.core.subscriptions import UNENDED, Subscription
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import plan_by_code
from usagebill.storage.conditions import Condition, any_of, eq, related, within
from usagebill.storage.rehearsal import RunEnds
from usagebill.work import Work

__all__ = ["after_backlog", "of_customer", "of_plan", "of_subscription", "settle_backlog"]

T = TypeVar("T")
Operation = TypeVar("Operation", bound=Callable[..., Any])


def settle_backlog(work: Work, customer_id: str, *, needed: bool = True) -> None:
    """Run the customer's overdue jobs in order, each as of its due instant.

    So a period that closed while no worker was running is billed as if the change had not been made yet, and the change
    cannot lose it. A failing job fails the operation if the backlog is `needed`; otherwise the job is left to its next
    retry, which the change may let succeed.
    """
    while (job := work.tx.jobs.overdue(customer_id, work.now)) is not None:
        emitted = len(work.messages)
        try:
            work.tx.savepoint(partial(work.at(job.due_at).perform, job))
        except RunEnds:
            raise
        except Exception as problem:
            if needed:
                # The error comes from the overdue job, not from this request.
                raise RuntimeError(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}") from problem
            del work.messages[emitted:]
            work.invalidate_all()
            return


def after_backlog(of: Callable[[Work, str], None]) -> Callable[[Operation], Operation]:
    """Decorate an operation so that it first settles the backlog of the customers that `of` returns.

    `of` gets the operation's first argument after the work: an external id or a code.
    """

    def declare(operation: Operation) -> Operation:
        name = list(signature(operation).parameters)[1]

        @wraps(operation)
        def settled(work: Work, *path: Any, **fields: Any) -> Any:
            of(work, path[0] if path else fields[name])
            return operation(work, *path, **fields)

        # `wraps` keeps the signature, which the type of a generic wrapper cannot express.
        return settled  # type: ignore[return-value]

    return declare


def of_customer(work: Work, external_id: str) -> None:
    """The backlog of the customer with this external id. Raises `NotFound`."""
    settle_backlog(work, customer_by_external_id(work, external_id).id)


def of_subscription(work: Work, external_id: str) -> None:
    """The backlog before a request about the subscription with this external id: an overdue start, plan change or end
    may decide which subscription that is.
    """
    _settle_customers_of(work, eq("external_id", external_id), needed=True)


def of_plan(work: Work, code: str) -> None:
    """The backlog of every customer with a subscription on the plan or an override of it, before prices change.

    Raises `NotFound`.
    """
    plan = plan_by_code(work, code)
    if work.tx.jobs.overdue(None, work.now) is None:
        return
    on_it = any_of(eq("plan_id", plan.id), related(Plan, "plan_id", eq("parent_id", plan.id)))
    _settle_customers_of(work, on_it, needed=False)


def _settle_customers_of(work: Work, subscriptions: Condition, *, needed: bool) -> None:
    living = work.tx.find(Subscription, subscriptions, within("status", UNENDED))
    for customer_id in {subscription.customer_id: None for subscription in living}:
        settle_backlog(work, customer_id, needed=needed)
