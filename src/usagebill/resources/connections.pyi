"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.webhooks import WebhookEndpoint, WebhookMessage
from usagebill.records import (
    Invoice,
    Pages,
    PaymentConnection,
    ProviderNotice,
    Resent,
    SyncConnection,
    SyncedDocument,
    TaxConnection,
)

class PaymentConnections(Resource):
    """Payment providers that collect the invoices of the customers linked to them."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        kind: str,
        code: str,
        name: str | None = ...,
        url: str | None = ...,
        live: bool | None = ...,
        success_redirect_url: str | None = ...,
        supports_3ds: bool | None = ...,
        require_terms_of_service_consent: bool | None = ...,
        live_prefix: str | None = ...,
        merchant_account: str | None = ...,
        flow_id: str | None = ...,
        secret_key: str | None = ...,
        webhook_secret: str | None = ...,
        access_token: str | None = ...,
        api_key: str | None = ...,
        hmac_key: str | None = ...,
        client_id: str | None = ...,
        client_secret: str | None = ...,
        signature_key: str | None = ...,
    ) -> PaymentConnection:
        """A new connection. Raises `Invalid`, also if a connection of any kind has the code.

        kind: The kind of provider. One of stripe, gocardless, adyen, cashfree, flutterwave, moneyhash. Required.
        code: The code that identifies it, unique among its kind. Required.
        name: A readable name.
        url: The URL of the provider's API. Default: its public address.
        live: Whether it is the provider's live environment. Default: true.
        success_redirect_url: Where the provider's pages send customers back to.
        supports_3ds: Whether cards are confirmed by 3-D Secure. Default: false.
        require_terms_of_service_consent: Whether pages ask for consent to your terms. Default: false.
        live_prefix: The prefix of your live URL, from the provider.
        merchant_account: Your account with the provider.
        flow_id: The flow of payment pages.
        secret_key: The provider's secret key.
        webhook_secret: The key that the provider signs its messages with.
        access_token: The provider's access token.
        api_key: The provider's key.
        hmac_key: The key that the provider signs its messages with.
        client_id: Your id with the provider.
        client_secret: Your secret with the provider.
        signature_key: The key that the provider signs its messages with.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        kind: str | None = ...,
        code: str | None = ...,
        name: str | None = ...,
        url: str | None = ...,
        live: bool | None = ...,
        success_redirect_url: str | None = ...,
        supports_3ds: bool | None = ...,
        require_terms_of_service_consent: bool | None = ...,
        live_prefix: str | None = ...,
        merchant_account: str | None = ...,
        flow_id: str | None = ...,
        secret_key: str | None = ...,
        webhook_secret: str | None = ...,
        access_token: str | None = ...,
        api_key: str | None = ...,
        hmac_key: str | None = ...,
        client_id: str | None = ...,
        client_secret: str | None = ...,
        signature_key: str | None = ...,
    ) -> PaymentConnection:
        """Change the sent fields of a connection; an empty credential is cleared. Its kind and code stay.

        Raises `NotFound` and `Invalid`.

        current_code: Its code.
        kind: The kind of provider. One of stripe, gocardless, adyen, cashfree, flutterwave, moneyhash.
        code: The code that identifies it, unique among its kind.
        name: A readable name.
        url: The URL of the provider's API. Default: its public address.
        live: Whether it is the provider's live environment. Default: true.
        success_redirect_url: Where the provider's pages send customers back to.
        supports_3ds: Whether cards are confirmed by 3-D Secure. Default: false.
        require_terms_of_service_consent: Whether pages ask for consent to your terms. Default: false.
        live_prefix: The prefix of your live URL, from the provider.
        merchant_account: Your account with the provider.
        flow_id: The flow of payment pages.
        secret_key: The provider's secret key.
        webhook_secret: The key that the provider signs its messages with.
        access_token: The provider's access token.
        api_key: The provider's key.
        hmac_key: The key that the provider signs its messages with.
        client_id: Your id with the provider.
        client_secret: Your secret with the provider.
        signature_key: The key that the provider signs its messages with.
        """

    def get(self, code: str) -> PaymentConnection:
        """The connection with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> PaymentConnection:
        """Delete a connection, its customers' links to it and their payment methods. Payments stay.

        code: Its code.
        """

    def notices(self, *, status: str | None = ..., page: int = ..., per_page: int = ...) -> Pages[ProviderNotice]:
        """The notices of the last 90 days, newest first. Raises `Invalid` for an unknown status.

        status: Only those with this status.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def list(self) -> list[PaymentConnection]:
        """All connections, oldest first."""

class SyncConnections(Resource):
    """Accounting systems and CRMs that customers can be linked to."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        kind: str,
        code: str,
        url: str,
        name: str | None = ...,
        api_key: str | None = ...,
        sync_invoices: bool | None = ...,
        sync_credit_notes: bool | None = ...,
        sync_payments: bool | None = ...,
        default_targeted_object: Literal["contacts", "companies"] | None = ...,
    ) -> SyncConnection:
        """A new connection. Raises `Invalid`, also if a connection of this kind has the code.

        kind: The kind of system. One of netsuite, xero, hubspot, salesforce. Required.
        code: The code that identifies it, unique among its kind. Required.
        url: The URL of your bridge. Required.
        name: A readable name.
        api_key: The provider's key.
        sync_invoices: Whether invoices are sent to it. Default: true.
        sync_credit_notes: Whether credit notes are sent to it. Default: true.
        sync_payments: Whether payments are sent to it. Default: true.
        default_targeted_object: The HubSpot object of customers that are neither a person nor a company. One of contacts, companies.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        kind: str | None = ...,
        code: str | None = ...,
        name: str | None = ...,
        url: str | None = ...,
        api_key: str | None = ...,
        sync_invoices: bool | None = ...,
        sync_credit_notes: bool | None = ...,
        sync_payments: bool | None = ...,
        default_targeted_object: Literal["contacts", "companies"] | None = ...,
    ) -> SyncConnection:
        """Change the name, address, key or switches of a connection; its kind and code stay.

        Switches apply to changes from now on. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        kind: The kind of system. One of netsuite, xero, hubspot, salesforce.
        code: The code that identifies it, unique among its kind.
        name: A readable name.
        url: The URL of your bridge.
        api_key: The provider's key.
        sync_invoices: Whether invoices are sent to it. Default: true.
        sync_credit_notes: Whether credit notes are sent to it. Default: true.
        sync_payments: Whether payments are sent to it. Default: true.
        default_targeted_object: The HubSpot object of customers that are neither a person nor a company. One of contacts, companies.
        """

    def get(self, code: str) -> SyncConnection:
        """The connection with this code, the oldest if several kinds have it. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> SyncConnection:
        """Delete a connection, its customers' links to it, and its pending pushes.

        code: Its code.
        """

    def list(self) -> list[SyncConnection]:
        """All connections, oldest first."""

class SyncedDocuments(Resource):
    """Documents sent, or to be sent, to accounting systems and CRMs."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, synced_document_id: str) -> SyncedDocument:
        """The document with this id. Raises `NotFound`.

        synced_document_id: The synced document, by id.
        """

    def resend(self, synced_document_id: str) -> SyncedDocument:
        """Push a document again, at once, with the idempotency key of the last push if that failed, else a new one.

        Raises `NotFound`, and `NotAllowed` if its connection has ended.

        synced_document_id: The synced document, by id.
        """

    def resend_failed(self) -> int:
        """Push all failed documents again, except those of deleted connections. Returns their number."""

    def push_invoice(self, invoice_id: str) -> Invoice:
        """Push a finalized invoice, with its credit notes and payments, to its customer's systems (again).

        It may have been issued before the customer was linked. Raises `NotFound`, and `NotAllowed` for an invoice that is
        not issued, or whose customer is linked to none.

        invoice_id: The invoice, by id.
        """

    def list(
        self,
        *,
        status: str | None = ...,
        subject: Literal["customer", "invoice", "credit_note", "payment"] | None = ...,
        subject_id: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[SyncedDocument]:
        """Documents, newest first.

        status: Only those with this status.
        subject: Only documents of this kind. One of customer, invoice, credit_note, payment.
        subject_id: Only the documents of this record, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class TaxConnections(Resource):
    """Tax providers that customers can be linked to."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        kind: str,
        code: str,
        url: str,
        name: str | None = ...,
        api_key: str | None = ...,
        item_codes: Mapping[str, str] | None = ...,
    ) -> TaxConnection:
        """A new connection. Raises `Invalid`, also if a connection of this kind has the code.

        kind: The kind of tax provider. One of anrok, avalara. Required.
        code: The code that identifies it, unique among its kind. Required.
        url: The URL of the provider. Required.
        name: A readable name.
        api_key: The provider's key.
        item_codes: Code of what is billed -> the provider's code; `default` for all others.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        kind: str | None = ...,
        code: str | None = ...,
        name: str | None = ...,
        url: str | None = ...,
        api_key: str | None = ...,
        item_codes: Mapping[str, str] | None = ...,
    ) -> TaxConnection:
        """Change the name, address, key or item codes (replaced as a whole) of a connection.

        Its kind and code stay. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        kind: The kind of tax provider. One of anrok, avalara.
        code: The code that identifies it, unique among its kind.
        name: A readable name.
        url: The URL of the provider.
        api_key: The provider's key.
        item_codes: Code of what is billed -> the provider's code; `default` for all others.
        """

    def get(self, code: str) -> TaxConnection:
        """The connection with this code, the oldest if several kinds have it. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> TaxConnection:
        """Delete a connection: the organization's own taxes apply to its customers again.

        code: Its code.
        """

    def list(self) -> list[TaxConnection]:
        """All connections, oldest first."""

class WebhookEndpoints(Resource):
    """The webhook endpoints that messages go to."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        webhook_url: str,
        signature_algo: Literal["jwt", "hmac"] | None = ...,
        name: str | None = ...,
        event_types: Sequence[str] | None = ...,
    ) -> WebhookEndpoint:
        """A new endpoint, which gets messages from now on. Raises `Invalid`.

        webhook_url: The URL that receives webhook messages. Required.
        signature_algo: How messages are signed. One of jwt, hmac. Default: jwt.
        name: A readable name.
        event_types: The types of messages to send. Default: all.
        """

    def update(
        self,
        id: str,
        *,
        webhook_url: str | None = ...,
        signature_algo: Literal["jwt", "hmac"] | None = ...,
        name: str | None = ...,
        event_types: Sequence[str] | None = ...,
    ) -> WebhookEndpoint:
        """Change what is sent. Address and algorithm apply to all further attempts, event types to new messages.

        id: Its id.
        webhook_url: The URL that receives webhook messages.
        signature_algo: How messages are signed. One of jwt, hmac. Default: jwt.
        name: A readable name.
        event_types: The types of messages to send. Default: all.
        """

    def get(self, id: str) -> WebhookEndpoint:
        """The endpoint with this id. Raises `NotFound`.

        id: Its id.
        """

    def delete(self, id: str) -> WebhookEndpoint:
        """Delete the endpoint and its messages; those not yet sent are lost.

        id: Its id.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[WebhookEndpoint]:
        """Endpoints by address.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Webhooks(Resource):
    """Webhook messages, and the key that signs them."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, id: str) -> WebhookMessage:
        """The message with this id. Raises `NotFound`.

        id: Its id.
        """

    def list_of_endpoint(
        self,
        endpoint_id: str,
        *,
        statuses: Sequence[str] | None = ...,
        event_types: Sequence[str] | None = ...,
        http_statuses: Sequence[str] | None = ...,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
        search_term: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[WebhookMessage]:
        """The messages to an endpoint, last changed first. Raises `NotFound` for an unknown endpoint.

        endpoint_id: The endpoint, by id.
        statuses: Only those with one of these statuses.
        event_types: The types of messages to send. Default: all.
        http_statuses: Only those with these results: a status, `succeeded` or `failed`.
        from_date: Only those on or after this day.
        to_date: Only those on or before this day.
        search_term: Only those that contain this text, in upper or lower case.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def resend(self, id: str) -> WebhookMessage:
        """Deliver the message again, at once. Raises `NotFound`, and `NotAllowed` if it has succeeded.

        id: Its id.
        """

    def resend_failed(
        self,
        *,
        webhook_endpoint_id: str | None = ...,
        event_types: Sequence[str] | None = ...,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
    ) -> Resent:
        """Deliver all failed messages that match the request again, at once.

        Raises `NotFound` for an unknown endpoint.

        webhook_endpoint_id: Only messages to this webhook endpoint, by id.
        event_types: Resends messages of these types.
        from_date: Only those on or after this day.
        to_date: Only those on or before this day.
        """

    def public_key(self) -> str:
        """The public key that verifies `jwt` signatures: base64 of its PEM text, in lines of 60."""

    def list(
        self,
        *,
        webhook_endpoint_id: str | None = ...,
        statuses: Sequence[str] | None = ...,
        event_types: Sequence[str] | None = ...,
        http_statuses: Sequence[str] | None = ...,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[WebhookMessage]:
        """The messages to all endpoints, or to one, last changed first.

        webhook_endpoint_id: Only messages to this webhook endpoint, by id.
        statuses: Only those with these statuses. One of pending, retrying, succeeded, failed.
        event_types: Only messages of these types.
        http_statuses: Only those with these results: a status, `succeeded` or `failed`.
        from_date: Only those at or after this instant.
        to_date: Only those at or before this instant.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
