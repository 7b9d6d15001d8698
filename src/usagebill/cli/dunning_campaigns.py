"""`usagebill dunning-campaigns`: repeated requests for overdue balances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from usagebill.billing import Billing
from usagebill.cli.options import as_json, database, named, opened, organization_option, print_json, print_table
from usagebill.core.dunning import DunningCampaign

_description = click.option("--description", help="What it is for.")
_bcc = click.option("--bcc", "bcc", multiple=True, metavar="ADDRESS", help="Gets a copy of each e-mail; repeatable.")
_days = click.option("--days", type=int, help="Days between two attempts (default: 1).")
_attempts = click.option("--attempts", type=int, help="Attempts in each currency (default: 1).")
_thresholds = "Cents of a currency that must be overdue for customers to be asked; repeatable."


@click.group("dunning-campaigns")
def dunning_campaigns() -> None:
    """Request overdue balances repeatedly.

    By e-mail, or through the customers' payment providers."""


def _parsed(texts: Sequence[str]) -> list[dict[str, object]]:
    thresholds: list[dict[str, object]] = []
    for text in texts:
        cents, _, currency = text.partition(" ")
        if not cents.isdigit() or not currency.strip():
            raise click.UsageError(f"--threshold takes CENTS and a currency, such as '15000 EUR', not {text!r}")
        thresholds.append({"amount_cents": int(cents), "currency": currency.strip()})
    return thresholds


def _shown(billing: Billing, campaign: DunningCampaign) -> dict[str, Any]:
    return dict(billing.view(campaign))


def _flat(shown: Mapping[str, Any]) -> dict[str, Any]:
    thresholds = ", ".join(f"{threshold['amount_cents']} {threshold['currency']}" for threshold in shown["thresholds"])
    return {**shown, "thresholds": thresholds, "bcc_emails": ", ".join(shown["bcc_emails"])}


def _print(shown: dict[str, Any], json_output: bool) -> None:
    if json_output:
        print_json(shown)
        return
    for name, value in _flat(shown).items():
        click.echo(f"{name:22}  {'' if value is None else value}".rstrip())


def _named(code: str) -> AbstractContextManager[None]:
    return named(f"no campaign has the code {code}: see `usagebill dunning-campaigns list`")


@dunning_campaigns.command()
@click.option("--code", required=True, help="Its code, by which it is applied.")
@click.option("--name", help="What people call it (default: its code).")
@_description
@click.option("--threshold", "thresholds", multiple=True, required=True, metavar="'CENTS CURRENCY'", help=_thresholds)
@_days
@_attempts
@_bcc
@database()
@organization_option
@as_json
def create(
    code: str,
    name: str | None,
    description: str | None,
    thresholds: tuple[str, ...],
    days: int | None,
    attempts: int | None,
    bcc: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Create a campaign. It sends no payment requests until it is applied."""
    sent = _sent(name or code, description, thresholds, days, attempts, bcc)
    with opened(path, organization) as billing:
        shown = _shown(billing, billing.dunning_campaigns.create(code=code, **sent))
    _print(shown, json_output)


def _sent(
    name: str | None,
    description: str | None,
    thresholds: tuple[str, ...],
    days: int | None,
    attempts: int | None,
    bcc: tuple[str, ...],
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "name": name,
        "description": description,
        "thresholds": _parsed(thresholds) or None,
        "days_between_attempts": days,
        "max_attempts": attempts,
        "bcc_emails": list(bcc) or None,
    }
    return {field: value for field, value in options.items() if value is not None}


@dunning_campaigns.command("list")
@database()
@organization_option
@as_json
def list_all(path: str, organization: str | None, json_output: bool) -> None:
    """List the campaigns, newest first."""
    with opened(path, organization) as billing:
        rows = [_shown(billing, campaign) for campaign in billing.dunning_campaigns.list(per_page=1000).items]
    if json_output:
        print_json(rows)
    else:
        columns = ("code", "name", "thresholds", "days_between_attempts", "max_attempts", "bcc_emails")
        print_table(columns, [_flat(row) for row in rows], "no dunning campaigns")


@dunning_campaigns.command()
@click.argument("code")
@click.option("--name", help="What people call it.")
@_description
@click.option("--threshold", "thresholds", multiple=True, metavar="'CENTS CURRENCY'", help=_thresholds)
@_days
@_attempts
@_bcc
@database()
@organization_option
@as_json
def update(
    code: str,
    name: str | None,
    description: str | None,
    thresholds: tuple[str, ...],
    days: int | None,
    attempts: int | None,
    bcc: tuple[str, ...],
    path: str,
    organization: str | None,
    json_output: bool,
) -> None:
    """Change a campaign as the options say. `--threshold` replaces all thresholds, `--bcc` all addresses."""
    sent = _sent(name, description, thresholds, days, attempts, bcc)
    with opened(path, organization) as billing, _named(code):
        shown = _shown(billing, billing.dunning_campaigns.update(code, **sent))
    _print(shown, json_output)


@dunning_campaigns.command()
@click.argument("code")
@click.option("--customer", help="The external id of a customer; overrides its billing entity's campaign.")
@click.option("--billing-entity", help="The code of a billing entity; applies to its customers (default: default).")
@database()
@organization_option
def apply(code: str, customer: str | None, billing_entity: str | None, path: str, organization: str | None) -> None:
    """Apply a campaign to the customers of a billing entity, or to one customer."""
    if customer is not None and billing_entity is not None:
        raise click.UsageError("a campaign is applied to a --customer or to a --billing-entity")
    with opened(path, organization) as billing, _named(code):
        billing.dunning_campaigns.get(code)
        if customer is not None:
            with named(f"no customer has the external id {customer}"):
                billing.customers.get(customer)
            billing.customers.upsert(external_id=customer, applied_dunning_campaign_code=code)
            click.echo(f"{code} asks customer {customer}")
            return
        entity = billing_entity or "default"
        with named(f"no billing entity has the code {entity}"):
            billing.billing_entities.get(entity)
        billing.billing_entities.update(entity, applied_dunning_campaign_code=code)
        click.echo(f"{code} asks the customers of billing entity {entity}")


@dunning_campaigns.command()
@click.argument("code")
@database()
@organization_option
@as_json
def delete(code: str, path: str, organization: str | None, json_output: bool) -> None:
    """Delete a campaign: it sends no further payment requests."""
    with opened(path, organization) as billing, _named(code):
        shown = _shown(billing, billing.dunning_campaigns.delete(code))
    if json_output:
        print_json(shown)
    else:
        click.echo(f"deleted {code}")
