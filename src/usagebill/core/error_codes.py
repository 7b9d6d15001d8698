"""The meaning of every error code, and its remedy: one table for messages, OpenAPI and the page of errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Refusal(NamedTuple):
    """A code in words. `meaning` continues a sentence that starts with a field and its value; `remedy` is what the
    sender can do.
    """

    meaning: str
    remedy: str


# Codes that mean something particular in one field.
OF_FIELDS: Mapping[tuple[str, str], Refusal] = {
    ("transaction_id", "value_already_exist"): Refusal(
        "is the id of an event that is stored already",
        "if it tells of the same usage, leave it out: another id bills it twice",
    ),
}
# Codes of fields (422), by subject.
CODES: Mapping[str, Refusal] = {
    # Any field
    "value_is_mandatory": Refusal("is missing", "send it"),
    "can't be blank": Refusal("is empty", "send at least one"),
    "value_is_invalid": Refusal("is not one of the values that the field takes", "send one of them"),
    "value_is_counted": Refusal(
        "names a property by which usage is counted, priced or shown", "leave it out: the bills depend on it"
    ),
    "value_is_out_of_range": Refusal("is outside the range of the field", "send a number within it"),
    "value_is_too_long": Refusal("is too long", "shorten it"),
    "value_is_too_short": Refusal("is too short", "lengthen it"),
    "too_long": Refusal("is too long", "shorten it"),
    "idempotency_key_reused": Refusal(
        "was sent with another request within 24 hours", "send every request with a key of its own"
    ),
    "too_far_ahead": Refusal(
        "lies further ahead of the clock than `events_ahead_days` allows",
        "correct the clock of the sender",
    ),
    "events_were_removed": Refusal(
        "lies in a period whose events were removed, so it may have been billed", "correct the bill by hand"
    ),
    "needs_removed_events": Refusal(
        "would count all events of the code, of which some were removed", "use another code, or a metric by period"
    ),
    "value_is_duplicated": Refusal("has the same entry twice", "send each once"),
    "duplicated_values": Refusal("has the same entry twice", "send each once"),
    "value_already_exist": Refusal("is already taken", "choose another one, or change the record that has it"),
    "value_already_exists": Refusal("is already taken", "choose another one, or change the record that has it"),
    "already_exists": Refusal("already exists", "change it, or delete it first"),
    "only_prices_can_wait": Refusal(
        "puts off a change of charges, taxes or thresholds as well, which count at once",
        "change the prices with `next_period`, and the rest in another request",
    ),
    "value_is_reserved": Refusal("is reserved", "choose another one"),
    "value_must_be_blank": Refusal("has no meaning for this kind of record", "leave it out"),
    "value_must_be_positive_or_zero": Refusal("is not a whole number of at least 0", "send an integer of at least 0"),
    "value_is_not_an_integer": Refusal(
        "is not a whole number", "send an integer; amounts in `_cents` have no fractions"
    ),
    "value_is_not_valid_number": Refusal("is not a number", "send a decimal number, as a number or as text"),
    "is not a number": Refusal("is not a number", "send a decimal number, as a number or as text"),
    "value_not_in_select_options": Refusal("is not one of the options", "send one of the privilege's `select_options`"),
    "values_are_invalid": Refusal("do not fit together", "send a start that is not after the end"),
    "unknown_field": Refusal("is not a field of this request", "leave it out, or correct its name"),
    "relation_must_exist": Refusal("names a record that does not exist", "create it first, or correct the name"),
    "invalid_value": Refusal("is not possible here", "see the description of the field"),
    "invalid_format": Refusal("has the wrong form", "see the description of the field"),
    "invalid_type": Refusal("is of the wrong type", "see the description of the field"),
    "invalid_identifier": Refusal("is not the code or id of any record", "send one that exists"),
    "is in invalid format": Refusal("is not an id", "send the UUID that the service returned"),
    "invalid_count": Refusal("has too many entries", "send fewer"),
    "invalid_code": Refusal("is not the code of a billable metric", "create the metric, or correct the code"),
    "must be boolean": Refusal("is neither true nor false", "send true or false"),
    "must be a string": Refusal("is not text", "send text"),
    "must_be_an_array": Refusal("is not a list", "send a list, `[...]`"),
    "must_be_array": Refusal("is not a list", "send a list, `[...]`"),
    "incompatible_params": Refusal("cannot be combined with the other parameters", "send one of them"),
    "unsupported_value": Refusal("contains an unknown value", "send values that the field's description lists"),
    "prorated_charge": Refusal(
        "is priced by a prorated charge, whose units over a lifetime are not counted", "watch another metric"
    ),
    "not_supported": Refusal("is not supported", "leave it out"),
    # Dates and places
    "invalid_date": Refusal(
        "is not a date or time", 'send ISO 8601, for instance "2026-03-31" or "2026-03-31T12:00:00Z"'
    ),
    "invalid_timestamp": Refusal("is not a time", 'send ISO 8601, for instance "2026-03-31T12:00:00Z"'),
    "date_in_the_future": Refusal("is in the future", "send a time that has passed"),
    "dispute_lost": Refusal(
        "cannot be refunded: the customer's bank has taken the money back", "credit it, or offset what is due"
    ),
    "already_counts": Refusal(
        "has begun in a time zone, and periods with it", "change the prices again: what was billed stays"
    ),
    "cannot_be_in_past": Refusal("is in the past", "send a time in the future"),
    "last_phase_has_no_end": Refusal(
        "is set for the last phase, which has no end", "leave it out; `ending_at` ends the subscription"
    ),
    "phase_too_short": Refusal("leaves a phase without a period of its own", "send a later date"),
    "starts_after_first_phase": Refusal("is after the first phase", "send an earlier day, or change the phases"),
    "ends_before_last_phase": Refusal("is before the last phase begins", "send a later end, or fewer phases"),
    "intervals_do_not_match": Refusal("is of another interval than the subscription", "use a plan of the same one"),
    "subscription_has_phases": Refusal(
        "cannot be changed beside the phases to come", "remove them first: PUT the subscription with `phases: []`"
    ),
    "invalid_timezone": Refusal("is not a time zone", 'send a name of the tz database, for instance "Europe/Paris"'),
    "not_a_valid_country_code": Refusal("is not a country", 'send two letters of ISO 3166, for instance "FR"'),
    "not_a_valid_language_code": Refusal(
        "is not a language of documents", "send one that the field's description lists"
    ),
    "country_must_be_present": Refusal("needs a country", "send the country as well"),
    "country_not_supported": Refusal("is a country where this does not exist", "leave it out"),
    "org_must_be_in_eu": Refusal("needs a seller in the European Union", "send its country first"),
    "billing_entity_must_be_in_eu": Refusal("needs a billing entity in the European Union", "send its country first"),
    # Addresses
    "invalid_email_format": Refusal("is not an e-mail address", 'send one such as "billing@acme.example"'),
    "must have at least one recipient": Refusal("has no recipient", "send an address, or give the customer one"),
    "must have email configured": Refusal("has no e-mail address", "give the billing entity an `email`"),
    "color_is_invalid": Refusal("is no color", 'send six hexadecimal digits such as "#2f55d4"'),
    "placeholder_is_unknown": Refusal(
        "has a name in braces that this kind of e-mail does not know",
        "use `{entity}`, `{customer}` and `{amount}`; in those of documents also `{number}`, of usage levels"
        " `{subscription}`",
    ),
    "origin_is_invalid": Refusal(
        "is not the origin of a site", 'send its scheme, host and port alone, such as "https://app.acme.example"'
    ),
    "url_is_invalid": Refusal("is not an http or https address", 'send one such as "https://hooks.acme.example/usage"'),
    "url_invalid": Refusal("is not an http or https address", 'send one such as "https://shop.acme.example/paid"'),
    "address_not_public": Refusal(
        "is not on the public internet", "send a public address, or allow private ones (`--private-networks`)"
    ),
    "invalid_content_type": Refusal("is not a usable image", "send a PNG or JPEG, as a data URL or base64"),
    "invalid_size": Refusal("is too large", "send a smaller image"),
    "Maximum number of webhook endpoints was reached": Refusal(
        "cannot be added: the organization has the most webhook endpoints it can have", "delete one first"
    ),
    # Billable metrics
    "not_compatible_with_aggregation_type": Refusal(
        "is not compatible with the aggregation type of the metric", "leave it out, or choose another aggregation type"
    ),
    "invalid_expression": Refusal(
        "is not a valid expression", "correct it; POST /billable_metrics/evaluate_expression evaluates it on an event"
    ),
    "expression_evaluation_failed": Refusal(
        "could not be computed from this event", "correct the event or the metric's expression"
    ),
    "invalid_event": Refusal("is not an event", "send an object with `properties`"),
    "too_many_filters": Refusal("has too many filters", "send fewer"),
    "too_many_values": Refusal("has too many values", "send fewer"),
    # Prices
    "invalid_amount": Refusal("is not an amount", 'send a decimal of at least 0 as text, for instance "0.25"'),
    "invalid_rate": Refusal("is not a rate", 'send percent as text, for instance "2.5"'),
    "invalid_fixed_amount": Refusal("is not an amount", 'send a decimal of at least 0 as text, for instance "0.25"'),
    "invalid_free_units": Refusal("is not a whole number of units", "send an integer of at least 0"),
    "invalid_package_size": Refusal("is not a package size", "send an integer of at least 1"),
    "invalid_free_units_per_events": Refusal("is not a whole number of events", "send an integer of at least 1"),
    "invalid_free_units_per_total_aggregation": Refusal("is not a quantity", 'send a decimal as text, "100"'),
    "per_transaction_max_lower_than_per_transaction_min": Refusal(
        "has a maximum below its minimum", "raise `per_transaction_max_amount`, or leave out one of the two"
    ),
    "missing_graduated_ranges": Refusal("has no ranges", "send `graduated_ranges` with at least one range"),
    "missing_graduated_percentage_ranges": Refusal(
        "has no ranges", "send `graduated_percentage_ranges` with at least one range"
    ),
    "missing_volume_ranges": Refusal("has no ranges", "send `volume_ranges` with at least one range"),
    "invalid_graduated_ranges": Refusal(
        "has a gap, an overlap or no open end",
        "start at 0, start each range where the previous one ends, and leave the last one open",
    ),
    "invalid_graduated_percentage_ranges": Refusal(
        "has a gap, an overlap or no open end",
        "start at 0, start each range where the previous one ends, and leave the last one open",
    ),
    "invalid_volume_ranges": Refusal(
        "has a gap, an overlap or no open end",
        "start at 0, start each range one above the end of the previous one, and leave the last one open",
    ),
    "too_many_keys": Refusal("has too many keys", "send fewer"),
    "invalid_charge_model": Refusal("is not compatible with the charge model", "leave it out, or choose another model"),
    "invalid_aggregation_type_or_charge_model": Refusal(
        "is not compatible with this charge model and this metric's aggregation", "choose another model or metric"
    ),
    "invalid_billable_metric_or_charge_model": Refusal(
        "is not compatible with this charge model and metric", "prorated charges need a recurring metric; leave it out"
    ),
    "not_compatible_with_pay_in_advance": Refusal(
        "is not compatible with `pay_in_advance`", "leave it out, or bill the charge in arrears"
    ),
    "must_be_true_unless_pay_in_advance": Refusal(
        "is false for a charge that is paid in arrears", "leave it out, or send `pay_in_advance: true`"
    ),
    "only_compatible_with_pay_in_advance_and_non_invoiceable": Refusal(
        "needs a charge in advance without an invoice", "also send `pay_in_advance: true` and `invoiceable: false`"
    ),
    # Spend limits, checks and holds
    "amount_or_units": Refusal("goes with one of both", "send `amount_cents` or `units`, not both, not none"),
    "units_need_a_number": Refusal(
        "cannot be counted by this metric, which adds up no property of events", "send `properties`"
    ),
    # Plans, thresholds and alerts
    "missing_amount_cents": Refusal("has an entry without `amount_cents`", "send it"),
    "multiple_recurring_thresholds": Refusal("has several recurring thresholds", "send one at most"),
    "duplicate_threshold_values": Refusal("has the same threshold twice", "send each value once"),
    "too_many_thresholds": Refusal("has too many thresholds", "send fewer"),
    "recurring_value_is_negative": Refusal("is not a step of a recurring threshold", "send a value above 0"),
    "alert_already_exists": Refusal("exists for this type and metric", "change that alert"),
    # Coupons, wallets and metadata
    "coupon_is_not_reusable": Refusal("was applied to this customer before", "apply another coupon"),
    "currencies_does_not_match": Refusal("is not in the customer's currency", "use the customer's currency"),
    "invalid_paid_credits": Refusal("is not an amount of credits", 'send a decimal of at least 0 as text, "20"'),
    "invalid_granted_credits": Refusal("is not an amount of credits", 'send a decimal of at least 0 as text, "20"'),
    "invalid_voided_credits": Refusal("is not an amount of credits", 'send a decimal of at least 0 as text, "20"'),
    "insufficient_credits": Refusal("is more than the wallet has", "void at most its balance"),
    "amount_rounds_to_zero": Refusal("is worth less than a cent", "send more credits"),
    "amount_below_minimum": Refusal(
        "is below the wallet's minimum for a top-up", "send more, or `ignore_paid_top_up_limits: true`"
    ),
    "amount_above_maximum": Refusal(
        "is above the wallet's maximum for a top-up", "send less, or `ignore_paid_top_up_limits: true`"
    ),
    "must_be_greater_than_or_equal_min": Refusal("is below the minimum", "send at least the minimum"),
    "wallet_is_terminated": Refusal("is terminated", "use an active wallet"),
    "wallet_limit_reached": Refusal("has the most active wallets that a customer can have", "terminate one first"),
    "invalid_recurring_rule": Refusal(
        "has an incomplete rule", "an interval needs `interval`, a threshold `threshold_credits` and credits to top up"
    ),
    "invalid_number_of_recurring_rules": Refusal("has more than one rule", "send one"),
    "invalid_limitations": Refusal(
        "limits the wallet to an unknown fee type or code", "send fee types and codes that exist"
    ),
    "invalid_fee_types": Refusal("has an unknown type of fee", "send values that the field's description lists"),
    "invalid_transaction_type": Refusal("is an outbound transaction", "send the id of an inbound one"),
    "invalid_key_value_pair": Refusal("has an entry that is not a pair", 'send [{"key": "...", "value": "..."}]'),
    "nested_structure_not_allowed": Refusal("has lists or objects inside", "send plain values"),
    "key_too_long": Refusal("has a key that is too long", "shorten it"),
    "value_too_long": Refusal("has a value that is too long", "shorten it"),
    "no_remaining_amount": Refusal("has nothing left", "choose a transaction with credits left"),
    "exceeds_available_amount": Refusal("is more than there is", "send less"),
    "exceeds_remaining_transaction_amount": Refusal("is more than the transaction has left", "send less"),
    "wallet_transaction_not_found": Refusal("is not the id of a transaction of this wallet", "send one that exists"),
    "wallet_transaction_not_purchased": Refusal("the transaction was granted, not purchased", "choose a purchased one"),
    "wallet_transaction_already_settled": Refusal("the transaction is settled", "there is nothing left to pay"),
    "wallet_transaction_has_no_attached_invoice": Refusal("the transaction has no invoice", "there is nothing to pay"),
    # Customers and subscriptions
    "customer_not_found": Refusal("does not exist", "create the customer first, or correct `external_customer_id`"),
    "wallet_not_found": Refusal("is not the id of a wallet", "send one that exists"),
    "payment_method_not_found": Refusal("is not a payment method of this customer", "send one of the customer's"),
    "must_be_persisted": Refusal("is not an existing customer", "create the customer first"),
    "invalid_count_per_integration_type": Refusal("links to two systems of the same kind", "send one of each kind"),
    "skip_sections_and_selected_ids_sent_together": Refusal("skips sections and selects some", "send only one of them"),
    "must be nil when has_customer_type is false": Refusal("is both required and excluded", "leave it out"),
    "subscription_incomplete": Refusal("waits for its first payment", "wait until that is settled"),
    "next_subscription_incomplete": Refusal("the next plan waits for a payment", "wait until that is settled"),
    "subscription_not_pending": Refusal("can change only before the subscription starts", "leave it out"),
    "duplicated_type": Refusal("has a type twice", "send each once"),
    "no_default_payment_method": Refusal("has no default payment method", "let the customer add one"),
    "manual_payment_method_invalid_for_payment_activation_rules": Refusal(
        "is paid manually, and activation by payment needs a provider", "choose a provider's payment method"
    ),
    "invalid_payment_method": Refusal("is not a payment method of this customer", "send one of the customer's"),
    "value_is_not_editable": Refusal("cannot be changed any more", "leave it out"),
    "currency_not_editable": Refusal("cannot be changed while the customer has something in it", "leave it out"),
    # Events
    "no_events": Refusal("has no events", "send at least one"),
    "too_many_events": Refusal("has more events than one request may bring", "send them in several batches"),
    "does_not_match_an_instant_charge": Refusal(
        "is not the metric of a charge that is paid in advance", "use the code of such a charge's metric"
    ),
    "required with timestamp_from_started_at": Refusal("is missing", "send the subscription as well"),
    "cannot be used with timestamp_from_started_at": Refusal("duplicates the other parameter", "send only one of them"),
    "invalid_json": Refusal("is not JSON", "send one JSON object for each event, in a file on one line"),
    "not_an_object": Refusal("is JSON, but not an object", "send one JSON object for each event"),
    # Invoices, credit notes and payments
    "invalid_invoice_status_or_payment_status": Refusal(
        "the invoice is paid, or not issued", "only what is issued and unpaid has a payment page"
    ),
    "amount_mismatch": Refusal("is not the sum of its items", "send their sum"),
    "total_amount_exceeds_invoice_amount": Refusal("is more than the invoice's total", "send less"),
    "higher_than_remaining_fee_amount": Refusal("is more than is left of the fee", "send at most what is left"),
    "higher_than_remaining_invoice_amount": Refusal("is more than is left of the invoice", "send at most what is left"),
    "higher_than_wallet_balance": Refusal("is more than the wallet has left", "send at most its balance"),
    "does_not_match_item_amounts": Refusal(
        "the credited, refunded and offset amounts do not add up to the sum of the items",
        "POST /credit_notes/estimate returns it",
    ),
    "total_amount_must_be_positive": Refusal("nothing is credited", "send an amount above 0"),
    "cannot_refund_unpaid_invoice": Refusal("is to be refunded, but nothing is paid", "credit it instead"),
    "cannot_credit_invoice": Refusal("cannot be credited: the invoice bought credits", "refund it instead"),
    "cannot_apply_to_paid_invoice": Refusal("is set off against an invoice that is paid", "refund it instead"),
    "not_equal_to_total_amount": Refusal("is only a part of the invoice", "set off all of it"),
    "payment_request_is_already_succeeded": Refusal("is paid", "there is nothing left to pay"),
    "invoice_is_not_payable": Refusal("cannot be paid", "only issued invoices can"),
    # Webhook endpoints
    "has_no_secret": Refusal(
        "the endpoint's messages are signed by the organization's key pair", "rotate that: POST /webhooks/rotate_key"
    ),
    "two_keys_are_valid": Refusal(
        "the organization has two valid key pairs", "end the older one first: DELETE /webhooks/old_key"
    ),
    "two_secrets_are_valid": Refusal(
        "the endpoint has two valid secrets", "end the older one first: DELETE /webhook_endpoints/{id}/old_secret"
    ),
    # Payment and tax providers
    "customer_has_no_payment_method": Refusal("the customer has no payment method", "let the customer add one"),
    "no_linked_payment_provider": Refusal("the customer has no payment provider", "link one: `billing_configuration`"),
    "missing_payment_provider": Refusal("the customer has no payment provider", "link one: `billing_configuration`"),
    "missing_payment_provider_customer": Refusal(
        "the customer is unknown to the payment provider", "send `provider_customer_id`, or `sync_with_provider: true`"
    ),
    "invalid_payment_provider": Refusal("the provider has no payment pages", "link another provider"),
    "no_payment_methods_to_setup_available": Refusal("no method can be set up", "see `provider_payment_methods`"),
    "payment_provider_error": Refusal("the payment provider gave an unexpected answer", "try again later"),
    "payment_provider_not_found": Refusal("no payment provider of this kind is connected", "connect it first"),
    "payment_provider_code_missing": Refusal(
        "several providers of this kind are connected", "send `payment_provider_code`"
    ),
    "forbidden_values": Refusal("has permissions that do not exist", "see the list of permissions"),
    "last_administrator": Refusal("nobody else is an administrator", "make another user one first"),
    "last_non_expiring_api_key": Refusal("it is the last key that does not expire", "create another one first"),
    # Previews
    "subscription_currencies_does_not_match": Refusal("the plans have different currencies", "preview them separately"),
    "subscription_billing_entities_do_not_match": Refusal("the billing entities differ", "preview them separately"),
    "billing_periods_does_not_match": Refusal("the billing periods differ", "preview them separately"),
    "new_plan_should_be_different_from_existing_plan": Refusal(
        "the subscription already has this plan", "name another plan"
    ),
    "only_one_subscription_allowed_for_termination": Refusal("several subscriptions are named", "name one"),
    "only_one_subscription_allowed_for_plan_change": Refusal("several subscriptions are named", "name one"),
}

# The state of a record refuses the action (405).
BY_STATE: Mapping[str, Refusal] = {
    "set_by_customer": Refusal("the customer has set it in the portal", "delete it, or create a limit of your own"),
    "archive_incomplete": Refusal(
        "the archive is not of this organization as it is since it was disabled", "export it again"
    ),
    "cannot_terminate_with_pending_taxes": Refusal(
        "the taxes of its last invoice are not known yet", "try again once they are, or send no credit note option"
    ),
    "clock_is_behind": Refusal("the machine's clock is behind the database", "correct the clock"),
    "clock_is_ahead": Refusal("the machine's clock is far ahead of the database", "correct it, or confirm it"),
    "connection_deleted": Refusal("its connection was deleted", "create the connection again"),
    "credit_note_not_deletable": Refusal("a finalized credit note cannot be deleted", "void it instead"),
    "credit_note_not_finalized": Refusal("the credit note is a draft", "finalize its invoice first"),
    "customer_has_credits": Refusal(
        "prepaid credits or credit notes of the customer have a balance", "use it up, refund it or void it first"
    ),
    "customer_has_open_invoices": Refusal(
        "an invoice of the customer is not finalized, or not paid", "finalize it, then collect, credit or void it"
    ),
    "customer_has_open_payments": Refusal("a payment or refund of the customer is under way", "wait for its outcome"),
    "customer_has_subscriptions": Refusal(
        "a subscription of the customer is active, or is to start", "terminate it first"
    ),
    "database_moved": Refusal(
        "the file was moved into another database while this process had it open, and nothing was changed",
        "restart this process on that database",
    ),
    "database_unavailable": Refusal(
        "the database does not answer, and nothing was changed", "send it again after the seconds of `Retry-After`"
    ),
    "deadline_passed": Refusal(
        "the answer took longer to compute than a request may, and nothing was changed",
        "ask for less at a time, or again later",
    ),
    "email_delivery_not_configured": Refusal("no mail server is configured", "start the service with `--smtp-url`"),
    "email_settings_disabled": Refusal(
        "the billing entity sends no e-mails of this kind", "add it to the entity's `email_settings`"
    ),
    "feature_not_supported": Refusal("the provider does not support this", "link a provider that does"),
    "full_usage_not_allowed": Refusal(
        "the full usage of everything, or of prorated charges, cannot be shown", "name one charge that is not prorated"
    ),
    "invalid_status": Refusal("its status does not allow this", "check its `status`"),
    "invalid_type_or_status": Refusal(
        "this type of invoice, or its status, does not allow credit notes of this kind", "see its type and status"
    ),
    "invoice_not_finalized": Refusal("the invoice is not finalized", "finalize it first"),
    "hold_has_ended": Refusal("the hold was captured, released or has expired", "hold again, or send the event"),
    "month_is_closed": Refusal("its month is closed in the books", "set a rate from a later day on"),
    "invoiced_fee": Refusal("the fee is on an invoice", "change the invoice, or credit it"),
    "invoices_have_different_billing_entities": Refusal(
        "the invoices have different billing entities", "request them separately"
    ),
    "invoices_have_different_currencies": Refusal("the invoices have different currencies", "request them separately"),
    "invoices_not_overdue": Refusal("one of the invoices is not overdue", "request overdue ones only"),
    "invoices_not_ready_for_payment_processing": Refusal(
        "a payment of one is under way, or its outcome is unknown", "wait for its outcome, or say it: see Payments"
    ),
    "is_succeeded": Refusal("the message was delivered", "only failed ones are sent again"),
    "metadata_on_draft_invoice": Refusal("the invoice is a draft", "set its metadata once it is finalized"),
    "no_active_subscription": Refusal("the customer has no such active subscription", "see its subscriptions"),
    "no_refund_to_retry": Refusal(
        "nothing of the refund has failed, or no provider can make it", "see `refund_status`; pay it back by hand"
    ),
    "no_voidable_amount": Refusal("nothing of the credit note is left", "there is nothing to void"),
    "not_deletable": Refusal("the invoice cannot be deleted", "only drafts and failed ones can"),
    "not_disputable": Refusal("the invoice is not issued", "only issued invoices can be lost in a dispute"),
    "not_linked": Refusal("the customer is linked to no such system", "link it: `integration_customers`"),
    "not_voidable": Refusal(
        "the invoice cannot be voided",
        "only finalized ones can, and payments go back with generate_credit_note; or credit it",
    ),
    "nothing_to_refund": Refusal(
        "the payment has brought nothing beyond what is due", "give back a sale with a credit note: POST /credit_notes"
    ),
    "only_one_limitation_type_per_coupon_allowed": Refusal(
        "the coupon is limited to plans and to metrics at once", "send `plan_codes` or `billable_metric_codes`"
    ),
    "events_are_shipped": Refusal(
        "an event store has the events too, and would count them still", "remove none, or do without the event store"
    ),
    "events_were_removed": Refusal(
        "events of that time were removed after they had been billed", "see what is kept of them: the explained invoice"
    ),
    "organization_not_disabled": Refusal("the organization is not disabled", "disable it, then export it"),
    "outcome_unknown": Refusal(
        "the connection to the database broke while the change was stored, so it was made, or not",
        "send it again with the same `Idempotency-Key`, or look whether it was made",
    ),
    "payment_method_not_usable": Refusal("the payment method cannot be charged any more", "choose another one"),
    "payment_outcome_unknown": Refusal(
        "an earlier charge may have taken the money: its provider has not said",
        "look there: record the payment, or set `payment_status` to `failed`",
    ),
    "payment_processor_is_currently_handling_payment": Refusal("a payment is under way", "wait for its outcome"),
    "payment_status_update_on_draft_invoice": Refusal("the invoice is a draft", "finalize it first"),
    "plan_overlapping": Refusal(
        "the customer has a coupon that is limited to one of the same plans or metrics", "terminate that one first"
    ),
    "purchase_order_number_not_editable": Refusal("the subscription has ended", "leave `purchase_order_number` out"),
    "refund_outcome_unknown": Refusal(
        "an earlier refund may have been made: its provider has not said",
        "look there, and say it: `refund_status` of the note, or `by_hand` of the payment's refund",
    ),
    "refused_event_unreadable": Refusal("it could not be read as an event", "send it again, as JSON"),
    "schema_is_newer": Refusal(
        "the database was upgraded by a newer version than this process, and nothing was changed",
        "restart this process as that version",
    ),
    "storage_full": Refusal(
        "the database has no room left on its disk, and nothing was changed", "make room, then send it again"
    ),
    "subscription_incomplete": Refusal("the subscription waits for its first payment", "wait until it is settled"),
    "update_on_voided_invoice": Refusal("the invoice is voided", "a voided invoice stays as it is"),
}

# Usage beyond what a limit, a quota or prepaid credits leave (402).
BEYOND: Mapping[str, Refusal] = {
    "insufficient_credits": Refusal("the prepaid credits do not pay for this", "buy credits, or use less"),
    "quota_reached": Refusal("the quota of units would be passed", "wait until it starts over, or change the plan"),
    "spend_limit_reached": Refusal("a spend limit would be passed", "wait until it starts over, or raise it"),
}

# The key or the product does not permit it (403); the codes of missing permissions are `*_action_not_allowed_for_*`.
NOT_PERMITTED: Mapping[str, Refusal] = {
    "cannot_finalize_with_pending_taxes": Refusal(
        "the taxes of the invoice are not known yet", "try again once its `tax_status` is succeeded"
    ),
    "cannot_override_charge_model": Refusal(
        "the charge model of a plan's charge cannot be overridden", "send the plan's model, or create another plan"
    ),
    "customer_limit_reached": Refusal(
        "the organization has as many customers as it may have", "delete some, or have its limit raised"
    ),
    "daily_event_limit_reached": Refusal(
        "the organization has sent as many events as it may today, and none of these was stored",
        "send them again after midnight UTC, or have its limit raised",
    ),
    "feature_unavailable": Refusal(
        "this is not possible in the record's current state", "see the operation's description"
    ),
    "organization_disabled": Refusal(
        "the organization is disabled", "ask the operator of the service: `usagebill organizations enable`"
    ),
    "permissions_beyond_own": Refusal(
        "a key cannot give permissions that it does not have", "use a key that has them all"
    ),
}

# The name of a resource, and where its records are listed; `<resource>_not_found` (404).
RESOURCES: Mapping[str, tuple[str, str]] = {
    "activity_log": ("activity", "GET /activity_logs"),
    "add_on": ("add-on", "GET /add_ons"),
    "add_ons": ("add-on", "GET /add_ons"),
    "adjusted_fee": ("adjusted line on a draft", "GET /invoices/{id}"),
    "alert": ("alert", "GET /subscriptions/{external_id}/alerts"),
    "api_key": ("API key", "GET /api_keys"),
    "api_log": ("logged request", "GET /api_logs"),
    "applied_coupon": ("applied coupon", "GET /applied_coupons"),
    "billable_metric": ("billable metric", "GET /billable_metrics"),
    "billable_metrics": ("billable metric", "GET /billable_metrics"),
    "billing_entity": ("billing entity", "GET /billing_entities"),
    "charge": ("charge", "GET /plans/{code}/charges"),
    "charge_filter": ("filter of the charge", "GET /plans/{code}/charges/{charge_code}/filters"),
    "coupon": ("coupon", "GET /coupons"),
    "credit_note": ("credit note", "GET /credit_notes"),
    "customer": ("customer", "GET /customers"),
    "document": ("document", "POST /invoices/{id}/download"),
    "dunning_campaign": ("dunning campaign", "GET /dunning_campaigns"),
    "exchange_rate": ("exchange rate", "GET /exchange_rates"),
    "entitlement": ("entitlement", "GET /plans/{code}/entitlements"),
    "event": ("event", "GET /events"),
    "feature": ("feature", "GET /features"),
    "fee": ("fee", "GET /fees"),
    "fees": ("fee in the request", "POST /invoices takes at least one in `fees`"),
    "fixed_charge": ("fixed charge", "GET /plans/{code}/fixed_charges"),
    "hold": ("hold", "GET /holds"),
    "invoice": ("invoice", "GET /invoices"),
    "invoice_custom_section": ("custom section", "GET /invoice_custom_sections"),
    "job": ("failed job", "`usagebill jobs list`"),
    "lifetime_usage": ("lifetime usage", "a subscription has it once it has started"),
    "metadata": ("metadata", "POST metadata first"),
    "organization": ("organization", "`usagebill organizations list`"),
    "payment": ("payment", "GET /payments"),
    "payment_connection": ("connection to a payment provider", "`usagebill payment-connections list`"),
    "payment_method": ("payment method", "GET /customers/{external_id}/payment_methods"),
    "payment_receipt": ("payment receipt", "GET /payment_receipts"),
    "payment_request": ("payment request", "GET /payment_requests"),
    "plan": ("plan", "GET /plans"),
    "plans": ("plan", "GET /plans"),
    "privilege": ("privilege", "GET /features/{code}"),
    "refused_event": ("refused event", "`usagebill events refused`"),
    "resource": ("operation at this address", "GET /docs"),
    "scheduled_prices": ("price version that scheduled prices of the plan", "GET /plans/{code}"),
    "security_log": ("event of security", "GET /security_logs"),
    "session": ("session", "the page of its user in the console"),
    "spend_limit": ("spend limit", "GET /customers/{external_id}/spend_limits"),
    "subscription": ("subscription", "GET /subscriptions"),
    "sync_connection": ("connection to another system", "`usagebill sync-connections list`"),
    "synced_document": ("document handed to another system", "GET /synced_documents"),
    "tax": ("tax", "GET /taxes"),
    "tax_connection": ("connection to a tax provider", "`usagebill tax-connections list`"),
    "user": ("user", "`usagebill users list`"),
    "wallet": ("wallet", "GET /wallets"),
    "wallet_transaction": ("wallet transaction", "GET /wallets/{id}/wallet_transactions"),
    "webhook": ("webhook message", "`usagebill webhooks list`"),
    "webhook_endpoint": ("webhook endpoint", "GET /webhook_endpoints"),
}

# The words for a field code without a row.
UNNAMED = Refusal("is refused", "see the description of the field")


def refusal_of(code: str) -> Refusal:
    """A code of a field in words; codes that are sentences (`must be one of: ...`) speak for themselves."""
    # Some codes name their subject in brackets: `invalid_email_format[0,nobody]`.
    refusal = CODES.get(code) or CODES.get(code.partition("[")[0])
    if refusal is None and code.startswith("must be one of: "):
        return Refusal("is not one of the values that the field takes", f"send one of: {code.partition(': ')[2]}")
    if refusal is None and " " in code:
        return Refusal(code, "")
    return refusal or UNNAMED
