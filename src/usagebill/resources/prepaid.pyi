"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.fields import (
    AlertFields,
    AlertThresholdFields,
    AppliesToFields,
    CustomSectionChoice,
    MetadataPair,
    Number,
    PaymentMethodChoice,
    RuleFields,
)
from usagebill.records import Alert, Pages, TopUpPage, Wallet, WalletConsumption, WalletTransaction

class Alerts(Resource):
    """Thresholds of usage and balances that send a message when crossed."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        external_id: str,
        *,
        alert_type: Literal[
            "current_usage_amount",
            "billable_metric_current_usage_amount",
            "billable_metric_current_usage_units",
            "lifetime_usage_amount",
            "billable_metric_lifetime_usage_units",
            "wallet_balance_amount",
            "wallet_credits_balance",
            "wallet_ongoing_balance_amount",
            "wallet_credits_ongoing_balance",
        ],
        code: str,
        thresholds: Sequence[AlertThresholdFields | Mapping[str, Any]],
        name: str | None = ...,
        billable_metric_code: str | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Alert:
        """A new alert of a subscription, which is checked at once. Raises `NotFound` or `Invalid`.

        external_id: Your own id of it.
        alert_type: What the alert watches. One of current_usage_amount, billable_metric_current_usage_amount, billable_metric_current_usage_units, lifetime_usage_amount, billable_metric_lifetime_usage_units, wallet_balance_amount, wallet_credits_balance, wallet_ongoing_balance_amount, wallet_credits_ongoing_balance. Required.
        code: The code that identifies it, unique among its kind. Required.
        thresholds: The values at which it triggers. Required.
        name: A readable name.
        billable_metric_code: The billable metric, by code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def create_all(
        self,
        external_id: str,
        *,
        alerts: Sequence[AlertFields | Mapping[str, Any]],
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> list[Alert]:
        """New alerts of a subscription, all or none.

        Raises `NotFound`, `BadRequest` for an empty list, and `Invalid` with details by the position of each refused alert.

        external_id: Your own id of it.
        alerts: The alerts; all are created, or none. Required.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def update(
        self,
        external_id: str,
        current_code: str,
        /,
        *,
        code: str | None = ...,
        name: str | None = ...,
        billable_metric_code: str | None = ...,
        thresholds: Sequence[AlertThresholdFields | Mapping[str, Any]] | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Alert:
        """Change an alert, which is checked at once; its type stays. Raises `NotFound` or `Invalid`.

        It keeps its last value, unless its metric is replaced.

        external_id: Your own id of it.
        current_code: Its code.
        code: The code that identifies it, unique among its kind.
        name: A readable name.
        billable_metric_code: The billable metric, by code.
        thresholds: The values at which it triggers.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def get(
        self,
        external_id: str,
        code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Alert:
        """The alert of a subscription with this code. Raises `NotFound`.

        external_id: Your own id of it.
        code: Its code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def delete(
        self,
        external_id: str,
        code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Alert:
        """Remove an alert; its code and its type are free again. Raises `NotFound`.

        external_id: Your own id of it.
        code: Its code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def delete_all(
        self,
        external_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> None:
        """Remove all alerts of a subscription, if it has any. Raises `NotFound` without the subscription.

        external_id: Your own id of it.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def create_of_wallet(
        self,
        external_customer_id: str,
        wallet_code: str,
        *,
        alert_type: Literal[
            "current_usage_amount",
            "billable_metric_current_usage_amount",
            "billable_metric_current_usage_units",
            "lifetime_usage_amount",
            "billable_metric_lifetime_usage_units",
            "wallet_balance_amount",
            "wallet_credits_balance",
            "wallet_ongoing_balance_amount",
            "wallet_credits_ongoing_balance",
        ],
        code: str,
        thresholds: Sequence[AlertThresholdFields | Mapping[str, Any]],
        name: str | None = ...,
        billable_metric_code: str | None = ...,
    ) -> Alert:
        """A new alert of a wallet, starting from its current balance. Raises `NotFound` or `Invalid`.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        alert_type: What the alert watches. One of current_usage_amount, billable_metric_current_usage_amount, billable_metric_current_usage_units, lifetime_usage_amount, billable_metric_lifetime_usage_units, wallet_balance_amount, wallet_credits_balance, wallet_ongoing_balance_amount, wallet_credits_ongoing_balance. Required.
        code: The code that identifies it, unique among its kind. Required.
        thresholds: The values at which it triggers. Required.
        name: A readable name.
        billable_metric_code: The billable metric, by code.
        """

    def create_all_of_wallet(
        self, external_customer_id: str, wallet_code: str, *, alerts: Sequence[AlertFields | Mapping[str, Any]]
    ) -> list[Alert]:
        """New alerts of a wallet, all or none; raises what `create_all` does.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        alerts: The alerts; all are created, or none. Required.
        """

    def update_of_wallet(
        self,
        external_customer_id: str,
        wallet_code: str,
        current_code: str,
        /,
        *,
        code: str | None = ...,
        name: str | None = ...,
        billable_metric_code: str | None = ...,
        thresholds: Sequence[AlertThresholdFields | Mapping[str, Any]] | None = ...,
    ) -> Alert:
        """Change an alert of a wallet; its type and last value stay. Raises `NotFound` or `Invalid`.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        current_code: Its code.
        code: The code that identifies it, unique among its kind.
        name: A readable name.
        billable_metric_code: The billable metric, by code.
        thresholds: The values at which it triggers.
        """

    def get_of_wallet(self, external_customer_id: str, wallet_code: str, code: str) -> Alert:
        """The alert of a wallet with this code. Raises `NotFound`.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        code: Its code.
        """

    def list_of_wallet(
        self, external_customer_id: str, wallet_code: str, *, page: int = ..., per_page: int = ...
    ) -> Pages[Alert]:
        """The alerts of a customer's wallet, newest first. Raises `NotFound`.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def delete_of_wallet(self, external_customer_id: str, wallet_code: str, code: str) -> Alert:
        """Remove an alert of a wallet. Raises `NotFound`.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        code: Its code.
        """

    def delete_all_of_wallet(self, external_customer_id: str, wallet_code: str) -> None:
        """Remove all alerts of a wallet, if it has any. Raises `NotFound` without the wallet.

        external_customer_id: The customer, by your own id.
        wallet_code: The wallet, by code.
        """

    def list(
        self,
        external_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Alert]:
        """The alerts of a subscription, newest first. Raises `NotFound`.

        external_id: Your own id of it.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class WalletTransactions(Resource):
    """Credits added to wallets and taken from them."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        wallet_id: str,
        paid_credits: Number | None = ...,
        granted_credits: Number | None = ...,
        voided_credits: Number | None = ...,
        voided_transaction_id: str | None = ...,
        invoice_requires_successful_payment: bool | None = ...,
        ignore_paid_top_up_limits: bool | None = ...,
        name: str | None = ...,
        purchase_order_number: str | None = ...,
        priority: int | None = ...,
        metadata: Sequence[MetadataPair | Mapping[str, Any]] | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
    ) -> list[WalletTransaction]:
        """Buy, grant and void credits of a wallet, all or none. Returns the transactions, none for zero credits.

        Raises `Invalid`.

        wallet_id: The wallet, by id. Required.
        paid_credits: Credits to buy; an invoice charges their price. In credits.
        granted_credits: Credits to grant for free. In credits.
        voided_credits: Credits to void. In credits.
        voided_transaction_id: The inbound transaction to void credits of, by id.
        invoice_requires_successful_payment: Whether the invoice is issued only once it is paid. Default: false.
        ignore_paid_top_up_limits: Whether these top-ups may exceed the wallet's limits. Default: false.
        name: A readable name.
        purchase_order_number: The customer's order number, shown on invoices.
        priority: Wallets and credits with lower numbers are used first, 1 to 50. Default: 50.
        metadata: Your own values by key, stored and returned with it.
        payment_method: How its invoices are paid. Default: the customer's method.
        invoice_custom_section: The custom sections at the end of its invoices.
        """

    def get(self, wallet_transaction_id: str) -> WalletTransaction:
        """The transaction with this id. Raises `NotFound`.

        wallet_transaction_id: The wallet transaction, by id.
        """

    def list_of_wallet(
        self,
        wallet_id: str,
        *,
        status: Literal["pending", "settled", "failed"] | None = ...,
        transaction_type: Literal["inbound", "outbound"] | None = ...,
        transaction_status: Literal["purchased", "granted", "voided", "invoiced"] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[WalletTransaction]:
        """The transactions of a wallet, latest first. Raises `NotFound`.

        wallet_id: The wallet, by id.
        status: Only those with this status. One of pending, settled, failed.
        transaction_type: Only inbound transactions, or only outbound ones. One of inbound, outbound.
        transaction_status: Only transactions of this kind. One of purchased, granted, voided, invoiced.
        metadata: Your own values by key, stored and returned with it.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def consumptions(
        self, wallet_transaction_id: str, *, page: int = ..., per_page: int = ...
    ) -> Pages[WalletConsumption]:
        """The draws on an inbound transaction, latest first. Raises `NotFound`, and `Invalid` for an outbound one.

        wallet_transaction_id: The wallet transaction, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def fundings(self, wallet_transaction_id: str, *, page: int = ..., per_page: int = ...) -> Pages[WalletConsumption]:
        """The draws of an outbound transaction, latest first. Raises `NotFound`, and `Invalid` for an inbound one.

        wallet_transaction_id: The wallet transaction, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def payment_url(self, wallet_transaction_id: str) -> TopUpPage:
        """The page on which the customer pays for purchased credits at its provider.

        Raises `NotFound`, `Invalid` if there is no such page, and `ThirdPartyError` if the provider refuses.

        wallet_transaction_id: The wallet transaction, by id.
        """

class Wallets(Resource):
    """Prepaid credits of customers."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        external_customer_id: str,
        rate_amount: Number,
        currency: str | None = ...,
        name: str | None = ...,
        code: str | None = ...,
        priority: int | None = ...,
        paid_credits: Number | None = ...,
        granted_credits: Number | None = ...,
        expiration_at: date | str | None = ...,
        invoice_requires_successful_payment: bool | None = ...,
        paid_top_up_min_amount_cents: int | None = ...,
        paid_top_up_max_amount_cents: int | None = ...,
        ignore_paid_top_up_limits_on_creation: bool | None = ...,
        applies_to: AppliesToFields | Mapping[str, Any] | None = ...,
        transaction_name: str | None = ...,
        transaction_metadata: Sequence[MetadataPair | Mapping[str, Any]] | None = ...,
        transaction_priority: int | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        purchase_order_number: str | None = ...,
        billing_entity_code: str | None = ...,
        billing_entity_id: str | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
        recurring_transaction_rules: Sequence[RuleFields | Mapping[str, Any]] | None = ...,
    ) -> Wallet:
        """A new wallet of the named customer; its initial top-up follows right after. Raises `Invalid` and `NotFound`.

        external_customer_id: The customer, by your own id. Required.
        rate_amount: The value of one credit. In major units. Required.
        currency: The currency, ISO 4217.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        priority: Wallets and credits with lower numbers are used first, 1 to 50. Default: 50.
        paid_credits: Credits to buy; an invoice charges their price. In credits.
        granted_credits: Credits to grant for free. In credits.
        expiration_at: When its credits expire.
        invoice_requires_successful_payment: Whether the invoice is issued only once it is paid. Default: false.
        paid_top_up_min_amount_cents: The minimum price of a top-up. In cents.
        paid_top_up_max_amount_cents: The maximum price of a top-up. In cents.
        ignore_paid_top_up_limits_on_creation: Whether the first top-up may exceed the limits. Default: false.
        applies_to: The plans, metrics or fees it is limited to.
        transaction_name: The name of the credits on the invoice.
        transaction_metadata: Your own values on the transaction, each with `key` and `value`.
        transaction_priority: The priority of the first credits, 1 to 50. Default: 50.
        metadata: Your own values by key, stored and returned with it.
        purchase_order_number: The customer's order number, shown on invoices.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        billing_entity_id: The billing entity, by id; alternatively its code.
        payment_method: How its invoices are paid. Default: the customer's method.
        invoice_custom_section: The custom sections at the end of its invoices.
        recurring_transaction_rules: Rules for automatic top-ups.
        """

    def create_of_customer(
        self,
        external_id: str,
        *,
        rate_amount: Number,
        external_customer_id: str | None = ...,
        currency: str | None = ...,
        name: str | None = ...,
        code: str | None = ...,
        priority: int | None = ...,
        paid_credits: Number | None = ...,
        granted_credits: Number | None = ...,
        expiration_at: date | str | None = ...,
        invoice_requires_successful_payment: bool | None = ...,
        paid_top_up_min_amount_cents: int | None = ...,
        paid_top_up_max_amount_cents: int | None = ...,
        ignore_paid_top_up_limits_on_creation: bool | None = ...,
        applies_to: AppliesToFields | Mapping[str, Any] | None = ...,
        transaction_name: str | None = ...,
        transaction_metadata: Sequence[MetadataPair | Mapping[str, Any]] | None = ...,
        transaction_priority: int | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        purchase_order_number: str | None = ...,
        billing_entity_code: str | None = ...,
        billing_entity_id: str | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
        recurring_transaction_rules: Sequence[RuleFields | Mapping[str, Any]] | None = ...,
    ) -> Wallet:
        """A new wallet of this customer. Raises `NotFound` and `Invalid`.

        external_id: Your own id of it.
        rate_amount: The value of one credit. In major units. Required.
        external_customer_id: The customer, by your own id.
        currency: The currency, ISO 4217.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        priority: Wallets and credits with lower numbers are used first, 1 to 50. Default: 50.
        paid_credits: Credits to buy; an invoice charges their price. In credits.
        granted_credits: Credits to grant for free. In credits.
        expiration_at: When its credits expire.
        invoice_requires_successful_payment: Whether the invoice is issued only once it is paid. Default: false.
        paid_top_up_min_amount_cents: The minimum price of a top-up. In cents.
        paid_top_up_max_amount_cents: The maximum price of a top-up. In cents.
        ignore_paid_top_up_limits_on_creation: Whether the first top-up may exceed the limits. Default: false.
        applies_to: The plans, metrics or fees it is limited to.
        transaction_name: The name of the credits on the invoice.
        transaction_metadata: Your own values on the transaction, each with `key` and `value`.
        transaction_priority: The priority of the first credits, 1 to 50. Default: 50.
        metadata: Your own values by key, stored and returned with it.
        purchase_order_number: The customer's order number, shown on invoices.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        billing_entity_id: The billing entity, by id; alternatively its code.
        payment_method: How its invoices are paid. Default: the customer's method.
        invoice_custom_section: The custom sections at the end of its invoices.
        recurring_transaction_rules: Rules for automatic top-ups.
        """

    def update(
        self,
        wallet_id: str,
        *,
        name: str | None = ...,
        code: str | None = ...,
        priority: int | None = ...,
        expiration_at: date | str | None = ...,
        invoice_requires_successful_payment: bool | None = ...,
        paid_top_up_min_amount_cents: int | None = ...,
        paid_top_up_max_amount_cents: int | None = ...,
        applies_to: AppliesToFields | Mapping[str, Any] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        purchase_order_number: str | None = ...,
        billing_entity_code: str | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
        recurring_transaction_rules: Sequence[RuleFields | Mapping[str, Any]] | None = ...,
    ) -> Wallet:
        """Change the sent fields of an active wallet, never its currency, rate or credits.

        Raises `NotFound` and `Invalid`.

        wallet_id: The wallet, by id.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        priority: Wallets and credits with lower numbers are used first, 1 to 50. Default: 50.
        expiration_at: When its credits expire.
        invoice_requires_successful_payment: Whether the invoice is issued only once it is paid. Default: false.
        paid_top_up_min_amount_cents: The minimum price of a top-up. In cents.
        paid_top_up_max_amount_cents: The maximum price of a top-up. In cents.
        applies_to: The plans, metrics or fees it is limited to.
        metadata: Your own values by key, stored and returned with it.
        purchase_order_number: The customer's order number, shown on invoices.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        payment_method: How its invoices are paid. Default: the customer's method.
        invoice_custom_section: The custom sections at the end of its invoices.
        recurring_transaction_rules: Rules for automatic top-ups.
        """

    def update_of_customer(
        self,
        external_id: str,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        priority: int | None = ...,
        expiration_at: date | str | None = ...,
        invoice_requires_successful_payment: bool | None = ...,
        paid_top_up_min_amount_cents: int | None = ...,
        paid_top_up_max_amount_cents: int | None = ...,
        applies_to: AppliesToFields | Mapping[str, Any] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        purchase_order_number: str | None = ...,
        billing_entity_code: str | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
        recurring_transaction_rules: Sequence[RuleFields | Mapping[str, Any]] | None = ...,
    ) -> Wallet:
        """Change the customer's wallet with this code. Raises `NotFound` and `Invalid`.

        external_id: Your own id of it.
        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        priority: Wallets and credits with lower numbers are used first, 1 to 50. Default: 50.
        expiration_at: When its credits expire.
        invoice_requires_successful_payment: Whether the invoice is issued only once it is paid. Default: false.
        paid_top_up_min_amount_cents: The minimum price of a top-up. In cents.
        paid_top_up_max_amount_cents: The maximum price of a top-up. In cents.
        applies_to: The plans, metrics or fees it is limited to.
        metadata: Your own values by key, stored and returned with it.
        purchase_order_number: The customer's order number, shown on invoices.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        payment_method: How its invoices are paid. Default: the customer's method.
        invoice_custom_section: The custom sections at the end of its invoices.
        recurring_transaction_rules: Rules for automatic top-ups.
        """

    def get(self, wallet_id: str, *, current_ongoing_balance: bool | None = ...) -> Wallet:
        """The wallet with this id, active or terminated. Raises `NotFound`.

        wallet_id: The wallet, by id.
        current_ongoing_balance: Whether to compute the ongoing balance now. Default: false.
        """

    def get_of_customer(self, external_id: str, code: str, *, current_ongoing_balance: bool | None = ...) -> Wallet:
        """The customer's wallet with this code: the active one, else the one that ended last. Raises `NotFound`.

        external_id: Your own id of it.
        code: Its code.
        current_ongoing_balance: Whether to compute the ongoing balance now. Default: false.
        """

    def list_of_customer(
        self,
        external_id: str,
        *,
        external_customer_id: str | None = ...,
        currency: str | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Wallet]:
        """The wallets of one customer. Raises `NotFound`.

        external_id: Your own id of it.
        external_customer_id: The customer, by your own id.
        currency: Only those of this currency, ISO 4217.
        billing_entity_codes: Only those of one of these billing entities, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def terminate(self, wallet_id: str) -> Wallet:
        """End a wallet and its rules. Its credits stay, but are not used any more; an ended one is left unchanged.

        Raises `NotFound`.

        wallet_id: The wallet, by id.
        """

    def terminate_of_customer(self, external_id: str, code: str) -> Wallet:
        """End the customer's wallet with this code. Raises `NotFound`.

        external_id: Your own id of it.
        code: Its code.
        """

    def replace_metadata(
        self, wallet_id: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """Replace the metadata of the wallet; if absent, nothing changes. Raises `NotFound` and `Invalid`.

        wallet_id: The wallet, by id.
        metadata: Your own values by key, stored and returned with it.
        """

    def replace_metadata_of_customer(
        self, external_id: str, code: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """The same for the customer's wallet with this code.

        external_id: Your own id of it.
        code: Its code.
        metadata: Your own values by key, stored and returned with it.
        """

    def merge_metadata(
        self, wallet_id: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """Set the keys that are sent, and keep the others. Raises `NotFound` and `Invalid`.

        wallet_id: The wallet, by id.
        metadata: Your own values by key, stored and returned with it.
        """

    def merge_metadata_of_customer(
        self, external_id: str, code: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """The same for the customer's wallet with this code.

        external_id: Your own id of it.
        code: Its code.
        metadata: Your own values by key, stored and returned with it.
        """

    def delete_metadata(self, wallet_id: str) -> None:
        """Remove the wallet's metadata, if there is any. Raises `NotFound`.

        wallet_id: The wallet, by id.
        """

    def delete_metadata_of_customer(self, external_id: str, code: str) -> None:
        """The same for the customer's wallet with this code.

        external_id: Your own id of it.
        code: Its code.
        """

    def delete_metadata_key(self, wallet_id: str, key: str) -> Mapping[str, str | None]:
        """Remove one key, if present. Raises `NotFound` for the wallet, or if it has no metadata.

        wallet_id: The wallet, by id.
        key: The key.
        """

    def delete_metadata_key_of_customer(self, external_id: str, code: str, key: str) -> Mapping[str, str | None]:
        """The same for the customer's wallet with this code.

        external_id: Your own id of it.
        code: Its code.
        key: The key.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        currency: str | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Wallet]:
        """Wallets, latest first, terminated ones too. Raises `NotFound` for an unknown customer or billing entity.

        external_customer_id: The customer, by your own id.
        currency: Only those of this currency, ISO 4217.
        billing_entity_codes: Only those of one of these billing entities, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
