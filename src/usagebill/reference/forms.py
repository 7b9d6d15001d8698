"""Objects of answers that are other forms of an object: a summary, a message, a draft."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FORMS"]

# Their fields mean the same as those of the object.
FORMS: Mapping[str, str] = {
    "ApplicableThreshold": "UsageThreshold",
    "BilledInvoice": "Invoice",
    "BillingEntityDetails": "BillingEntity",
    "CheckedCustomer": "Customer",
    "Commitment": "MinimumCommitment",
    "CreditNoteEstimate": "CreditNote",
    "CreditNoteOfCustomer": "CreditNote",
    "CreditNoteTax": "AppliedTax",
    "CustomerItem": "Customer",
    "CustomerSummary": "Customer",
    "DeletedPlan": "Plan",
    "DraftInvoice": "Invoice",
    "EntitledSubscription": "Subscription",
    "EstimatedTax": "AppliedTax",
    "FeeTax": "AppliedTax",
    "InstantFee": "Fee",
    "InvoiceAndFees": "Invoice",
    "InvoiceOfCustomer": "Invoice",
    "InvoiceSummary": "Invoice",
    "InvoiceTax": "AppliedTax",
    "IssuedCreditNote": "CreditNote",
    "IssuedInvoice": "Invoice",
    "ListedAppliedCoupon": "AppliedCoupon",
    "ListedInvoice": "Invoice",
    "OneOffInvoice": "Invoice",
    "PastUsage": "Usage",
    "PaymentAnswer": "Payment",
    "PaymentRequestDetails": "PaymentRequest",
    "PlanSummary": "Plan",
    "SubscriptionAndPlan": "Subscription",
    "SubscriptionMessage": "Subscription",
    "TaxDetails": "Tax",
    "TaxedInvoice": "Invoice",
    "Threshold": "UsageThreshold",
    "ThresholdReached": "Subscription",
    "UntaxedFee": "Fee",
    "WalletMessage": "Wallet",
    "WalletSummary": "Wallet",
    "WalletTransactionAnswer": "WalletTransaction",
    "WalletTransactionDetails": "WalletTransaction",
    "WalletTransactionMessage": "WalletTransaction",
}
