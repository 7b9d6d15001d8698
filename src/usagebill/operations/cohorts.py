"""Cohorts: invoices of customers who are billed alike, computed together on a snapshot.

A single invoice costs some fifty queries and five thousand calls, most with the same result for every customer of a
plan. So one customer is billed the usual way, and its reads and writes become a pattern (`Cohort`). Its queries are
then run for many customers at once. A customer with a coupon, a credit note, a wallet or a second subscription has a
result where the first had none, and is billed alone. The others' records are copies of the first one's with their own
ids, usage and totals (`rating/cohorts.py`). If in doubt, there is no cohort: a read, write or job that is not known
here ends it, and so does a pattern that does not reproduce the records it was made from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache, partial
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar, cast
from zoneinfo import ZoneInfo

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.aggregation import AggregateResult
from usagebill.core.billing_entities import BillingEntityVersion
from usagebill.core.contracts import Contract, Parties
from usagebill.core.copies import replace
from usagebill.core.customers import Customer
from usagebill.core.emails import addresses
from usagebill.core.fees import Fee
from usagebill.core.invoices.numbering import series_of, with_numbers
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.jobs import Job
from usagebill.core.plans import FixedChargeUnits
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import BillCustomer, DeliverWebhook, MarkOverdue, Task
from usagebill.core.webhooks import WebhookMessage
from usagebill.json_text import JsonObject
from usagebill.operations.activity_logs import invoice_text
from usagebill.operations.invoices.issue import search_text
from usagebill.operations.subscriptions.schedule import is_due, next_run
from usagebill.queries.contracts import contract_of
from usagebill.rating.cohorts import Pattern, bill_alike, pattern_of
from usagebill.storage.alike import Ids, Notes, Question
from usagebill.storage.conditions import Condition, at_least, eq, within
from usagebill.storage.jobs import job_of
from usagebill.storage.plans import Planning, Writes
from usagebill.storage.ports import Snapshot
from usagebill.storage.rehearsal import RehearsalEnds
from usagebill.views.customers import customer_summary
from usagebill.views.invoices import invoice_webhook_view
from usagebill.views.subscriptions import contract_view
from usagebill.work import Reader, Rehearsal, Work

R = TypeVar("R")

# The fields in which customers and subscriptions that are billed alike may differ. All others must be equal.
_OWN_OF_CUSTOMER = frozenset(
    {
        *("id", "external_id", "sequential_id", "slug", "created_at", "updated_at"),
        *("name", "firstname", "lastname", "customer_type", "email", "phone", "url", "logo_url"),
        *("legal_name", "legal_number", "tax_identification_number", "shipping_address", "metadata"),
        *("address_line1", "address_line2", "city", "state", "zipcode", "country"),
    }
)
_OWN_OF_SUBSCRIPTION = frozenset(
    {
        *("id", "external_id", "customer_id", "created_at", "updated_at"),
        *("subscription_at", "started_at", "activated_at"),
    }
)
_OWN_OF_PERIOD = frozenset(
    {
        *("id", "invoice_id", "subscription_id", "external_subscription_id", "created_at"),
        *("subscription_snapshot", "plan", "subscription_from_datetime", "subscription_to_datetime"),
        *("subscription_duration", "charges_from_datetime", "charges_to_datetime", "charges_duration"),
        *("fixed_charges_from_datetime", "fixed_charges_to_datetime", "fixed_charges_duration", "opens_interval"),
    }
)
# Queries about a customer that may have results, by kind and columns. Their results are compared separately.
_COMPARED: Mapping[type, frozenset[frozenset[str]]] = {
    Customer: frozenset({frozenset({"id"})}),
    Subscription: frozenset(
        {
            frozenset({"id"}),
            frozenset({"customer_id", "status"}),
            frozenset({"customer_id", "external_id", "status"}),
        }
    ),
    BillingPeriod: frozenset(
        {
            frozenset({"subscription_id", "recurring"}),
            frozenset({"subscription_id", "invoice_id", "created_at"}),
        }
    ),
    Fee: frozenset({frozenset({"subscription_id", "fee_type", "invoice_id", "created_at"})}),
    FixedChargeUnits: frozenset({frozenset({"subscription_id", "fixed_charge_id", "created_at"})}),
}
# The only message that such an invoice sends.
ISSUED = "invoice.created"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@cache
def _shared_fields(kind: Hashable, own: frozenset[str]) -> Callable[[object], tuple[object, ...]]:
    return attrgetter(*(item.name for item in fields(cast(type, kind)) if item.name not in own))


def _is_alike(record: object, other: object, own: frozenset[str]) -> bool:
    values = _shared_fields(cast(Hashable, type(record)), own)
    return values(record) == values(other)


@dataclass(frozen=True, slots=True)
class Message:
    """The message that an invoice was issued, per subscribed endpoint; `is_sent` is false if there is none.

    `listening` says whether this process hands messages to its own code.
    """

    is_sent: bool
    listening: bool
    bodies: tuple[JsonObject, ...] = ()
    records: tuple[WebhookMessage, ...] = ()
    deliveries: tuple[Job, ...] = ()

    def about(self, reader: Reader, job: Job, invoice: Invoice, parts: Sequence[BillingPeriod | Fee]) -> Message:
        """The same message about another invoice, which need not be stored yet."""
        if not self.is_sent:
            return self
        planning = Planning(reader.tx, cast(Snapshot, _Before(reader.tx, invoice)), _numberless)
        planning.jobs.complete(job)
        planning.insert(invoice, *parts)
        work = Rehearsal(
            reader.tx,
            reader.organization,
            reader.now,
            reader.settings,
            perform=_performless,
            planning=planning,
            listening=self.listening,
        )
        work.emit(ISSUED, partial(invoice_webhook_view, work, ISSUED, invoice), invoice.id)
        writes = planning.writes()
        if writes is None:
            raise RehearsalEnds
        records = tuple(record for record in writes.inserted if isinstance(record, WebhookMessage))
        return replace(self, bodies=tuple(work.messages), records=records, deliveries=writes.added)


@dataclass(frozen=True, slots=True)
class AlikeInvoice:
    """Everything that one job of a cohort writes, with its `numbers` in each of its `series`."""

    job: Job
    contract: Contract
    invoice: Invoice
    period: BillingPeriod
    fees: tuple[Fee, ...]
    log: ActivityLog | None
    added: tuple[Job, ...]
    series: tuple[str, ...]
    numbers: tuple[int, ...]
    message: Message

    def numbered(self, reader: Reader, numbers: Sequence[int]) -> AlikeInvoice:
        """The same with these numbers, wherever they appear."""
        parties = self.contract.parties
        month = reader.now.astimezone(ZoneInfo(parties.issuer.timezone))
        invoice = with_numbers(self.invoice, numbers, customer=parties.customer, entity=parties.issuer, month=month)
        before = self.invoice
        if self.numbers and (invoice.number, invoice.sequential_id) == (before.number, before.sequential_id):
            # Another worker took the number of the billing entity, which neither the log nor the message shows.
            return replace(self, invoice=invoice, numbers=tuple(numbers))
        log = self.log
        if log is not None:
            log = replace(log, activity_object=invoice_text(reader, invoice), resource_id=invoice.id)
        message = self.message.about(reader, self.job, invoice, (self.period, *self.fees))
        return replace(self, invoice=invoice, log=log, message=message, numbers=tuple(numbers))

    @property
    def records(self) -> tuple[Invoice | BillingPeriod | Fee | ActivityLog, ...]:
        """The records, in the order in which they are stored."""
        log = () if self.log is None else (self.log,)
        return (self.invoice, self.period, *self.fees, *self.message.records, *log)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs, in the order in which they are added."""
        return (*self.added[:-1], *self.message.deliveries, *self.added[-1:])


class _Before:
    """A snapshot without any record of an invoice that is only being made, so queries about it return at once."""

    def __init__(self, snapshot: Snapshot, invoice: Invoice) -> None:
        self._snapshot = snapshot
        self._invoice_id = invoice.id

    def find(self, kind: type[R], *conditions: Condition, **options: Any) -> list[R]:
        if eq("invoice_id", self._invoice_id) in conditions:
            return []
        return self._snapshot.find(kind, *conditions, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)


def _numberless(name: str) -> int:
    raise RehearsalEnds


def _performless(work: Work, job: Job) -> None:
    raise RehearsalEnds


def may_be_alike(job: Job) -> bool:
    """Whether the job may belong to a cohort: it is the first attempt at a customer's run."""
    return job.kind == BillCustomer.kind and job.attempts == 0 and job.error is None


def makes_what_others_share(writes: Writes) -> bool:
    """Whether later jobs will reuse a record of this one: the first invoice copies its billing entity."""
    return BillingEntityVersion in writes.kinds


@dataclass(frozen=True, slots=True)
class _Answers:
    """Results of queries about many customers; `others` are those who are not alike."""

    others: frozenset[str]
    last_runs: Mapping[str, BillingPeriod]
    is_billed_before: bool
    units: Mapping[str, Sequence[FixedChargeUnits]]

    def of(self, contract: Contract, pattern: Contract) -> Contract | None:
        """The contract with its last run; None if that differs from the pattern's."""
        last, other = self.last_runs.get(contract.subscription.id), pattern.last_run
        if (last is None) is not (other is None):
            return None
        if last is not None and not _is_alike(last, other, _OWN_OF_PERIOD):
            return None
        return replace(contract, last_run=last)


@dataclass(frozen=True, slots=True)
class _Questions:
    """The queries of one job: `shared` ones do not name its customer; `empty` ones do, and had no result."""

    contract: Contract
    shared: Mapping[Question, Any]
    empty: tuple[Question, ...]
    compared: tuple[Question, ...]

    def put(self, tx: Snapshot, contracts: Sequence[Contract]) -> _Answers | None:
        """The results for these contracts; None if nobody is alike."""
        if not contracts or any(question.ask(tx) != answer for question, answer in self.shared.items()):
            return None
        owners = _Owners(contracts)
        ids = owners.in_place_of(self.contract)
        others: set[str] = set()
        for question in self.empty:
            for record in _records(question.about_all(ids).ask(tx)):
                owner = owners.of(record)
                if owner is None:
                    return None
                others.add(owner)
        last, subscriptions = self.contract.last_run, [contract.subscription.id for contract in contracts]
        last_runs: dict[str, BillingPeriod] = {}
        if last is not None:
            # A customer who has been billed for something else since is not alike.
            since = at_least("timestamp", last.timestamp)
            for period in tx.find(BillingPeriod, within("subscription_id", subscriptions), since):
                if period.subscription_id in last_runs or not period.recurring:
                    others.add(owners.customers[period.subscription_id])
                last_runs[period.subscription_id] = period
        billed: set[str] = set()
        units: dict[str, list[FixedChargeUnits]] = {}
        fees = [question for question in self.compared if question.kind is Fee]
        for question in fees:
            asked = question.about_all(ids)
            if last is not None:
                asked = replace(asked, conditions=(*asked.conditions, at_least("created_at", last.created_at)))
            billed.update(fee.subscription_id or "" for fee in _records(asked.ask(tx)))
        for question in self.compared:
            if question.kind is FixedChargeUnits:
                for entry in _records(question.about_all(ids).ask(tx)):
                    units.setdefault(entry.subscription_id, []).append(entry)
        if fees:
            others.update(owners.customers[id] for id in subscriptions if id not in billed)
        return _Answers(frozenset(others), last_runs, bool(fees), units)


def _records(answer: object) -> list[Any]:
    assert isinstance(answer, list)
    return answer


class _Owners:
    """The contract that each record belongs to."""

    def __init__(self, contracts: Sequence[Contract]) -> None:
        self._contracts = contracts
        self.customers = {contract.subscription.id: contract.customer.id for contract in contracts}
        self._external_ids = {contract.subscription.external_id: contract.customer.id for contract in contracts}

    def in_place_of(self, contract: Contract) -> Ids:
        """A mapping of this contract's ids to those of all contracts."""
        subscriptions = [other.subscription for other in self._contracts]
        external_id, external_ids = (
            contract.subscription.external_id,
            [subscription.external_id for subscription in subscriptions],
        )
        return {
            contract.customer.id: [other.customer.id for other in self._contracts],
            contract.subscription.id: [subscription.id for subscription in subscriptions],
            ("external_id", external_id): external_ids,
            ("external_subscription_id", external_id): external_ids,
        }

    def of(self, record: object) -> str | None:
        """The customer that a record belongs to, None if unknown."""
        customer_id = getattr(record, "customer_id", None)
        if customer_id in self.customers.values():
            return str(customer_id)
        for column in ("subscription_id", "previous_subscription_id"):
            if (subscription_id := getattr(record, column, None)) in self.customers:
                return self.customers[subscription_id]
        for column in ("external_id", "external_subscription_id"):
            if (external_id := getattr(record, column, None)) in self._external_ids:
                return self._external_ids[external_id]
        return None


@dataclass(frozen=True, slots=True)
class Cohort:
    """The pattern of a job run on a snapshot, and the queries that decide who is alike."""

    pattern: Pattern
    period: BillingPeriod
    log: ActivityLog | None
    overdue_at: datetime
    message: Message
    questions: _Questions

    def invoices(
        self,
        reader: Reader,
        jobs: Sequence[Job],
        numbers_of: Callable[[Sequence[str]], Sequence[int]],
        written_at: datetime,
    ) -> list[AlikeInvoice]:
        """The writes of jobs of customers who are billed alike, as of the reader's instant.

        `numbers_of` predicts the next numbers of sequences; logs are `written_at` that instant.
        """
        contracts = self._contracts(reader, [job.subject_id for job in jobs])
        answers = self.questions.put(reader.tx, [contracts[id] for id in contracts])
        if answers is None:
            return []
        standing = {id: contract for id, contract in contracts.items() if id not in answers.others}
        tallies = self._tallies(reader, [contract.subscription.external_id for contract in standing.values()])
        made = []
        for job in jobs:
            contract = standing.get(job.subject_id)
            known = None if contract is None else answers.of(contract, self.pattern.contract)
            invoice = None if known is None else self._invoice(reader, job, known, tallies, answers, written_at)
            if invoice is not None:
                made.append(invoice)
        taken = {job.key for job in reader.tx.jobs.named([job.key for invoice in made for job in invoice.added])}
        made = [invoice for invoice in made if taken.isdisjoint(job.key for job in invoice.added)]
        numbers = iter(numbers_of([name for invoice in made for name in invoice.series]))
        try:
            return [invoice.numbered(reader, tuple(islice(numbers, len(invoice.series)))) for invoice in made]
        except RehearsalEnds:
            # A message shows more than the cohort knows.
            return []

    def _contracts(self, reader: Reader, customer_ids: Sequence[str]) -> dict[str, Contract]:
        """By customer id, the contract of customers with a single one that is alike except for ids."""
        pattern_contract = self.pattern.contract
        subscriptions: dict[str, list[Subscription]] = {}
        for subscription in reader.tx.find(Subscription, within("customer_id", customer_ids)):
            subscriptions.setdefault(subscription.customer_id, []).append(subscription)
        contracts = {}
        for customer in reader.tx.find(Customer, within("id", customer_ids)):
            some = subscriptions.get(customer.id, [])
            if (
                len(some) == 1
                # A customer with an e-mail address may be sent the invoice.
                and bool(addresses(customer.email)) == bool(addresses(pattern_contract.customer.email))
                and _is_alike(customer, pattern_contract.customer, _OWN_OF_CUSTOMER)
                and _is_alike(some[0], pattern_contract.subscription, _OWN_OF_SUBSCRIPTION)
            ):
                parties = Parties(
                    customer=customer, entity=pattern_contract.parties.entity, issuer=pattern_contract.parties.issuer
                )
                contracts[customer.id] = Contract(
                    subscription=some[0],
                    plan=pattern_contract.plan,
                    parties=parties,
                    zone=pattern_contract.zone,
                    last_run=None,
                )
        return contracts

    def _tallies(self, reader: Reader, external_ids: Sequence[str]) -> dict[str, dict[str, AggregateResult]]:
        """The usage of these subscriptions, by code and external subscription id."""
        return {
            line.metric.code: reader.tx.events.tallies_of(line.question, external_ids) for line in self.pattern.usage
        }

    def _invoice(
        self,
        reader: Reader,
        job: Job,
        contract: Contract,
        tallies: Mapping[str, Mapping[str, AggregateResult]],
        answers: _Answers,
        written_at: datetime,
    ) -> AlikeInvoice | None:
        """The job's writes, without numbers; None if its customer is not alike."""
        if not is_due(reader, contract) or contract.has_overdue_end(reader.now):
            return None
        customer, subscription = contract.customer, contract.subscription
        bill = bill_alike(
            reader,
            self.pattern,
            contract,
            is_billed_before=answers.is_billed_before,
            units=answers.units.get(subscription.id, ()),
            tallies={code: tallies_of[subscription.external_id] for code, tallies_of in tallies.items()},
        )
        if bill is None:
            return None
        invoice, fees = bill
        entity = contract.parties.entity
        invoice = replace(
            invoice,
            customer_snapshot=customer_summary(reader, customer, entity),
            customer_search=search_text(customer),
        )
        period_id, log_id, *job_ids = reader.new_ids(4)
        period = replace(
            self.period,
            id=period_id,
            invoice_id=invoice.id,
            subscription_id=subscription.id,
            external_subscription_id=subscription.external_id,
            subscription_snapshot=contract_view(reader, contract, is_alone=True),
        )
        run_at = next_run(reader, replace(contract, last_run=period))
        tasks: tuple[tuple[Task, datetime], ...] = (
            (MarkOverdue(customer_id=customer.id, invoice_id=invoice.id), self.overdue_at),
            (BillCustomer(customer_id=customer.id), run_at),
        )
        added = tuple(
            job_of(task, id=id, organization_id=job.organization_id, due_at=due_at, created_at=reader.now)
            for (task, due_at), id in zip(tasks, job_ids, strict=True)
        )
        log = self.log and replace(
            self.log, id=log_id, external_customer_id=customer.external_id, written_at=written_at
        )
        return AlikeInvoice(
            job=job,
            contract=contract,
            invoice=invoice,
            period=period,
            fees=fees,
            log=log,
            added=added,
            series=series_of(invoice, customer, contract.parties.issuer),
            numbers=(),
            message=self.message,
        )


def cohort_of(
    reader: Reader,
    job: Job,
    writes: Writes,
    notes: Notes,
    numbers: Sequence[int],
    *,
    messages: Sequence[JsonObject],
    listening: bool,
) -> Cohort | None:
    """The cohort of a job, from its writes and reads; None if it cannot be a pattern.

    `reader` is as of the job's instant, on the same snapshot, and notes its queries; `numbers` are those that the
    invoice took, `messages` those that were sent. `listening` says whether this process hands messages to its own code.
    """
    kinds: dict[type, list[Any]] = {}
    for record in writes.inserted:
        kinds.setdefault(type(record), []).append(record)
    invoices, periods, logs = (kinds.pop(kind, []) for kind in (Invoice, BillingPeriod, ActivityLog))
    fees = kinds.pop(Fee, [])
    sent = kinds.pop(WebhookMessage, [])
    added = [job for job in writes.added if job.kind != DeliverWebhook.kind]
    due = {job.kind: job.due_at for job in added}
    if (
        kinds
        or any(body["webhook_type"] != ISSUED for body in messages)
        or len(messages) > 1
        or (sent and not messages)
        or (len(invoices), len(periods)) != (1, 1)
        or len(logs) > 1
        or set(due) != {MarkOverdue.kind, BillCustomer.kind}
        or len(added) != len(due)
        or writes.replaced
        or writes.cancelled
    ):
        return None
    invoice, period = invoices[0], periods[0]
    subscription = reader.tx.get(Subscription, period.subscription_id)
    if subscription is None:
        return None
    contract = contract_of(reader, subscription)
    units = {
        entry.id: entry
        for question, answer in notes.answers.items()
        if question.kind is FixedChargeUnits
        for entry in answer
    }
    pattern = pattern_of(
        reader,
        contract,
        invoice,
        period,
        fees,
        units=list(units.values()),
        questions={code: question for code, (question, _) in notes.usage.items()},
    )
    questions = (
        None if pattern is None else _questions(notes, contract, {cast(Any, record).id for record in writes.inserted})
    )
    if pattern is None or questions is None:
        return None
    cohort = Cohort(
        pattern=pattern,
        period=period,
        log=next(iter(logs), None),
        overdue_at=due[MarkOverdue.kind],
        message=Message(is_sent=bool(messages), listening=listening),
        questions=questions,
    )
    return cohort if _gives_back(cohort, reader, job, writes, numbers, messages) else None


def _questions(notes: Notes, contract: Contract, made: Set[str]) -> _Questions | None:
    """The questions, put in order; None if there are others than those that many can be asked."""
    if notes.other_methods:
        return None
    ids_of_first = _Owners([contract]).in_place_of(contract)
    new: Ids = {id: [id] for id in made}
    shared: dict[Question, Any] = {}
    empty, compared = [], []
    for question, answer in notes.answers.items():
        if not answer and question.is_for(new):
            # Nothing is stored yet about records that are only being made.
            continue
        if not question.is_about(ids_of_first):
            shared[question] = answer
        elif not answer:
            empty.append(question)
        elif question.columns in _COMPARED.get(question.kind, ()):
            compared.append(question)
        else:
            return None
    return _Questions(contract=contract, shared=shared, empty=tuple(empty), compared=tuple(compared))


def _gives_back(
    cohort: Cohort,
    reader: Reader,
    job: Job,
    writes: Writes,
    numbers: Sequence[int],
    messages: Sequence[JsonObject],
) -> bool:
    """Whether the cohort reproduces the job's writes, apart from ids."""
    written_at = reader.now if cohort.log is None else cohort.log.written_at
    made = cohort.invoices(reader, [job], lambda _: tuple(numbers), written_at)
    if len(made) != 1:
        return False
    alike = made[0]
    return _shape(alike.records, alike.jobs, list(alike.message.bodies)) == _shape(
        writes.inserted, writes.added, list(messages)
    )


def _shape(*written: object) -> str:
    """The writes, with a number in place of each id."""
    places: dict[str, str] = {}
    return _UUID.sub(lambda match: places.setdefault(match[0], f"id {len(places)}"), repr(written))
