"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.fields import (
    CouponFields,
    CreditNoteItemFields,
    CustomerFields,
    MetadataItemFields,
    Number,
    OneOffFeeFields,
    PaymentMethodChoice,
    PreviewSubscriptions,
    RegeneratedFeeFields,
    SectionChoice,
)
from usagebill.records import (
    CreditNote,
    CreditNoteEstimate,
    ExplainedEvent,
    ExplainedInvoice,
    Fee,
    Invoice,
    Pages,
    PaymentPage,
)

class CreditNotes(Resource):
    """Credit notes on invoices."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        invoice_id: str,
        items: Sequence[CreditNoteItemFields | Mapping[str, Any]],
        reason: Literal[
            "duplicated_charge",
            "product_unsatisfactory",
            "order_change",
            "order_cancellation",
            "fraudulent_charge",
            "other",
        ]
        | None = ...,
        description: str | None = ...,
        credit_amount_cents: int | None = ...,
        refund_amount_cents: int | None = ...,
        offset_amount_cents: int | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
    ) -> CreditNote:
        """A credit note over items of an invoice's fees, split into credit, refund and offset of the invoice itself.

        Raises `NotFound` for the invoice or a fee, `NotAllowed` if the invoice cannot be credited, and `Invalid`.

        invoice_id: The invoice, by id. Required.
        items: The credited amount of each fee. Required.
        reason: The reason. One of duplicated_charge, product_unsatisfactory, order_change, order_cancellation, fraudulent_charge, other. Default: other.
        description: A text for people; it has no effect.
        credit_amount_cents: The amount credited to later invoices, with taxes. In cents.
        refund_amount_cents: The refunded amount, with taxes. In cents.
        offset_amount_cents: The amount deducted from the unpaid invoice, with taxes. In cents.
        metadata: Your own values by key, stored and returned with it.
        """

    def estimate(
        self, *, invoice_id: str, items: Sequence[CreditNoteItemFields | Mapping[str, Any]]
    ) -> CreditNoteEstimate:
        """The estimate of a note over these items. Raises as `create` does for the invoice and the items.

        invoice_id: The invoice, by id. Required.
        items: The credited amount of each fee. Required.
        """

    def update(
        self,
        credit_note_id: str,
        *,
        refund_status: Literal["pending", "succeeded", "failed"] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
    ) -> CreditNote:
        """Set the refund status, and merge metadata. Raises `NotFound` and `Invalid`.

        credit_note_id: The credit note, by id.
        refund_status: The status of the refund. One of pending, succeeded, failed.
        metadata: Your own values by key, stored and returned with it.
        """

    def get(self, credit_note_id: str) -> CreditNote:
        """The finalized credit note with this id. Raises `NotFound`.

        credit_note_id: The credit note, by id.
        """

    def list_of_customer(
        self,
        external_id: str,
        *,
        external_customer_id: str | None = ...,
        issuing_date_from: date | str | None = ...,
        issuing_date_to: date | str | None = ...,
        amount_from: date | str | None = ...,
        amount_to: date | str | None = ...,
        credit_status: str | Sequence[str] | None = ...,
        refund_status: str | Sequence[str] | None = ...,
        reason: str | Sequence[str] | None = ...,
        types: str | Sequence[str] | None = ...,
        currency: str | None = ...,
        invoice_number: str | None = ...,
        purchase_order_number: str | None = ...,
        self_billed: bool | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        search_term: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[CreditNote]:
        """The credit notes of one customer, latest first. Raises `NotFound` for an unknown customer.

        external_id: Your own id of it.
        external_customer_id: The customer, by your own id.
        issuing_date_from: Only those issued on or after this day.
        issuing_date_to: Only those issued on or before this day.
        amount_from: Only those with at least this total. In cents.
        amount_to: Only those with at most this total. In cents.
        credit_status: Only those with this credit status. One of available, consumed, voided.
        refund_status: The status of the refund. One of pending, succeeded, failed.
        reason: Only those with these reasons. One of duplicated_charge, product_unsatisfactory, order_change, order_cancellation, fraudulent_charge, other.
        types: Only those with one of these parts. One of credit, refund, offset.
        currency: The currency, ISO 4217.
        invoice_number: Only those of the invoice with this number.
        purchase_order_number: The customer's order number, shown on invoices.
        self_billed: Only self-billed ones, or only others.
        billing_entity_codes: Only those of one of these billing entities, by code.
        search_term: Only those that contain this text, in upper or lower case.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def void(self, credit_note_id: str) -> CreditNote:
        """Void the remaining balance of a note. Raises `NotFound`, and `NotAllowed` if there is none.

        credit_note_id: The credit note, by id.
        """

    def replace_metadata(
        self, credit_note_id: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """Replace the metadata with that sent; without any it becomes empty. Raises `NotFound` and `Invalid`.

        credit_note_id: The credit note, by id.
        metadata: Your own values by key, stored and returned with it.
        """

    def merge_metadata(
        self, credit_note_id: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """Set the keys that are sent, and keep the others. Raises `NotFound` and `Invalid`.

        credit_note_id: The credit note, by id.
        metadata: Your own values by key, stored and returned with it.
        """

    def delete_metadata(self, credit_note_id: str) -> None:
        """Remove the metadata. Raises `NotFound`.

        credit_note_id: The credit note, by id.
        """

    def delete_metadata_key(self, credit_note_id: str, key: str) -> Mapping[str, str | None] | None:
        """Remove one key, if present. Raises `NotFound` for the note, or if it has no metadata.

        credit_note_id: The credit note, by id.
        key: The key.
        """

    def download(self, credit_note_id: str) -> CreditNote | None:
        """The credit note with the URL of its PDF; None while that is being generated. Raises `NotFound`.

        credit_note_id: The credit note, by id.
        """

    def download_xml(self, credit_note_id: str) -> CreditNote | None:
        """The credit note with the URL of its XML; None if there is none (yet). Raises as for invoices.

        credit_note_id: The credit note, by id.
        """

    def pdf(self, credit_note_id: str) -> bytes:
        """The PDF of a credit note, generated now if it does not exist. Raises `NotFound`.

        credit_note_id: The credit note, by id.
        """

    def xml(self, credit_note_id: str) -> bytes:
        """The XML (UBL) of a credit note. Raises as for invoices.

        credit_note_id: The credit note, by id.
        """

    def resend_email(
        self,
        credit_note_id: str,
        *,
        to: Sequence[str] | None = ...,
        cc: Sequence[str] | None = ...,
        bcc: Sequence[str] | None = ...,
    ) -> None:
        """Send an issued credit note by e-mail, whether or not it was sent before: to its customer, or to others.

        Raises `NotFound`, and `NotAllowed` unless it is finalized, its billing entity sends credit notes by e-mail and
        there is a mail server; `Invalid` for missing and bad addresses.

        credit_note_id: The credit note, by id.
        to: The recipients. Default: the customer's address.
        cc: The recipients of copies.
        bcc: The recipients of blind copies.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        issuing_date_from: date | str | None = ...,
        issuing_date_to: date | str | None = ...,
        amount_from: date | str | None = ...,
        amount_to: date | str | None = ...,
        credit_status: str | Sequence[str] | None = ...,
        refund_status: str | Sequence[str] | None = ...,
        reason: str | Sequence[str] | None = ...,
        types: str | Sequence[str] | None = ...,
        currency: str | None = ...,
        invoice_number: str | None = ...,
        purchase_order_number: str | None = ...,
        self_billed: bool | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        search_term: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[CreditNote]:
        """The credit notes that match, latest first.

        external_customer_id: The customer, by your own id.
        issuing_date_from: Only those issued on or after this day.
        issuing_date_to: Only those issued on or before this day.
        amount_from: Only those with at least this total. In cents.
        amount_to: Only those with at most this total. In cents.
        credit_status: Only those with this credit status. One of available, consumed, voided.
        refund_status: The status of the refund. One of pending, succeeded, failed.
        reason: Only those with these reasons. One of duplicated_charge, product_unsatisfactory, order_change, order_cancellation, fraudulent_charge, other.
        types: Only those with one of these parts. One of credit, refund, offset.
        currency: The currency, ISO 4217.
        invoice_number: Only those of the invoice with this number.
        purchase_order_number: The customer's order number, shown on invoices.
        self_billed: Only self-billed ones, or only others.
        billing_entity_codes: Only those of one of these billing entities, by code.
        search_term: Only those that contain this text, in upper or lower case.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Fees(Resource):
    """The lines of invoices."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def update(
        self, fee_id: str, *, payment_status: Literal["pending", "succeeded", "failed", "refunded"] | None = ...
    ) -> Fee:
        """Mark a fee without invoice as pending, succeeded, failed or refunded, as of now.

        A fee paid after the end of its subscription is invoiced at once (`invoices.advance_charges`), because no run will
        come. Raises `NotAllowed` if an invoice holds the fee, and `Invalid` for any other status.

        fee_id: The fee, by id.
        payment_status: Whether it is paid. One of pending, succeeded, failed, refunded.
        """

    def get(self, fee_id: str) -> Fee:
        """The fee with this id, on an invoice or on none. Raises `NotFound`.

        fee_id: The fee, by id.
        """

    def events(self, fee_id: str, *, page: int = ..., per_page: int = ...) -> Pages[ExplainedEvent]:
        """The events that a usage fee counts, by timestamp: those received before it became final.

        Other fees and true-ups have none. Raises `NotFound`.

        fee_id: The fee, by id.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def delete(self, fee_id: str) -> Fee:
        """Delete a fee without invoice. Raises `NotAllowed` if it is on an invoice.

        fee_id: The fee, by id.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        external_subscription_id: str | None = ...,
        currency: str | None = ...,
        fee_type: Literal["charge", "add_on", "subscription", "credit", "commitment", "fixed_charge"] | None = ...,
        billable_metric_code: str | None = ...,
        payment_status: Literal["pending", "succeeded", "failed", "refunded"] | None = ...,
        event_transaction_id: str | None = ...,
        created_at_from: date | str | None = ...,
        created_at_to: date | str | None = ...,
        succeeded_at_from: date | str | None = ...,
        succeeded_at_to: date | str | None = ...,
        failed_at_from: date | str | None = ...,
        failed_at_to: date | str | None = ...,
        refunded_at_from: date | str | None = ...,
        refunded_at_to: date | str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Fee]:
        """The fees that match, oldest first. Raises `Invalid` for an unknown type, status or date.

        external_customer_id: The customer, by your own id.
        external_subscription_id: The subscription, by your own id.
        currency: The currency, ISO 4217.
        fee_type: Only fees of this type. One of charge, add_on, subscription, credit, commitment, fixed_charge.
        billable_metric_code: The billable metric, by code.
        payment_status: Only those with this payment status. One of pending, succeeded, failed, refunded.
        event_transaction_id: Only the fees of this event.
        created_at_from: Only those created at or after this instant.
        created_at_to: Only those created at or before this instant.
        succeeded_at_from: Only those paid at or after this instant.
        succeeded_at_to: Only those paid at or before this instant.
        failed_at_from: Only those whose payment failed at or after this instant.
        failed_at_to: Only those whose payment failed at or before this instant.
        refunded_at_from: Only those refunded at or after this instant.
        refunded_at_to: Only those refunded at or before this instant.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Invoices(Resource):
    """Invoices and their fees."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, invoice_id: str) -> Invoice:
        """The invoice with this id. Raises `NotFound` if it is hidden from callers.

        invoice_id: The invoice, by id.
        """

    def list_of_customer(
        self,
        external_id: str,
        *,
        external_customer_id: str | None = ...,
        customer_external_id: str | None = ...,
        status: str | Sequence[str] | None = ...,
        statuses: str | Sequence[str] | None = ...,
        payment_status: str | Sequence[str] | None = ...,
        payment_statuses: str | Sequence[str] | None = ...,
        payment_overdue: bool | None = ...,
        payment_dispute_lost: bool | None = ...,
        partially_paid: bool | None = ...,
        self_billed: bool | None = ...,
        invoice_type: Literal["subscription", "advance_charges", "progressive_billing", "one_off", "credit"]
        | None = ...,
        currency: str | None = ...,
        issuing_date_from: date | str | None = ...,
        issuing_date_to: date | str | None = ...,
        amount_from: date | str | None = ...,
        amount_to: date | str | None = ...,
        purchase_order_number: str | None = ...,
        settlements: str | Sequence[str] | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        search_term: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Invoice]:
        """The invoices of one customer. Raises `NotFound` for an unknown customer.

        external_id: Your own id of it.
        external_customer_id: The customer, by your own id.
        customer_external_id: Only those of this customer, by your own id.
        status: Only those with these statuses. One of generating, draft, open, pending, failed, finalized, voided, closed, deleted.
        statuses: The same as `status`. One of generating, draft, open, pending, failed, finalized, voided, closed, deleted.
        payment_status: Only those with these payment statuses. One of pending, succeeded, failed.
        payment_statuses: Only those with one of these payment statuses. One of pending, succeeded, failed.
        payment_overdue: Only overdue ones, or only others.
        payment_dispute_lost: Only those with a lost dispute, or only others.
        partially_paid: Only partially paid ones, or only others.
        self_billed: Only self-billed ones, or only others.
        invoice_type: Only those of this type. One of subscription, advance_charges, progressive_billing, one_off, credit.
        currency: The currency, ISO 4217.
        issuing_date_from: Only those issued on or after this day.
        issuing_date_to: Only those issued on or before this day.
        amount_from: Only those with at least this total. In cents.
        amount_to: Only those with at most this total. In cents.
        purchase_order_number: The customer's order number, shown on invoices.
        settlements: Only those settled by payments, credit notes or both. One of payment, credit_note.
        billing_entity_codes: Only those of one of these billing entities, by code.
        metadata: Your own values by key, stored and returned with it.
        search_term: Only those that contain this text, in upper or lower case.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def update(
        self,
        invoice_id: str,
        *,
        payment_status: Literal["pending", "succeeded", "failed"] | None = ...,
        metadata: Sequence[MetadataItemFields | Mapping[str, Any]] | None = ...,
    ) -> Invoice:
        """Set the payment status and replace the metadata of an issued invoice. Raises as `NotAllowed` and `Invalid`.

        invoice_id: The invoice, by id.
        payment_status: Whether it is paid. One of pending, succeeded, failed.
        metadata: Your own values by key, stored and returned with it.
        """

    def finalize(self, invoice_id: str) -> Invoice:
        """Finalize a draft before its grace period is over; one whose period is over, as of its end.

        Raises `NotFound` for anything but a draft, and `Forbidden` while its taxes are not known.

        invoice_id: The invoice, by id.
        """

    def refresh(self, invoice_id: str) -> Invoice:
        """Recompute a draft from current records. Any other subscription invoice stays as it is.

        Raises `NotFound`, and `Forbidden` for other types of invoice.

        invoice_id: The invoice, by id.
        """

    def delete(self, invoice_id: str) -> Invoice:
        """Delete a draft, with its credit notes. Raises `NotFound` and `NotAllowed`.

        invoice_id: The invoice, by id.
        """

    def void(
        self,
        invoice_id: str,
        *,
        generate_credit_note: bool | None = ...,
        refund_amount: int | None = ...,
        credit_amount: int | None = ...,
    ) -> Invoice:
        """Void an issued invoice; it keeps its number. Everything that paid it goes back (`core.invoices.undoing`).

        Money goes back only with `generate_credit_note`: as the requested credit and refund. What these leave of the
        invoice goes to a second credit note that is voided at once. Raises `NotFound`, `Invalid` and `NotAllowed`.

        invoice_id: The invoice, by id.
        generate_credit_note: Whether to create a credit note for the amount paid. Default: false.
        refund_amount: The refunded amount. In cents.
        credit_amount: The amount credited to later invoices. In cents.
        """

    def lose_dispute(self, invoice_id: str) -> Invoice:
        """Record that a dispute over an issued invoice was lost; only the first time counts and sends a message.

        Raises `NotFound` and `NotAllowed`.

        invoice_id: The invoice, by id.
        """

    def preview(
        self,
        *,
        customer: CustomerFields | Mapping[str, Any],
        plan_code: str | None = ...,
        subscription_at: date | str | None = ...,
        bill_from: Literal["now", "current_period", "start"] | None = ...,
        billing_time: Literal["calendar", "anniversary"] | None = ...,
        coupons: Sequence[CouponFields | Mapping[str, Any]] | None = ...,
        subscriptions: PreviewSubscriptions | Mapping[str, Any] | None = ...,
        billing_entity_code: str | None = ...,
    ) -> dict[str, Any]:
        """The coming invoice, as JSON without a number. Nothing is stored, so its ids name nothing afterwards.

        Without `subscriptions` a new subscription on `plan_code` is billed for the first time; with them, their next
        invoice, or the one of their end (`terminated_at`) or change of plan (`plan_code` inside). Raises `BadRequest`,
        `NotFound` and `Invalid` as the fields demand.

        customer: The customer: an `external_id`, fields that replace the stored ones, or both. Required.
        plan_code: The plan, by code.
        subscription_at: When it starts. If that is on an earlier day, `bill_from` says what is billed of the time since: by default only what the next runs bill. Default: now.
        bill_from: What is billed of a start in the past: `now`: only what the next runs bill; `current_period`: also what the open period is billed in advance; `start`: everything since the start, one invoice for each billing day. One of now, current_period, start. Default: now.
        billing_time: Whether periods follow the calendar, or start on the day of the subscription's start. One of calendar, anniversary. Default: calendar.
        coupons: Coupons for a customer without any: by `code`, or with the fields of a new one.
        subscriptions: Existing subscriptions to preview the next invoice of.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        """

    def adjust_fee(
        self,
        invoice_id: str,
        *,
        fee_id: str | None = ...,
        subscription_id: str | None = ...,
        charge_id: str | None = ...,
        charge_filter_id: str | None = ...,
        fixed_charge_id: str | None = ...,
        units: Number | None = ...,
        unit_precise_amount: Number | None = ...,
        invoice_display_name: str | None = ...,
    ) -> Fee:
        """Change the units, price or name of a draft's line; the draft is recomputed.

        Raises `NotFound`, `Forbidden` and `Invalid`.

        invoice_id: The invoice, by id.
        fee_id: The fee, by id.
        subscription_id: The subscription, by id.
        charge_id: The charge, by id.
        charge_filter_id: The filter of the charge, by id; without it, the events that match no filter.
        fixed_charge_id: The fixed charge, by id.
        units: The number of units.
        unit_precise_amount: The price of one unit. In major units.
        invoice_display_name: The name on invoices. Default: its name.
        """

    def reset_fee(self, invoice_id: str, fee_id: str) -> Invoice:
        """Remove the adjustment of a line, and recompute the draft from usage and plan.

        invoice_id: The invoice, by id.
        fee_id: The fee, by id.
        """

    def estimate_adjusted_fee(
        self,
        invoice_id: str,
        *,
        fee_id: str | None = ...,
        subscription_id: str | None = ...,
        charge_id: str | None = ...,
        charge_filter_id: str | None = ...,
        fixed_charge_id: str | None = ...,
        units: Number | None = ...,
        unit_precise_amount: Number | None = ...,
        invoice_display_name: str | None = ...,
    ) -> Fee:
        """The line, with taxes, that an adjustment would give; nothing is stored.

        invoice_id: The invoice, by id.
        fee_id: The fee, by id.
        subscription_id: The subscription, by id.
        charge_id: The charge, by id.
        charge_filter_id: The filter of the charge, by id; without it, the events that match no filter.
        fixed_charge_id: The fixed charge, by id.
        units: The number of units.
        unit_precise_amount: The price of one unit. In major units.
        invoice_display_name: The name on invoices. Default: its name.
        """

    def regenerate(
        self,
        invoice_id: str,
        *,
        fees: Sequence[RegeneratedFeeFields | Mapping[str, Any]] | None = ...,
        purchase_order_number: str | None = ...,
    ) -> Invoice:
        """Regenerate a voided invoice with these lines: with a new number, and today's coupons, taxes and credits.

        Credit notes that were made on the voided one are made anew over the lines that are kept. Its dates are computed
        from the creation of the voided one. Raises `NotFound`, `Invalid`, and `Forbidden` for one that is not voided, whose
        lines are billed by an invoice regenerated already, or that bought credits which have been paid.

        invoice_id: The invoice, by id.
        fees: The lines of the invoice.
        purchase_order_number: The customer's order number, shown on invoices.
        """

    def create_one_off(
        self,
        *,
        external_customer_id: str,
        fees: Sequence[OneOffFeeFields | Mapping[str, Any]],
        currency: str | None = ...,
        skip_psp: bool | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        billing_entity_code: str | None = ...,
        purchase_order_number: str | None = ...,
        invoice_custom_section: SectionChoice | Mapping[str, Any] | None = ...,
    ) -> Invoice:
        """Invoice add-ons now, without coupons, credit notes or prepaid credits.

        The invoice is in the customer's currency, and an add-on is priced in its own unless a price is sent. Raises
        `NotFound` for the customer, the fees, an add-on or the billing entity, and `Invalid`.

        external_customer_id: The customer, by your own id. Required.
        fees: The lines of the invoice. Required.
        currency: The currency, ISO 4217.
        skip_psp: Whether to skip the payment provider. Default: false.
        payment_method: How its invoices are paid. Default: the customer's method.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        purchase_order_number: The customer's order number, shown on invoices.
        invoice_custom_section: The custom sections at the end of its invoices.
        """

    def retry(self, invoice_id: str) -> Invoice:
        """Retry a failed invoice: request its taxes again, or run its generation again.

        Raises `NotFound`, and `NotAllowed` for any other invoice.

        invoice_id: The invoice, by id.
        """

    def retry_payment(
        self, invoice_id: str, *, payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...
    ) -> None:
        """Retry to collect an unpaid invoice. If no provider collects it, a message says so.

        Raises `NotFound`, and `NotAllowed` for a draft, voided or paid invoice, and while a charge is under way.

        invoice_id: The invoice, by id.
        payment_method: How its invoices are paid. Default: the customer's method.
        """

    def payment_url(self, invoice_id: str) -> PaymentPage:
        """The page on which the customer pays an invoice at its provider.

        Raises `NotFound`, `Invalid` if there is no such page, and `ThirdPartyError` if the provider refuses.

        invoice_id: The invoice, by id.
        """

    def download(self, invoice_id: str) -> Invoice | None:
        """The invoice with the URL of its PDF; None while that is being generated. Raises `NotFound`.

        invoice_id: The invoice, by id.
        """

    def download_xml(self, invoice_id: str) -> Invoice | None:
        """The invoice with the URL of its XML; None if there is none (yet). Raises `NotFound`, and `Invalid` if it lacks
        fields that e-invoices require.

        invoice_id: The invoice, by id.
        """

    def pdf(self, invoice_id: str) -> bytes:
        """The PDF of an invoice, generated now if it does not exist. Raises `NotFound` unless it is finalized.

        invoice_id: The invoice, by id.
        """

    def xml(self, invoice_id: str) -> bytes:
        """The XML (UBL) of an e-invoice. Raises `NotFound` also if its billing entity issues none, and `Invalid` if it
        lacks fields that e-invoices require.

        invoice_id: The invoice, by id.
        """

    def resend_email(
        self,
        invoice_id: str,
        *,
        to: Sequence[str] | None = ...,
        cc: Sequence[str] | None = ...,
        bcc: Sequence[str] | None = ...,
    ) -> None:
        """Send an issued invoice by e-mail, whether or not it was sent before: to its customer, or to others.

        Raises `NotFound`, and `NotAllowed` unless it is finalized, its billing entity sends invoices by e-mail and there is
        a mail server; `Invalid` for missing and bad addresses.

        invoice_id: The invoice, by id.
        to: The recipients. Default: the customer's address.
        cc: The recipients of copies.
        bcc: The recipients of blind copies.
        """

    def explain(self, invoice_id: str) -> ExplainedInvoice:
        """An explanation of each line of the invoice and of its total. Raises `NotFound`.

        Amounts, discounts and taxes are the stored ones. Events are looked up again: those of the line's
        period, filter and group that had been received when the line was computed.

        invoice_id: The invoice, by id.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        customer_external_id: str | None = ...,
        status: str | Sequence[str] | None = ...,
        statuses: str | Sequence[str] | None = ...,
        payment_status: str | Sequence[str] | None = ...,
        payment_statuses: str | Sequence[str] | None = ...,
        payment_overdue: bool | None = ...,
        payment_dispute_lost: bool | None = ...,
        partially_paid: bool | None = ...,
        self_billed: bool | None = ...,
        invoice_type: Literal["subscription", "advance_charges", "progressive_billing", "one_off", "credit"]
        | None = ...,
        currency: str | None = ...,
        issuing_date_from: date | str | None = ...,
        issuing_date_to: date | str | None = ...,
        amount_from: date | str | None = ...,
        amount_to: date | str | None = ...,
        purchase_order_number: str | None = ...,
        settlements: str | Sequence[str] | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        search_term: str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Invoice]:
        """The invoices that match, the latest issuing date first.

        external_customer_id: The customer, by your own id.
        customer_external_id: Only those of this customer, by your own id.
        status: Only those with these statuses. One of generating, draft, open, pending, failed, finalized, voided, closed, deleted.
        statuses: The same as `status`. One of generating, draft, open, pending, failed, finalized, voided, closed, deleted.
        payment_status: Only those with these payment statuses. One of pending, succeeded, failed.
        payment_statuses: Only those with one of these payment statuses. One of pending, succeeded, failed.
        payment_overdue: Only overdue ones, or only others.
        payment_dispute_lost: Only those with a lost dispute, or only others.
        partially_paid: Only partially paid ones, or only others.
        self_billed: Only self-billed ones, or only others.
        invoice_type: Only those of this type. One of subscription, advance_charges, progressive_billing, one_off, credit.
        currency: The currency, ISO 4217.
        issuing_date_from: Only those issued on or after this day.
        issuing_date_to: Only those issued on or before this day.
        amount_from: Only those with at least this total. In cents.
        amount_to: Only those with at most this total. In cents.
        purchase_order_number: The customer's order number, shown on invoices.
        settlements: Only those settled by payments, credit notes or both. One of payment, credit_note.
        billing_entity_codes: Only those of one of these billing entities, by code.
        metadata: Your own values by key, stored and returned with it.
        search_term: Only those that contain this text, in upper or lower case.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
