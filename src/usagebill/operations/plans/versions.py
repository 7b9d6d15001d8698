"""The versions of a plan: who changed what about its prices, and when."""

from __future__ import annotations

from itertools import chain, groupby

from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.price_versions import KINDS, ChangedDefinition, PlanVersion, PriceChange
from usagebill.queries.plans import plan_by_code
from usagebill.requests.inputs import Paging
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, desc, eq, within
from usagebill.storage.ports import Page


def list_versions(reader: Reader, code: str, paging: Paging) -> Page[PlanVersion]:
    """The versions of a plan, newest first: changes of the plan, its charges and fixed charges, and of the metrics,
    add-ons and taxes that these have.

    A plan from before versions were kept begins with version 0. Raises `NotFound`.
    """
    plan = plan_by_code(reader, code)
    rows = reader.tx.find(PriceChange, _about(reader, plan), order=[desc("version")])
    made = next((row.version for row in rows if row.record_id == plan.id and row.before is None), 0)
    since = [row for row in rows if row.version >= made]
    versions = [_version(reader, tuple(changes)) for _, changes in groupby(since, key=lambda row: row.version)]
    if not made:
        versions.append(PlanVersion(version=0, created_at=plan.created_at))
    first = (paging.page - 1) * paging.per_page
    return Page(
        items=versions[first : first + paging.per_page],
        page=paging.page,
        per_page=paging.per_page,
        total_count=len(versions),
    )


def _about(reader: Reader, plan: Plan) -> Condition:
    charges = reader.tx.find(Charge, eq("plan_id", plan.id), deleted=True)
    fixed_charges = reader.tx.find(FixedCharge, eq("plan_id", plan.id), deleted=True)
    parts: list[Plan | Charge | FixedCharge] = [plan, *charges, *fixed_charges]
    priced = [charge.billable_metric_id for charge in charges] + [charge.add_on_id for charge in fixed_charges]
    tax_ids = chain.from_iterable(part.tax_ids for part in parts)
    return any_of(eq("plan_id", plan.id), within("record_id", sorted({*priced, *tax_ids})))


def _version(reader: Reader, rows: tuple[PriceChange, ...]) -> PlanVersion:
    first = rows[0]
    return PlanVersion(
        version=first.version,
        created_at=first.created_at,
        changes=tuple(_changed(reader, row) for row in rows),
        source=first.source,
        api_key_id=first.api_key_id,
        user_email=first.user_email,
        request_id=first.request_id,
    )


def _changed(reader: Reader, row: PriceChange) -> ChangedDefinition:
    after = reader.as_of(row.version).tx.get(KINDS[row.kind], row.record_id, deleted=True)
    return ChangedDefinition(kind=row.kind, id=row.record_id, before=row.before, after=after)
