"""Calls every method of the published JavaScript client against a real server, and reports which were answered.

    npm install --prefix DIR lago-javascript-client@1.53
    python -m tests.javascript_client DIR

Each method is called once, with the request of `tests.sample_records` for its operation; a payment provider, a failed
invoice or a paid top-up is set up for those that need one. The last lines are the refused methods.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from tests.payment_servers.stripe import StripeServer
from tests.sample_records import VERBS, in_order, invoiced, request_of, world
from tests.scenarios import Scenario
from usagebill.core.tax_providers import ProviderFailure
from usagebill.http.app import create_app
from usagebill.http.endpoints import Endpoint
from usagebill.operations import tax_connections
from usagebill.operations.tax_connections import TaxConnectionInput
from usagebill.process.json_text import with_prefix

_LIST = """
import { Client } from "lago-javascript-client";
const methods = [];
for (const [resource, members] of Object.entries(Client("", { baseUrl: "" }))) {
  for (const [name, call] of Object.entries(members ?? {})) {
    const text = typeof call === "function" ? call.toString() : "";
    const path = /path: `([^`]*)`/.exec(text), method = /method: "(\\w+)"/.exec(text);
    if (path && method) {
      const names = text.slice(0, text.indexOf("=>")).replace(/[()\\s]|=\\{\\}/g, "").split(",");
      methods.push({ resource, name, path: path[1], method: method[1], arguments: names });
    }
  }
}
console.log(JSON.stringify(methods));
"""
_CALL = """
import { Client } from "lago-javascript-client";
import { readFileSync } from "node:fs";
const { url, key, calls } = JSON.parse(readFileSync(0, "utf8"));
const client = Client(key, { baseUrl: url });
for (const call of calls) {
  let said;
  try {
    const answer = await client[call.resource][call.name](...call.arguments);
    said = { status: answer.status };
  } catch (problem) {
    said = { status: problem?.status ?? 0, error: problem?.error ?? String(problem) };
  }
  console.log(JSON.stringify({ method: `${call.resource}.${call.name}`, ...said }));
}
"""


def _node(folder: Path, script: str, sent: str = "") -> str:
    """The output of a script that imports the client from `folder`."""
    arguments = ["node", "--input-type=module", "--eval", script]
    return subprocess.run(arguments, cwd=folder, input=sent, text=True, capture_output=True, check=True).stdout


def _shape(path: str) -> str:
    return re.sub(r"\$?{[^}]*}", "{}", path)


ENDPOINTS = {(verb, _shape(endpoint.path)): endpoint for verb, endpoint in VERBS}


class _NoTaxes:
    """A tax provider that knows no address."""

    def ask(self, connection: object, question: object) -> ProviderFailure:
        return ProviderFailure(code="customerAddressCouldNotResolve", message="no such address")


def _add_what_providers_bring(box: Scenario, stripe: StripeServer, known: dict[str, str]) -> dict[str, str]:
    """Add a customer of Stripe with an unpaid invoice and an unpaid top-up, and a failed invoice; returns the addresses
    of the operations on them.
    """
    stripe.knows("cus_1", "pm_1")
    box.connect_payment_provider("stripe", code="main", url=stripe.url, **stripe.credentials)
    account = {"payment_provider": "stripe", "payment_provider_code": "main", "provider_customer_id": "cus_1"}
    box.customer("paula", email="paula@example.com", billing_configuration=account)
    box.run_due()
    stripe.outcomes.extend(["declined"] * 10)
    fees = [{"add_on_code": "seat", "units": 1}]
    unpaid = box.post("/invoices", invoice={"external_customer_id": "paula", "fees": fees})["invoice"]
    wallet = {"external_customer_id": "paula", "rate_amount": "1", "currency": "EUR"}
    wallet_id = box.post("/wallets", wallet=wallet)["wallet"]["svc_id"]
    top_up = {"wallet_id": wallet_id, "paid_credits": "10"}
    bought = box.post("/wallet_transactions", wallet_transaction=top_up)["wallet_transactions"][0]
    wanted = TaxConnectionInput(kind="anrok", code="tax", url="https://taxes.example")
    box.billing.writing(lambda work: tax_connections.create(work, wanted))
    link = {"integration_type": "anrok", "integration_code": "tax", "sync_with_provider": True}
    box.customer("taxed", integration_customers=[link])
    failed = box.post("/invoices", invoice={"external_customer_id": "taxed", "fees": fees})["invoice"]
    box.run_due()
    assert box.invoice(failed["svc_id"])["status"] == "failed"
    return {
        "/customers/{}/checkout_url": "/api/v1/customers/paula/checkout_url",
        "/invoices/{}/payment_url": f"/api/v1/invoices/{unpaid['svc_id']}/payment_url",
        "/invoices/{}/retry": f"/api/v1/invoices/{failed['svc_id']}/retry",
        "/wallet_transactions/{}/payment_url": f"/api/v1/wallet_transactions/{bought['svc_id']}/payment_url",
    }


@contextmanager
def _served(box: Scenario) -> Iterator[str]:
    """The address at which the box is served, with ids as the client expects them."""
    box.billing._system.settings = replace(box.billing.settings, id_prefix="lago_")
    server = uvicorn.Server(uvicorn.Config(create_app(box.billing), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/api/v1"
    server.should_exit = True
    thread.join()


def _arguments(method: dict[str, Any], path: str, body: Any) -> list[Any]:
    """The arguments of the method: the parts of the path, the query, and the body, in the method's order."""
    address, _, query = path.removeprefix("/api/v1").partition("?")
    names = re.findall(r"\${(\w+)}", method["path"])
    values = re.fullmatch(re.sub(r"\${\w+}", "([^/]+)", method["path"]), address)
    assert values is not None, (method["path"], address)
    parts = dict(zip(names, values.groups(), strict=True))
    parameters = dict(pair.split("=") for pair in query.split("&") if pair)
    arguments: list[Any] = []
    for name in method["arguments"]:
        if name == "data":
            arguments.append(with_prefix(body, "svc_", "lago_"))
        elif name == "query":
            arguments.append(parameters)
        elif name in parts:
            arguments.append(parts[name])
    return arguments


def main(folder: Path) -> int:
    """Print a line for each method that is not in the interface or was refused, and how many were answered."""
    methods = json.loads(_node(folder, _LIST))
    outside = [
        f"{row['resource']}.{row['name']}" for row in methods if (row["method"], _shape(row["path"])) not in ENDPOINTS
    ]
    with ExitStack() as stack:
        box = stack.enter_context(Scenario(now="2024-03-05T10:00:00Z", tax_provider=_NoTaxes()))
        stripe = stack.enter_context(StripeServer(now=lambda: box.now))
        known = world(box)
        invoiced(box, known)
        addresses = _add_what_providers_bring(box, stripe, known)

        def place(row: dict[str, Any]) -> tuple[int, int, bool]:
            return in_order((row["method"], ENDPOINTS[row["method"], _shape(row["path"])]))

        inside = sorted((row for row in methods if (row["method"], _shape(row["path"])) in ENDPOINTS), key=place)
        url = stack.enter_context(_served(box))
        refused = []
        for row in inside:
            refused += _called(folder, box, url, row, known, addresses)
    print(f"{len(methods)} methods, {len(outside)} not in the interface, {len(inside) - len(refused)} answered")
    for text in (*(f"not in the interface: {name}" for name in outside), *refused):
        print(text)
    return len(refused)


def _called(
    folder: Path, box: Scenario, url: str, row: dict[str, Any], known: dict[str, str], addresses: dict[str, str]
) -> list[str]:
    endpoint: Endpoint = ENDPOINTS[row["method"], _shape(row["path"])]
    if "{filter_id}" in endpoint.path:
        # Changes of a charge give it other filters.
        parent = "/plans/basic" if endpoint.path.startswith("/plans") else "/subscriptions/sub"
        filters = box.get(f"{parent}/charges/{known['charge_code']}/filters")["filters"]
        known = {**known, "filter_id": filters[0]["svc_id"]}
    path, body = request_of(row["method"], endpoint, known)
    path = addresses.get(_shape(endpoint.path), path)
    call = {**row, "arguments": _arguments(row, path, body)}
    sent = json.dumps({"url": url, "key": box.api_key, "calls": [call]})
    answer = json.loads(_node(folder, _CALL, sent))
    return [] if answer["status"] in (200, 204) else [f"refused: {answer}"]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
