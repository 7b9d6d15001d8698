"""Requests for the recurring rules of wallets: the rule described by a request, and refused requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from usagebill.core.errors import Invalid
from usagebill.core.instants import instant_of
from usagebill.core.invoice_custom_sections import Selection
from usagebill.core.numbers import ZERO
from usagebill.core.payment_methods import chosen_method
from usagebill.core.recurring_rules import (
    RecurringTransactionRule,
    RuleInterval,
    RuleMethod,
    RuleTrigger,
    breaks_limits,
    rule_is_sound,
)
from usagebill.core.wallet_checks import (
    LONGEST_ORDER_NUMBER,
    LONGEST_TRANSACTION_NAME,
    MOST_PAIRS,
    credit_amount,
    decimal_of,
    metadata_pairs,
    metadata_pairs_code,
    order_number_of,
)
from usagebill.core.wallets import Wallet

E = TypeVar("E", bound=StrEnum)

_INVALID = "invalid_recurring_rule"
_LATEST_YEAR = 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """The facts besides the request on which a rule depends.

    `paid` and `granted` are the credits that the wallet starts with: a new fixed rule without credits of its own adds
    the same each time. `selection` are the custom sections of its invoices after the request.
    """

    now: datetime
    is_new: bool = True
    paid: Decimal = ZERO
    granted: Decimal = ZERO
    knows_method: bool = True
    selection: Selection = field(default_factory=Selection)


class _Unsound(Exception):
    """The request describes no valid rule."""


def check_number_of_rules(sent: Sequence[object]) -> None:
    """Raises `Invalid` for more than one rule: a wallet has at most one."""
    if len(sent) > 1:
        raise Invalid(recurring_transaction_rules="invalid_number_of_recurring_rules")


def check_limits(wallet: Wallet, rules: Sequence[RecurringTransactionRule]) -> None:
    """Raises `Invalid` if a rule buys credits that the limits of the wallet do not allow."""
    if any(breaks_limits(rule, wallet) for rule in rules):
        raise Invalid(recurring_transaction_rules=_INVALID)


def new_rule(id: str, wallet: Wallet, trigger: object, now: datetime) -> RecurringTransactionRule:
    """A rule of the wallet with this trigger and defaults otherwise. Raises `Invalid` for an unknown trigger."""
    try:
        kind = _member(RuleTrigger, trigger)
    except _Unsound as problem:
        raise Invalid(recurring_transaction_rules=_INVALID) from problem
    return RecurringTransactionRule(
        id=id,
        organization_id=wallet.organization_id,
        wallet_id=wallet.id,
        trigger=kind,
        invoice_requires_successful_payment=wallet.invoice_requires_successful_payment,
        created_at=now,
        updated_at=now,
    )


def rule_as_sent(
    rule: RecurringTransactionRule, sent: Mapping[str, object], facts: RuleFacts
) -> RecurringTransactionRule:
    """The rule after a request: fields in `sent` are set, others stay.

    Credits are texts, instants are texts or datetimes; null clears them, and also names and numbers. Raises `Invalid`
    for a rule that cannot work.
    """
    try:
        changed = replace(
            rule, **_schedule(sent, facts.now), **_credits(sent), **_transaction(sent, facts), updated_at=facts.now
        )
        inherits = facts.is_new and "paid_credits" not in sent and "granted_credits" not in sent
        if inherits and changed.method == RuleMethod.FIXED:
            changed = replace(changed, paid_credits=facts.paid, granted_credits=facts.granted)
        lacks_threshold = changed.trigger == RuleTrigger.THRESHOLD and sent.get("threshold_credits") is None
        if facts.is_new and lacks_threshold:
            raise _Unsound
        if changed.method != RuleMethod.TARGET:
            if sent.get("grants_target_top_up") is not None:
                raise _Unsound
            changed = replace(changed, grants_target_top_up=False)
        if not rule_is_sound(changed):
            raise _Unsound
    except _Unsound as problem:
        raise Invalid(recurring_transaction_rules=_INVALID) from problem
    return changed


def _member(kind: type[E], sent: object) -> E:
    try:
        return kind(str(sent))
    except ValueError as problem:
        raise _Unsound from problem


def _schedule(sent: Mapping[str, object], now: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "trigger" in sent:
        fields["trigger"] = _member(RuleTrigger, sent["trigger"])
    if sent.get("method") is not None:
        fields["method"] = _member(RuleMethod, sent["method"])
    if "interval" in sent:
        fields["interval"] = None if sent["interval"] is None else _member(RuleInterval, sent["interval"])
    if "started_at" in sent:
        fields["started_at"] = _instant(sent["started_at"])
    if "expiration_at" in sent:
        expires = fields["expiration_at"] = _instant(sent["expiration_at"])
        if expires is not None and expires <= now:
            raise _Unsound
    return fields


def _instant(sent: object) -> datetime | None:
    if sent is None or sent == "":
        return None
    instant = instant_of(sent)
    if instant is None or instant.astimezone(UTC).year > _LATEST_YEAR:
        raise _Unsound
    return instant


def _credits(sent: Mapping[str, object]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, read in (
        ("paid_credits", credit_amount),
        ("granted_credits", credit_amount),
        ("threshold_credits", decimal_of),
    ):
        if name in sent:
            fields[name] = _number(sent[name], read) or ZERO
    if "target_ongoing_balance" in sent:
        fields["target_ongoing_balance"] = _number(sent["target_ongoing_balance"], decimal_of)
    grants = sent.get("grants_target_top_up")
    if grants is not None:
        if not isinstance(grants, bool):
            raise _Unsound
        fields["grants_target_top_up"] = grants
    return fields


def _number(sent: object, read: Callable[[object], Decimal | None]) -> Decimal | None:
    number = None if sent is None else read(sent)
    if sent is not None and number is None:
        raise _Unsound
    return number


def _transaction(sent: Mapping[str, object], facts: RuleFacts) -> dict[str, Any]:
    """The fields of the rule that its transactions copy."""
    fields: dict[str, Any] = {}
    pairs = sent.get("transaction_metadata")
    if pairs is not None:
        if metadata_pairs_code(pairs, MOST_PAIRS) is not None:
            raise _Unsound
        fields["transaction_metadata"] = metadata_pairs(pairs)
    if "transaction_name" in sent:
        fields["transaction_name"] = _short_text(sent["transaction_name"], LONGEST_TRANSACTION_NAME)
    if "purchase_order_number" in sent:
        number = order_number_of(sent["purchase_order_number"])
        fields["purchase_order_number"] = _short_text(number, LONGEST_ORDER_NUMBER)
    if not facts.knows_method:
        raise _Unsound
    if "payment_method" in sent:
        fields["payment_method"] = chosen_method(sent["payment_method"])
    for name in ("invoice_requires_successful_payment", "ignore_paid_top_up_limits"):
        if sent.get(name) is not None:
            fields[name] = sent[name]
    fields["skip_invoice_custom_sections"] = facts.selection.skip
    fields["invoice_custom_section_ids"] = facts.selection.section_ids
    return fields


def _short_text(sent: object, longest: int) -> str | None:
    if sent is None or sent == "":
        return None
    if not isinstance(sent, str) or len(sent) > longest:
        raise _Unsound
    return sent
