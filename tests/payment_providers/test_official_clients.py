"""The providers' own clients speak to our servers and read our signatures, so that tests rest on what is real."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import Adyen
import gocardless_pro
import pytest
import stripe
from Adyen.util import generate_notification_sig, is_valid_hmac_notification
from gocardless_pro import errors as gocardless_errors, webhooks as gocardless_webhooks

from tests.payment_providers.provider_requests import NOW, charge, connection_to, providers
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.stripe import StripeServer

_VERSION = "2025-04-30.basil"


def test_stripe_s_client_reads_what_our_server_answers() -> None:
    with StripeServer() as server:
        key = server.credentials["secret_key"]
        client = stripe.StripeClient(key, stripe_version=_VERSION, base_addresses={"api": server.url})
        customer = client.v1.customers.create({"email": "pay@acme.example", "metadata": {"svc_customer_id": "c-1"}})
        server.methods["pm_1"] = {"customer": customer.id, "created": 1_700_000_000}
        params = {"amount": 1050, "currency": "eur", "customer": customer.id, "payment_method": "pm_1"}
        options = {"idempotency_key": "payment-p-1"}
        intent = client.v1.payment_intents.create({**params, "confirm": True}, options)  # type: ignore[typeddict-item,arg-type]
        again = client.v1.payment_intents.create({**params, "confirm": True}, options)  # type: ignore[typeddict-item,arg-type]
        assert (intent.id, intent.status, intent.amount) == (again.id, "succeeded", 1050)
        refund = client.v1.refunds.create({"payment_intent": intent.id, "amount": 400})
        assert (refund.status, refund.payment_intent) == ("succeeded", intent.id)
        assert client.v1.payment_methods.retrieve("pm_1").card is not None
        listed = client.v1.payment_intents.list({"customer": customer.id, "limit": 1})
        assert [item.id for item in listed.auto_paging_iter()] == [intent.id]

        server.outcomes.append("declined")
        with pytest.raises(stripe.CardError) as declined:
            client.v1.payment_intents.create({**params, "confirm": True})  # type: ignore[typeddict-item]
        assert (declined.value.code, declined.value.http_status) == ("card_declined", 402)
        with pytest.raises(stripe.IdempotencyError):
            client.v1.payment_intents.create({**params, "amount": 2, "confirm": True}, options)  # type: ignore[typeddict-item,arg-type]
        wrong = stripe.StripeClient("sk_wrong", stripe_version=_VERSION, base_addresses={"api": server.url})
        with pytest.raises(stripe.AuthenticationError):
            wrong.v1.customers.retrieve(customer.id)
        with pytest.raises(stripe.InvalidRequestError, match="unknown parameter"):
            client.v1.customers.create({"nickname": "x"})  # type: ignore[arg-type]


def test_stripe_s_client_and_we_agree_on_signatures() -> None:
    with StripeServer(now=lambda: datetime.now(UTC)) as server, providers() as http:
        secret = server.credentials["webhook_secret"]
        notice = server.event("customer.updated", {"id": "cus_1", "object": "customer"})
        event = stripe.Webhook.construct_event(notice.body, notice.headers["stripe-signature"], secret)
        assert event.type == "customer.updated"
        stamp = int(NOW.timestamp())
        theirs = stripe.WebhookSignature._compute_signature(f"{stamp}.{notice.body.decode()}", secret)
        headers = {"stripe-signature": f"t={stamp},v1={theirs}"}
        assert len(http.notices(connection_to(server), headers, notice.body, NOW)) == 1


def test_gocardless_s_client_reads_what_our_server_answers() -> None:
    with GoCardlessServer() as server:
        client = gocardless_pro.Client(access_token=server.credentials["access_token"], base_url=server.url)
        customer = client.customers.create(params={"email": "pay@acme.example", "company_name": "Acme"})
        server.knows(customer.id, "MD1")
        params = {"amount": 1050, "currency": "GBP", "links": {"mandate": "MD1"}, "metadata": {"svc_invoice_id": "i"}}
        key = {"Idempotency-Key": "payment-p-1"}
        payment = client.payments.create(params=params, headers=key)
        # The second is refused by its key, and the client fetches the first.
        again = client.payments.create(params=params, headers=key)
        assert (payment.id, payment.status) == (again.id, "pending_submission")
        assert len(server.payments) == 1
        refund = {"amount": 400, "total_amount_confirmation": 400, "links": {"payment": payment.id}}
        assert client.refunds.create(params=refund).status == "created"
        with pytest.raises(gocardless_errors.ValidationFailedError):
            client.refunds.create(params=refund)
        server.payments[payment.id]["status"] = "submitted"
        with pytest.raises(gocardless_errors.InvalidStateError):
            client.payments.cancel(payment.id)
        assert client.mandates.list(params={"customer": customer.id, "status": "active"}).records[0].id == "MD1"


def test_gocardless_s_client_and_we_agree_on_signatures() -> None:
    with GoCardlessServer() as server:
        notice = server.batch(server.event("mandates", "created", {"mandate": "MD1"}))
        signature = notice.headers["webhook-signature"]
        (event,) = gocardless_webhooks.parse(notice.body, server.credentials["webhook_secret"], signature)
        assert (event.resource_type, event.action) == ("mandates", "created")
        with pytest.raises(gocardless_errors.InvalidSignatureError):
            gocardless_webhooks.parse(notice.forged().body, server.credentials["webhook_secret"], signature)


def test_adyen_s_client_reads_what_our_server_answers() -> None:
    with AdyenServer() as server:
        server.knows("acme", "8415")
        client = Adyen.Adyen(xapikey=server.credentials["api_key"], platform="test")
        for service in (client.checkout.payments_api, client.checkout.modifications_api):
            service.baseUrl = f"{server.url}/v70"
        request = charge("adyen")
        body = {
            "merchantAccount": server.credentials["merchant_account"],
            "amount": {"value": 1050, "currency": "EUR"},
            "reference": request.payable.reference,
            "shopperReference": "acme",
            "paymentMethod": {"type": "scheme", "storedPaymentMethodId": "8415"},
            "metadata": {},
        }
        paid = client.checkout.payments_api.payments(body, idempotency_key="payment-p-1")
        again = client.checkout.payments_api.payments(body, idempotency_key="payment-p-1")
        assert (paid.message["resultCode"], paid.message) == ("Authorised", again.message)
        stored = client.checkout.payments_api.payment_methods(
            {"merchantAccount": body["merchantAccount"], "shopperReference": "acme"}
        )
        assert stored.message["storedPaymentMethods"][0]["id"] == "8415"
        refund = {"merchantAccount": body["merchantAccount"], "amount": body["amount"], "reference": "note-1"}
        done = client.checkout.modifications_api.refund_captured_payment(refund, paid.message["pspReference"])
        assert (done.status_code, done.message["status"]) == (201, "received")
        with pytest.raises(Adyen.exceptions.AdyenAPIUnprocessableEntity):
            client.checkout.modifications_api.refund_captured_payment(refund, paid.message["pspReference"])


def test_adyen_s_client_and_we_agree_on_signatures() -> None:
    with AdyenServer() as server, providers() as http:
        key = server.credentials["hmac_key"]
        item = server.item(
            eventCode="AUTHORISATION",
            amount={"value": 1050, "currency": "EUR"},
            merchantReference="a:b\\c",
            originalReference="ORIG",
        )
        assert is_valid_hmac_notification(json.loads(json.dumps(item)), key)
        unsigned = {**item, "additionalData": {}}
        theirs = generate_notification_sig(unsigned, key)
        signed = {**item, "additionalData": {"hmacSignature": theirs.decode() if isinstance(theirs, bytes) else theirs}}
        assert len(http.notices(connection_to(server), {}, server.batch(signed).body, NOW)) == 1
