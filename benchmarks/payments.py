"""Due payments a second through a slow provider, against the same calls without billing.

    python -m benchmarks.payments [PAYMENTS] [MILLISECONDS]

The floor makes the same charges with our adapter, on as many threads, and stores nothing. The provider is a separate
process on the same machine that answers after `MILLISECONDS`. With a provider that takes 100 ms, charges should reach
0.8 of the floor: then the calls dominate. Billing continues during the run: the longest wait of a
change to a customer is shown.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httptools

from usagebill.billing import Billing
from usagebill.core.payments import Payment
from usagebill.core.provider_requests import Charge, MethodDetails
from usagebill.core.statuses import ChargeStatus
from usagebill.fields import BillingConfigurationFields
from usagebill.operations.payment_methods import keep_method
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders
from usagebill.storage.conditions import eq, present
from usagebill.worker import Worker

PAYMENTS = 2_000
MILLISECONDS = 100
PARALLEL = (2, 8)
# Calls measured.
MOST_BARE = 1_000
CUSTOMERS = 50


class _Provider(asyncio.Protocol):
    """A fake Adyen that authorises every charge after `seconds`."""

    charges = 0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._answer)

    def _answer(self) -> None:
        _Provider.charges += 1
        body = json.dumps({"pspReference": f"PSP{_Provider.charges}", "resultCode": "Authorised"}).encode()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def provide(seconds: float) -> None:
    """Listen on a port, and print it."""
    server = await asyncio.get_running_loop().create_server(lambda: _Provider(seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


@contextmanager
def provider(seconds: float) -> Iterator[str]:
    """The address of a provider that answers after this many seconds."""
    command = [sys.executable, "-m", "benchmarks.payments", "provide", str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def owe(billing: Billing, url: str, payments: int) -> None:
    """Create this many invoices of customers with a card at the provider."""
    connection = billing.payment_connections.create(
        kind="adyen", code="main", url=url, api_key="key", merchant_account="Hooli", hmac_key="00"
    )
    billing.add_ons.create(name="Setup", code="setup", amount_cents=1050, amount_currency="EUR")
    link: BillingConfigurationFields = {"payment_provider": "adyen", "payment_provider_code": "main"}
    for number in range(CUSTOMERS):
        id = f"customer-{number}"
        configuration: BillingConfigurationFields = {**link, "provider_customer_id": id}
        customer = billing.customers.upsert(
            external_id=id, name=id, currency="EUR", billing_configuration=configuration
        )
        details = MethodDetails(provider_method_id=f"card-{number}")
        billing.writing(lambda work, to=customer, of=details: keep_method(work, to, connection, of))  # type: ignore[misc]
    for number in range(payments):
        billing.invoices.create_one_off(
            external_customer_id=f"customer-{number % CUSTOMERS}", currency="EUR", fees=[{"add_on_code": "setup"}]
        )


def settled(billing: Billing) -> int:
    # Not as a request, to which other work would yield.
    return billing._system.ask(lambda tx: tx.count(Payment, eq("payment_status", ChargeStatus.SUCCEEDED)))


def collect(billing: Billing, payments: int, parallel: int) -> tuple[float, float]:
    """Payments a second, and the longest time in seconds that changing a customer took meanwhile."""
    worker = Worker(billing, outside_threads=parallel)
    waits = []
    started = time.perf_counter()
    worker.start()
    while settled(billing) < payments:
        before = time.perf_counter()
        billing.customers.upsert(external_id="bystander", name="Bystander")
        waits.append(time.perf_counter() - before)
        time.sleep(0.1)
    seconds = time.perf_counter() - started
    worker.stop()
    return payments / seconds, max(waits)


def bare_rate(charge: Charge, billing: Billing, payments: int, parallel: int) -> float:
    """Payments a second that the adapter makes by itself."""
    connection = billing.payment_connections.get("main")
    http = HttpPaymentProviders(30)

    def act(number: int) -> None:
        http.ask(connection, replace(charge, payment_id=f"p-{number}", key=f"payment-p-{number}"))

    started = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(act, range(payments)))
    seconds = time.perf_counter() - started
    http.close()
    return payments / seconds


def main(payments: int, milliseconds: int) -> None:
    print(f"{payments:,} due payments, a provider that answers after {milliseconds} ms")
    with tempfile.TemporaryDirectory() as folder, provider(milliseconds / 1000) as url:
        for parallel in PARALLEL:
            with Billing(Path(folder) / f"billing-{parallel}.db") as billing:
                owe(billing, url, payments)
                rate, wait = collect(billing, payments, parallel)
                paid = billing._system.ask(lambda tx: tx.find(Payment, present("connection_id"), limit=payments + 1))
                assert len(paid) == len({payment.provider_payment_id for payment in paid}) == payments
                charge = paid[0].sent
                assert charge is not None
                bare = bare_rate(charge, billing, min(payments, MOST_BARE), parallel)
            print(f"{f'{parallel} at once: bare calls':34} {bare:8,.1f} payments/s")
            print(f"{'  collected':34} {rate:8,.1f} payments/s")
            print(f"{'  ratio to the bare calls':34} {rate / bare:8.2f} (at least 0.8 at 100 ms)")
            print(f"{'  longest change meanwhile':34} {wait * 1000:8,.0f} ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["provide"]:
        asyncio.run(provide(float(sys.argv[2])))
    else:
        numbers = [int(text) for text in sys.argv[1:3]]
        main(*numbers, *(PAYMENTS, MILLISECONDS)[len(numbers) :])
