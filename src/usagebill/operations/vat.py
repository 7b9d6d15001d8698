"""VAT in the European Union: an organization's taxes, and the one that each customer pays.

Only for customers of a billing entity with `eu_tax_management`. If a VAT number decides, a registry is asked while no
transaction is open; until it responds, the customer's invoices wait for their taxes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time

from usagebill.core import vat
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.jobs import Job
from usagebill.core.tasks import ChangeEuRates, CheckVatNumber, TaxWaitingInvoices
from usagebill.core.taxes import Tax
from usagebill.core.vat import EuTax, NotRegistered, Registered, Unavailable, VatCheck, VatNumber
from usagebill.operations import draft_invoices, taxes
from usagebill.queries.customers import entity_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, present
from usagebill.views.customers import checked_customer

# Taxes


def make_taxes(work: Work) -> None:
    """Create the taxes of all countries and territories with today's rates, and schedule known changes of rates.

    Existing ones get their names, rates and descriptions back.
    """
    for tax in vat.eu_taxes(work.now.astimezone(UTC).date()):
        _make(work, tax)
    _schedule_rates(work)


def _make(work: Work, eu_tax: EuTax) -> Tax:
    tax = work.tx.first(Tax, eq("code", eu_tax.code))
    if tax is None:
        created = Tax(
            id=work.new_id(),
            organization_id=work.organization.id,
            name=eu_tax.name,
            code=eu_tax.code,
            rate=eu_tax.rate,
            description=eu_tax.description,
            auto_generated=True,
            created_at=work.now,
            updated_at=work.now,
        )
        work.tx.insert(created)
        return created
    restored = replace(tax, name=eu_tax.name, rate=eu_tax.rate, description=eu_tax.description, auto_generated=True)
    if restored != tax:
        restored = replace(restored, updated_at=work.now)
        work.tx.replace(restored)
        taxes.flag_drafts(work, restored)
    return restored


def _schedule_rates(work: Work) -> None:
    day = vat.next_rate_change(work.now.astimezone(UTC).date())
    if day is not None:
        at = datetime.combine(day, time(), tzinfo=UTC)
        work.schedule(ChangeEuRates(organization_id=work.organization.id), at)


def change_rates(work: Work, task: ChangeEuRates) -> None:
    """Job: apply a country's new rate from today. Taxes with a manually set rate do not change."""
    if work.tx.first(BillingEntity, eq("eu_tax_management", True)) is None:
        return
    today = work.now.astimezone(UTC).date()
    for changed in vat.rate_changes(today):
        stored = work.tx.first(Tax, eq("code", changed.tax.code))
        if stored is not None and stored.rate == changed.rate_before:
            _make(work, changed.tax)
    _schedule_rates(work)


def switch_off(work: Work, entity: BillingEntity) -> None:
    """Drop the pending checks of the entity's customers; their invoices are issued with the taxes they have."""
    of_entity = eq("billing_entity_id", entity.id)
    for customer in work.tx.find(Customer, of_entity, present("vat_check"), deleted=True):
        work.tx.replace(replace(customer, vat_check=None))
        _forget_check(work, customer)


# Customers


def assign(
    work: Work,
    before: Customer | None,
    after: Customer,
    *,
    sent: Mapping[str, object],
    tax_codes: Sequence[str] | None,
) -> Customer:
    """The customer with the taxes requested (`tax_codes`, all of them; None: as they are) and its VAT.

    `sent` has those of country, zipcode and tax identification number that were sent. An update decides about VAT again
    only if one of them or the billing entity changes, or if the customer has no VAT yet. Raises `NotFound` for unknown
    codes.
    """
    entity = entity_of(work, after)
    moved = before is not None and before.billing_entity_id != after.billing_entity_id
    check = after.vat_check if entity.eu_tax_management else None
    if entity.eu_tax_management and _is_decided_again(work, before, sent, moved=moved):
        code = vat.code_at_once(
            country=after.country,
            zipcode=after.zipcode,
            number=after.tax_identification_number,
            entity_country=_country(entity),
        )
        if code is None:
            check = VatCheck(id=work.new_id(), number=after.tax_identification_number or "", started_at=work.now)
        else:
            check = None
            _own_tax(work, code)
            tax_codes = vat.with_code(tax_codes or (), code)
    if tax_codes is not None:
        after = replace(after, tax_ids=taxes.ids_of_codes(work, tax_codes))
    elif moved:
        after = replace(after, tax_ids=_without_eu_taxes(work, after.tax_ids))
    _watch(work, after, check)
    return replace(after, vat_check=check)


def _is_decided_again(reader: Reader, before: Customer | None, sent: Mapping[str, object], *, moved: bool) -> bool:
    return vat.is_decided_again(
        is_new=before is None,
        moved=moved,
        differs=any(getattr(before, name, None) != value for name, value in sent.items()),
        codes=[] if before is None else [tax.code for tax in _taxes(reader, before.tax_ids)],
    )


def _taxes(reader: Reader, ids: Collection[str]) -> list[Tax]:
    return [tax for id in ids if (tax := reader.tx.get(Tax, id)) is not None]


def _without_eu_taxes(reader: Reader, ids: Collection[str]) -> tuple[str, ...]:
    return tuple(tax.id for tax in _taxes(reader, ids) if not vat.is_eu_code(tax.code))


def _country(entity: BillingEntity) -> str:
    if entity.country is None:
        raise LookupError(f"billing entity {entity.id} manages EU taxes without a country")
    return entity.country


def _own_tax(work: Work, code: str) -> Tax:
    """The organization's EU tax with this code, recreated if it was deleted."""
    stored = work.tx.first(Tax, eq("code", code))
    if stored is not None:
        return stored
    today = work.now.astimezone(UTC).date()
    return _make(work, next(tax for tax in vat.eu_taxes(today) if tax.code == code))


# Checks


def _watch(work: Work, customer: Customer, check: VatCheck | None) -> None:
    """Replace the customer's check by a new one; without one, tax the invoices that waited for it."""
    if check == customer.vat_check:
        return
    if check is None:
        _forget_check(work, customer)
        return
    task = CheckVatNumber(customer_id=customer.id, check_id=check.id)
    work.cancel(task)
    work.schedule(task, work.now)


def _forget_check(work: Work, customer: Customer) -> None:
    if customer.vat_check is not None:
        work.cancel(CheckVatNumber(customer_id=customer.id, check_id=customer.vat_check.id))
    work.schedule(TaxWaitingInvoices(customer_id=customer.id), work.now)


def prepare(work: Work, job: Job, task: CheckVatNumber, *, registry: bool) -> VatNumber | None:
    """The number to ask the registry for; None if there is nothing to ask, and the job is done."""
    customer = _checked(work, task)
    if customer is None or customer.vat_check is None:
        work.tx.jobs.complete(job)
        return None
    question = vat.question_of(customer.vat_check.number, registry=registry)
    if isinstance(question, VatNumber):
        return question
    conclude(work, job, task, question)
    return None


def _checked(reader: Reader, task: CheckVatNumber) -> Customer | None:
    """The customer, if this is the current check of its number."""
    customer = reader.tx.get(Customer, task.customer_id, deleted=True)
    if customer is None or customer.vat_check is None or customer.vat_check.id != task.check_id:
        return None
    return customer


def conclude(work: Work, job: Job, task: CheckVatNumber, answer: Registered | NotRegistered | Unavailable) -> None:
    """Act on the registry's response: set the customer's tax and continue with its invoices. Without one, retry later.

    If the customer has changed meanwhile, the response is dropped.
    """
    work.tx.jobs.complete(job)
    customer = _checked(work, task)
    if customer is None or customer.vat_check is None:
        return
    if isinstance(answer, Unavailable):
        check = customer.vat_check.unanswered(answer)
        customer = replace(customer, vat_check=check)
        work.tx.replace(customer)
        work.schedule(task, work.now + vat.retry_delay(check.attempts))
        _tell(work, customer, answer)
        return
    entity = entity_of(work, customer)
    code = vat.code_after_check(
        answer, country=customer.country, zipcode=customer.zipcode, entity_country=_country(entity)
    )
    customer = replace(customer, tax_ids=(_own_tax(work, code).id,), vat_check=None, updated_at=work.now)
    work.tx.replace(customer)
    draft_invoices.flag(work, draft_invoices.drafts_of_customers([customer.id]))
    _tell(work, customer, answer)
    work.schedule(TaxWaitingInvoices(customer_id=customer.id), work.now)


def _tell(work: Work, customer: Customer, answer: Registered | NotRegistered | Unavailable) -> None:
    work.emit("customer.vies_check", lambda: checked_customer(work, customer, answer), customer.id)
