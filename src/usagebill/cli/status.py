"""`usagebill status`: a health check of billing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import click

from usagebill.billing import Billing
from usagebill.cli.options import Seconds, as_json, database, opened, print_json
from usagebill.core.api_logs import without_signature
from usagebill.core.processes import Process
from usagebill.operations.organizations import find_all
from usagebill.operations.standing import Standing, next_run, standing
from usagebill.operations.unbilled_events import counted_now
from usagebill.storage.addresses import is_url
from usagebill.storage.sqlite.engine import unused_bytes
from usagebill.views.formats import instant_text

# Room in a file that is worth an interruption of billing.
_WORTH_RETURNING = 64 << 20


@click.command()
@click.option(
    "--max-age",
    type=Seconds(may_be_zero=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a job may be overdue, an event unsent to the event store, or an endpoint failing.",
)
@database()
@as_json
def status(max_age: float, path: str, json_output: bool) -> None:
    """Show whether billing is working.

    Due and failed jobs, live workers, invoices and webhooks by status.

    Exits with 1 if jobs are due, events wait for an event store in use, or webhooks fail, for longer than --max-age, if
    jobs have failed, payments differ from their provider's list, the event store is not believed, or the clock of the
    machine is refused. The file is only read.
    """
    with opened(path, read_only=True) as billing:
        known = _with_unbilled(billing, standing(billing.store, billing.clock.now()))
        run = next_run(billing.store, known.at)
        problems = known.problems(timedelta(seconds=max_age))
        clock = billing._system.clock_watch.problem()
    unused = 0 if is_url(path) else unused_bytes(path)
    if clock is not None:
        problems.append(f"{clock.code}: nothing is written, see `usagebill clock`")
    if json_output:
        print_json({**_shown(known, run, problems), "unused_bytes": unused})
    else:
        if unused >= _WORTH_RETURNING:
            click.echo(f"file      {unused >> 20} MiB of it hold nothing: VACUUM returns them to the disk")
        _print(known, run, problems)
    sys.exit(1 if problems else 0)


def _with_unbilled(billing: Billing, known: Standing) -> Standing:
    """The standing with the unbilled events of now instead of those of the worker's last count, unless they are many
    to look through.
    """
    everyone = billing.store.read(None, find_all)
    counts = [billing.reading(counted_now, organization) for organization in everyone]
    if not counts or None in counts:
        return known
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count or {})
    return replace(known, unbilled=total, unbilled_at=known.at)


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant_text(instant)


def _shown(known: Standing, run: tuple[datetime, int] | None, problems: list[str]) -> dict[str, object]:
    queue = known.queue
    return {
        "ok": not problems,
        "problems": problems,
        "jobs": {
            "due": queue.due,
            "oldest_due_at": _text(queue.oldest_due_at),
            "oldest_due_seconds": round(queue.age_of_oldest(known.at).total_seconds()),
            "retrying": queue.retrying,
            "failed": queue.failed,
            "retrying_by_kind": dict(queue.retrying_by_kind),
            "failed_by_kind": dict(queue.failed_by_kind),
            "lanes": [
                {
                    "lane": lane.lane or "billing",
                    "due": lane.due,
                    "oldest_due_seconds": round(lane.age(known.at).total_seconds()),
                }
                for lane in queue.backlog
            ],
            "next_due_at": _text(queue.next_due_at),
            "last_done_at": _text(known.last_done_at),
        },
        "next_run": None if run is None else {"at": instant_text(run[0]), "customers": run[1]},
        "processes": [
            {
                "name": process.name,
                "kind": process.kind,
                "version": process.version,
                "schema": process.schema,
                "started_at": instant_text(process.started_at),
                "seen_at": instant_text(process.seen_at),
                "stopped_at": _text(process.stopped_at),
                "live": process.is_live(known.at),
                "missing": process in known.missing,
                "workers": process.workers,
                "last_done_at": _text(process.last_done_at),
                "consumes": process.consumes,
                "waiting": process.waiting,
                "waits_since": _text(process.waits_since),
                "failing": process.failing,
            }
            for process in known.processes
        ],
        "events": known.events,
        "events_unbilled": None if known.unbilled is None else dict(known.unbilled),
        "events_unbilled_counted_at": _text(known.unbilled_at),
        "refused_events": known.refused_events,
        "event_stores": [
            {
                "organization_id": shipping.organization_id,
                "event_store_id": shipping.event_store_id,
                "waiting": shipping.waiting,
                "waits_since": _text(shipping.waits_since),
                "counts": shipping.counts,
                "fault": shipping.fault,
            }
            for shipping in known.shipping
        ],
        "provider_audits": [
            {
                "organization_id": audit.organization_id,
                "connection_code": audit.connection_code,
                "compared_at": instant_text(audit.compared_at),
                "differences": audit.differences,
                "failure": audit.failure,
            }
            for audit in known.provider_audits
        ],
        "disabled_organizations": [
            {"id": organization.id, "name": organization.name, "disabled_at": _text(organization.disabled_at)}
            for organization in known.disabled
        ],
        "last_backup_at": _text(known.last_backup_at),
        "invoices": dict(known.invoices),
        "webhooks": dict(known.webhooks),
        "webhooks_failing": [
            {
                "organization_id": endpoint.organization_id,
                "webhook_endpoint_id": endpoint.id,
                "webhook_url": without_signature(endpoint.webhook_url),
                "failing_since": _text(endpoint.failing_since),
            }
            for endpoint in known.failing_endpoints
        ],
    }


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count) or "none"


def _does(process: Process) -> str:
    """What else a process does."""
    if process.consumes is not None:
        since = f" since {_text(process.waits_since)}" if process.waiting else ""
        waiting = "" if process.waiting is None else f": {process.waiting} messages wait{since}"
        failing = f"; failing: {process.failing}" if process.failing else ""
        return f", {process.consumes}{waiting}{failing}"
    return f", {process.workers} workers" if process.workers > 1 else ", 1 worker" if process.workers else ""


def _print(known: Standing, run: tuple[datetime, int] | None, problems: list[str]) -> None:
    queue = known.queue
    oldest = f", the first since {_text(queue.oldest_due_at)}" if queue.due else ""
    click.echo(f"jobs      {queue.due} due{oldest}; {queue.retrying} retrying, {queue.failed} failed")
    for lane in queue.backlog:
        waited = timedelta(seconds=round(lane.age(known.at).total_seconds()))
        click.echo(f"waiting   {lane.lane or 'billing'}: {lane.due}, the first for {waited}")
    for name, unwell in (("retrying", queue.retrying_by_kind), ("failed", queue.failed_by_kind)):
        for kind, count in sorted(unwell.items()):
            click.echo(f"{name:8}  {kind}: {count}")
    click.echo(f"next due  {_text(queue.next_due_at) or 'none'}")
    click.echo(f"next run  {'none' if run is None else f'{instant_text(run[0])}, {run[1]} customers'}")
    click.echo(f"last done {_text(known.last_done_at) or 'not known'}")
    click.echo(f"workers   {known.workers}")
    for process in known.live:
        does = f"usagebill {process.version}, schema {process.schema}{_does(process)}"
        click.echo(f"{process.kind:9} {process.name}  {does}")
    for process in known.missing:
        seen = f"last seen {instant_text(process.seen_at)}"
        click.echo(f"died      {process.kind} {process.name}  {seen}{_does(process)}")
    refused = f", {known.refused_events} refused: see `usagebill events refused`" if known.refused_events else ""
    click.echo(f"events    {known.events}{refused}")
    for organization in known.disabled:
        since = _text(organization.disabled_at)
        click.echo(f"disabled  {organization.name} ({organization.id}) since {since}; its jobs stand still")
    for shipping in known.shipping:
        since = f", the first since {_text(shipping.waits_since)}" if shipping.waiting else ""
        whether = "counts" if shipping.counts else "does not count"
        click.echo(f"shipping  {shipping.waiting} events wait{since}; the event store {whether}")
    for audit in known.provider_audits:
        found = audit.failure or f"{audit.differences} differences"
        click.echo(f"provider  {audit.connection_code}: {found}, compared at {instant_text(audit.compared_at)}")
    if known.unbilled is None:
        unbilled = "not counted yet"
    else:
        unbilled = _listed(known.unbilled)
    if known.unbilled_at != known.at:
        when = "" if known.unbilled is None else f" at {_text(known.unbilled_at)}, when they were last counted"
        unbilled += f"{when}; `usagebill events unbilled` counts now"
    click.echo(f"unbilled  {unbilled}")
    click.echo(f"backup    {_text(known.last_backup_at) or 'none known'}")
    click.echo(f"invoices  {_listed(known.invoices)}")
    click.echo(f"webhooks  {_listed(known.webhooks)}")
    for endpoint in known.failing_endpoints:
        url = without_signature(endpoint.webhook_url)
        click.echo(f"failing   webhooks to {url} since {_text(endpoint.failing_since)}")
    for problem in problems:
        click.echo(f"problem   {problem}")
    if not problems:
        click.echo("ok")
