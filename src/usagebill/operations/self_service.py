"""What customers do for themselves in the portal: change plans, buy credits, choose how they pay, and set alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from usagebill.core.alerts import OWN_ALERT, Alert, AlertType, is_own
from usagebill.core.currencies import subunits
from usagebill.core.customers import Customer
from usagebill.core.documents.content import Content
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.idempotency import check_key, fingerprint
from usagebill.core.numbers import ZERO, multiply, parse_decimal
from usagebill.core.payments import PaymentMethod, PaymentPage
from usagebill.core.periods import Interval, downgrade_plan_date
from usagebill.core.plans import Plan
from usagebill.core.portal import may_change_to
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, is_upgrade
from usagebill.core.wallet_checks import credit_amount, limit_code
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet, WalletStatus, whole_cent_credits
from usagebill.operations import preview, wallet_transactions
from usagebill.operations.alerts import definitions as alerts
from usagebill.operations.alerts.inputs import AlertInput, AlertThresholdInput, AlertUpdate
from usagebill.operations.backlog import settle_backlog
from usagebill.operations.documents.sources import invoice_source
from usagebill.operations.idempotency import store_answer, stored_answer
from usagebill.operations.provider_customers import needs_set_up
from usagebill.operations.subscription_charges import WhichSubscription
from usagebill.operations.subscriptions import SubscriptionInput, create
from usagebill.operations.wallet_transactions import WalletTransactionInput
from usagebill.queries.contracts import contract_of
from usagebill.queries.payment_providers import has_payment_pages, methods_of, names_method, payment_connection_of
from usagebill.queries.subscriptions import plan_of, successor_of
from usagebill.requests.inputs import ABSENT
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A subscription, its plan, and the plans that its customer may change to. `next_plan` follows on `changes_on`."""

    subscription: Subscription
    plan: Plan
    plans: Sequence[Plan]
    next_plan: Plan | None = None
    changes_on: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """What a change of plan comes to. `effective_on` is a day of the customer's, None for at once; `invoice` is the
    next one after it, None if there is none.
    """

    plan: Plan
    effective_on: date | None
    invoice: Content | None


def running_subscription(reader: Reader, customer: Customer, external_id: str) -> Subscription:
    """The customer's active subscription. Raises `NotFound`, also for another customer's."""
    subscription = reader.tx.first(
        Subscription,
        eq("customer_id", customer.id),
        eq("external_id", external_id),
        eq("status", SubscriptionStatus.ACTIVE),
    )
    if subscription is None:
        raise NotFound("subscription", external_id)
    return subscription


def offer_of(reader: Reader, customer: Customer, external_id: str) -> Offer:
    """What the customer may change the subscription to. Raises `NotFound`, also for another customer's."""
    subscription = running_subscription(reader, customer, external_id)
    present, following = plan_of(reader, subscription), successor_of(reader, subscription)
    offered = reader.tx.find(
        Plan, eq("offered_in_portal", True), missing("parent_id"), order=[asc("amount_cents"), asc("name")]
    )
    offer = Offer(
        subscription=subscription,
        plan=present,
        plans=[plan for plan in offered if may_change_to(present, plan)],
    )
    if following is None:
        return offer
    return replace(
        offer, next_plan=plan_of(reader, following), changes_on=_end_of_interval(reader, subscription, following)
    )


def previewed_change(work: Work, customer: Customer, external_id: str, plan_code: str) -> PlanChange:
    """What a change to the plan would come to now; nothing is stored. Raises `NotFound` for a plan that the customer
    may not change to.
    """
    offer = offer_of(work, customer, external_id)
    plan = _chosen(offer, plan_code)
    before, after = offer.plan, plan
    at_once = is_upgrade(before.amount_cents, Interval(before.interval), after.amount_cents, Interval(after.interval))
    invoice = preview.plan_change(
        work,
        offer.subscription,
        plan.code,
        lambda later, made: invoice_content(invoice_source(later, made)),
    )
    return PlanChange(
        plan=plan,
        effective_on=None if at_once else _end_of_interval(work, offer.subscription),
        invoice=invoice,
    )


def change_plan(work: Work, customer: Customer, external_id: str, plan_code: str) -> Subscription:
    """Change the plan as `subscriptions.create` does. Raises `NotFound` for a plan that the customer may not change to,
    as once the change is made.
    """
    offer = offer_of(work, customer, external_id)
    plan = _chosen(offer, plan_code)
    return create(work, _request(work, customer, offer.subscription, plan))


def _chosen(offer: Offer, plan_code: str) -> Plan:
    plan = next((plan for plan in offer.plans if plan.code == plan_code), None)
    if plan is None:
        raise NotFound("plan", plan_code)
    return plan


def _request(reader: Reader, customer: Customer, subscription: Subscription, plan: Plan) -> SubscriptionInput:
    """The change, with what the seller has agreed on for the subscription and a request would reset."""
    method = {"payment_method_type": subscription.payment_method_type}
    if subscription.payment_method_id is not None:
        method["payment_method_id"] = subscription.payment_method_id
    return SubscriptionInput(
        external_customer_id=customer.external_id,
        external_id=subscription.external_id,
        plan_code=plan.code,
        progressive_billing_disabled=subscription.progressive_billing_disabled,
        payment_method=method if names_method(reader, method, customer.id) else ABSENT,
    )


def _end_of_interval(reader: Reader, subscription: Subscription, following: Subscription | None = None) -> date:
    phase_from = None if following is None else following.phase_from
    return downgrade_plan_date(contract_of(reader, subscription).cycle(), reader.now, phase_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToPay:
    """A customer's payment methods, newest first; `can_add` says whether its provider has pages to add one."""

    methods: Sequence[PaymentMethod]
    can_add: bool


def way_to_pay(reader: Reader, customer: Customer) -> WayToPay:
    """How the customer's invoices are paid."""
    connection = payment_connection_of(reader, customer)
    can_add = connection is not None and connection.traits.sets_up and needs_set_up(customer)
    return WayToPay(methods=methods_of(reader, customer.id), can_add=can_add)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """What credits of a wallet cost. `problem` is the code of the reason for which they cannot be bought, if any."""

    wallet: Wallet
    credits: Decimal
    cents: int
    problem: str | None = None


def purchase_of(reader: Reader, customer: Customer, wallet_id: str, credits: str) -> Purchase:
    """The price of credits as typed. Raises `NotFound` for a wallet that is not an active one of the customer's."""
    wallet = _wallet(reader, customer, wallet_id)
    wanted = credit_amount(credits)
    if wanted is None or wanted <= ZERO:
        return Purchase(wallet=wallet, credits=ZERO, cents=0, problem="invalid_amount")
    cents, whole = whole_cent_credits(wanted, wallet.rate_amount, wallet.currency)
    problem = "amount_rounds_to_zero" if cents == 0 else limit_code(wallet, wanted)
    return Purchase(wallet=wallet, credits=whole, cents=cents, problem=problem)


def buy_credits(work: Work, customer: Customer, wallet_id: str, credits: str, *, order_key: str) -> str:
    """Buy credits of a wallet, once for an order key, with their invoice. Returns the id of the transaction.

    Where the customer can pay on a page, the invoice is issued only once it is paid: who closes the page owes nothing.
    Raises `NotFound`, and `Invalid` as `wallet_transactions.create` does and for a key of another order.
    """
    check_key(order_key)
    key, order = f"portal:{customer.id}:{order_key}", fingerprint("POST", wallet_id, credits, b"")
    wallet = _wallet(work, customer, wallet_id)
    done = stored_answer(work, key, order)
    if done is not None:
        return done
    request = WalletTransactionInput(
        wallet_id=wallet.id,
        paid_credits=credits,
        invoice_requires_successful_payment=wallet.invoice_requires_successful_payment or has_payment_pages(customer),
    )
    made = wallet_transactions.create(work, request)
    if not made:
        raise Invalid(paid_credits="invalid_amount")
    store_answer(work, key, order, made[0].id)
    # Its invoice, so that it can be paid now.
    settle_backlog(work, customer.id, needed=False)
    return made[0].id


def purchase_page(work: Work, customer: Customer, transaction_id: str) -> PaymentPage:
    """The provider's page to pay bought credits. Raises `NotFound`, and as `wallet_transactions.payment_url` does."""
    transaction = work.tx.get(WalletTransaction, transaction_id)
    if transaction is None or transaction.customer_id != customer.id:
        raise NotFound("wallet_transaction", transaction_id)
    return wallet_transactions.payment_url(work, transaction.id).page


def _wallet(reader: Reader, customer: Customer, wallet_id: str) -> Wallet:
    wallet = reader.tx.get(Wallet, wallet_id)
    if wallet is None or wallet.customer_id != customer.id or wallet.status != WalletStatus.ACTIVE:
        raise NotFound("wallet", wallet_id)
    return wallet


def levels_of(reader: Reader, customer: Customer, external_id: str) -> Sequence[int]:
    """The amounts of usage, in cents before taxes, at which the customer is told, the lowest first."""
    alert = _own_alert(reader, customer, external_id)
    return [] if alert is None else sorted(int(level.value) for level in alert.thresholds)


def add_level(work: Work, customer: Customer, external_id: str, amount: str) -> None:
    """Tell the customer when the usage of the running period reaches an amount, as typed, in major units.

    Raises `NotFound` for a subscription that is not an active one of the customer's, and `Invalid` for what is no
    amount, is there already, or is one too many.
    """
    subscription = running_subscription(work, customer, external_id)
    cents = typed_cents(amount, plan_of(work, subscription).amount_currency)
    alert = _own_alert(work, customer, external_id)
    levels = (*levels_of(work, customer, external_id), cents)
    thresholds = tuple(AlertThresholdInput(value=str(level)) for level in levels)
    if alert is None:
        kind = AlertType.CURRENT_USAGE_AMOUNT
        request = AlertInput(alert_type=kind, code=OWN_ALERT, name="Customer portal", thresholds=thresholds)
        alerts.create(work, external_id, request, WhichSubscription())
    else:
        alerts.update(work, external_id, OWN_ALERT, AlertUpdate(thresholds=thresholds), WhichSubscription())


def typed_cents(amount: str, currency: str) -> int:
    """The cents of an amount as typed, in major units. Raises `Invalid` unless they are a whole number above 0."""
    number = parse_decimal(amount.strip())
    cents = None if number is None else multiply(number, subunits(currency))
    if cents is None or cents <= ZERO or cents != cents.to_integral_value():
        raise Invalid(amount="invalid_amount")
    return int(cents)


def remove_level(work: Work, customer: Customer, external_id: str, cents: str) -> None:
    """Tell the customer no more of this amount, in cents. Raises `NotFound` if it is no level of the customer's."""
    left = [str(level) for level in levels_of(work, customer, external_id)]
    if cents not in left:
        raise NotFound("alert", cents)
    left.remove(cents)
    if not left:
        alerts.delete(work, external_id, OWN_ALERT, WhichSubscription())
        return
    thresholds = tuple(AlertThresholdInput(value=level) for level in left)
    alerts.update(work, external_id, OWN_ALERT, AlertUpdate(thresholds=thresholds), WhichSubscription())


def _own_alert(reader: Reader, customer: Customer, external_id: str) -> Alert | None:
    own = eq("customer_id", customer.id), eq("external_subscription_id", external_id), eq("code", OWN_ALERT)
    return next((alert for alert in reader.tx.find(Alert, *own) if is_own(alert)), None)
