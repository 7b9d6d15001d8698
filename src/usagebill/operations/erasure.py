"""Erasure: customers anonymized, and what the logs and documents say about them erased afterwards, by jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import unquote

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import ApiLog
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.documents.files import Document
from usagebill.core.erasure import (
    LEFT_OUT,
    PERSONAL,
    Person,
    anonymized,
    expired,
    first_day_kept,
    obstacle,
)
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.event_sources import RefusedEvent
from usagebill.core.idempotency import IdempotentAnswer
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import NoticeStatus, Payment, ProviderNotice, RefundAttempt
from usagebill.core.security_logs import SecurityLog
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import DeliverWebhook, EndCustomer, EraseDocuments, EraseProperties, EraseTraces, SendEmail
from usagebill.core.wallets import Wallet
from usagebill.core.webhooks import UNSETTLED_MESSAGES, MessageStatus, WebhookMessage
from usagebill.operations import activity_logs
from usagebill.operations.backlog import after_backlog
from usagebill.process.json_text import encode_json, parse_json
from usagebill.queries.belongings import belongings, event_queries
from usagebill.queries.counting_properties import counting_properties
from usagebill.queries.customers import find_customer
from usagebill.requests.inputs import Input, Maybe, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, missing, more, ne, present
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.tables import LOGGED
from usagebill.views.customers import customer_summary

_TOGETHER = 1000
# Ids that payment providers gave.
_AT_PROVIDERS = (
    "provider_customer_id",
    "provider_method_id",
    "provider_page_id",
    "provider_payment_id",
    "provider_refund_id",
)
_WAIT = timedelta(minutes=1)
_ANONYMIZED = "customer.anonymized"


@Input
class AnonymizeInput:
    event_properties: Maybe[tuple[str, ...]] = described(
        "The properties of the customer's events to erase: those that say who somebody is.", example=["user_email"]
    )


def _of_person(work: Work, external_id: object) -> list[str]:
    return [customer.id for customer in _customers(work, external_id)]


def _customers(reader: Reader, external_id: object) -> list[Customer]:
    """All customers that have had this external id, the newest first: deleted ones are the same person."""
    if not isinstance(external_id, str):
        return []
    newest = (desc("created_at"), desc("id"))
    return reader.tx.find(
        Customer, eq("external_id", external_id), missing("anonymized_at"), order=newest, deleted=True
    )


@after_backlog(_of_person, needed=True)
def anonymize(work: Work, external_id: str, request: AnonymizeInput) -> Customer:
    """Erase who the customer is, for good, and delete it: from its own records now, from logs, messages and the named
    `event_properties` by jobs right after (`customer.anonymized` tells when), and from issued documents once they have
    been kept for `Settings.document_years`. Amounts stay.

    Deleted customers that had the same external id are anonymized too. Raises `NotFound`; `NotAllowed` while something
    of the customer is running, open or due; and `Invalid` for properties by which usage is counted, priced or shown.
    """
    customers = _customers(work, external_id)
    if not customers:
        raise NotFound("customer", external_id)
    for customer in customers:
        reason = _obstacle(work, customer)
        if reason is not None:
            raise NotAllowed(reason)
    records = [*belongings(work, [customer.id for customer in customers])]
    _erase_properties(work, records, value_or(request.event_properties, ()))
    # What the erased values were before is not to be logged, and no amount changes.
    work.log_changes()
    for record in records:
        if type(record) in PERSONAL:
            work.tx.replace(anonymized(record, work.now))
    work.tx.take_changes()
    _forget_jobs(work, {record.id for record in records})
    subscriptions = {record.external_id for record in records if isinstance(record, Subscription)}
    provider_ids = {id for record in records for name in _AT_PROVIDERS if (id := getattr(record, name, None))}
    for customer in customers:
        erased = anonymized(customer, work.now)
        if customer.deleted_at is None:
            work.schedule(EndCustomer(customer_id=customer.id), work.now)
        activity_logs.anonymized(work, erased)
        traces = EraseTraces(
            customer_id=customer.id,
            external_ids=(external_id, *sorted(subscriptions)),
            provider_ids=tuple(sorted(provider_ids)),
        )
        work.schedule(traces, work.now)
    schedule_documents(work, work.now)
    return anonymized(customers[0], work.now)


def _obstacle(reader: Reader, customer: Customer) -> str | None:
    own = eq("customer_id", customer.id)
    return obstacle(
        frozenset(subscription.status for subscription in reader.tx.find(Subscription, own)),
        tuple(reader.tx.find(Invoice, own)),
        tuple(reader.tx.find(Payment, own)),
        tuple(reader.tx.find(RefundAttempt, own)),
        tuple(reader.tx.find(Wallet, own)),
        tuple(reader.tx.find(CreditNote, own, ne("balance_amount_cents", 0))),
    )


def _forget_jobs(work: Work, ids: set[str]) -> None:
    """Drop e-mails that wait to be sent, and the errors of jobs, which may name addresses."""
    for id in ids:
        while (job := work.tx.jobs.waiting(SendEmail.kind, id)) is not None:
            work.tx.jobs.complete(job)
    for job in work.tx.jobs.failures():
        if job.subject_id in ids:
            work.tx.jobs.complete(job)


# Events


def _erase_properties(work: Work, records: Sequence[object], names: Sequence[str]) -> None:
    """Schedule the erasure of these properties of events. Raises `Invalid` for some that decide bills."""
    if not names:
        return
    queries = event_queries(work, [record for record in records if isinstance(record, Subscription)])
    if counting_properties(work, {query.code for query in queries}) & set(names):
        raise Invalid(event_properties="value_is_counted")
    customer_id = next(record.id for record in records if isinstance(record, Customer))
    for query in queries:
        task = EraseProperties(
            customer_id=customer_id,
            external_subscription_id=query.external_subscription_id,
            code=query.code,
            names=tuple(names),
            start=query.earliest,
            end=query.latest,
        )
        work.schedule(task, work.now)


def erase_properties(work: Work, task: EraseProperties) -> None:
    """Job: erase properties of events, a thousand at a time. Running totals are then built again from the events."""
    question = EventQuery(
        code=task.code,
        external_subscription_id=task.external_subscription_id,
        earliest=task.since or task.start,
        latest=task.end,
    )
    names = set(task.names)
    found = [*islice((event for event in work.tx.events.scan(question) if names & event.properties.keys()), _TOGETHER)]
    if found:
        work.tx.events.rewrite(
            [
                event._replace(properties={name: item for name, item in event.properties.items() if name not in names})
                for event in found
            ]
        )
    if len(found) == _TOGETHER:
        work.schedule(replace(task, since=found[-1].timestamp), work.now)
    elif found or task.since is not None:
        work.tx.events.rebuild_states()


# Logs and messages


@dataclass(frozen=True, slots=True)
class _Traces:
    """A kind of entry that may name a person, and what it becomes if it does; None to delete it. The same entry if it
    does not.
    """

    kind: type
    erased: Callable[[Any, Person], Any]


def erase_traces(work: Work, task: EraseTraces) -> None:
    """Job: erase what logs and messages say about an anonymized customer, a thousand entries at a time."""
    kind = _TRACES[task.log].kind
    entries: list[Any] = work.tx.find(kind, more("id", task.after), order=[asc("id")], limit=_TOGETHER)
    person = _person(work, task)
    for entry in entries:
        erased = _TRACES[task.log].erased(entry, person)
        if erased is None:
            work.tx.delete(entry)
        elif erased is not entry:
            work.tx.replace(erased)
            if isinstance(erased, WebhookMessage):
                work.cancel(DeliverWebhook(message_id=erased.id))
    if len(entries) == _TOGETHER:
        work.schedule(replace(task, after=entries[-1].id), work.now)
    elif task.log + 1 < len(_TRACES):
        work.schedule(replace(task, log=task.log + 1, after=""), work.now)
    elif work.tx.jobs.waiting(EraseProperties.kind, task.customer_id) is not None:
        # Told once everything is erased.
        work.schedule(task, work.now + _WAIT)
    else:
        customer = find_customer(work, task.customer_id)
        if customer is not None:
            anonymous = customer
            work.emit(_ANONYMIZED, lambda: customer_summary(work, anonymous), customer.id)


def _person(reader: Reader, task: EraseTraces) -> Person:
    ids = {record.id for record in belongings(reader, [task.customer_id], LOGGED)}
    return Person(ids=frozenset(ids).union(task.provider_ids), external_ids=frozenset(task.external_ids))


def _json(text: str | None) -> object:
    try:
        return parse_json(text.encode()) if text else None
    except ValueError:
        return text


def _text(value: object) -> str:
    return encode_json(value).decode()


def _activity(entry: ActivityLog, person: Person) -> ActivityLog:
    if entry.activity_type == _ANONYMIZED:
        return entry
    named = person.is_in({"external_customer_id": entry.external_customer_id, "resource_id": entry.resource_id})
    texts = (entry.activity_object, entry.activity_object_changes)
    if not named and not any(person.is_in(_json(text)) for text in texts):
        return entry
    return replace(entry, activity_object=_text(LEFT_OUT), activity_object_changes="{}", external_customer_id=None)


def _request(entry: ApiLog, person: Person) -> ApiLog:
    texts = (entry.request_body, entry.request_response)
    if not person.is_in_path(entry.request_path) and not any(person.is_in(_json(text)) for text in texts):
        return entry
    return replace(
        entry,
        request_path=person.without(entry.request_path),
        request_body=_text(LEFT_OUT),
        request_response=None if entry.request_response is None else _text(LEFT_OUT),
    )


def _message(entry: WebhookMessage, person: Person) -> WebhookMessage:
    if entry.webhook_type == _ANONYMIZED:
        return entry
    body = _json(entry.payload)
    if entry.object_id not in person.ids and not person.is_in(body):
        return entry
    envelope = {name: value for name, value in body.items() if isinstance(value, str)} if isinstance(body, dict) else {}
    status = entry.status
    if status in UNSETTLED_MESSAGES:
        status = MessageStatus.FAILED
    payload = _text({**envelope, entry.object_type: LEFT_OUT})
    return replace(entry, payload=payload, response=None, status=status)


def _notice(entry: ProviderNotice, person: Person) -> ProviderNotice:
    if entry.status == NoticeStatus.PENDING or not person.is_in(_json(entry.body)):
        return entry
    return replace(entry, body=_text(LEFT_OUT))


def _security(entry: SecurityLog, person: Person) -> SecurityLog:
    told = _json(entry.resources)
    sent = told.get("request_path") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(sent, str) or not person.is_in_path(path := unquote(sent)):
        return entry
    return replace(entry, resources=_text({**told, "request_path": person.without(path)}))


def _refused(entry: RefusedEvent, person: Person) -> RefusedEvent | None:
    return None if person.is_in(entry.event) or person.is_in(_json(entry.payload)) else entry


def _answer(entry: IdempotentAnswer, person: Person) -> IdempotentAnswer:
    return replace(entry, body=_text(LEFT_OUT)) if person.is_in(_json(entry.body)) else entry


_TRACES = (
    _Traces(ActivityLog, _activity),
    _Traces(ApiLog, _request),
    _Traces(SecurityLog, _security),
    _Traces(WebhookMessage, _message),
    _Traces(ProviderNotice, _notice),
    _Traces(RefusedEvent, _refused),
    _Traces(IdempotentAnswer, _answer),
)


# Documents


def schedule_documents(work: Work, due_at: datetime) -> None:
    """Schedule the erasure of documents that have been kept long enough."""
    task = EraseDocuments(organization_id=work.organization.id)
    work.cancel(task)
    work.schedule(task, due_at)


def erase_documents(work: Work, task: EraseDocuments) -> None:
    """Job: erase who was billed from the documents of anonymized customers that have been kept long enough.

    One customer at a time; then, if there are any, again in the next year, on 1 January (UTC).
    """
    customer = work.tx.first(
        Customer, present("anonymized_at"), more("id", task.after), order=[asc("id")], deleted=True
    )
    if customer is None:
        if work.tx.count(Customer, present("anonymized_at"), deleted=True):
            schedule_documents(work, datetime(work.now.astimezone(UTC).year + 1, 1, 1, tzinfo=UTC))
        return
    first_kept = first_day_kept(work.now.astimezone(UTC).date(), work.settings.document_years)
    work.log_changes()
    for record in [*_issued_before(work, customer.id, first_kept)]:
        if isinstance(record, Document):
            work.tx.delete(record)
        elif (erased := expired(record)) is not record:
            work.tx.replace(erased)
    # What the erased values were before is not to be logged, and no amount changes.
    work.tx.take_changes()
    work.schedule(replace(task, after=customer.id), work.now)


def _issued_before(reader: Reader, customer_id: str, first_kept: date) -> Iterator[Any]:
    """The customer's records whose document was issued before that day; a record without one, if it was made before."""
    issued: dict[str | None, date] = {}
    for record in belongings(reader, [customer_id]):
        values: Mapping[str, Any] = {name: getattr(record, name, None) for name in _DATED}
        made = values["created_at"].date()
        day = (
            values["issuing_date"]
            or issued.get(values["subject_id"])
            or max(made, issued.get(values["invoice_id"], made))
        )
        issued[values["id"]] = day
        if day < first_kept:
            yield record


_DATED = ("id", "issuing_date", "created_at", "subject_id", "invoice_id")
