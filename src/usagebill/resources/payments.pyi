"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.dunning import DunningCampaign
from usagebill.fields import DunningThresholdFields, PaymentMethodChoice
from usagebill.records import Pages, Payment, PaymentMethod, PaymentReceipt, PaymentRequest

class DunningCampaigns(Resource):
    """Repeated requests to customers for overdue balances."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        thresholds: Sequence[DunningThresholdFields | Mapping[str, Any]],
        description: str | None = ...,
        bcc_emails: Sequence[str] | None = ...,
        days_between_attempts: int | None = ...,
        max_attempts: int | None = ...,
    ) -> DunningCampaign:
        """A new campaign, inactive until it is applied to a billing entity or a customer. Raises `Invalid`.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        thresholds: The values at which it triggers. Required.
        description: A text for people; it has no effect.
        bcc_emails: The recipients of blind copies.
        days_between_attempts: The time between attempts. In days.
        max_attempts: The maximum number of attempts. In attempts.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        description: str | None = ...,
        bcc_emails: Sequence[str] | None = ...,
        days_between_attempts: int | None = ...,
        max_attempts: int | None = ...,
        thresholds: Sequence[DunningThresholdFields | Mapping[str, Any]] | None = ...,
    ) -> DunningCampaign:
        """Change the sent fields of a campaign. Raises `NotFound` and `Invalid`.

        If a threshold is changed or removed, the attempts of customers who no longer reach any are reset.

        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        description: A text for people; it has no effect.
        bcc_emails: The recipients of blind copies.
        days_between_attempts: The time between attempts. In days.
        max_attempts: The maximum number of attempts. In attempts.
        thresholds: The values at which it triggers.
        """

    def get(self, code: str) -> DunningCampaign:
        """The campaign with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> DunningCampaign:
        """Delete a campaign: it applies to nobody any more, and the attempts of its customers are reset.

        code: Its code.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[DunningCampaign]:
        """Campaigns, newest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class PaymentMethods(Resource):
    """Customers' payment methods, from their payment providers."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def list_of_customer(self, external_id: str, *, page: int = ..., per_page: int = ...) -> Pages[PaymentMethod]:
        """The customer's payment methods, newest first. Raises `NotFound`.

        external_id: Your own id of it.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def set_as_default(self, external_id: str, payment_method_id: str) -> PaymentMethod:
        """Make this method the customer's default. Raises `NotFound`, and `NotAllowed` if it can no longer be charged.

        external_id: Your own id of it.
        payment_method_id: The payment method, by id.
        """

    def delete(self, external_id: str, payment_method_id: str) -> PaymentMethod:
        """Delete this method; no other becomes the default in its place. Raises `NotFound`.

        external_id: Your own id of it.
        payment_method_id: The payment method, by id.
        """

class PaymentReceipts(Resource):
    """Receipts of payments."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, payment_receipt_id: str) -> PaymentReceipt:
        """The payment receipt with this id. Raises `NotFound`.

        payment_receipt_id: The payment receipt, by id.
        """

    def download(self, payment_receipt_id: str) -> PaymentReceipt | None:
        """The receipt with the URL of its PDF; None while that is being generated. Raises `NotFound`.

        payment_receipt_id: The payment receipt, by id.
        """

    def pdf(self, payment_receipt_id: str) -> bytes:
        """The PDF of a payment receipt, generated now if it does not exist. Raises `NotFound`.

        payment_receipt_id: The payment receipt, by id.
        """

    def resend_email(
        self,
        payment_receipt_id: str,
        *,
        to: Sequence[str] | None = ...,
        cc: Sequence[str] | None = ...,
        bcc: Sequence[str] | None = ...,
    ) -> None:
        """Send a payment receipt by e-mail, whether or not it was sent before: to its customer, or to others.

        Raises `NotFound`, and `NotAllowed` unless its billing entity sends receipts by e-mail and there is a mail server;
        `Invalid` for missing and bad addresses.

        payment_receipt_id: The payment receipt, by id.
        to: The recipients. Default: the customer's address.
        cc: The recipients of copies.
        bcc: The recipients of blind copies.
        """

    def list(self, *, invoice_id: str | None = ..., page: int = ..., per_page: int = ...) -> Pages[PaymentReceipt]:
        """Receipts, newest first, filtered by invoice. Raises `Invalid` for a malformed id.

        invoice_id: The invoice, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class PaymentRequests(Resource):
    """Requests to pay overdue invoices."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        external_customer_id: str,
        svc_invoice_ids: Sequence[str],
        email: str | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
    ) -> PaymentRequest:
        """Ask a customer to pay overdue invoices. Ids that are not of the customer's invoices are ignored.

        Raises `NotFound` for an unknown customer and if no invoice remains, `NotAllowed` for invoices that cannot be
        requested (together), and `Invalid` for a malformed address.

        external_customer_id: The customer, by your own id. Required.
        svc_invoice_ids: The overdue invoices to request payment for, by id. Required.
        email: The recipient of the request; several addresses are separated by commas.
        payment_method: How its invoices are paid. Default: the customer's method.
        """

    def get(self, payment_request_id: str) -> PaymentRequest:
        """The payment request with this id. Raises `NotFound`.

        payment_request_id: The payment request, by id.
        """

    def list_of_customer(
        self,
        external_id: str,
        *,
        external_customer_id: str | None = ...,
        payment_status: Literal["pending", "succeeded", "failed"] | None = ...,
        currency: str | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[PaymentRequest]:
        """The requests of one customer. Raises `NotFound` and `Invalid`.

        external_id: Your own id of it.
        external_customer_id: The customer, by your own id.
        payment_status: Only those with this status. One of pending, succeeded, failed.
        currency: The currency, ISO 4217.
        billing_entity_codes: Only those of one of these billing entities, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        payment_status: Literal["pending", "succeeded", "failed"] | None = ...,
        currency: str | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[PaymentRequest]:
        """Requests, newest first. Raises `Invalid`, and `NotFound` for an unknown billing entity.

        external_customer_id: The customer, by your own id.
        payment_status: Only those with this status. One of pending, succeeded, failed.
        currency: The currency, ISO 4217.
        billing_entity_codes: Only those of one of these billing entities, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Payments(Resource):
    """Payments of invoices."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self, *, invoice_id: str, amount_cents: int, reference: str, paid_at: date | str | None = ...
    ) -> Payment:
        """Record a full or partial payment of an invoice. Raises `Invalid`, `NotFound` and `Forbidden`.

        invoice_id: The invoice, by id. Required.
        amount_cents: The amount paid. In cents. Required.
        reference: Your reference of the payment. Required.
        paid_at: When it was paid. Default: now.
        """

    def get(self, payment_id: str) -> Payment:
        """The payment with this id. Raises `NotFound`, also while its invoice is hidden.

        payment_id: The payment, by id.
        """

    def list_of_customer(
        self,
        external_id: str,
        *,
        external_customer_id: str | None = ...,
        invoice_id: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Payment]:
        """The payments of one customer. Raises `NotFound`.

        external_id: Your own id of it.
        external_customer_id: The customer, by your own id.
        invoice_id: The invoice, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        invoice_id: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Payment]:
        """Payments, newest first, filtered by customer or invoice. Raises `Invalid` for a malformed id.

        external_customer_id: The customer, by your own id.
        invoice_id: The invoice, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
