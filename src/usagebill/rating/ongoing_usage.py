"""Ongoing balances of wallets: their payments if all usage so far were billed now. Nothing is stored here.

A customer's usage is computed once, however many wallets share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from usagebill.core.aggregation import Window
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeType
from usagebill.core.grouping import target_wallet_code
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import BILLED_AHEAD, CONSUMING_TYPES, NOT_YET_ISSUED, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ZERO, add, subtract
from usagebill.core.ongoing import UnbilledKey, expected_use, summed_nets, with_ongoing_usage
from usagebill.core.recurring_rules import RuleTrigger
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.taxes import net_of_coupons, usage_taxes_cents, with_taxes
from usagebill.core.wallets import Wallet, WalletStatus, target_of
from usagebill.queries.billing_periods import last_billed_charges
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_of
from usagebill.queries.subscriptions import definition_for
from usagebill.queries.takeovers import in_force
from usagebill.queries.tax_connections import connection_of
from usagebill.queries.taxes import taxes_for
from usagebill.queries.wallets import active_wallets, running_rules
from usagebill.rating.current_usage import contract_window, usage_within
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq, ne, within

# Windows that end with a millisecond lie side by side.
_GAP = timedelta(milliseconds=1)
# Rounded as it will be billed, and before rounding.
_Amounts = Iterator[tuple[UnbilledKey, Decimal, Decimal]]


def refreshed(reader: Reader, wallet: Wallet) -> Wallet:
    """The wallet with its ongoing values as of now; a terminated one keeps its last values."""
    if wallet.status != WalletStatus.ACTIVE:
        return wallet
    wallets = active_wallets(reader, wallet.customer_id)
    nets = unbilled_nets(reader, customer_of(reader, wallet))
    return next(active for active in refreshed_wallets(reader, wallets, nets) if active.id == wallet.id)


def refreshed_wallets(reader: Reader, wallets: list[Wallet], nets: dict[UnbilledKey, Decimal]) -> list[Wallet]:
    """All active wallets of a customer with their ongoing values, computed from the unbilled `nets`."""
    rules = running_rules(reader, wallets)
    topped_up = {rule.wallet_id for rule in rules if rule.trigger == RuleTrigger.THRESHOLD}
    use = expected_use(nets, wallets, topped_up)
    return [with_ongoing_usage(wallet, use[wallet.id], reader.now) for wallet in wallets]


def unbilled_nets(reader: Reader, customer: Customer) -> dict[UnbilledKey, Decimal]:
    """Amounts still to be billed to the customer, in cents: usage no run has billed, and invoices not issued yet.

    Usage paid in advance is already billed; of usage billed progressively, only the remainder counts. A tax provider's
    taxes are known only once there is a draft.
    """
    return summed_nets((key, rounded) for key, rounded, _ in _amounts(reader, customer))


def needed_nets(reader: Reader, customer: Customer) -> dict[UnbilledKey, Decimal]:
    """The credits that `unbilled_nets` needs, in cents: no less than before rounding, so that what is too little for a
    cent on its bill needs some too.
    """
    amounts = list(_amounts(reader, customer))
    exact = summed_nets((key, unrounded) for key, _, unrounded in amounts)
    return {key: max(net, exact[key]) for key, net in summed_nets((key, cents) for key, cents, _ in amounts).items()}


def _amounts(reader: Reader, customer: Customer) -> _Amounts:
    active = eq("status", SubscriptionStatus.ACTIVE)
    for subscription in reader.tx.find(Subscription, eq("customer_id", customer.id), active):
        for instant, used, window in _unbilled_periods(reader, subscription):
            yield from _usage(reader.at(instant), customer, used, window)
    coming = reader.tx.find(
        Invoice,
        eq("customer_id", customer.id),
        within("status", NOT_YET_ISSUED),
        within("invoice_type", CONSUMING_TYPES),
        ne("total_amount_cents", 0),
    )
    for fee in reader.tx.find(Fee, within("invoice_id", [invoice.id for invoice in coming])):
        yield _key(fee), _gross(fee), _gross(fee)


def _unbilled_periods(reader: Reader, subscription: Subscription) -> Iterator[tuple[datetime, Subscription, Window]]:
    """The unbilled charges periods, each with an instant in it (now, or the last one of a closed period), and whose it
    is: from the midnight of a downgrade on, the successor's.

    A closed period waits for its run for minutes, or for as long as the run fails.
    """
    contract, using = contract_of(reader, subscription), in_force(reader, subscription)
    window = contract_window(reader, contract if using is subscription else contract_of(reader, using))
    yield reader.now, using, window
    billed = last_billed_charges(reader, contract)
    while (end := window.start - MICROSECOND) >= max(subscription.created_at, subscription.started_at or end):
        if billed is not None and billed.end >= end - _GAP:
            return
        closed = contract_window(reader.at(end), contract)
        if closed.start >= window.start or (billed is not None and billed.end >= closed.start):
            return
        yield end, subscription, closed
        window = closed


def _usage(reader: Reader, customer: Customer, subscription: Subscription, window: Window) -> _Amounts:
    definition = definition_for(reader, subscription, window.start)
    arrears = [charge for charge in definition.charges if not charge.pay_in_advance]
    usages = usage_within(reader, subscription, arrears, window)
    currency = definition.plan.amount_currency
    provided = connection_of(reader, customer) is not None
    for usage in usages:
        charge = usage.charge
        taxes = () if provided else taxes_for(reader, customer, definition.plan, charge.tax_ids)
        for result in usage.results:
            target_code = target_wallet_code(result.grouped_by)
            key = UnbilledKey(FeeType.CHARGE, charge.billable_metric_id, currency, target_code)
            cents = result.amounts.amount_cents
            rounded = Decimal(cents + usage_taxes_cents([(cents, taxes)]))
            yield key, rounded, with_taxes(result.amounts.precise_amount_cents, taxes)
    periods = reader.tx.find(
        BillingPeriod,
        eq("subscription_id", subscription.id),
        eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
        eq("charges_from_datetime", window.start),
    )
    standing = reader.tx.find(
        Invoice, within("id", [period.invoice_id for period in periods]), within("status", BILLED_AHEAD)
    )
    for fee in reader.tx.find(Fee, within("invoice_id", [invoice.id for invoice in standing])):
        billed = subtract(ZERO, _gross(fee))
        yield _key(fee), billed, billed


def _key(fee: Fee) -> UnbilledKey:
    metric_id = fee.billable_metric_id if fee.fee_type == FeeType.CHARGE else None
    return UnbilledKey(fee.fee_type, metric_id or "", fee.currency, target_of(fee))


def _gross(fee: Fee) -> Decimal:
    return add(net_of_coupons(fee), Decimal(fee.taxes_amount_cents))
