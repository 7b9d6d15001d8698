"""The versions of a plan: who changed what about its prices, when, and who has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import groupby

from usagebill.core.plans import Plan
from usagebill.core.price_versions import PlanVersion, PriceChange, changes_prices
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.queries.contracts import contract_now
from usagebill.queries.plan_versions import changed_definition, changes_of_plan, current_version
from usagebill.queries.plans import plan_by_code
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Page

# No period is longer, in any time zone.
_LONGEST = timedelta(days=370)


def list_versions(reader: Reader, code: str, paging: Paging) -> Page[PlanVersion]:
    """The versions of a plan, newest first: changes of the plan, its charges and fixed charges, and of the metrics,
    add-ons and taxes that these have, with the number of subscriptions whose current period each bills.

    A plan from before versions were kept begins with version 0. Raises `NotFound`.
    """
    plan = plan_by_code(reader, code)
    rows = changes_of_plan(reader, plan)
    made = next((row.version for row in rows if row.record_id == plan.id and row.before is None), 0)
    since = [row for row in rows if row.version >= made]
    versions = [_version(reader, plan, tuple(changes)) for _, changes in groupby(since, key=lambda row: row.version)]
    if not made:
        versions.append(PlanVersion(version=0, created_at=plan.created_at))
    counts = _subscriptions(reader, plan, versions)
    first = (paging.page - 1) * paging.per_page
    return Page(
        items=[
            replace(version, subscriptions_count=counts[version.version])
            for version in versions[first : first + paging.per_page]
        ],
        page=paging.page,
        per_page=paging.per_page,
        total_count=len(versions),
    )


def _version(reader: Reader, plan: Plan, rows: Sequence[PriceChange]) -> PlanVersion:
    first = rows[0]
    waiting = next((prices for prices in plan.scheduled_prices if prices.version == first.version), None)
    step = next((step for step in reversed(plan.price_steps) if step.before < first.version), None)
    prices_from = None if step is None else step.prices_from
    if waiting is not None:
        prices_from = max(waiting.scheduled_at, datetime.combine(waiting.effective_on, time(), UTC))
    return PlanVersion(
        version=first.version,
        created_at=first.created_at,
        changes=tuple(changed_definition(reader, row) for row in rows),
        source=first.source,
        api_key_id=first.api_key_id,
        user_email=first.user_email,
        request_id=first.request_id,
        prices_from=prices_from,
        effective_on=waiting.effective_on if waiting else None if step is None else step.effective_on,
    )


def _subscriptions(reader: Reader, plan: Plan, versions: Sequence[PlanVersion]) -> Counter[int]:
    """How many active subscriptions of the plan itself have each version in their current period."""
    active = eq("plan_id", plan.id), eq("status", SubscriptionStatus.ACTIVE)
    recent = [step for step in plan.price_steps if step.prices_from > reader.now - _LONGEST]
    if plan.scheduled_prices or recent:
        on_it = (contract_now(reader, subscription) for subscription in reader.tx.find(Subscription, *active))
        return Counter(current_version(reader, contract) or 0 for contract in on_it)
    newest = next((one.version for one in versions if any(map(changes_prices, one.changes))), 0)
    return Counter({newest: reader.tx.count(Subscription, *active)})
