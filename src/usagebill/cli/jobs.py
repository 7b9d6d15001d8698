"""`usagebill run-due` and `usagebill jobs`: due jobs, and failed ones."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from datetime import datetime

import click

from usagebill.billing import Billing
from usagebill.cli.options import as_json, database, instant, opened, print_json, print_table, settings_options
from usagebill.core.customers import Customer
from usagebill.core.jobs import Job
from usagebill.operations import organizations, provider_audits, unbilled_events
from usagebill.operations.standing import is_copy
from usagebill.process.logs import configure
from usagebill.process.settings import Settings
from usagebill.runtime.clock import SystemClock
from usagebill.storage.addresses import is_url, shown
from usagebill.storage.conditions import eq
from usagebill.views.formats import instant_text


@click.command("run-due")
@click.option("--at", type=instant, metavar="TIME", help="Run the jobs that are due at this time (default: now).")
@click.option(
    "--force", is_flag=True, help="Run future jobs even if the file is not a copy, and send their webhooks and e-mails."
)
@database()
@settings_options
@as_json
def run_due(at: datetime | None, force: bool, path: str, settings: Settings, json_output: bool) -> None:
    """Run every due job once, as of the time it was due.

    A future time is for copies of a file: invoices issued ahead of time cannot be undone. A copy sends nothing.

    Exits with 1 if a job failed. A failed job is tried again later; `jobs list` shows why.
    """
    configure()
    problems: dict[str, tuple[Job, Exception]] = {}

    def note(job: Job, problem: Exception) -> None:
        problems[job.id] = (job, problem)

    ahead = at is not None and at > SystemClock().now()
    with opened(path, settings=settings, deliver=force or not ahead) as billing:
        began = billing.clock.now()
        if ahead and not force and not is_copy(billing.store):
            way = "pg_dump, restored elsewhere" if is_url(path) else f"sqlite3 {path} '.backup copy.db'"
            raise click.ClickException(
                f"{shown(path)} is not known to be a copy, and {instant_text(at)} is in the future: invoices made ahead"
                f" of time cannot be undone. Try it on a copy ({way}), or insist with --force"
            )
        for organization in () if ahead else billing.store.read(None, organizations.find_all):
            billing.writing(unbilled_events.schedule, organization)
            billing.writing(provider_audits.schedule, organization)
        tried = billing.run_due(at, on_failure=note)
        if not ahead:
            _note_run(billing, began, done=tried > len(problems))
        failed: dict[str, dict[str, object]] = {
            id: {
                "id": id,
                "kind": job.kind,
                "subject_id": job.subject_id,
                "external_customer_id": _customer(billing, job),
                "due_at": instant_text(job.due_at),
                "error": f"{type(problem).__name__}: {problem}",
            }
            for id, (job, problem) in problems.items()
        }
    if json_output:
        print_json({"done": tried - len(failed), "failed": list(failed.values())})
    else:
        click.echo(f"{tried - len(failed)} done, {len(failed)} failed")
        for row in failed.values():
            of = row["external_customer_id"] or row["subject_id"]
            click.echo(f"  {row['kind']} of {of}, due {row['due_at']}: {row['error']}")
    sys.exit(1 if failed else 0)


def _note_run(billing: Billing, began: datetime, *, done: bool) -> None:
    """Record the run in the file: `usagebill status` shows when jobs were last run."""
    now = billing.clock.now()
    # One row for all runs on this machine.
    name = f"run-due on {socket.gethostname()}"
    last = now if done else None
    run = replace(billing._system.presence.process, id=name, name=name, started_at=began, workers=1, last_done_at=last)
    billing._system.transact(lambda tx: tx.note_process(replace(run, seen_at=now, stopped_at=now)))


def _customer(billing: Billing, job: Job) -> str | None:
    """The external id of a job's customer; None for a job about something else."""
    customer = billing.store.read(None, lambda tx: tx.first(Customer, eq("id", job.subject_id), deleted=True))
    return None if customer is None else customer.external_id


@click.group()
def jobs() -> None:
    """List failed jobs and retry them."""


@jobs.command("list")
@database()
@as_json
def list_failed(path: str, json_output: bool) -> None:
    """List the failed jobs that are not done yet."""
    with opened(path) as billing:
        failures = billing.store.read(None, lambda tx: tx.jobs.failures())
        rows: list[dict[str, object]] = [
            {
                "id": job.id,
                "organization_id": job.organization_id,
                "kind": job.kind,
                "subject_id": job.subject_id,
                "external_customer_id": _customer(billing, job),
                "due_at": instant_text(job.due_at),
                "attempts": job.attempts,
                "next_try_at": None if job.failed else instant_text(job.run_at),
                "error": job.error,
            }
            for job in failures
        ]
    if json_output:
        print_json(rows)
    else:
        columns = ("id", "kind", "subject_id", "external_customer_id", "due_at", "attempts", "next_try_at", "error")
        print_table(columns, rows, "no failed jobs")


@jobs.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "all_failed", is_flag=True, help="Retry every failed job.")
@database()
@as_json
def retry(ids: tuple[str, ...], all_failed: bool, path: str, json_output: bool) -> None:
    """Queue failed jobs for the next worker, with a fresh set of attempts."""
    if bool(ids) == all_failed:
        raise click.UsageError("name the jobs to retry, or --all")
    with opened(path) as billing:
        if all_failed:
            ids = tuple(job.id for job in billing.store.read(None, lambda tx: tx.jobs.failures()))
        now = billing.clock.now()
        retried = billing.store.write(None, lambda tx: {id: tx.jobs.retry(id, now) for id in ids})
    waiting = [id for id in ids if retried[id]]
    unknown = [id for id in ids if not retried[id]]
    if json_output:
        print_json({"retried": waiting, "unknown": unknown})
    else:
        click.echo(f"{len(waiting)} to be tried again")
    if unknown:
        raise click.ClickException(f"no such job: {', '.join(unknown)}")
