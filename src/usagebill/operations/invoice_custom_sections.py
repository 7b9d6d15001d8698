"""Invoice custom sections: created, changed, deleted, and selected by code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoice_custom_sections import InvoiceCustomSection, definition_errors
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.subscriptions import Subscription
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.queries.billing_entities import forget_default_entity
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, has_item, within
from usagebill.storage.ports import Page

Selecting: TypeAlias = BillingEntity | Customer | Subscription | Wallet | WalletTransaction | RecurringTransactionRule
_SELECTING: tuple[type[Selecting], ...] = (
    BillingEntity,
    Customer,
    Subscription,
    Wallet,
    WalletTransaction,
    RecurringTransactionRule,
)


@Input
class InvoiceCustomSectionInput:
    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    description: Maybe[str] = ABSENT
    details: Maybe[str] = ABSENT
    display_name: Maybe[str] = ABSENT


def get(reader: Reader, code: str) -> InvoiceCustomSection:
    """The section with this code. Raises `NotFound`."""
    section = reader.tx.first(InvoiceCustomSection, eq("code", code))
    if section is None:
        raise NotFound("invoice_custom_section", code)
    return section


def list_all(reader: Reader, paging: Paging) -> Page[InvoiceCustomSection]:
    """Sections by name."""
    return reader.page(InvoiceCustomSection, paging=paging, order=(asc("name"),))


def ids_of_codes(reader: Reader, codes: Iterable[str]) -> tuple[str, ...]:
    """The ids of the sections with these codes, in order and without repeats; unknown codes are left out."""
    unique_codes = tuple(dict.fromkeys(codes))
    by_code = {
        section.code: section.id for section in reader.tx.find(InvoiceCustomSection, within("code", unique_codes))
    }
    return tuple(by_code[code] for code in unique_codes if code in by_code)


@without_backlog(Unrelated.NEW)
def create(work: Work, request: InvoiceCustomSectionInput) -> InvoiceCustomSection:
    """A new section, not selected anywhere yet. Raises `Invalid`."""
    section = InvoiceCustomSection(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=value_or(request.name, ""),
        code=value_or(request.code, ""),
        description=value_or(request.description, None),
        details=value_or(request.details, None),
        display_name=value_or(request.display_name, None),
        created_at=work.now,
        updated_at=work.now,
    )
    _check(work, section)
    work.tx.insert(section)
    return section


@after_backlog(of_everyone)
def update(work: Work, code: str, request: InvoiceCustomSectionInput) -> InvoiceCustomSection:
    """Change what is sent; invoices keep their copies. Raises `NotFound` and `Invalid`."""
    sent = changes(request)
    for name in ("name", "code"):
        if name in sent:
            sent[name] = sent[name] or ""
    section = replace(get(work, code), updated_at=work.now, **sent)
    _check(work, section)
    work.tx.replace(section)
    return section


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> InvoiceCustomSection:
    """Delete the section and deselect it everywhere; invoices keep their copies."""
    deleted = replace(get(work, code), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    for kind in _SELECTING:
        for holder in work.tx.find(kind, has_item("invoice_custom_section_ids", deleted.id)):
            remaining = tuple(id for id in holder.invoice_custom_section_ids if id != deleted.id)
            work.tx.replace(replace(holder, invoice_custom_section_ids=remaining))
    forget_default_entity(work)
    return deleted


def _check(reader: Reader, section: InvoiceCustomSection) -> None:
    problems = definition_errors(section)
    if section.code:
        holder = reader.tx.first(InvoiceCustomSection, eq("code", section.code))
        if holder is not None and holder.id != section.id:
            problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
