"""What must balance at the end of every company, whatever happened in it. Read from its papers alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from usagebill.simulation.playing import Played

Paper = Mapping[str, Any]
# An event that came too late for one charge counts in a level that is carried over; a fee shows those without a number.
_SHOWN_BOTH_WAYS = (
    "period_already_billed",
    "period_closed",
    "property_not_numeric",
    "property_missing",
    "amount_missing",
)


def imbalances(played: Played) -> list[str]:
    """Every balance that does not hold, as a sentence."""
    papers = played.papers
    return [
        f"{name}: {problem}"
        for name, check in (
            ("events", _events),
            ("invoices", _invoices),
            ("numbers", _numbers),
            ("notes", _notes),
            ("wallets", _wallets),
            ("periods", _periods),
        )
        for problem in check(papers, played.log)
    ]


def _events(papers: Mapping[str, Sequence[Paper]], log: Sequence[Paper]) -> Iterator[str]:
    """What was taken in is there, once; and it is on a fee, or listed with the reason why not."""
    taken = [one["with"]["transaction_id"] for one in log if one.get("call") == "events.create" and not one["refused"]]
    kept = [event["transaction_id"] for event in papers["events"]]
    if sorted(taken) != sorted(kept):
        yield f"{len(taken)} taken in, {len(kept)} kept: {sorted({*taken} ^ {*kept})}"
    # What a level carries over is on the fees of later periods, which list the events of their own period.
    carried = {
        one["with"]["code"]
        for one in log
        if one.get("call") == "billable_metrics.create" and one["with"].get("recurring")
    }
    billed_until = {
        (fee["external_subscription_id"], fee["item"]["code"]): fee.get("to_date")
        for fee in sorted(papers["fees"], key=lambda fee: str(fee.get("to_date")))
    }
    levels = {
        event["transaction_id"]
        for event in papers["events"]
        if event["code"] in carried
        and str(event["timestamp"])[:19]
        <= str(billed_until.get((event["external_subscription_id"], event["code"]), ""))
    }
    # What is removed again counts nothing: where nothing else is used, there is no fee to list it.
    removed = {_value(one) for one in papers["events"] if one["properties"].get("operation_type") == "remove"}
    levels |= {one["transaction_id"] for one in papers["events"] if _value(one) in removed}
    listed = {event["transaction_id"]: event["unbilled"]["code"] for event in papers["unbilled"]}
    billed = {event["transaction_id"] for event in papers["billed"]}
    for id in sorted({*kept} - billed - levels - {*listed}):
        yield f"{id} is on no fee, and not listed"
    for id in sorted(billed & {*listed}):
        if listed[id] not in _SHOWN_BOTH_WAYS:
            yield f"{id} is on a fee, and listed as {listed[id]}"


def _value(event: Paper) -> tuple[str, str, str]:
    return event["external_subscription_id"], event["code"], str(event["properties"].get("value"))


def _invoices(papers: Mapping[str, Sequence[Paper]], log: Sequence[Paper]) -> Iterator[str]:
    """Fees less credits and with taxes are the total; the total is paid, offset or due."""
    offsets: dict[str, int] = defaultdict(int)
    for note in papers["credit_notes"]:
        offsets[note["svc_invoice_id"]] += note["offset_amount_cents"]
    paid: dict[str, int] = defaultdict(int)
    for payment in papers["payments"]:
        if payment["payment_status"] == "succeeded":
            for id in payment["invoice_ids"]:
                paid[id] += payment["amount_cents"]
    for invoice in papers["invoices"]:
        number = invoice["number"]
        if invoice["status"] not in ("finalized", "voided"):
            continue
        fees = sum(fee["amount_cents"] for fee in invoice["fees"])
        parts = (
            fees
            - invoice["progressive_billing_credit_amount_cents"]
            - invoice["coupons_amount_cents"]
            + invoice["taxes_amount_cents"]
            - invoice["credit_notes_amount_cents"]
            - invoice["prepaid_credit_amount_cents"]
        )
        if parts != invoice["total_amount_cents"]:
            yield f"{number}: its parts are {parts}, its total {invoice['total_amount_cents']}"
        if parts < 0:
            yield f"{number}: below zero: {parts}"
        if invoice["status"] == "finalized":
            gone = paid[invoice["svc_id"]] + offsets[invoice["svc_id"]] + invoice["total_due_amount_cents"]
            if gone != invoice["total_amount_cents"]:
                yield f"{number}: paid, offset and due are {gone}, its total {invoice['total_amount_cents']}"


def _numbers(papers: Mapping[str, Sequence[Paper]], log: Sequence[Paper]) -> Iterator[str]:
    by_customer: dict[str, list[int]] = defaultdict(list)
    for invoice in papers["invoices"]:
        if invoice["status"] in ("finalized", "voided"):
            by_customer[invoice["customer"]["slug"]].append(invoice["sequential_id"])
    for customer, numbers in by_customer.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            yield f"{customer}: {sorted(numbers)}"


def _notes(papers: Mapping[str, Sequence[Paper]], log: Sequence[Paper]) -> Iterator[str]:
    """No invoice gives back more than it asked for, and no note more than its credit; what was used of all is used."""
    invoices = {invoice["svc_id"]: invoice for invoice in papers["invoices"]}
    given: dict[str, int] = defaultdict(int)
    used: dict[str, int] = defaultdict(int)
    for invoice in papers["invoices"]:
        if invoice["status"] == "finalized":
            used[invoice["customer"]["external_id"]] += invoice["credit_notes_amount_cents"]
    for note in papers["credit_notes"]:
        given[note["svc_invoice_id"]] += note["total_amount_cents"]
        if not 0 <= note["balance_amount_cents"] <= note["credit_amount_cents"]:
            yield f"{note['number']}: {note['balance_amount_cents']} left of {note['credit_amount_cents']}"
        if note["credit_status"] in ("available", "consumed"):
            spent = note["credit_amount_cents"] - note["balance_amount_cents"]
            used[note["customer"]["external_id"]] -= spent
    for id, cents in given.items():
        if cents > invoices[id]["sub_total_including_taxes_amount_cents"]:
            asked = invoices[id]["sub_total_including_taxes_amount_cents"]
            yield f"{invoices[id]['number']}: {cents} given back of {asked}"
    # What a void withdraws of a note is used by no invoice.
    withdrawn = {
        note["customer"]["external_id"]
        for note in papers["credit_notes"]
        if note["credit_status"] == "voided" or invoices[note["svc_invoice_id"]]["status"] == "voided"
    }
    for customer, cents in used.items():
        if cents and customer not in withdrawn:
            yield f"{customer}: invoices used {cents} more than notes gave"


def _wallets(papers: Mapping[str, Sequence[Paper]], log: Sequence[Paper]) -> Iterator[str]:
    """A balance is what came in less what went out."""
    moves: dict[str, int] = defaultdict(int)
    units = {wallet["svc_id"]: wallet["currency"] for wallet in papers["wallets"]}
    digits = {"JPY": 0, "KWD": 3}
    for move in papers["wallet_transactions"]:
        if move["status"] == "settled":
            whole, _, part = str(move["amount"]).partition(".")
            places = digits.get(units[move["svc_wallet_id"]], 2)
            cents = int(whole + part.ljust(places, "0")[:places])
            moves[move["svc_wallet_id"]] += cents if move["transaction_type"] == "inbound" else -cents
    for wallet in papers["wallets"]:
        if wallet["status"] == "active" and moves[wallet["svc_id"]] != wallet["balance_cents"]:
            yield f"{wallet['name']}: moves of {moves[wallet['svc_id']]}, balance {wallet['balance_cents']}"


def _periods(papers: Mapping[str, Sequence[Paper]], log: Sequence[Paper]) -> Iterator[str]:
    """Usage of a subscription is billed without a gap and without an overlap."""
    windows: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for invoice in papers["invoices"]:
        if invoice["invoice_type"] != "subscription" or invoice["status"] not in ("finalized", "voided"):
            continue
        for one in invoice["billing_periods"]:
            reason, since, until = one["invoicing_reason"], one["charges_from_datetime"], one["charges_to_datetime"]
            if reason in ("subscription_periodic", "subscription_terminating") and since and since != until:
                windows[one["svc_subscription_id"]].add((since, until))
    for id, found in windows.items():
        ordered = sorted(found)
        for (_, until), (since, _) in pairwise(ordered):
            if not _is_next(until, since):
                yield f"{id}: usage up to {until}, then from {since}"


def _is_next(until: str, since: str) -> bool:
    gap = datetime.fromisoformat(since.replace("Z", "+00:00")) - datetime.fromisoformat(until.replace("Z", "+00:00"))
    return timedelta(0) <= gap <= timedelta(seconds=1)
