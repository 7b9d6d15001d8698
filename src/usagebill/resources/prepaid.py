"""Wallets, their transactions, alerts, and what bounds usage before it happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from decimal import Decimal
from typing import ClassVar

from usagebill.core.alerts import Alert
from usagebill.core.checks import Check
from usagebill.core.errors import NotAllowed
from usagebill.core.holds import DEFAULT_SECONDS, Hold
from usagebill.core.spend_limits import SpendLimit, Standing
from usagebill.core.wallet_transactions import WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.operations import checks, holds, spend_limits, wallet_transactions, wallets
from usagebill.operations.alerts import definitions as alerts
from usagebill.resources.bindings import Message, Messages, Resource, Views, command, query
from usagebill.resources.held_usage import HeldUsage
from usagebill.resources.result_views import top_up_page_view
from usagebill.views.alerts import TriggeredAlertView, alert_view
from usagebill.views.holds import HoldView, hold_view
from usagebill.views.payment_providers import TopUpFailureView
from usagebill.views.spend_limits import ReachedLimitView, StandingView, check_view, spend_limit_view, standing_view
from usagebill.views.wallet_transactions import WalletTransactionMessage, consumption_view, wallet_transaction_details
from usagebill.views.wallets import WalletMessage, wallet_view


class Alerts(Resource):
    """Thresholds of usage and balances that send a message when crossed."""

    permission = "alert"

    views: ClassVar[Views] = {Alert: alert_view}
    messages: ClassVar[Messages] = {
        "alert.triggered": Message(
            "The value that an alert watches crossed one of its thresholds.", TriggeredAlertView
        ),
    }

    create = command(alerts.create)
    create_all = command(alerts.create_all)
    update = command(alerts.update)
    get = query(alerts.get)
    list = query(alerts.list_all)
    delete = command(alerts.delete)
    delete_all = command(alerts.delete_all)
    create_of_wallet = command(alerts.create_of_wallet)
    create_all_of_wallet = command(alerts.create_all_of_wallet)
    update_of_wallet = command(alerts.update_of_wallet)
    get_of_wallet = query(alerts.get_of_wallet)
    list_of_wallet = query(alerts.list_of_wallet)
    delete_of_wallet = command(alerts.delete_of_wallet)
    delete_all_of_wallet = command(alerts.delete_all_of_wallet)


def _standing_view(_: object, standing: Standing) -> StandingView:
    return standing_view(standing)


class SpendLimits(Resource):
    """The most that customers and subscriptions may use, and checks against it before usage happens."""

    permission = "alert"

    views: ClassVar[Views] = {SpendLimit: spend_limit_view, Check: check_view, Standing: _standing_view}
    messages: ClassVar[Messages] = {
        "limit.reached": Message("All of a spend limit is used up; told once until it starts over.", ReachedLimitView),
        "limit.reset": Message("A spend limit that was reached has started over.", ReachedLimitView),
    }

    create_of_customer = command(spend_limits.create_of_customer)
    create_of_subscription = command(spend_limits.create_of_subscription)
    create_of_plan = command(spend_limits.create_of_plan)
    update_of_customer = command(spend_limits.update_of_customer)
    update_of_subscription = command(spend_limits.update_of_subscription)
    update_of_plan = command(spend_limits.update_of_plan)
    get_of_customer = query(spend_limits.get_of_customer)
    get_of_subscription = query(spend_limits.get_of_subscription)
    get_of_plan = query(spend_limits.get_of_plan)
    list_of_customer = query(spend_limits.list_of_customer)
    list_of_subscription = query(spend_limits.list_of_subscription)
    list_of_plan = query(spend_limits.list_of_plan)
    delete_of_customer = command(spend_limits.delete_of_customer)
    delete_of_subscription = command(spend_limits.delete_of_subscription)
    delete_of_plan = command(spend_limits.delete_of_plan)
    check = command(checks.check, permission="event")
    standings = command(checks.standings_of, permission="event")


class Holds(Resource):
    """Usage that may come, reserved before it happens."""

    permission = "event"

    views: ClassVar[Views] = {Hold: hold_view}
    messages: ClassVar[Messages] = {
        "hold.expired": Message("A hold was neither captured nor released in time.", HoldView),
    }

    create = command(holds.create)
    get = query(holds.get)
    list = query(holds.list_all)
    capture = command(holds.capture)
    release = command(holds.release)

    def hold(
        self,
        external_subscription_id: str,
        code: str | None = None,
        properties: Mapping[str, object] | None = None,
        *,
        units: Decimal | int | str | None = None,
        amount_cents: int | None = None,
        seconds: int = DEFAULT_SECONDS,
    ) -> AbstractContextManager[HeldUsage]:
        """Reserve usage for the time of a `with` block: `capture` it inside. Otherwise, as after an exception, it is
        released. Raises `PaymentRequired` if it is refused.
        """
        wanted = {"code": code, "properties": properties, "units": units, "amount_cents": amount_cents}
        sent: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
        return self._held({**sent, "external_subscription_id": external_subscription_id, "expires_in": seconds})

    @contextmanager
    def _held(self, sent: Mapping[str, object]) -> Iterator[HeldUsage]:
        made = self.create(**sent)
        usage = HeldUsage(self.capture, made)
        try:
            yield usage
        finally:
            if not usage.is_captured:
                # It may have expired, or been captured by another program.
                with suppress(NotAllowed):
                    self.release(made.id)


class WalletTransactions(Resource):
    """Credits added to wallets and taken from them."""

    permission = "wallet_transaction"

    views: ClassVar[Views] = {
        WalletTransaction: wallet_transaction_details,
        WalletConsumption: consumption_view,
        wallet_transactions.TopUpPage: top_up_page_view,
    }
    messages: ClassVar[Messages] = {
        "wallet_transaction.payment_failure": Message("Bought credits could not be collected.", TopUpFailureView),
        "wallet_transaction.created": Message(
            "Credits were bought, granted, voided or used.", WalletTransactionMessage
        ),
        "wallet_transaction.updated": Message(
            "Bought credits were paid, or their payment failed.", WalletTransactionMessage
        ),
    }

    create = command(wallet_transactions.create)
    get = query(wallet_transactions.get)
    list_of_wallet = query(wallet_transactions.list_of_wallet)
    consumptions = query(wallet_transactions.consumptions)
    fundings = query(wallet_transactions.fundings)
    payment_url = command(wallet_transactions.payment_url)


class Wallets(Resource):
    """Prepaid credits of customers."""

    permission = "wallet"

    views: ClassVar[Views] = {Wallet: wallet_view}
    messages: ClassVar[Messages] = {
        "wallet.created": Message("A wallet was created.", WalletMessage),
        "wallet.updated": Message("A wallet or its balance changed.", WalletMessage),
        "wallet.depleted_ongoing_balance": Message(
            "Current usage has reached a wallet's balance; sent again only after the balance was above it.",
            WalletMessage,
        ),
        "wallet.terminated": Message("A wallet ended, or expired.", WalletMessage),
    }

    create = command(wallets.create)
    create_of_customer = command(wallets.create_of_customer)
    update = command(wallets.update)
    update_of_customer = command(wallets.update_of_customer)
    get = query(wallets.show)
    get_of_customer = query(wallets.show_of_customer)
    list = query(wallets.list_all)
    list_of_customer = query(wallets.list_of_customer)
    terminate = command(wallets.terminate)
    terminate_of_customer = command(wallets.terminate_of_customer)
    replace_metadata = command(wallets.replace_metadata)
    replace_metadata_of_customer = command(wallets.replace_metadata_of_customer)
    merge_metadata = command(wallets.merge_metadata)
    merge_metadata_of_customer = command(wallets.merge_metadata_of_customer)
    delete_metadata = command(wallets.delete_metadata)
    delete_metadata_of_customer = command(wallets.delete_metadata_of_customer)
    delete_metadata_key = command(wallets.delete_metadata_key)
    delete_metadata_key_of_customer = command(wallets.delete_metadata_key_of_customer)
