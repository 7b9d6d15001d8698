"""Recurring rules of wallets: parsed from requests, stored, and carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from usagebill.core.days import local_date
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.numbers import ZERO
from usagebill.core.recurring_rule_requests import RuleFacts, check_number_of_rules, new_rule, rule_as_sent
from usagebill.core.recurring_rules import (
    RecurringTransactionRule,
    RuleMethod,
    RuleStatus,
    RuleTrigger,
    earliest_top_up_day,
    holds_back,
    is_running,
    next_top_up,
    threshold_is_passed,
    top_up_credits,
)
from usagebill.core.tasks import TopUpAtInterval
from usagebill.core.top_ups import TopUp
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionSource,
    WalletTransaction,
    WalletTransactionStatus,
    pending_credits,
)
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.operations.wallets.inputs import RuleInput, selection_of
from usagebill.operations.wallets.top_ups import queue_top_up, top_up_if_possible, withdraw_top_up
from usagebill.queries.customers import customer_of, zone_of
from usagebill.queries.payment_providers import names_method
from usagebill.queries.wallets import pending_transactions, running_rule, wallet_by_id
from usagebill.requests.inputs import changes, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc, eq, present

# The delay of a threshold rule's top-up, so that several changes at one moment make one top-up.
_THRESHOLD_DELAY = timedelta(seconds=2)


def sent_rules(
    reader: Reader, wallet: Wallet, sent: Sequence[RuleInput], *, paid: Decimal = ZERO, granted: Decimal = ZERO
) -> list[RecurringTransactionRule]:
    """The sent rules of the wallet. A fixed one without credits takes `paid` and `granted`.

    Raises `Invalid` for more than one rule, and for one that cannot work.
    """
    check_number_of_rules(sent)
    running = running_rule(reader, wallet)
    rules = []
    for request in sent:
        before = running if running and request.svc_id == running.id else None
        rule = before or new_rule(reader.new_id(), wallet, request.trigger, reader.now)
        selection = Selection(skip=rule.skip_invoice_custom_sections, section_ids=rule.invoice_custom_section_ids)
        facts = RuleFacts(
            now=reader.now,
            is_new=before is None,
            paid=paid,
            granted=granted,
            knows_method=names_method(reader, value_or(request.payment_method, None), wallet.customer_id),
            selection=selection_of(reader, request.invoice_custom_section, selection),
        )
        rules.append(rule_as_sent(rule, changes(request), facts))
    return rules


def keep_rules(work: Work, wallet: Wallet, rules: Sequence[RecurringTransactionRule]) -> None:
    """Store these as the rules of the wallet; a running rule that is not among them ends."""
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
    """End the rules of a wallet, with their pending top-ups."""
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
    """Reschedule the rule to its next interval, on `first_day` or later."""
    work.cancel(_at_interval(wallet, rule))
    zone = zone_of(work, customer_of(work, wallet))
    latest = work.tx.first(
        WalletTransaction,
        eq("wallet_id", wallet.id),
        eq("source", TransactionSource.INTERVAL),
        order=[desc("created_at")],
    )
    first_day = earliest_top_up_day(first_day, None if latest is None else latest.created_at, zone)
    due = next_top_up(rule, wallet, zone, first_day=first_day, now=work.now)
    if due is not None:
        work.schedule(_at_interval(wallet, rule), due)


def watch_customer(work: Work, customer_id: str) -> None:
    """Reschedule a customer's interval rules after a change of its time zone."""
    for wallet in work.tx.find(Wallet, eq("customer_id", customer_id), eq("status", WalletStatus.ACTIVE)):
        rule = running_rule(work, wallet)
        if rule is not None and rule.trigger == RuleTrigger.INTERVAL:
            _watch(work, wallet, rule, local_date(work.now, zone_of(work, customer_of(work, wallet))))


def top_up_at_interval(work: Work, task: TopUpAtInterval) -> None:
    """Job: top up a wallet by its interval rule, and schedule the next time."""
    rule = work.tx.get(RecurringTransactionRule, task.rule_id)
    wallet = wallet_by_id(work, task.wallet_id)
    if rule is None or not is_running(rule, work.now) or wallet.status != WalletStatus.ACTIVE:
        return
    zone = zone_of(work, customer_of(work, wallet))
    today = local_date(work.now, zone)
    if next_top_up(rule, wallet, zone, first_day=today, now=work.now) != work.now:
        # The customer's time zone has changed since this was scheduled.
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
    """Order the top-up of the wallet's threshold rule, if its changed ongoing balance is low enough.

    Purchases that wait for their payment count. After one of its purchases has failed, the rule buys nothing for an
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
        order=[desc("failed_at")],
    )
    if failed is None:
        return False
    settled = reader.tx.first(WalletTransaction, *purchased, present("settled_at"), order=[desc("settled_at")])
    return holds_back(failed.failed_at, None if settled is None else settled.settled_at, reader.now)
