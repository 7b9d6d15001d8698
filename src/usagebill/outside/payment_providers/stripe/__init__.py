"""Stripe: customers, cards and bank transfers, payment intents, checkout sessions, refunds and signed events."""

from usagebill.outside.payment_providers.stripe.provider import StripeProvider as StripeProvider
