"""The metadata of plans."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.errors import NotFound
from usagebill.core.metadata import Metadata, checked_metadata, merged_metadata
from usagebill.core.plans import Plan
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.plans.inputs import MetadataInput
from usagebill.queries.plans import plan_by_code
from usagebill.requests.inputs import is_given
from usagebill.runtime.work import Work
from usagebill.views.plans import plan_summary


def _stored(work: Work, plan: Plan, metadata: Metadata | None) -> Metadata | None:
    changed = replace(plan, metadata=metadata, updated_at=work.now)
    work.tx.replace(changed)
    work.emit("plan.updated", lambda: plan_summary(work, changed), plan.id)
    return metadata


@without_backlog(Unrelated.NOT_BILLED)
def replace_metadata(work: Work, code: str, request: MetadataInput) -> Metadata | None:
    """Replace the metadata of the plan; if absent, nothing changes. Raises `NotFound` and `Invalid`."""
    plan = plan_by_code(work, code)
    sent = is_given(request.metadata) and request.metadata is not None
    return _stored(work, plan, checked_metadata(request.metadata) if sent else plan.metadata)


@without_backlog(Unrelated.NOT_BILLED)
def merge_metadata(work: Work, code: str, request: MetadataInput) -> Metadata | None:
    """Set the keys that are sent, and keep the others. Raises `NotFound` and `Invalid`."""
    plan = plan_by_code(work, code)
    sent = checked_metadata(request.metadata) if is_given(request.metadata) and request.metadata is not None else {}
    merged = merged_metadata(plan.metadata, sent)
    return _stored(work, plan, merged if merged is None else checked_metadata(merged))


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata(work: Work, code: str) -> None:
    """Remove the plan's metadata, if there is any. Raises `NotFound`."""
    _stored(work, plan_by_code(work, code), None)


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata_key(work: Work, code: str, key: str) -> Metadata:
    """Remove one key, if present. Raises `NotFound` for the plan, or if it has no metadata."""
    plan = plan_by_code(work, code)
    if plan.metadata is None:
        raise NotFound("metadata", key)
    remaining = {name: value for name, value in plan.metadata.items() if name != key}
    work.tx.replace(replace(plan, metadata=remaining, updated_at=work.now))
    return remaining
