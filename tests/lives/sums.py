"""What must hold over every life. Each sum yields a sentence for each way in which it is broken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from tests.lives.life import CHARGES, MICROSECOND, MINUTE, RECURRING, Life, Step, coupon_terms
from tests.lives.owed import TOO_LATE, Unsure, bill_of, in_arrears_too
from tests.lives.play import SUBSCRIPTION, Lived, play
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice

# Invoices that count; voided ones are given back, deleted and closed ones ask for nothing.
COUNTING = ("finalized", "closed")


def violations(life: Life) -> list[str]:
    """Every sum that the life breaks, each with its name before the colon."""
    lived = play(life)
    found = [f"while it ran: {problem}" for problem in lived.problems]
    found += [f"audit: {finding}" for finding in lived.findings]
    for name, check in SUMS.items():
        found += [f"{name}: {detail}" for detail in check(lived)]
    for name, vary in VARIANTS.items():
        found += [f"{name}: {detail}" for detail in vary(life, lived)]
    return found


def _round(cents: Fraction) -> int:
    return int(cents + Fraction(1, 2)) if cents >= 0 else -int(-cents + Fraction(1, 2))


def _counting(lived: Lived) -> list[Invoice]:
    return [invoice for invoice in lived.invoices if invoice.status in COUNTING]


def _fees_of(lived: Lived) -> dict[str | None, list[Fee]]:
    fees: dict[str | None, list[Fee]] = defaultdict(list)
    for fee in lived.fees:
        if fee.deleted_at is None:
            fees[fee.invoice_id].append(fee)
    return fees


# One undisturbed computation


def _owed(lived: Lived) -> Iterator[str]:
    """Invoices less the credit for unused time are what the life costs."""
    if any(act.what == "void" and act.code for act in lived.acts):
        return
    if any(act.what in ("override", "price", "filter", "rename") for act in lived.acts):
        return
    try:
        bill = bill_of(lived)
    except Unsure:
        return
    subscriptions = sorted(
        (one for one in lived.subscriptions if one.started_at is not None and one.external_id == SUBSCRIPTION),
        key=lambda one: (one.started_at, one.created_at, one.id),
    )
    numbers = {one.id: number for number, one in enumerate(subscriptions)}
    counting = {invoice.id for invoice in _counting(lived) if invoice.invoice_type != "progressive_billing"}
    billed: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
    by_id = {}
    for fee in lived.fees:
        if fee.deleted_at is not None or fee.fee_type == "credit" or fee.subscription_id not in numbers:
            continue
        if fee.invoice_id is not None and fee.invoice_id not in counting:
            continue
        what = {
            "subscription": "plan",
            "fixed_charge": "fixed",
            "commitment": "commitment",
            "charge": f"charge {lived.charges.get(fee.charge_id or '')}",
        }[fee.fee_type]
        key = (numbers[fee.subscription_id], what)
        by_id[fee.id] = key
        billed[key] += fee.amount_cents
    for note in lived.notes:
        if note.id in lived.by_hand or note.status != "finalized":
            continue
        for item in note.items:
            if item.fee_id in by_id:
                billed[by_id[item.fee_id]] -= item.amount_cents
    credited_by_hand = {
        by_id[item.fee_id]
        for note in lived.notes
        if note.id in lived.by_hand
        for item in note.items
        if item.fee_id in by_id
    }
    # A coupon that paid for a fee leaves nothing to give back of it.
    discounted = any(invoice.coupons_amount_cents for invoice in lived.invoices)
    terms = [CHARGES[code] for plan in lived.life.plans for code in plan.charges]
    both_ways = {metric for metric, how in terms if how.get("ahead")} & {
        metric for metric, how in terms if not how.get("ahead")
    }
    for key in sorted({*bill.amounts, *billed}):
        if discounted and key[1] == "plan" and any(plan.ahead for plan in lived.life.plans):
            continue
        carried = _item_of(key[1])
        if discounted and carried in both_ways:
            continue
        # Nor is what was credited by hand of what an older plan was paid in advance.
        if carried and any(number <= key[0] and _item_of(what) == carried for number, what in credited_by_hand):
            continue
        # What was credited of a plan's fee by hand is not given back again; whether a commitment counts it is open.
        of_fee = key[1] in ("plan", "commitment") and (key[0], "plan") in credited_by_hand
        if key in bill.unsure or of_fee:
            continue
        expected = bill.amounts.get(key, Fraction(0))
        allowed = Fraction(bill.roundings.get(key, 1), 2)
        if abs(billed[key] - expected) > allowed:
            number, what = key
            yield f"subscription {number + 1}, {what}: {float(expected):.2f} cents, billed {float(billed[key]):.2f}"


def _item_of(what: str) -> str | None:
    """What an older plan may have been paid for in advance: fixed seats, or a recurring metric."""
    if what == "fixed":
        return what
    metric, _ = CHARGES.get(what.removeprefix("charge "), ("", {}))
    return metric if metric in RECURRING else None


def _documents(lived: Lived) -> Iterator[str]:
    """Each invoice: fees less what was billed ahead (gross) and coupons, and its taxes, in the order of issue."""
    fees = _fees_of(lived)
    for invoice in _counting(lived):
        if invoice.invoice_type == "credit":
            continue
        own = fees[invoice.id]
        total = sum(fee.amount_cents for fee in own)
        if total != invoice.fees_amount_cents:
            yield f"fees of {invoice.number}: {total}, shown {invoice.fees_amount_cents}"
        if invoice.invoice_type == "advance_charges":
            continue
        base = total - invoice.progressive_billing_credit_amount_cents
        coupons = Fraction(0)
        for line in invoice.credits:
            if line.item_type != "coupon":
                continue
            terms, target = coupon_terms(line.item_code or "")
            left = base - coupons
            if terms["coupon_type"] == "percentage" and target:
                if line.amount_cents > _round(left * Fraction(terms["rate"]) / 100):
                    yield f"coupon {line.item_code} on {invoice.number} took {line.amount_cents} of {left}"
            elif terms["coupon_type"] == "percentage":
                rate = Fraction(terms["rate"]) / 100
                expected, least = _round(left * rate), _round((left - _moved(lived, invoice)) * rate)
                if not least <= line.amount_cents <= expected:
                    yield f"coupon {line.item_code} on {invoice.number}: {expected}, took {line.amount_cents}"
            elif line.amount_cents > min(terms["amount_cents"], left):
                yield f"coupon {line.item_code} on {invoice.number} took {line.amount_cents} of {left}"
            coupons += line.amount_cents
        net = base - coupons
        if net < 0:
            yield f"{invoice.number} is negative: {net}"
        if net != invoice.sub_total_excluding_taxes_amount_cents:
            yield f"net of {invoice.number}: {net}, shown {invoice.sub_total_excluding_taxes_amount_cents}"
        rates = {line.rate for fee in own for line in fee.applied_taxes}
        taxed = {fee.taxes_rate for fee in own}
        if len(taxed) == 1 and len(rates) <= 1:
            tax = _round(net * Fraction(sum(rates, Decimal(0))) / 100)
            if abs(tax - invoice.taxes_amount_cents) > (1 if coupons else 0):
                yield f"taxes of {invoice.number}: {tax}, shown {invoice.taxes_amount_cents}"


def _moved(lived: Lived, invoice: Invoice) -> int:
    """What was given back, when the invoice was issued, of those that it deducts: a percentage of it was taken before,
    and the fees that it discounts had been billed ahead in full. The invoice asks for as much more.
    """
    deducted = {line.source_id for line in invoice.credits if line.item_type == "invoice"}
    return sum(
        note.sub_total_excluding_taxes_amount_cents
        for note in _live_notes(lived)
        if note.automatic and note.invoice_id in _stages(lived, deducted) and note.created_at == invoice.finalized_at
    )


def _stages(lived: Lived, ids: set[str | None]) -> set[str | None]:
    """These progressive billing invoices, and those that they deduct."""
    before = {
        line.source_id for one in lived.invoices if one.id in ids for line in one.credits if line.item_type == "invoice"
    }
    return ids if before <= ids else _stages(lived, ids | before)


def _billed_ahead(lived: Lived) -> Iterator[str]:
    """What thresholds billed ahead is deducted again, before coupons, or credited."""
    ahead = [invoice for invoice in _counting(lived) if invoice.invoice_type == "progressive_billing"]
    if not ahead:
        return
    given = sum(invoice.fees_amount_cents for invoice in ahead)
    deducted = sum(
        line.amount_cents for invoice in _counting(lived) for line in invoice.credits if line.item_type == "invoice"
    )
    notes = [note for note in _live_notes(lived) if note.invoice_id in {invoice.id for invoice in ahead}]
    if any(act.what == "void" and act.code for act in lived.acts):
        return
    if any(invoice.coupons_amount_cents for invoice in ahead):
        if deducted > given:
            yield f"{given} cents of fees, {deducted} deducted"
        return  # what a coupon paid of it is not credited
    credited = sum(note.sub_total_excluding_taxes_amount_cents for note in notes if note.id not in lived.by_hand)
    if any(note.id in lived.by_hand for note in notes):
        return
    if given != deducted + credited:
        yield f"{given} cents of fees, {deducted} deducted, {credited} credited"


def _live_notes(lived: Lived) -> list[CreditNote]:
    voided = {invoice.id for invoice in lived.invoices if invoice.status == "voided"}
    return [note for note in lived.notes if note.status == "finalized" and note.invoice_id not in voided]


def _coupon_uses(lived: Lived) -> Iterator[str]:
    """A coupon takes no more than it may, and once is once."""
    for coupon in lived.coupons:
        # What it gave for usage billed ahead that fell went back to it.
        lines = [
            (invoice, line)
            for invoice in _counting(lived)
            for line in invoice.credits
            if line.item_type == "coupon"
            and line.source_id == coupon.id
            and (line.amount_cents > line.returned_cents or not line.amount_cents)
        ]
        taken = sum(line.amount_cents - line.returned_cents for _, line in lines)
        # An invoice that deducts what others billed ahead continues their use: they bill one period.
        uses = len({_billed_with(lived, invoice) for invoice, _ in lines})
        if coupon.frequency == "once" and coupon.amount_cents is not None and taken > coupon.amount_cents:
            yield f"once: {taken} of {coupon.amount_cents}"
        if coupon.frequency == "once" and coupon.percentage_rate is not None and len(lines) > 1:
            yield f"once, on {len(lines)} invoices"
        if coupon.frequency == "recurring" and uses > (coupon.frequency_duration or 0):
            yield f"{coupon.frequency_duration} times, used {uses} times"


def _billed_with(lived: Lived, invoice: Invoice) -> frozenset[str | None]:
    """The invoices that bill one period: those that this one deducts, those that deduct it, and so on; also by way of
    ones that were voided or made again.
    """
    links = [
        {
            one.id,
            one.voided_invoice_id or one.id,
            *(line.source_id for line in one.credits if line.item_type == "invoice"),
        }
        for one in lived.invoices
    ]
    found: set[str | None] = {invoice.id}
    grown = True
    while grown:
        linked = {id for link in links if not found.isdisjoint(link) for id in link}
        grown = not linked <= found
        found |= linked
    return frozenset(found)


# Notes, payments and wallets


def _notes(lived: Lived) -> Iterator[str]:
    """No invoice gives back more than it asked for; what a note gave is used, left or withdrawn."""
    used = _used(lived)
    given: dict[str, int] = defaultdict(int)
    invoices = {invoice.id: invoice for invoice in lived.invoices}
    for note in lived.notes:
        if note.status != "finalized":
            continue
        given[note.invoice_id] += note.total_amount_cents
        if note.taxes_amount_cents < 0 or note.total_amount_cents < 0:
            yield f"note {note.number}: total {note.total_amount_cents}, taxes {note.taxes_amount_cents}"
        spent, left = used.get(note.id, 0), note.balance_amount_cents
        gone = note.voided_amount_cents + note.withdrawn_amount_cents
        if spent + left + gone != note.credit_amount_cents:
            yield f"note {note.number}: {note.credit_amount_cents} given, {spent} used, {left} left, {gone} withdrawn"
        if gone and invoices[note.invoice_id].status != "voided":
            yield f"note {note.number}: {gone} withdrawn, and its invoice stands"
    for id, cents in given.items():
        invoice = invoices[id]
        asked = invoice.sub_total_including_taxes_amount_cents
        if cents > asked:
            yield f"{invoice.number} asked for {asked} and gave back {cents}"


def _wallets(lived: Lived) -> Iterator[str]:
    """Granted and bought are used, voided, expired or left."""
    for wallet in lived.wallets:
        own = [one for one in lived.transactions if one.wallet_id == wallet.id and one.status == "settled"]
        came = sum(one.amount_cents for one in own if one.is_inbound)
        went = sum(one.amount_cents for one in own if not one.is_inbound)
        if came - went != wallet.balance_cents:
            yield f"{came} came, {went} went, {wallet.balance_cents} left"
    invoices = {invoice.id: invoice for invoice in lived.invoices}
    paid: dict[str, int] = defaultdict(int)
    for one in lived.transactions:
        if one.status == "settled" and not one.is_inbound and one.invoice_id is not None:
            paid[one.invoice_id] += one.amount_cents
        if one.status == "settled" and one.is_inbound and one.voided_invoice_id is not None:
            paid[one.voided_invoice_id] -= one.amount_cents
    for id, invoice in invoices.items():
        expected = invoice.prepaid_credit_amount_cents if invoice.status in COUNTING else 0
        if invoice.status != "voided" and paid[id] != expected:
            yield f"{invoice.number} ({invoice.status}) was prepaid {expected} cents, wallets paid {paid[id]}"


def _voids(lived: Lived) -> Iterator[str]:
    """All that paid a voided invoice went back, but for what its own credit notes had given and still give."""
    used = _used(lived)
    for invoice in lived.invoices:
        if invoice.status != "voided":
            continue
        kept = sum(
            one.amount_cents
            for one in lived.payments
            if one.payable_id == invoice.id and one.payment_status == "succeeded"
        )
        kept += sum(
            line.amount_cents - line.returned_cents for line in invoice.credits if line.item_type == "credit_note"
        )
        for one in lived.transactions:
            if one.status == "settled" and one.invoice_id == invoice.id and not one.is_inbound:
                kept += one.amount_cents
            if one.status == "settled" and one.voided_invoice_id == invoice.id and one.is_inbound:
                kept -= one.amount_cents
        given = sum(
            note.refund_amount_cents + used[note.id] + note.balance_amount_cents
            for note in lived.notes
            if note.invoice_id == invoice.id and note.status == "finalized"
        )
        if kept != given:
            yield f"{invoice.number} keeps {kept} cents, and its notes give {given}"


def _used(lived: Lived) -> dict[str | None, int]:
    """The cents that invoices have used of each credit note."""
    used: dict[str | None, int] = defaultdict(int)
    for invoice in lived.invoices:
        if invoice.status not in (*COUNTING, "voided"):
            continue
        for line in invoice.credits:
            if line.item_type == "credit_note":
                used[line.source_id] += line.amount_cents - line.returned_cents
    return used


def _cash(lived: Lived) -> Iterator[str]:
    """Nobody is asked for less than nothing."""
    for invoice in lived.invoices:
        if invoice.status == "finalized" and invoice.due_cents < 0:
            yield f"{invoice.number}: {invoice.due_cents} due"


# Events


def _events(lived: Lived) -> Iterator[str]:
    """Units of a summed metric that is billed in arrears: each event on one fee, or on the list."""
    if any(act.what == "void" and act.code for act in lived.acts):
        return
    if any(act.what in ("override", "price", "filter") for act in lived.acts):
        return
    counting = {invoice.id for invoice in _counting(lived) if invoice.invoice_type == "subscription"}
    own = {one.id for one in lived.subscriptions if one.external_id == SUBSCRIPTION}
    plans = lived.life.plans
    for code in ("gb-min", "gb", "gb-tiers", "gb-volume", "gb-packs", "gb-share", "gb-regions", "gb-ahead"):
        if not all(code in plan.charges for plan in plans):
            continue
        units = sum(
            (
                fee.units
                for fee in lived.fees
                if fee.fee_type == "charge"
                and fee.true_up_parent_fee_id is None
                and lived.charges.get(fee.charge_id or "") == code
                and fee.invoice_id in counting
                and fee.subscription_id in own
            ),
            Decimal(0),
        )
        sent = {event.id: event.value for event in lived.events if event.metric == "gb"}
        # What came too late for a charge in arrears is listed, and billed by one in advance.
        both = code == "gb-ahead" and any(in_arrears_too(plan, "gb") for plan in plans)
        listed = sum(
            value
            for id, value in sent.items()
            if id in lived.unbilled and not (both and lived.unbilled[id] in TOO_LATE)
        )
        if units + listed != sum(sent.values()):
            yield f"{code}: {sum(sent.values())} used, {units} billed, {listed} listed as unbilled"
    listed_ids = set(lived.unbilled)
    changes = [act for act in lived.acts if act.what in ("plan", "end")]
    for event in lived.events:
        if any(act.at == event.at and act.place < event.place for act in changes):
            continue  # it came after a change of the same instant
        if event.id in listed_ids and event.received == event.at and lived.unbilled[event.id] in TOO_LATE:
            yield f"event {event.id} of {event.at} came in time and is listed as {lived.unbilled[event.id]}"


SUMS: dict[str, Callable[[Lived], Iterator[str]]] = {
    "what it costs": _owed,
    "documents": _documents,
    "billed ahead": _billed_ahead,
    "coupons": _coupon_uses,
    "notes": _notes,
    "wallets": _wallets,
    "voids of invoices": _voids,
    "cash": _cash,
    "events": _events,
}


# The same life in other ways


def papers(lived: Lived) -> list[tuple[object, ...]]:
    """All that was issued, without ids and numbers."""
    fees = _fees_of(lived)
    invoices: list[tuple[object, ...]] = [
        (
            str(invoice.created_at),
            invoice.invoice_type,
            invoice.status,
            str(invoice.issuing_date),
            invoice.sub_total_excluding_taxes_amount_cents,
            invoice.taxes_amount_cents,
            invoice.total_amount_cents,
            tuple(sorted((str(line.item_type), line.amount_cents) for line in invoice.credits)),
            tuple(
                sorted(
                    (
                        str(fee.fee_type),
                        lived.charges.get(fee.charge_id or "", fee.item.code),
                        str(fee.units.normalize()),
                        fee.amount_cents,
                        str(fee.from_datetime),
                        str(fee.to_datetime),
                    )
                    for fee in fees[invoice.id]
                )
            ),
        )
        for invoice in lived.invoices
        if invoice.status != "deleted"
    ]
    notes: list[tuple[object, ...]] = [
        ("note", str(note.issuing_date), note.total_amount_cents, note.taxes_amount_cents, str(note.credit_status))
        for note in lived.notes
        if note.status == "finalized"
    ]
    return sorted(invoices, key=repr) + sorted(notes, key=repr)


def _same_papers(lived: Lived, other: Lived, how: str) -> Iterator[str]:
    """What differs between two plays of one life, that of `how` and the usual one."""
    usual, varied = papers(lived), papers(other)
    yield from (f"usually {paper}" for paper in [paper for paper in usual if paper not in varied][:2])
    yield from (f"{how} {paper}" for paper in [paper for paper in varied if paper not in usual][:2])
    if usual != varied and sorted(set(map(repr, usual))) == sorted(set(map(repr, varied))):
        yield f"{how}: a paper is there more or fewer times"
    if lived.unbilled != other.unbilled:
        yield f"usually unbilled {lived.unbilled}, {how} {other.unbilled}"
    for problem in other.problems + other.findings:
        if problem not in lived.problems + lived.findings:
            yield f"only {how}: {problem}"


def _reopened(life: Life, lived: Lived) -> Iterator[str]:
    """A file that is closed and opened again before each step holds the same papers; every eighth life, for time."""
    if life.start.day % 8 == 0:
        yield from _same_papers(lived, play(life, reopened=True), "reopened")


def _backwards(life: Life, lived: Lived) -> Iterator[str]:
    """The order in which plans, coupons and wallets were made before the first step changes nothing; every fourth life,
    for time.
    """
    if life.start.month % 4 == 1 and (len(life.plans) > 1 or (life.wallet and life.coupons)):
        yield from _same_papers(lived, play(life, backwards=True), "in another order")


def _forgetful(life: Life, lived: Lived) -> Iterator[str]:
    """The removal of events of long billed periods changes no paper, and the audit stays silent; every other life, for
    time.
    """
    if life.start.day % 2 == 0:
        forgetful = play(life, forgetful=True)
        # What comes in for a period of which events were removed is refused, not listed as unbilled.
        yield from _same_papers(replace(lived, unbilled={}), replace(forgetful, unbilled={}), "with events removed")


def _as_taken(life: Life, lived: Lived) -> Life:
    """The life with each step at its instant in `lived`: a bill moves the clock on, and so what follows at the same
    instant.
    """
    steps = tuple(replace(step, at=at) for step, at in zip(life.steps, lived.instants, strict=True))
    return replace(life, steps=steps)


def _late(life: Life, lived: Lived) -> Iterator[str]:
    """Weeks without a worker change no paper."""
    if any(step.what == "down" for step in life.steps):
        yield from _same_papers(lived, play(_as_taken(life, lived), late=True), "late")


def _asleep(life: Life, lived: Lived) -> Iterator[str]:
    """Nor does a whole life without one, until a day before its end; every fourth life, for time."""
    minutes = (life.end - life.start) // MINUTE - 24 * 60
    if life.start.day % 4 == 2 and minutes > 0:
        steps = (Step(at=life.start + MICROSECOND, what="down", number=minutes), *life.steps)
        asleep = replace(life, steps=tuple(step for step in steps if step.what != "down" or step is steps[0]))
        yield from _late(asleep, play(asleep))


def _in_leaps(life: Life, lived: Lived) -> Iterator[str]:
    """Whether workers run each job when it is due, or all that is due right before each step, is the same; every
    fourth life, for time.
    """
    if life.start.day % 4 == 3:
        yield from _same_papers(lived, play(_as_taken(life, lived), leaps=True), "in leaps")


def _sums(lived: Lived) -> tuple[list[tuple[object, ...]], dict[str, tuple[int, int]]]:
    """What each invoice comes to, whatever notes pay of it, and what all notes of each give back: total and taxes."""
    order = {invoice.id: str(invoice.created_at) + invoice.invoice_type for invoice in lived.invoices}
    invoices = [
        (
            order[one.id],
            str(one.status),
            one.sub_total_excluding_taxes_amount_cents,
            one.taxes_amount_cents,
            one.total_amount_cents,
            sum(line.amount_cents for line in one.credits if line.item_type == "credit_note"),
        )
        for one in lived.invoices
    ]
    back: dict[str, tuple[int, int]] = {}
    for note in lived.notes:
        if note.status == "finalized":
            cents, taxes = back.get(order[note.invoice_id], (0, 0))
            back[order[note.invoice_id]] = (cents + note.total_amount_cents, taxes + note.taxes_amount_cents)
    return sorted(invoices, key=repr), back


def _in_parts(life: Life, lived: Lived) -> Iterator[str]:
    """Whether an invoice is credited at once or line by line in three parts is the same to a cent."""
    notes = [step for step in life.steps if step.what == "note" and step.code in ("whole", "parts")]
    if not notes:
        return
    other = {"whole": "parts", "parts": "whole"}
    steps = tuple(
        replace(step, code=other[step.code]) if step.what == "note" and step.code in other else step
        for step in _as_taken(life, lived).steps
    )
    usual, varied = _sums(lived), _sums(play(replace(life, steps=steps)))
    yield from (f"usually {paper}" for paper in usual[0] if paper not in varied[0])
    yield from (f"in other parts {paper}" for paper in varied[0] if paper not in usual[0])
    if usual[1] != varied[1]:
        yield f"notes give back {usual[1]}, in other parts {varied[1]}"


def _billed_in_all(lived: Lived) -> int:
    """Net of everything, less all notes that the system made by itself."""
    notes = [note for note in _live_notes(lived) if note.id not in lived.by_hand]
    net = sum(
        invoice.sub_total_excluding_taxes_amount_cents
        for invoice in _counting(lived)
        if invoice.invoice_type != "credit"
    )
    return net - sum(note.sub_total_excluding_taxes_amount_cents for note in notes)


def _without_thresholds(life: Life, lived: Lived) -> Iterator[str]:
    if not any(plan.thresholds or plan.recurring_threshold for plan in life.plans):
        return
    # A percentage for one invoice is used by the first, which a threshold brings about; others are used once a period,
    # but by each invoice of an event as well.
    names = {code.partition(".")[0] for code in life.coupons}
    ahead = any(CHARGES[code][1].get("ahead") for plan in life.plans for code in plan.charges)
    often = "half-once" in names or (ahead and names - {"half-forever", "five-once", "much-once"})
    if often or any(step.what in ("coupon", "uncoupon") for step in life.steps) or _picks_invoices(life):
        return
    plans = tuple(replace(plan, thresholds=(), recurring_threshold=0) for plan in life.plans)
    plain = play(replace(life, plans=plans))
    documents = len(lived.invoices) + len(lived.notes)
    if abs(_billed_in_all(plain) - _billed_in_all(lived)) > (documents if life.coupons else 0):
        yield f"{_billed_in_all(lived)} cents with thresholds, {_billed_in_all(plain)} without"


def _picks_invoices(life: Life) -> bool:
    return any(step.what in ("void", "note", "finalize", "refresh") for step in life.steps)


def _without_wallet(life: Life, lived: Lived) -> Iterator[str]:
    if life.wallet and not any(step.what in ("top up", "void", "note", "pay") for step in life.steps):
        plain = play(replace(life, wallet=0))
        if _billed_in_all(plain) != _billed_in_all(lived):
            yield f"{_billed_in_all(lived)} cents with a wallet, {_billed_in_all(plain)} without"


def _without_grace(life: Life, lived: Lived) -> Iterator[str]:
    late = any(step.back for step in life.steps) or _picks_invoices(life)
    if (
        life.grace
        and not late
        and not any(step.what in ("override", "price", "tax", "coupon", "uncoupon", "filter") for step in life.steps)
    ):
        plain = play(replace(life, grace=0))
        if life.coupons or plain.unbilled != lived.unbilled:
            return
        if _billed_in_all(plain) != _billed_in_all(lived):
            yield f"{_billed_in_all(lived)} cents with a grace period, {_billed_in_all(plain)} without"


def _without_voids(life: Life, lived: Lived) -> Iterator[str]:
    for_good = any(step.what == "void" and step.code for step in life.steps)
    if (
        not for_good
        and any(step.what == "void" for step in life.steps)
        and not any(step.what in ("note", "coupon", "uncoupon", "tax") for step in life.steps)
    ):
        plain = play(replace(life, steps=tuple(step for step in life.steps if step.what != "void")))
        if life.coupons:
            return
        if _billed_in_all(plain) != _billed_in_all(lived):
            yield f"{_billed_in_all(lived)} cents with invoices voided and made again, {_billed_in_all(plain)} without"


VARIANTS: dict[str, Callable[[Life, Lived], Iterator[str]]] = {
    "late": _late,
    "asleep": _asleep,
    "leaps": _in_leaps,
    "parts": _in_parts,
    "reopened": _reopened,
    "order": _backwards,
    "retention": _forgetful,
    "thresholds": _without_thresholds,
    "wallet": _without_wallet,
    "grace": _without_grace,
    "voids": _without_voids,
}
