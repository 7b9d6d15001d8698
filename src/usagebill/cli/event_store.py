"""`usagebill event-store`: ClickHouse beside the database, its progress, and a comparison of both."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click

from usagebill.billing import Billing
from usagebill.cli.options import as_json, database, events_option, opened, organization_option, print_json, print_table
from usagebill.core.event_shipments import EventShipment
from usagebill.operations.standing import shipping_of
from usagebill.storage.conditions import eq
from usagebill.views.formats import instant_text

if TYPE_CHECKING:
    # Its driver is an extra, and slow to import.
    from usagebill.storage.clickhouse import Difference, StoreWithEvents, UsageDifference
    from usagebill.storage.ports import Transaction

T = TypeVar("T")
_SHOWN = 100


@click.group()
def event_store() -> None:
    """Ship events to ClickHouse, and choose which side counts."""


def _with_shipment(billing: Billing, question: Callable[[StoreWithEvents, EventShipment], T]) -> T:
    from usagebill.storage.clickhouse import StoreWithEvents
    from usagebill.storage.clickhouse.servers import Unreachable

    store = billing.store
    assert isinstance(store, StoreWithEvents)
    named = eq("event_store_id", store.servers.id)
    shipment = store.records.read(billing.organization.id, lambda tx: tx.first(EventShipment, named))
    if shipment is None:
        raise click.ClickException("no event of this organization has been sent to the event store yet")
    try:
        return question(store, shipment)
    except Unreachable as problem:
        raise click.ClickException(str(problem)) from problem


@event_store.command()
@organization_option
@database()
@events_option(required=True)
@as_json
def status(organization: str | None, path: str, events: str, json_output: bool) -> None:
    """Show how far an organization's events have been shipped, and which side counts. Exits with 1 after a fault."""

    def act(store: StoreWithEvents, shipment: EventShipment) -> dict[str, object]:
        known = store.records.read(shipment.organization_id, lambda tx: shipping_of(tx, shipment))
        return {
            "event_store_id": shipment.event_store_id,
            "reads_from": "event-store" if shipment.is_read and shipment.fault is None else "database",
            "shipped_to": shipment.shipped_to,
            "waiting": known.waiting,
            "waits_since": None if known.waits_since is None else instant_text(known.waits_since),
            "fault": shipment.fault,
        }

    with opened(path, organization, events=events) as billing:
        shown = _with_shipment(billing, act)
    if json_output:
        print_json(shown)
    else:
        print_table(list(shown), [shown], "")
    if shown["fault"] is not None:
        raise SystemExit(1)


@event_store.command()
@organization_option
@database()
@events_option(required=True)
def ship(organization: str | None, path: str, events: str) -> None:
    """Send all events that the event store does not have yet. Services and workers do so by themselves."""

    def act(store: StoreWithEvents, shipment: EventShipment) -> None:
        while store.shipping.ship(shipment.organization_id):
            pass

    with opened(path, organization, events=events) as billing:
        _with_shipment(billing, act)
        click.echo(_with_shipment(billing, lambda store, shipment: f"shipped up to place {shipment.shipped_to}"))


@event_store.command()
@organization_option
@database()
@events_option(required=True)
@as_json
def compare(organization: str | None, path: str, events: str, json_output: bool) -> None:
    """Read every shipped event on both sides, and list subscriptions, codes and days whose events differ.

    Then the usage of every subscription and metric is counted on both sides. Services may run meanwhile. Exits with 1
    if anything differs.
    """

    def act(store: StoreWithEvents, shipment: EventShipment) -> tuple[list[Difference], list[UsageDifference]]:
        from usagebill.storage.clickhouse import TooFarBehind, differences, usage_differences

        id = shipment.organization_id

        def compared(tx: Transaction) -> tuple[list[Difference], list[UsageDifference]]:
            # The shipment as of the same snapshot: more may have been shipped since.
            known = tx.get(EventShipment, shipment.id) or shipment
            return (
                list(islice(differences(tx, store.servers, id, known.shipped_to), _SHOWN)),
                list(islice(usage_differences(tx, store.servers, id, known.shipped_to), _SHOWN)),
            )

        try:
            return store.records.read(id, compared)
        except TooFarBehind as problem:
            raise click.ClickException(str(problem)) from problem

    with opened(path, organization, events=events) as billing:
        differing, usage = _with_shipment(billing, act)
    rows = [{name: getattr(difference, name) for name in difference.__slots__} for difference in differing]
    usage_rows = [
        {
            "external_subscription_id": difference.external_subscription_id,
            "metric": difference.metric_code,
            "database_units": difference.database.units,
            "event_store_units": difference.event_store.units,
            "database_count": difference.database.events_count,
            "event_store_count": difference.event_store.events_count,
        }
        for difference in usage
    ]
    if json_output:
        print_json({"differences": rows, "usage_differences": usage_rows})
    else:
        columns = ["external_subscription_id", "code", "day", "database_count", "event_store_count"]
        print_table(columns, rows, "the same events on both sides")
        columns = ["external_subscription_id", "metric", "database_units", "event_store_units"]
        print_table([*columns, "database_count", "event_store_count"], usage_rows, "the same usage on both sides")
    if differing or usage:
        raise SystemExit(1)


@event_store.command("read-from")
@click.argument("side", type=click.Choice(["event-store", "database"]))
@organization_option
@database()
@events_option(required=True)
def read_from(side: str, organization: str | None, path: str, events: str) -> None:
    """Choose which side counts the events of an organization from now on, in all processes."""
    with opened(path, organization, events=events) as billing:
        _with_shipment(
            billing,
            lambda store, shipment: store.shipping.read_from(
                shipment.organization_id, event_store=side == "event-store"
            ),
        )
        click.echo(f"{billing.organization.name}: events are counted by the {side.replace('-', ' ')}")


@event_store.command("ship-again")
@organization_option
@database()
@events_option(required=True)
def ship_again(organization: str | None, path: str, events: str) -> None:
    """Delete an organization's events from the event store, and ship everything from the start.

    After a fault, or a difference. The database counts until `read-from event-store` is run again.
    """
    with opened(path, organization, events=events) as billing:
        _with_shipment(billing, lambda store, shipment: store.shipping.begin_again(shipment.organization_id))
        click.echo(f"{billing.organization.name}: everything is shipped again; the database counts meanwhile")
