"""`usagebill payments`: what was paid, and what goes back."""

from __future__ import annotations

import click

from usagebill.cli.options import as_json, database, named, opened, organization_option, print_json


@click.group()
def payments() -> None:
    """Give back what customers paid beyond what was due."""


@payments.command()
@click.argument("payment_id")
@click.option("--amount-cents", type=click.IntRange(min=1), help="How much (default: all that was not due).")
@click.option("--by-hand", is_flag=True, help="You have given it back yourself: do not ask the provider.")
@database()
@organization_option
@as_json
def refund(
    payment_id: str, amount_cents: int | None, by_hand: bool, path: str, organization: str | None, json_output: bool
) -> None:
    """Give back what a payment brought beyond what was due; its invoice stays as it is."""
    with opened(path, organization) as billing, named(f"there is no payment {payment_id}"):
        paid = billing.payments.refund(payment_id, amount_cents=amount_cents, by_hand=by_hand)
        shown = dict(billing.view(paid))
    if json_output:
        print_json(shown)
    else:
        click.echo(f"payment {payment_id}: {shown['status']}")
