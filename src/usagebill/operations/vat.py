"""VAT of the European Union: the taxes an organization is given, and which of them each customer pays.

All of it only for customers of a billing entity with `eu_tax_management`. Where a VAT number decides, a registry is
asked about it while no transaction is open; until that has ended, the customer's invoices wait for their taxes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

from usagebill.core import vat
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.jobs import Job
from usagebill.core.tasks import ChangeEuRates, CheckVatNumber, TaxWaitingInvoices
from usagebill.core.taxes import Tax
from usagebill.core.vat import EuTax, NotRegistered, Registered, Unavailable, VatCheck, VatNumber
from usagebill.operations import draft_invoices, taxes
from usagebill.queries.customers import entity_of
from usagebill.storage.conditions import eq, present
from usagebill.views.customers import checked_customer
from usagebill.work import Reader, Work

__all__ = ["assign", "change_rates", "conclude", "make_taxes", "prepare", "switch_off"]


# Taxes


def make_taxes(work: Work) -> None:
    """Give the organization the taxes of all countries and territories, with the rates of today.

    Those that it has get their names, rates and descriptions back. Later changes of rates that are known follow.
    """
    for tax in vat.eu_taxes(work.now.astimezone(UTC).date()):
        _make(work, tax)
    _schedule_rates(work)


def _make(work: Work, wanted: EuTax) -> Tax:
    tax = work.tx.first(Tax, eq("code", wanted.code))
    if tax is None:
        made = Tax(
            id=work.new_id(),
            organization_id=work.organization.id,
            name=wanted.name,
            code=wanted.code,
            rate=wanted.rate,
            description=wanted.description,
            auto_generated=True,
            created_at=work.now,
            updated_at=work.now,
        )
        work.tx.insert(made)
        return made
    restored = replace(tax, name=wanted.name, rate=wanted.rate, description=wanted.description, auto_generated=True)
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
    """Job: from today on, a country has another rate. Taxes whose rate was set by hand do not change."""
    if work.tx.first(BillingEntity, eq("eu_tax_management", True)) is None:
        return
    today = work.now.astimezone(UTC).date()
    before = {tax.code: tax.rate for tax in vat.eu_taxes(today - timedelta(days=1))}
    for tax in vat.eu_taxes(today):
        stored = work.tx.first(Tax, eq("code", tax.code))
        if stored is not None and stored.rate == before[tax.code] != tax.rate:
            _make(work, tax)
    _schedule_rates(work)


def switch_off(work: Work, entity: BillingEntity) -> None:
    """Drop the running checks of the entity's customers: their invoices go on with the taxes they have."""
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
    """The customer with the taxes asked for (`tax_codes`, all of them; None: as they are) and that of its VAT.

    `sent` holds those of country, zipcode and tax identification number that were sent. An update decides again only
    where one of them, or the billing entity, changes, or where the customer has no tax of this kind yet. Raises
    `NotFound` for unknown codes.
    """
    entity = entity_of(work, after)
    moved = before is not None and before.billing_entity_id != after.billing_entity_id
    check = after.vat_check if entity.eu_tax_management else None
    if entity.eu_tax_management and (before is None or moved or _is_affected(work, before, sent)):
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


def _is_affected(reader: Reader, before: Customer, sent: Mapping[str, object]) -> bool:
    if any(getattr(before, name) != value for name, value in sent.items()):
        return True
    return not any(vat.is_eu_code(tax.code) for tax in _taxes(reader, before.tax_ids))


def _taxes(reader: Reader, ids: Collection[str]) -> list[Tax]:
    return [tax for id in ids if (tax := reader.tx.get(Tax, id)) is not None]


def _without_eu_taxes(reader: Reader, ids: Collection[str]) -> tuple[str, ...]:
    return tuple(tax.id for tax in _taxes(reader, ids) if not vat.is_eu_code(tax.code))


def _country(entity: BillingEntity) -> str:
    if entity.country is None:
        raise LookupError(f"billing entity {entity.id} manages EU taxes without a country")
    return entity.country


def _own_tax(work: Work, code: str) -> Tax:
    """The organization's tax with this code of an EU tax, made again if somebody deleted it."""
    stored = work.tx.first(Tax, eq("code", code))
    if stored is not None:
        return stored
    today = work.now.astimezone(UTC).date()
    return _make(work, next(tax for tax in vat.eu_taxes(today) if tax.code == code))


# Checks


def _watch(work: Work, customer: Customer, check: VatCheck | None) -> None:
    """Have a new check made in the place of the customer's; without one, have what waited for it go on."""
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
    """What the registry is to be asked for the job; None if there is nothing to ask, and the job is done.

    A number without valid form is not asked for, nor is any if there is no `registry`: such numbers count for
    nothing, as if the registry did not know them.
    """
    customer = _checked(work, task)
    if customer is None or customer.vat_check is None:
        work.tx.jobs.complete(job)
        return None
    number = vat.parse_number(customer.vat_check.number)
    if number is not None and registry:
        return number
    if number is None:
        answer = NotRegistered(valid_format=False)
    else:
        answer = NotRegistered(reason="there is no VAT registry to ask")
    conclude(work, job, task, answer)
    return None


def _checked(reader: Reader, task: CheckVatNumber) -> Customer | None:
    """The customer, while this check of its number is the one that counts."""
    customer = reader.tx.get(Customer, task.customer_id, deleted=True)
    if customer is None or customer.vat_check is None or customer.vat_check.id != task.check_id:
        return None
    return customer


def conclude(work: Work, job: Job, task: CheckVatNumber, answer: Registered | NotRegistered | Unavailable) -> None:
    """Act on an answer: the customer's taxes are the one that follows, and its invoices go on. No answer is asked for
    again later. Where the customer has changed meanwhile, the answer counts for nothing.
    """
    work.tx.jobs.complete(job)
    customer = _checked(work, task)
    if customer is None or customer.vat_check is None:
        return
    if isinstance(answer, Unavailable):
        check = replace(
            customer.vat_check,
            attempts=customer.vat_check.attempts + 1,
            last_error=answer.kind.value,
            last_message=answer.message,
        )
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
