"""Payments and payment methods."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.dunning import DunningCampaign
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import Payment, PaymentMethod
from usagebill.operations import (
    dunning_campaigns,
    payment_methods,
    payment_receipts,
    payment_requests,
    payments,
    refunds,
)
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.queries.dunning import campaign_by_code
from usagebill.queries.payment_requests import request_by_id
from usagebill.queries.payments import receipt_by_id
from usagebill.resources.bindings import Message, Messages, Resource, Views, command, query
from usagebill.views.dunning_campaigns import DunningFinished, dunning_campaign_view
from usagebill.views.payment_providers import payment_method_view
from usagebill.views.payment_receipts import PaymentReceiptView, payment_receipt_view
from usagebill.views.payment_requests import PaymentRequestFailure, PaymentRequestView, payment_request_view
from usagebill.views.payments import PaymentView, payment_view


class Payments(Resource):
    """Payments of invoices."""

    permission = "payment"

    views: ClassVar[Views] = {Payment: payment_view}
    messages: ClassVar[Messages] = {
        "payment.returned": Message("The money of a payment went back, and its debt is open again.", PaymentView),
        "payment.refund_failure": Message("What a payment brought too much has to be given back by hand.", PaymentView),
        "payment.requires_action": Message("A customer has to confirm a payment.", PaymentView),
        "payment.succeeded": Message("A payment provider reported a successful payment.", PaymentView),
    }

    create = command(payments.create)
    get = query(payments.get)
    list = query(payments.list_all)
    list_of_customer = query(payments.list_of_customer)
    refund = command(refunds.refund)


class PaymentMethods(Resource):
    """Customers' payment methods, from their payment providers."""

    permission = "payment_method"

    views: ClassVar[Views] = {PaymentMethod: payment_method_view}

    list_of_customer = query(payment_methods.list_of_customer)
    set_as_default = command(payment_methods.set_as_default)
    delete = command(payment_methods.delete)


class PaymentReceipts(Resource):
    """Receipts of payments."""

    permission = "invoice"

    views: ClassVar[Views] = {PaymentReceipt: payment_receipt_view}
    messages: ClassVar[Messages] = {
        "payment_receipt.created": Message("A payment succeeded and has its receipt.", PaymentReceiptView),
        "payment_receipt.generated": Message("The document of a receipt was made.", PaymentReceiptView),
    }

    get = query(receipt_by_id)
    list = query(payment_receipts.list_all)
    download = command(documents.download_receipt)
    pdf = command(documents.receipt_pdf)
    resend_email = command(emails.resend_receipt)


class PaymentRequests(Resource):
    """Requests to pay overdue invoices."""

    permission = "payment_request"

    views: ClassVar[Views] = {PaymentRequest: payment_request_view}
    messages: ClassVar[Messages] = {
        "payment_request.created": Message("A customer was asked to pay overdue invoices.", PaymentRequestView),
        "payment_request.payment_status_updated": Message(
            "A payment request was paid, or its payment failed.", PaymentRequestView
        ),
        "payment_request.payment_failure": Message("A payment request could not be collected.", PaymentRequestFailure),
    }

    create = command(payment_requests.create)
    get = query(request_by_id)
    list = query(payment_requests.list_all)
    list_of_customer = query(payment_requests.list_of_customer)


class DunningCampaigns(Resource):
    """Repeated requests to customers for overdue balances."""

    permission = "payment_request"

    views: ClassVar[Views] = {DunningCampaign: dunning_campaign_view}
    messages: ClassVar[Messages] = {
        "dunning_campaign.finished": Message(
            "The last payment request of a dunning campaign was sent.", DunningFinished
        ),
    }

    create = command(dunning_campaigns.create)
    update = command(dunning_campaigns.update)
    get = query(campaign_by_code)
    list = query(dunning_campaigns.list_all)
    delete = command(dunning_campaigns.delete)
