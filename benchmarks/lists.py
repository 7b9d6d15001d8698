"""The cost of lists, filters and searches in a file with a million rows of each kind, against one with a thousand.

    python -m benchmarks.lists                                  # 1,000,000 rows and 5,000,000 events beside 1,000
    python -m benchmarks.lists --rows 100000 --events 500000    # smaller
    python -m benchmarks.lists --only invoices                  # only requests whose path contains this
    python -m benchmarks.lists --cache /var/tmp/lists           # keep the files here for the next run

Each request goes through the whole API, without a network: key, filter, page, count, and rendering of each record.
Times are CPU time, so that load on the machine hardly matters; the first of several runs warms the page cache.
Page 1 of a whole list, of one customer's, and by statuses, types, currencies and codes should cost at most 50 ms; by
any other filter or search, and page 10,000, at most 500 ms. Pages hold 100 records: page 10,000 is the end of the list.

The files take some 1 to 2 KB a row and list, 0.5 KB an event: 25 GB as a whole. Remove the cache when you are done.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from benchmarks.list_rows import fill, open_filled

from usagebill import Billing
from usagebill.http.api import Api, Request
from usagebill.http.app import routes

_SOON_MS = 50.0
MOST_MS = 500.0
# The parameters of lists that are as quick as whole ones.
_SOON = re.compile(r"\w*(status|type|currenc|code|external_customer_id)\w*")

HISTORY = "webhook_endpoints/{webhook_endpoint}/webhooks"
# Addresses; `{n}` is a number that each file has records of.
LISTS = (
    "customers",
    "subscriptions",
    "invoices",
    "fees",
    "credit_notes",
    "applied_coupons",
    "payments",
    "plans",
    "coupons",
    "add_ons",
    "billable_metrics",
    "taxes",
    "events",
    "payment_receipts",
    "payment_requests",
    "wallets",
    "wallets/{wallet}/wallet_transactions",
    "features",
    "activity_logs",
    "api_logs",
    "security_logs?to_date=2100-01-01",
    HISTORY,
)
FILTERS = (
    "customers?external_id=cust-{n}",
    "customers?account_type[]=partner",
    "customers?customer_type=individual",
    "customers?has_customer_type=false",
    "customers?has_tax_identification_number=true",
    "customers?countries[]=MT",
    "customers?countries[]=DE&currencies[]=EUR",
    "customers?states[]=S7",
    "customers?zipcodes[]=00421",
    "customers?currencies[]=GBP",
    "customers?billing_entity_codes[]=default",
    "customers?metadata[tier]=gold",
    "customers?metadata[tier]=",
    "customers?metadata[tier]=silver&currencies[]=EUR",
    "customers?metadata[tier]=silver&account_type[]=partner",
    "customers?states[]=S7&currencies[]=GBP",
    "subscriptions?status[]=terminated",
    "subscriptions?status[]=canceled",
    "subscriptions?status[]=active&status[]=terminated&status[]=canceled",
    "subscriptions?external_customer_id=cust-{n}",
    "subscriptions?external_id=sub-{n}",
    "subscriptions?plan_code=plan-24",
    "subscriptions?plan_code=basic",
    "subscriptions?currency=EUR",
    "subscriptions?overridden=true",
    "subscriptions?overridden=false",
    "subscriptions?billing_entity_codes[]=default",
    "customers/cust-{n}/subscriptions",
    "invoices?external_customer_id=cust-{n}",
    "customers/cust-{n}/invoices",
    "invoices?status=draft",
    "invoices?status=failed",
    "invoices?statuses[]=finalized&statuses[]=voided",
    "invoices?payment_status=pending",
    "invoices?payment_status=failed",
    "invoices?payment_overdue=true",
    "invoices?payment_dispute_lost=true",
    "invoices?payment_dispute_lost=false",
    "invoices?partially_paid=true",
    "invoices?partially_paid=false",
    "invoices?self_billed=true",
    "invoices?invoice_type=one_off",
    "invoices?invoice_type=progressive_billing",
    "invoices?currency=USD",
    "invoices?issuing_date_from=2024-01-01",
    "invoices?issuing_date_from=2022-01-01&issuing_date_to=2022-06-30",
    "invoices?amount_from=4711",
    "invoices?amount_from=10000&amount_to=10100",
    "invoices?amount_to=249999&payment_status=failed",
    "invoices?amount_from=4711&payment_status=succeeded",
    "invoices?issuing_date_from=2022-01-10&amount_from=4711",
    "invoices?purchase_order_number=po-{n}",
    "invoices?settlements[]=payment",
    "invoices?settlements[]=credit_note",
    "invoices?billing_entity_codes[]=default",
    "invoices?metadata[tier]=gold",
    "invoices?metadata[tier]=",
    "invoices?metadata[tier]=&payment_status=failed",
    "invoices?metadata[tier]=silver&issuing_date_from=2022-01-10",
    "invoices?issuing_date_to=2022-06-15&amount_from=200000&payment_status=pending",
    "fees?external_customer_id=cust-{n}",
    "fees?external_subscription_id=sub-{n}",
    "fees?currency=usd",
    "fees?fee_type=charge",
    "fees?fee_type=commitment",
    "fees?billable_metric_code=metric-1",
    "fees?payment_status=succeeded",
    "fees?event_transaction_id=tx-{n}",
    "fees?created_at_from=2023-01-01",
    "fees?created_at_from=2023-01-15T12:00:00Z&created_at_to=2023-02-17T07:30:00Z",
    "fees?created_at_from=2022-01-15T12:00:00Z&payment_status=pending",
    "fees?succeeded_at_from=2023-01-01",
    "fees?failed_at_to=2023-01-01",
    "fees?created_at_from=2022-01-15&succeeded_at_from=2023-01-01",
    "fees?refunded_at_from=2023-01-01",
    "credit_notes?external_customer_id=cust-{n}",
    "customers/cust-{n}/credit_notes",
    "credit_notes?issuing_date_from=2023-01-01",
    "credit_notes?issuing_date_to=2022-06-15",
    "credit_notes?amount_from=4711",
    "credit_notes?amount_from=10000&amount_to=10100",
    "credit_notes?amount_from=4711&currency=EUR",
    "credit_notes?credit_status=available",
    "credit_notes?refund_status=failed",
    "credit_notes?reason=order_change",
    "credit_notes?types[]=refund",
    "credit_notes?currency=GBP",
    "credit_notes?invoice_number=ACM-00007-000",
    "credit_notes?purchase_order_number=po-{n}",
    "credit_notes?self_billed=true",
    "credit_notes?billing_entity_codes[]=default",
    "applied_coupons?status=active",
    "applied_coupons?status=terminated",
    "applied_coupons?external_customer_id=cust-{n}",
    "applied_coupons?coupon_code[]=coupon-8",
    "customers/cust-{n}/applied_coupons",
    "payments?external_customer_id=cust-{n}",
    "customers/cust-{n}/payments",
    "events?external_subscription_id=busy",
    "events?external_subscription_id=busy&code=storage",
    "events?external_subscription_id=busy&code=rare",
    "events?external_subscription_id=sub-7",
    "events?code=api_calls",
    "events?code=rare",
    "events?timestamp_from=2024-01-01",
    "events?external_subscription_id=busy&timestamp_from=2023-12-24T12:00:00Z&timestamp_to=2024-03-01",
    "payment_requests?external_customer_id=cust-{n}",
    "customers/cust-{n}/payment_requests",
    "payment_requests?payment_status=failed",
    "payment_requests?currency=GBP&payment_status=succeeded",
    "payment_requests?billing_entity_codes[]=default",
    "wallets?external_customer_id=cust-{n}",
    "customers/cust-{n}/wallets",
    "wallets?currency=USD",
    "wallets?billing_entity_codes[]=default",
    "wallets/{wallet}/wallet_transactions?status=failed",
    "wallets/{wallet}/wallet_transactions?status=settled",
    "wallets/{wallet}/wallet_transactions?transaction_status=granted",
    "wallets/{wallet}/wallet_transactions?transaction_type=inbound&transaction_status=granted",
    "wallets/{wallet}/wallet_transactions?metadata[tier]=gold",
    "activity_logs?activity_types[]=customer.updated",
    "activity_logs?activity_sources[]=api&resource_types[]=Invoice",
    "activity_logs?external_customer_id=cust-{n}",
    "activity_logs?external_subscription_id=sub-{n}",
    "activity_logs?from_date=2024-06-20&to_date=2024-06-21",
    "api_logs?http_methods[]=put",
    "api_logs?http_statuses[]=500",
    "api_logs?http_statuses[]=failed",
    "api_logs?http_statuses[]=succeeded&from_date=2024-06-10",
    "api_logs?request_paths[]=/api/v1/customers/cust-{n}",
    "api_logs?request_paths[]=*/cust-{n}",
    "api_logs?request_paths[]=/api/v1/customers/cust-42*",
    "api_logs?clients[]=curl",
    "security_logs?log_types[]=webhook_endpoint&to_date=2100-01-01",
    "security_logs?log_events[]=api_key.rotated&to_date=2024-06-20",
    f"{HISTORY}?statuses=failed",
    f"{HISTORY}?event_types=fee.created",
    f"{HISTORY}?http_statuses=5xx",
    f"{HISTORY}?http_statuses=timeout",
    f"{HISTORY}?from_date=2024-06-20&to_date=2024-06-21",
)
SEARCHES = (
    "customers?search_term=Juniper Textiles 99",
    "customers?search_term=billing{n}@",
    "customers?search_term=no such thing",
    "invoices?search_term=ACM-00{n}",
    "invoices?search_term=billing{n}@",
    "invoices?search_term=no such thing",
    "customers/cust-{n}/invoices?search_term=ACM",
    "credit_notes?search_term=00{n}-000-CN",
    "credit_notes?search_term=billing{n}@",
    "customers?search_term=Juniper",
    "customers?search_term=7x",
    "invoices?search_term=Juniper Textiles 99",
    "invoices?search_term=Juniper",
    "invoices?search_term=7x",
    "credit_notes?search_term=Juniper",
    "customers?search_term=ju",
    "customers?search_term=12",
    "customers?search_term=bi",
    "customers?search_term=4",
    "customers?search_term=billing",
    "invoices?search_term=ju",
    "invoices?search_term=12",
    "invoices?search_term=bi",
    "invoices?search_term=4",
    "invoices?search_term=acm",
    "invoices?search_term=421",
    "invoices?search_term=billing",
    "credit_notes?search_term=ju",
    "credit_notes?search_term=cn",
    "credit_notes?search_term=4",
    "customers?search_term=textiles gmbh",
    "customers?search_term=billing&currencies[]=EUR",
    "customers?search_term=billing&account_type[]=partner",
    "customers?search_term=Juniper&currencies[]=GBP",
    "customers?search_term=421&countries[]=DE",
    "customers?search_term=42&currencies[]=GBP",
    "invoices?search_term=billing&payment_status=failed",
    "invoices?search_term=421&payment_status=failed",
    "invoices?search_term=12&payment_status=pending",
    "invoices?search_term=ACM-00&payment_overdue=true",
    "invoices?search_term=billing&status=draft",
    "credit_notes?search_term=billing&reason=order_change",
    "credit_notes?search_term=billing",
    "credit_notes?search_term=acm",
    "credit_notes?search_term=421",
    "credit_notes?search_term=12",
    "credit_notes?search_term=Juniper Textiles 99",
    "credit_notes?search_term=no such thing",
    "credit_notes?search_term=421&currency=GBP",
    "credit_notes?search_term=billing&types[]=refund",
    "credit_notes?search_term=billing&credit_status=available",
    "customers?search_term=Juniper Textiles GmbH",
    "customers?search_term=logistics gmbh",
    "invoices?search_term=logistics gmbh",
    "customers?search_term=billing&metadata[tier]=gold",
    "customers?search_term=421&metadata[tier]=gold",
    "customers?search_term=Juniper&metadata[tier]=silver",
    "customers?search_term=billing&states[]=S7",
    "customers?search_term=421&states[]=S7",
    "customers?search_term=billing&zipcodes[]=00421",
    "customers?search_term=billing&has_tax_identification_number=true",
    "invoices?search_term=billing&metadata[tier]=gold",
    "invoices?search_term=421&metadata[tier]=gold",
    "invoices?search_term=Juniper&metadata[tier]=silver",
    "invoices?search_term=billing&purchase_order_number=po-{n}",
    "invoices?search_term=billing&settlements[]=payment",
    "invoices?search_term=billing&billing_entity_codes[]=default",
    "invoices?search_term=billing&partially_paid=true",
    "invoices?search_term=billing&issuing_date_from=2022-01-01&issuing_date_to=2022-06-30",
    "invoices?search_term=billing&issuing_date_from=2024-01-01",
    "invoices?search_term=billing&issuing_date_from=2021-08-15",
    "invoices?search_term=Juniper&issuing_date_from=2022-01-01&issuing_date_to=2022-12-31",
    "invoices?search_term=421&issuing_date_from=2022-01-01&issuing_date_to=2022-12-31",
    "invoices?search_term=7x&issuing_date_from=2022-01-01&issuing_date_to=2022-12-31",
    "invoices?search_term=billing&amount_from=10000&amount_to=10100",
    "invoices?search_term=billing&amount_from=4711",
    "invoices?search_term=Juniper&amount_from=4711&amount_to=123456",
    "invoices?search_term=421&amount_from=4711",
    "invoices?search_term=billing&payment_status=failed&issuing_date_from=2024-01-01",
    "invoices?search_term=421&payment_status=succeeded&issuing_date_from=2022-01-01&issuing_date_to=2022-12-31",
    "invoices?search_term=billing&payment_status=succeeded&issuing_date_from=2022-01-01&issuing_date_to=2022-06-30",
    "invoices?search_term=billing&issuing_date_from=2022-01-01&amount_from=100000&amount_to=101000",
    "credit_notes?search_term=billing&issuing_date_from=2022-01-01&issuing_date_to=2022-06-15",
    "credit_notes?search_term=Juniper&issuing_date_from=2022-01-10",
    "credit_notes?search_term=421&issuing_date_from=2022-01-10",
    "credit_notes?search_term=billing&amount_from=4711",
    "credit_notes?search_term=billing&reason=order_change&issuing_date_from=2024-01-01",
    # Several filters and a text, none of which alone narrows the list to few rows.
    "customers?search_term=billing&metadata[tier]=",
    "customers?search_term=billing&metadata[tier]=gold&currencies[]=EUR",
    "invoices?search_term=billing&metadata[tier]=",
    "invoices?search_term=billing&metadata[tier]=gold&issuing_date_from=2022-01-10",
    "invoices?search_term=billing&payment_status=succeeded&amount_from=4711",
    "invoices?search_term=billing&issuing_date_from=2022-01-10&amount_from=4711",
    "invoices?search_term=421&issuing_date_from=2022-01-10&amount_from=4711",
    "invoices?search_term=Juniper&currency=EUR&issuing_date_from=2022-01-10&amount_to=123456",
    "credit_notes?search_term=billing&currency=EUR&amount_from=4711",
    "credit_notes?search_term=billing&issuing_date_from=2022-01-10&amount_from=4711",
    "credit_notes?search_term=421&amount_from=4711",
    "customers?search_term=billing&has_customer_type=false",
    "customers?search_term=421&currencies[]=EUR&account_type[]=customer",
    "credit_notes?search_term=421&issuing_date_from=2022-01-10&amount_from=4711",
    "credit_notes?search_term=billing&credit_status=available&issuing_date_from=2022-01-10&amount_to=123456",
    "credit_notes?search_term=billing&purchase_order_number=po-{n}",
    "invoices?search_term=7x&payment_status=failed",
    "invoices?search_term=421&metadata[tier]=silver&payment_status=failed",
    "features?search_term=textiles",
    "features?search_term=Textiles 99",
    "features?search_term=feature-{n}",
    "features?search_term=99",
    "features?search_term=4",
    "features?search_term=no such thing",
    f"{HISTORY}?search_term=4000-8000",
    f"{HISTORY}?search_term=00{{n}}",
    f"{HISTORY}?search_term=4",
    f"{HISTORY}?search_term=no such thing",
    f"{HISTORY}?search_term=4000-8000&statuses=failed",
    f"{HISTORY}?search_term=421&statuses=succeeded",
    f"{HISTORY}?search_term=421&from_date=2024-06-20&to_date=2024-06-21",
    f"{HISTORY}?search_term=4000-8000&from_date=2024-06-20&http_statuses=5xx",
)
_DEEP = (
    *LISTS,
    "invoices?statuses[]=finalized&statuses[]=voided",
    "invoices?payment_status=succeeded",
    "subscriptions?status[]=active&status[]=terminated&status[]=canceled",
    "fees?currency=eur",
    "events?external_subscription_id=busy",
)


class MeasuredApi:
    """The API of a billing system, and a clock that measures its requests."""

    def __init__(self, billing: Billing, key: str, clock: Callable[[], float]) -> None:
        self._billing = billing
        self._clock = clock
        self._api = Api(billing, routes())
        self._headers = {"authorization": f"Bearer {key}"}
        self._names = {name: self._first(f"{name}s") for name in ("wallet", "webhook_endpoint")}

    def ask(self, address: str, times: int) -> tuple[float, int, int]:
        """Milliseconds of the fastest run, the number of records on the page, and the total count."""
        target, _, query = address.partition("?")
        best = float("inf")
        for _ in range(times):
            start = self._clock()
            shown, total = self._history(query) if target == HISTORY else self._request(target, query)
            best = min(best, self._clock() - start)
        return best * 1000, shown, total

    def _request(self, target: str, query: str) -> tuple[int, int]:
        """The number of records on a page that the API shows, and the total count."""
        body = self._get(target.format(**self._names), query)
        return len(next(value for name, value in body.items() if name != "meta")), body["meta"]["total_count"]

    def _get(self, target: str, query: str) -> Any:
        path, text = f"/api/v1/{target}", query.replace(" ", "%20")
        answer = self._api.answer(Request(method="GET", path=path, query=text, headers=self._headers))
        assert answer.status == 200, (path, query, answer.body)
        return json.loads(answer.body)

    def _first(self, name: str) -> str:
        """The id of a record, if there is any."""
        return next((str(record["svc_id"]) for record in self._get(name, "per_page=1")[name]), "")

    def _history(self, query: str) -> tuple[int, int]:
        """The messages to an endpoint, which the library alone lists."""
        filters: dict[str, Any] = dict(parse_qsl(query))
        for name in ("statuses", "event_types", "http_statuses"):
            if name in filters:
                filters[name] = [filters[name]]
        if "page" in filters:
            filters["page"] = int(filters["page"])
        page = self._billing.webhooks.list_of_endpoint(self._names["webhook_endpoint"], **filters)
        return len(page.items), page.total_count


class _File(MeasuredApi):
    def __init__(self, path: Path, rows: int, events: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.with_suffix(".key").exists():
            path.unlink(missing_ok=True)
            print(f"filling {path} with {rows:,} rows of each kind and {events:,} events", flush=True)
            fill(path, rows, events)
        super().__init__(*open_filled(path), time.process_time)


def _most_ms(address: str, kind: str) -> float:
    """What the address may cost at most."""
    names = [name.removesuffix("[]") for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)]
    return _SOON_MS if kind == "page" and all(map(_SOON.fullmatch, names)) else MOST_MS


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--rows", type=int, default=1_000_000)
    reader.add_argument("--events", type=int, default=5_000_000)
    reader.add_argument("--small", type=int, default=1_000, help="rows of the file that is compared")
    reader.add_argument("--cache", type=Path, default=Path("/tmp/usagebill-lists"))
    reader.add_argument("--only", default="", help="only the addresses that this is in")
    reader.add_argument("--times", type=int, default=5, help="the best of so many")
    arguments = reader.parse_args()
    small = _File(arguments.cache / f"{arguments.small}.db", arguments.small, arguments.small)
    large = _File(arguments.cache / f"{arguments.rows}.db", arguments.rows, arguments.events)
    missed = 0
    print(f"{'':68} {'rows':>9} {'small ms':>9} {'large ms':>9} {'times':>6}")
    for title, kind, addresses in (
        ("page 1", "page", (*LISTS, *FILTERS)),
        ("search", "search", SEARCHES),
        ("page 10,000", "deep", _DEEP),
    ):
        print(title)
        for address in addresses:
            if arguments.only not in address:
                continue
            if kind == "deep":
                page = min(10_000, max(arguments.rows, 100) // 100)
                deep = f"{address}{'&' if '?' in address else '?'}page={page}"
                ms, shown, total = large.ask(deep, 2)
                if not shown:
                    # The list is shorter than that.
                    deep = deep.replace(f"page={page}", f"page={max(1, total // 100)}")
                    ms, shown, total = large.ask(deep, 2)
                small_ms = None
            else:
                small_ms, _, _ = small.ask(address.replace("{n}", "421"), arguments.times)
                ms, _, total = large.ask(address.replace("{n}", "421"), arguments.times)
            judged = "keeps" if ms <= _most_ms(address, kind) else "MISSES"
            missed += judged == "MISSES"
            compared = "" if small_ms is None else f"{small_ms:9.1f}"
            times = "" if small_ms is None else f"{ms / small_ms:6.1f}"
            print(f"  {address:66} {total:9,} {compared:>9} {ms:9.1f} {times:>6}  {judged}", flush=True)
    print(f"{missed} missed" if missed else "all kept")


if __name__ == "__main__":
    main()
