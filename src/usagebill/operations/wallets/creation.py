"""New wallets and their initial credits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.instants import instant_of
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.metadata import checked_metadata
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import chosen_method
from usagebill.core.recurring_rule_requests import check_limits
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.top_ups import TopUp
from usagebill.core.wallet_checks import (
    metadata_pairs,
    order_number_of,
    priority_of,
    wallet_problems,
)
from usagebill.core.wallet_requests import NewWallet, check_first_credits, new_wallet_problems, sent_credits
from usagebill.core.wallets import (
    LOWEST_PRIORITY,
    Wallet,
    WalletStatus,
    code_of_name,
    floored_credits,
)
from usagebill.operations.backlog import after_backlog, of_customer, of_customer_in
from usagebill.operations.customer_currency import bill_in
from usagebill.operations.wallet_ledger import tell_wallet, want_refresh
from usagebill.operations.wallets.inputs import (
    AppliesToInput,
    WalletInput,
    selection_of,
)
from usagebill.operations.wallets.rules import keep_rules, sent_rules
from usagebill.operations.wallets.termination import watch_expiration
from usagebill.operations.wallets.top_ups import queue_top_up
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.payment_providers import names_method
from usagebill.requests.inputs import Maybe, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, within


@after_backlog(of_customer_in)
def create(work: Work, request: WalletInput) -> Wallet:
    """A new wallet of the named customer; its initial top-up follows right after. Raises `Invalid` and `NotFound`."""
    return _create(work, work.tx.first(Customer, eq("external_id", request.external_customer_id or "")), request)


@after_backlog(of_customer)
def create_of_customer(work: Work, external_id: str, request: WalletInput) -> Wallet:
    """A new wallet of this customer. Raises `NotFound` and `Invalid`."""
    return _create(work, customer_by_external_id(work, external_id), request)


def _create(work: Work, customer: Customer | None, request: WalletInput) -> Wallet:
    paid = sent_credits(value_or(request.paid_credits, None))
    granted = sent_credits(value_or(request.granted_credits, None))
    metric_ids = _metric_ids(work, request.applies_to)
    problems = new_wallet_problems(_sent(work, customer, request, paid, granted, metric_ids), work.now)
    draft = _drafted(work, customer, request, metric_ids or ())
    rules: list[RecurringTransactionRule] = []
    try:
        rules = sent_rules(
            work, draft, value_or(request.recurring_transaction_rules, ()), paid=paid or ZERO, granted=granted or ZERO
        )
    except Invalid as problem:
        problems |= problem.details
    if problems or customer is None:
        raise Invalid(problems)
    wallet = replace(draft, billing_entity_id=_entity_id(work, request))
    wallet = replace(wallet, code=value_or(request.code, "") or _free_code(work, wallet))
    problems = dict(wallet_problems(wallet))
    if request.code and is_code_taken(work, wallet):
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
    order = _first_top_up(work, wallet, request, rules, paid or ZERO, granted or ZERO)
    check_limits(wallet, rules)
    if is_given(request.metadata) and request.metadata is not None:
        wallet = replace(wallet, metadata=checked_metadata(request.metadata))
    bill_in(work, customer, wallet.currency)
    work.tx.insert(wallet)
    keep_rules(work, wallet, rules)
    watch_expiration(work, wallet)
    tell_wallet(work, "wallet.created", wallet)
    want_refresh(work, wallet.customer_id)
    if floored_credits(order.paid) > ZERO or floored_credits(order.granted) > ZERO:
        queue_top_up(work, wallet, order, work.now)
    return wallet


def _sent(
    reader: Reader,
    customer: Customer | None,
    request: WalletInput,
    paid: Decimal | None,
    granted: Decimal | None,
    metric_ids: tuple[str, ...] | None,
) -> NewWallet:
    expires = value_or(request.expiration_at, None)
    method = value_or(request.payment_method, None)
    return NewWallet(
        active_wallets=None if customer is None else _active_count(reader, customer),
        paid=paid,
        granted=granted,
        has_expiration=expires is not None and expires != "",
        expires_at=instant_of(expires),
        transaction_metadata=value_or(request.transaction_metadata, None),
        knows_metrics=metric_ids is not None,
        fee_types=value_or(request.applies_to.fee_types, ()) if request.applies_to else (),
        knows_method=names_method(reader, method, "" if customer is None else customer.id),
        transaction_name=value_or(request.transaction_name, None),
        transaction_priority=value_or(request.transaction_priority, None),
    )


def _active_count(reader: Reader, customer: Customer) -> int:
    return reader.tx.count(Wallet, eq("customer_id", customer.id), eq("status", WalletStatus.ACTIVE))


def _metric_ids(reader: Reader, sent: Maybe[AppliesToInput]) -> tuple[str, ...] | None:
    return metric_ids_of_codes(reader, value_or(sent.billable_metric_codes, ())) if sent else ()


def metric_ids_of_codes(reader: Reader, codes: Sequence[str]) -> tuple[str, ...] | None:
    """The ids of the metrics with these codes, without repeats; None if one of them is unknown."""
    unique_codes = tuple(dict.fromkeys(codes))
    ids = {metric.code: metric.id for metric in reader.tx.find(BillableMetric, within("code", unique_codes))}
    return tuple(ids[code] for code in unique_codes) if len(ids) == len(unique_codes) else None


def _drafted(work: Work, customer: Customer | None, request: WalletInput, metric_ids: tuple[str, ...]) -> Wallet:
    """The requested wallet, before any checks."""
    priority = value_or(request.priority, LOWEST_PRIORITY)
    selection = selection_of(work, request.invoice_custom_section, Selection())
    return Wallet(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id="" if customer is None else customer.id,
        code=value_or(request.code, ""),
        currency=value_or(request.currency, "") or (customer.currency if customer is not None else None) or "",
        rate_amount=value_or(request.rate_amount, ZERO),
        name=value_or(request.name, None),
        priority=priority_of(priority) or 0,
        purchase_order_number=order_number_of(request.purchase_order_number),
        expiration_at=instant_of(request.expiration_at),
        invoice_requires_successful_payment=bool(value_or(request.invoice_requires_successful_payment, False)),
        paid_top_up_min_amount_cents=value_or(request.paid_top_up_min_amount_cents, None),
        paid_top_up_max_amount_cents=value_or(request.paid_top_up_max_amount_cents, None),
        fee_types=tuple(dict.fromkeys(value_or(request.applies_to.fee_types, ()))) if request.applies_to else (),
        billable_metric_ids=metric_ids,
        hard_stop=bool(value_or(request.hard_stop, False)),
        payment_method=chosen_method(value_or(request.payment_method, None)),
        skip_invoice_custom_sections=selection.skip,
        invoice_custom_section_ids=selection.section_ids,
        created_at=work.now,
        updated_at=work.now,
    )


def _entity_id(reader: Reader, request: WalletInput) -> str | None:
    if request.billing_entity_id:
        entity = reader.tx.first(BillingEntity, eq("id", request.billing_entity_id), missing("archived_at"))
        if entity is None:
            raise NotFound("billing_entity", request.billing_entity_id)
        return entity.id
    return entity_by_code(reader, request.billing_entity_code).id if request.billing_entity_code else None


def entity_by_code(reader: Reader, code: str) -> BillingEntity:
    """The active billing entity with this code. Raises `NotFound`."""
    entity = reader.tx.first(BillingEntity, eq("code", code), missing("archived_at"))
    if entity is None:
        raise NotFound("billing_entity", code)
    return entity


def is_code_taken(reader: Reader, wallet: Wallet) -> bool:
    """Whether another active wallet of the customer has the wallet's code."""
    holders = reader.tx.find(
        Wallet, eq("customer_id", wallet.customer_id), eq("status", WalletStatus.ACTIVE), eq("code", wallet.code)
    )
    return any(holder.id != wallet.id for holder in holders)


def _free_code(reader: Reader, wallet: Wallet) -> str:
    code = code_of_name(wallet.name)
    if not is_code_taken(reader, replace(wallet, code=code)):
        return code
    seconds = int(reader.now.timestamp())
    while is_code_taken(reader, replace(wallet, code=f"{code}_{seconds}")):
        seconds += 1
    return f"{code}_{seconds}"


def _first_top_up(
    reader: Reader,
    wallet: Wallet,
    request: WalletInput,
    rules: Sequence[RecurringTransactionRule],
    paid: Decimal,
    granted: Decimal,
) -> TopUp:
    """The initial top-up of the wallet. Raises `Invalid` if it is worth nothing, or breaks the wallet's limits."""
    ignoring = bool(value_or(request.ignore_paid_top_up_limits_on_creation, False))
    check_first_credits(wallet, paid, granted, ignores_limits=ignoring)
    name = value_or(request.transaction_name, None)
    ordered = next((rule.purchase_order_number for rule in rules if rule.purchase_order_number), None)
    return TopUp(
        paid=paid,
        granted=granted,
        ignore_limits=ignoring,
        requires_payment=wallet.invoice_requires_successful_payment,
        priority=priority_of(value_or(request.transaction_priority, LOWEST_PRIORITY)) or LOWEST_PRIORITY,
        name=name if isinstance(name, str) and name else None,
        metadata=metadata_pairs(value_or(request.transaction_metadata, ())),
        purchase_order_number=ordered or wallet.purchase_order_number,
    )
