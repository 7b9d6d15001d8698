"""Recurring rules of wallets: read from requests, stored, and carried out when their moment has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from usagebill.core.days import local_date
from usagebill.core.errors import Invalid
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import chosen_method
from usagebill.core.recurring_rules import (
    BACK_OFF,
    RecurringTransactionRule,
    RuleInterval,
    RuleMethod,
    RuleStatus,
    RuleTrigger,
    breaks_limits,
    is_running,
    next_top_up,
    rule_is_sound,
    threshold_is_passed,
    top_up_credits,
)
from usagebill.core.tasks import TopUpAtInterval
from usagebill.core.wallet_checks import (
    LONGEST_ORDER_NUMBER,
    LONGEST_TRANSACTION_NAME,
    MOST_PAIRS,
    credit_amount,
    decimal_of,
    metadata_pairs,
    metadata_pairs_code,
)
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionSource,
    WalletTransaction,
    WalletTransactionStatus,
    pending_credits,
)
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.inputs import Maybe, is_given, value_or
from usagebill.operations.wallets.inputs import RuleInput, instant_of, order_number_of, selection_of
from usagebill.operations.wallets.top_ups import TopUp, queue_top_up, top_up_if_possible, withdraw_top_up
from usagebill.queries.customers import customer_of, zone_of
from usagebill.queries.payment_providers import names_method
from usagebill.queries.wallets import pending_transactions, running_rule, wallet_by_id
from usagebill.storage.conditions import at_least, desc, eq, present
from usagebill.work import Reader, Work

__all__ = [
    "check_limits",
    "check_threshold",
    "end_rules",
    "keep_rules",
    "sent_rules",
    "top_up_at_interval",
    "watch_customer",
]

E = TypeVar("E", bound=StrEnum)

_INVALID = "invalid_recurring_rule"
_LATEST_YEAR = 9000
# How long a top-up of a threshold rule waits, so that several changes of one moment make one.
_THRESHOLD_DELAY = timedelta(seconds=2)


class _Unsound(Exception):
    """The request describes no rule that can work."""


def sent_rules(
    reader: Reader, wallet: Wallet, sent: Sequence[RuleInput], *, paid: Decimal = ZERO, granted: Decimal = ZERO
) -> list[RecurringTransactionRule]:
    """The rules that a request gives the wallet. A fixed one that says nothing of credits takes `paid` and `granted`.

    Raises `Invalid` for more than one, and for one that cannot work.
    """
    if len(sent) > 1:
        raise Invalid(recurring_transaction_rules="invalid_number_of_recurring_rules")
    current = running_rule(reader, wallet)
    try:
        return [
            _sent_rule(reader, wallet, item, current if current and item.svc_id == current.id else None, paid, granted)
            for item in sent
        ]
    except _Unsound as problem:
        raise Invalid(recurring_transaction_rules=_INVALID) from problem


def _sent_rule(
    reader: Reader,
    wallet: Wallet,
    sent: RuleInput,
    before: RecurringTransactionRule | None,
    paid: Decimal,
    granted: Decimal,
) -> RecurringTransactionRule:
    inherits = before is None and not is_given(sent.paid_credits) and not is_given(sent.granted_credits)
    rule = before or RecurringTransactionRule(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        wallet_id=wallet.id,
        trigger=_choice(RuleTrigger, sent.trigger),
        invoice_requires_successful_payment=wallet.invoice_requires_successful_payment,
        created_at=reader.now,
        updated_at=reader.now,
    )
    fields: dict[str, Any] = {
        **_schedule(reader, sent),
        **_credits(sent),
        **_transaction_fields(reader, wallet, sent, rule),
    }
    rule = replace(rule, **fields, updated_at=reader.now)
    if inherits and rule.method == RuleMethod.FIXED:
        rule = replace(rule, paid_credits=paid, granted_credits=granted)
    if before is None and rule.trigger == RuleTrigger.THRESHOLD and value_or(sent.threshold_credits, None) is None:
        raise _Unsound
    if rule.method != RuleMethod.TARGET and value_or(sent.grants_target_top_up, None) is not None:
        raise _Unsound
    if not rule_is_sound(rule):
        raise _Unsound
    return rule


def _choice(kind: type[E], sent: object) -> E:
    try:
        return kind(str(sent))
    except ValueError as problem:
        raise _Unsound from problem


def _schedule(reader: Reader, sent: RuleInput) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if is_given(sent.trigger):
        fields["trigger"] = _choice(RuleTrigger, sent.trigger)
    if is_given(sent.method) and sent.method is not None:
        fields["method"] = _choice(RuleMethod, sent.method)
    if is_given(sent.interval):
        fields["interval"] = None if sent.interval is None else _choice(RuleInterval, sent.interval)
    if is_given(sent.started_at):
        fields["started_at"] = _instant(sent.started_at)
    if is_given(sent.expiration_at):
        expires = fields["expiration_at"] = _instant(sent.expiration_at)
        if expires is not None and expires <= reader.now:
            raise _Unsound
    return fields


def _instant(sent: object) -> datetime | None:
    if sent is None or sent == "":
        return None
    instant = instant_of(sent)
    if instant is None or instant.astimezone(UTC).year > _LATEST_YEAR:
        raise _Unsound
    return instant


def _credits(sent: RuleInput) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in ("paid_credits", "granted_credits"):
        if is_given(value := getattr(sent, name)):
            fields[name] = ZERO if value is None else _number(credit_amount(value))
    if is_given(sent.threshold_credits):
        fields["threshold_credits"] = (
            ZERO if sent.threshold_credits is None else _number(decimal_of(sent.threshold_credits))
        )
    if is_given(sent.target_ongoing_balance):
        target = sent.target_ongoing_balance
        fields["target_ongoing_balance"] = None if target is None else _number(decimal_of(target))
    if is_given(sent.grants_target_top_up) and sent.grants_target_top_up is not None:
        if not isinstance(sent.grants_target_top_up, bool):
            raise _Unsound
        fields["grants_target_top_up"] = sent.grants_target_top_up
    return fields


def _number(value: Decimal | None) -> Decimal:
    if value is None:
        raise _Unsound
    return value


def _transaction_fields(
    reader: Reader, wallet: Wallet, sent: RuleInput, rule: RecurringTransactionRule
) -> dict[str, Any]:
    """What the transactions of the rule are to say."""
    fields: dict[str, Any] = {}
    if is_given(sent.transaction_metadata) and sent.transaction_metadata is not None:
        if metadata_pairs_code(sent.transaction_metadata, MOST_PAIRS) is not None:
            raise _Unsound
        fields["transaction_metadata"] = metadata_pairs(sent.transaction_metadata)
    if is_given(sent.transaction_name):
        fields["transaction_name"] = _short_text(sent.transaction_name, LONGEST_TRANSACTION_NAME)
    if is_given(sent.purchase_order_number):
        number = order_number_of(sent.purchase_order_number)
        fields["purchase_order_number"] = _short_text(number, LONGEST_ORDER_NUMBER)
    if not names_method(reader, value_or(sent.payment_method, None), wallet.customer_id):
        raise _Unsound
    if is_given(sent.payment_method):
        fields["payment_method"] = chosen_method(sent.payment_method)
    for name in ("invoice_requires_successful_payment", "ignore_paid_top_up_limits"):
        flag: Maybe[bool] = getattr(sent, name)
        if is_given(flag) and flag is not None:
            fields[name] = flag
    before = Selection(skip=rule.skip_invoice_custom_sections, section_ids=rule.invoice_custom_section_ids)
    selection = selection_of(reader, sent.invoice_custom_section, before)
    fields["skip_invoice_custom_sections"] = selection.skip
    fields["invoice_custom_section_ids"] = selection.section_ids
    return fields


def _short_text(sent: object, longest: int) -> str | None:
    if sent is None or sent == "":
        return None
    if not isinstance(sent, str) or len(sent) > longest:
        raise _Unsound
    return sent


def check_limits(wallet: Wallet, rules: Sequence[RecurringTransactionRule]) -> None:
    """Raises `Invalid` if a rule buys what the limits of the wallet do not allow."""
    if any(breaks_limits(rule, wallet) for rule in rules):
        raise Invalid(recurring_transaction_rules=_INVALID)


def keep_rules(work: Work, wallet: Wallet, rules: Sequence[RecurringTransactionRule]) -> None:
    """Make these the rules of the wallet: a running rule that is not among them ends."""
    kept = {rule.id for rule in rules}
    for former in _active_rules(work, wallet):
        if former.id not in kept:
            _end(work, wallet, former)
    for rule in rules:
        if work.tx.get(RecurringTransactionRule, rule.id) is None:
            work.tx.insert(rule)
        else:
            work.tx.replace(rule)
        _watch(work, wallet, rule, local_date(work.now, zone_of(work, customer_of(work, wallet))))


def end_rules(work: Work, wallet: Wallet) -> None:
    """End the rules of a wallet, and what they have ordered and not brought yet."""
    for rule in _active_rules(work, wallet):
        _end(work, wallet, rule)


def _active_rules(work: Work, wallet: Wallet) -> list[RecurringTransactionRule]:
    return work.tx.find(RecurringTransactionRule, eq("wallet_id", wallet.id), eq("status", RuleStatus.ACTIVE))


def _end(work: Work, wallet: Wallet, rule: RecurringTransactionRule) -> None:
    work.tx.replace(replace(rule, status=RuleStatus.TERMINATED, terminated_at=work.now, updated_at=work.now))
    work.cancel(_at_interval(wallet, rule))
    withdraw_top_up(work, wallet, TransactionSource.THRESHOLD)


def _at_interval(wallet: Wallet, rule: RecurringTransactionRule) -> TopUpAtInterval:
    return TopUpAtInterval(customer_id=wallet.customer_id, wallet_id=wallet.id, rule_id=rule.id)


def _watch(work: Work, wallet: Wallet, rule: RecurringTransactionRule, first_day: date) -> None:
    """Have the rule act at its next interval, on `first_day` or later, and no longer when it was to before."""
    work.cancel(_at_interval(wallet, rule))
    zone = zone_of(work, customer_of(work, wallet))
    latest = work.tx.first(
        WalletTransaction,
        eq("wallet_id", wallet.id),
        eq("source", TransactionSource.INTERVAL),
        order=[desc("created_at")],
    )
    if latest is not None:
        # One day, one top-up, whatever became of it.
        first_day = max(first_day, local_date(latest.created_at, zone) + timedelta(days=1))
    due = next_top_up(rule, wallet, zone, first_day=first_day, now=work.now)
    if due is not None:
        work.schedule(_at_interval(wallet, rule), due)


def watch_customer(work: Work, customer_id: str) -> None:
    """Have the interval rules of a customer act on the days of its time zone, which has changed."""
    for wallet in work.tx.find(Wallet, eq("customer_id", customer_id), eq("status", WalletStatus.ACTIVE)):
        rule = running_rule(work, wallet)
        if rule is not None and rule.trigger == RuleTrigger.INTERVAL:
            _watch(work, wallet, rule, local_date(work.now, zone_of(work, customer_of(work, wallet))))


def top_up_at_interval(work: Work, task: TopUpAtInterval) -> None:
    """Job: the day has come on which a rule tops up its wallet. The next one is scheduled with it."""
    rule = work.tx.get(RecurringTransactionRule, task.rule_id)
    wallet = wallet_by_id(work, task.wallet_id)
    if rule is None or not is_running(rule, work.now) or wallet.status != WalletStatus.ACTIVE:
        return
    zone = zone_of(work, customer_of(work, wallet))
    today = local_date(work.now, zone)
    if next_top_up(rule, wallet, zone, first_day=today, now=work.now) != work.now:
        # The customer's days begin elsewhere than when this was scheduled.
        _watch(work, wallet, rule, today)
        return
    _carry_out(work, wallet, rule, TransactionSource.INTERVAL)
    _watch(work, wallet, rule, today + timedelta(days=1))


def _carry_out(work: Work, wallet: Wallet, rule: RecurringTransactionRule, source: TransactionSource) -> None:
    credits = top_up_credits(rule, wallet, pending_credits(pending_transactions(work, wallet)))
    order = TopUp(
        paid=credits.paid,
        granted=credits.granted,
        source=source,
        rule_id=rule.id,
        ignore_limits=rule.ignore_paid_top_up_limits or rule.method == RuleMethod.TARGET,
        requires_payment=rule.invoice_requires_successful_payment,
        name=rule.transaction_name,
        metadata=rule.transaction_metadata,
        purchase_order_number=rule.purchase_order_number or wallet.purchase_order_number,
        payment_method=rule.payment_method,
        sections=Selection(skip=rule.skip_invoice_custom_sections, section_ids=rule.invoice_custom_section_ids),
    )
    if source == TransactionSource.INTERVAL:
        top_up_if_possible(work, wallet, order)
    elif credits.paid > ZERO or credits.granted > ZERO:
        queue_top_up(work, wallet, order, work.now + _THRESHOLD_DELAY)


def check_threshold(work: Work, wallet: Wallet) -> None:
    """Order what the wallet's threshold rule adds, if its ongoing balance, which has just changed, is low enough.

    Purchases that wait for their payment count. After a purchase of its own has failed, the rule buys nothing for an
    hour, unless some purchase is paid before.
    """
    rule = running_rule(work, wallet)
    if rule is None or rule.trigger != RuleTrigger.THRESHOLD or wallet.status != WalletStatus.ACTIVE:
        return
    pending = pending_credits(pending_transactions(work, wallet))
    if not threshold_is_passed(rule, wallet, pending):
        return
    if top_up_credits(rule, wallet, pending).paid > ZERO and _holds_back(work, wallet):
        return
    _carry_out(work, wallet, rule, TransactionSource.THRESHOLD)


def _holds_back(reader: Reader, wallet: Wallet) -> bool:
    purchased = (eq("wallet_id", wallet.id), eq("transaction_status", TransactionKind.PURCHASED))
    failed = reader.tx.first(
        WalletTransaction,
        *purchased,
        eq("source", TransactionSource.THRESHOLD),
        eq("status", WalletTransactionStatus.FAILED),
        at_least("failed_at", reader.now - BACK_OFF),
        order=[desc("failed_at")],
    )
    if failed is None or failed.failed_at is None:
        return False
    settled = reader.tx.first(
        WalletTransaction, *purchased, present("settled_at"), at_least("settled_at", failed.failed_at)
    )
    return settled is None
