"""Messages: what each webhook message tells, and what its object holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.views.billable_metrics import BillableMetricView
from usagebill.views.credit_notes import CreditNoteOfCustomer, IssuedCreditNote
from usagebill.views.customers import CheckedCustomer, CustomerSummary
from usagebill.views.events import EventsErrors
from usagebill.views.fees import UntaxedFeeView
from usagebill.views.invoices import INVOICE_MESSAGES, PaymentDisputeLost, PaymentFailure
from usagebill.views.plans import DeletedPlan, PlanSummary
from usagebill.views.subscriptions import EntitledSubscription, SubscriptionMessage, ThresholdReached
from usagebill.views.tax_providers import CustomerTaxErrorView, FeeTaxErrorView

__all__ = ["MESSAGES", "Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """`about` says when the message is sent, `shown` is the view that its object is."""

    about: str
    shown: type


_INVOICES: Mapping[str, str] = {
    "invoice.created": "An invoice of subscriptions was issued.",
    "invoice.one_off_created": "An invoice of add-ons was issued.",
    "invoice.generated": "The document of an invoice was made.",
    "invoice.drafted": "A draft was made; it can change until it is finalized.",
    "invoice.ready_to_finalize": "The taxes of a draft are known.",
    "invoice.voided": "An invoice was voided.",
    "invoice.deleted": "A draft was deleted.",
    "invoice.payment_status_updated": "An invoice has another payment status.",
    "invoice.payment_overdue": "The day has passed on which an invoice was due.",
}

# Every type of message that is sent, and what it carries.
MESSAGES: Mapping[str, Message] = {
    "billable_metric.created": Message("A billable metric was created.", BillableMetricView),
    "billable_metric.updated": Message("A billable metric was updated.", BillableMetricView),
    "billable_metric.deleted": Message("A billable metric was deleted.", BillableMetricView),
    "credit_note.created": Message("A credit note was issued.", IssuedCreditNote),
    "credit_note.generated": Message("The document of a credit note was made.", CreditNoteOfCustomer),
    "customer.created": Message("A customer was created.", CustomerSummary),
    "customer.tax_provider_error": Message("A tax provider did not give an invoice's taxes.", CustomerTaxErrorView),
    "customer.updated": Message("A customer was sent again or edited, changed or not.", CustomerSummary),
    "customer.vies_check": Message("The VAT number of a customer was checked, or could not be.", CheckedCustomer),
    "events.errors": Message("Events of the last hour cannot be billed as they are.", EventsErrors),
    "fee.created": Message("A fee was charged in advance, or belongs to no invoice.", UntaxedFeeView),
    "fee.tax_provider_error": Message(
        "A tax provider did not give the taxes of a fee without invoice.", FeeTaxErrorView
    ),
    **{name: Message(about, INVOICE_MESSAGES[name]) for name, about in _INVOICES.items()},
    "invoice.payment_dispute_lost": Message("The dispute about a payment was lost.", PaymentDisputeLost),
    "invoice.payment_failure": Message("An invoice could not be collected.", PaymentFailure),
    "plan.created": Message("A plan was created.", PlanSummary),
    "plan.updated": Message("A plan was updated.", PlanSummary),
    "plan.deleted": Message("A plan is being deleted, and what is on it ended.", DeletedPlan),
    "subscription.started": Message("A subscription became active.", EntitledSubscription),
    "subscription.terminated": Message("A subscription ended, or was canceled while it waited.", SubscriptionMessage),
    "subscription.termination_alert": Message("The planned end of a subscription draws near.", SubscriptionMessage),
    "subscription.trial_ended": Message("The trial of a subscription ended.", SubscriptionMessage),
    "subscription.updated": Message("A subscription changed, or a change of it was planned.", EntitledSubscription),
    "subscription.usage_threshold_reached": Message("Usage reached a threshold.", ThresholdReached),
}
