"""`usagebill simulate`: whole companies from a seed, billed and recomputed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from usagebill.cli.options import Seconds
from usagebill.simulation.companies import Company, from_json, to_json
from usagebill.simulation.running import Seen, runs, seen_in, shortest


class _Years(Seconds):
    name = "years"


@click.command()
@click.option("--seed", default=1, show_default=True, help="The first company; the next ones have the next seeds.")
@click.option("--companies", default=1, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--years", default=1.0, show_default=True, type=_Years(), help="How long each lives.")
@click.option("--coverage", is_flag=True, help="Say how often each operation was called and each kind of job ran.")
@click.option("--ways", is_flag=True, help="Live each again with late, restarted and dying workers: the same papers.")
@click.option("--shrink/--no-shrink", default=True, help="Look for the shortest company that fails like the first.")
@click.option("--keep", type=click.Path(dir_okay=False, path_type=Path), help="Write the shortest that fails there.")
@click.option(
    "--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Live the company of a file instead."
)
def simulate(
    seed: int,
    companies: int,
    years: float,
    coverage: bool,
    ways: bool,
    shrink: bool,
    keep: Path | None,
    replay: Path | None,
) -> None:
    """Bill whole companies of a seed, and recompute it all.

    Customers in many time zones and currencies use, change, pay and complain; events come late, twice and wrong. A
    second computation that shares no code with the first says what each fee, coupon, tax, credit note and total should
    be, and what it has no opinion on. A seed is always the same company. Ends with 1 if anything differs.
    """
    began, total = time.monotonic(), Seen()
    failed: tuple[Company, Seen] | None = None
    if replay is not None:
        company = from_json(replay.read_text())
        found = [(str(replay), company, seen_in(company, ways=ways))]
    for name, company, seen in runs(seed, companies, years, ways=ways) if replay is None else found:
        total.add(seen)
        for difference in seen.differences:
            click.echo(f"{name}: {difference}")
        if seen.differences and failed is None:
            failed = company, seen
    _report(total, companies if replay is None else 1, time.monotonic() - began)
    if coverage:
        _coverage(total)
    if failed is None:
        return
    company, seen = failed
    if shrink:
        company = shortest(company, seen.differences, ways=ways)
        click.echo(f"\nThe shortest that fails like that, {len(company.steps)} steps:\n{to_json(company)}")
        for difference in seen_in(company, ways=ways).differences:
            click.echo(difference)
    if keep is not None:
        keep.write_text(to_json(company))
    sys.exit(1)


def _report(seen: Seen, companies: int, seconds: float) -> None:
    per_hour = seen.years / seconds * 3600 if seconds else 0
    click.echo(
        f"{seen.years:.1f} company-years in {companies} companies, {seconds:.0f} s ({per_hour:.0f} an hour): "
        f"{seen.calls.total():,} calls, {seen.refused.total():,} of them refused"
    )
    click.echo(f"{seen.opinions.total():,} opinions, {seen.share:.1f} % of what is shown:")
    click.echo("  " + ", ".join(f"{name} {times:,}" for name, times in seen.opinions.most_common()))
    if seen.unsure:
        click.echo(f"{seen.unsure.total():,} without an opinion:")
        for (name, reason), times in seen.unsure.most_common():
            click.echo(f"  {times:,} {name}: {reason}")
    click.echo(f"{len(seen.differences)} differences")


def _coverage(seen: Seen) -> None:
    click.echo("Calls (of them refused):")
    for name, times in sorted(seen.calls.items()):
        click.echo(f"  {name} {times:,} ({seen.refused[name]:,})")
    click.echo("Jobs:")
    for name, times in sorted(seen.jobs.items()):
        click.echo(f"  {name} {times:,}")
