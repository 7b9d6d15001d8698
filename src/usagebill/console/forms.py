"""The forms of the console: one row each, with its operations and fields; one page shows them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from usagebill.console.fields import EFFECTIVE, Field, Kind, choices, text_of, value_of
from usagebill.core.aggregation import AGGREGATIONS
from usagebill.core.billable_metrics import ROUNDING_FUNCTIONS, WEIGHTED_INTERVALS
from usagebill.core.coupons import CouponExpiration, CouponFrequency, CouponType
from usagebill.core.entitlements import ValueType
from usagebill.core.payment_providers import KINDS
from usagebill.core.periods.calendar import BillingTime, Interval
from usagebill.core.sync_connections import KINDS as SYNC_KINDS
from usagebill.core.tax_providers import KINDS as TAX_KINDS
from usagebill.core.webhooks import SignatureAlgorithm


@dataclass(frozen=True, slots=True)
class Form:
    """A form that makes a record of a list and, with `update`, changes it.

    `path` is that of the list, and of the record's page; `key` the field that names the record. `fields` are of both,
    `made_with` of a new record alone and `changed_with` of a change. `currency` is the field with that of its amounts.
    """

    path: str
    noun: str
    create: str
    fields: Sequence[Field]
    update: str = ""
    made_with: Sequence[Field] = ()
    changed_with: Sequence[Field] = ()
    key: str = "code"
    currency: str = "currency"
    about: str = ""
    # Whether the operation that makes a record also changes it.
    is_upsert: bool = False
    # What is chosen before the rest is asked: `only_for` of fields names values of it.
    chooser: Field | None = None
    # What a new record has unless it is changed.
    filled: Mapping[str, str] = field(default_factory=dict)


_NAME = Field("name", "Name", required=True)
_CODE = Field("code", "Code", required=True, hint="What programs call it: not changed later without need")
_DESCRIPTION = Field("description", "Description", Kind.LONG)
_TAXES = Field("tax_codes", "Taxes", Kind.LIST, hint="Codes, apart by commas")
_CURRENCY = Field("amount_currency", "Currency", Kind.CURRENCY, required=True, hint="A code, like EUR")
_CUSTOMER = Field("external_customer_id", "Customer id", required=True)
# What a program of one's own counts cannot be typed.
_AGGREGATIONS = tuple(name for name, aggregation in AGGREGATIONS.items() if not aggregation.is_program)
_CONFIGURATION = "billing_configuration"
_INTERVALS = sorted(Interval, key=lambda interval: interval != Interval.MONTHLY)


def _privilege(code: str, values: Sequence[str]) -> Mapping[str, object]:
    """A privilege from `most: integer`, or from `level: select, basic, pro`."""
    type, *options = values or [ValueType.BOOLEAN.value]
    return {"code": code, "value_type": type, **({"config": {"select_options": options}} if options else {})}


def _privilege_line(privilege: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    return privilege["code"], [privilege["value_type"], *privilege["config"].get("select_options", ())]


def _threshold(currency: str, amounts: Sequence[str]) -> Mapping[str, object]:
    """The overdue amount of a currency from `EUR: 50.00`."""
    code, field = currency.upper(), Field("thresholds", "Overdue amounts", Kind.MONEY)
    return {
        "currency": code,
        "amount_cents": value_of(field, "".join(amounts[:1]), code) if len(amounts) == 1 else None,
    }


def _threshold_line(threshold: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    currency = threshold["currency"]
    return currency, [text_of(Field("thresholds", "", Kind.MONEY), threshold["amount_cents"], currency)]


def _credential(name: str, label: str, kind: Kind = Kind.SECRET) -> Field:
    """A credential of those payment providers that have it."""
    users = [provider for provider in KINDS.values() if name in (*provider.required, *provider.optional)]
    optional = all(name in provider.optional for provider in users)
    hint = "Without it, the provider's notices are refused; for some it is fetched. " if optional else ""
    return Field(
        name,
        label,
        kind,
        hint=f"{hint}Empty on a change: the one that it has",
        only_for=[provider.name for provider in users],
    )


def _kinds_with(setting: str) -> Sequence[str]:
    return [provider.name for provider in KINDS.values() if setting in provider.settings]


FORMS: Sequence[Form] = (
    Form(
        "customers",
        "customer",
        "customers.upsert",
        (
            Field("name", "Name"),
            Field("email", "E-mail address", Kind.EMAIL),
            Field("currency", "Currency", Kind.CURRENCY, hint="A code, like EUR; without one, that of the first plan"),
            Field("country", "Country", hint="Two letters, like DE"),
            Field("address_line1", "Street and number"),
            Field("address_line2", "More of the address"),
            Field("zipcode", "Postal code"),
            Field("city", "City"),
            Field("state", "State or province"),
            Field("legal_name", "Legal name"),
            Field("tax_identification_number", "Tax id"),
            Field("timezone", "Time zone", hint="Like Europe/Berlin"),
            Field("net_payment_term", "Days to pay", Kind.WHOLE),
            _TAXES,
        ),
        made_with=(Field("external_id", "Id", required=True, hint="Yours, which programs name the customer by"),),
        key="external_id",
        is_upsert=True,
    ),
    Form(
        "subscriptions",
        "subscription",
        "subscriptions.create",
        (
            Field("name", "Name", hint="On invoices, instead of the plan's"),
            Field("ending_at", "Ends on", Kind.DATE),
        ),
        update="subscriptions.update",
        made_with=(
            _CUSTOMER,
            Field("plan_code", "Plan", required=True),
            Field("external_id", "Id", required=True, hint="Yours, which events name the subscription by"),
            Field("subscription_at", "Starts on", Kind.DATE, hint="Without a date, now"),
            Field("billing_time", "Periods", Kind.CHOICE, choices(tuple(BillingTime))),
        ),
        key="external_id",
        currency="plan_amount_currency",
        about="The plan of a customer. Another plan for the same id is an upgrade or a downgrade.",
    ),
    Form(
        "plans",
        "plan",
        "plans.create",
        (
            _NAME,
            _CODE,
            _DESCRIPTION,
            Field("amount_cents", "Fee of each period", Kind.MONEY, required=True, hint="0 for usage alone"),
            _CURRENCY,
            Field("interval", "Period", Kind.CHOICE, choices(_INTERVALS)),
            Field("pay_in_advance", "The fee is paid at the start of each period", Kind.FLAG),
            Field("trial_period", "Days of trial", Kind.NUMBER),
            Field("bill_charges_monthly", "Usage of a longer period is billed every month", Kind.FLAG),
            Field("bill_fixed_charges_monthly", "Fixed charges of a longer period are billed every month", Kind.FLAG),
            Field("offered_in_portal", "Customers may change to it, and from it, in their portal", Kind.FLAG),
            _TAXES,
        ),
        update="plans.update",
        changed_with=(
            Field("cascade_updates", "Also for subscriptions with prices of their own", Kind.FLAG),
            *EFFECTIVE,
        ),
        currency="amount_currency",
        about="A fee for each period. Charges, a minimum, thresholds and features are on the plan's page.",
    ),
    Form(
        "metrics",
        "billable metric",
        "billable_metrics.create",
        (
            _NAME,
            _CODE,
            _DESCRIPTION,
            Field("aggregation_type", "Events are", Kind.CHOICE, choices(_AGGREGATIONS)),
            Field("field_name", "Property with the units", hint="Not for a count of events"),
            Field("expression", "Or an expression", hint="Like event.properties.gb * event.properties.hours"),
            Field("recurring", "Units stay from period to period, like seats or storage", Kind.FLAG),
            Field(
                "weighted_interval", "Step of a weighted sum", Kind.CHOICE, (("", "None"), *choices(WEIGHTED_INTERVALS))
            ),
            Field("rounding_function", "Units are rounded", Kind.CHOICE, (("", "Not"), *choices(ROUNDING_FUNCTIONS))),
            Field("rounding_precision", "Decimals that are kept", Kind.WHOLE),
            Field(
                "filters",
                "Properties by which prices may differ",
                Kind.LINES,
                hint="On each line a property and all its values, like region: us, eu",
            ),
        ),
        update="billable_metrics.update",
        about="How events are counted. Events name it by its code.",
    ),
    Form(
        "add-ons",
        "add-on",
        "add_ons.create",
        (
            _NAME,
            _CODE,
            _DESCRIPTION,
            Field("amount_cents", "Price of one", Kind.MONEY, required=True),
            _CURRENCY,
            Field("invoice_display_name", "Name on invoices"),
            _TAXES,
        ),
        update="add_ons.update",
        currency="amount_currency",
    ),
    Form(
        "coupons",
        "coupon",
        "coupons.create",
        (
            _NAME,
            _CODE,
            _DESCRIPTION,
            Field("coupon_type", "Takes off", Kind.CHOICE, choices(tuple(CouponType))),
            Field("amount_cents", "Amount", Kind.MONEY, hint="Of a fixed amount"),
            Field("amount_currency", "Currency of the amount", Kind.CURRENCY, hint="A code, like EUR"),
            Field("percentage_rate", "Percent", Kind.NUMBER, hint="Of a percentage"),
            Field("frequency", "How often", Kind.CHOICE, choices(tuple(CouponFrequency))),
            Field("frequency_duration", "Number of periods", Kind.WHOLE, hint="If it recurs"),
            Field("expiration", "Expires", Kind.CHOICE, choices(tuple(CouponExpiration))),
            Field("expiration_at", "Expires on", Kind.DATE, hint="With a time limit"),
            Field("reusable", "May be applied to a customer more than once", Kind.FLAG),
        ),
        update="coupons.update",
        currency="amount_currency",
    ),
    Form(
        "applied-coupons",
        "coupon of a customer",
        "applied_coupons.apply",
        (),
        made_with=(_CUSTOMER, Field("coupon_code", "Coupon", required=True)),
        key="coupon_code",
    ),
    Form(
        "taxes",
        "tax",
        "taxes.create",
        (
            _NAME,
            _CODE,
            _DESCRIPTION,
            Field("rate", "Percent", Kind.NUMBER, required=True),
            Field("applied_to_organization", "On everything that you sell", Kind.FLAG),
        ),
        update="taxes.update",
    ),
    Form(
        "wallets",
        "wallet",
        "wallets.create",
        (Field("name", "Name"), Field("expiration_at", "Expires on", Kind.DATE)),
        update="wallets.update",
        made_with=(
            _CUSTOMER,
            Field("currency", "Currency", Kind.CURRENCY, required=True, hint="A code, like EUR"),
            Field("rate_amount", "Price of one credit", Kind.NUMBER, required=True),
            Field("paid_credits", "Credits to buy now", Kind.NUMBER),
            Field("granted_credits", "Credits given for free", Kind.NUMBER),
        ),
        key="svc_id",
    ),
    Form(
        "features",
        "feature",
        "features.create",
        (
            _NAME,
            _DESCRIPTION,
            Field(
                "privileges",
                "Privileges",
                Kind.LINES,
                hint="On each line a code and its type (integer, boolean, string, or select with its options), like"
                " level: select, basic, pro. One that is left out stays.",
                item=_privilege,
                line=_privilege_line,
            ),
        ),
        update="features.update",
        made_with=(_CODE,),
        about="What plans entitle to. A plan's page gives it to the plan, with the values of its privileges.",
    ),
    Form(
        "endpoints",
        "webhook endpoint",
        "webhook_endpoints.create",
        (
            Field("webhook_url", "Address", required=True, hint="https://..., which answers within 10 seconds"),
            Field("name", "Name"),
            Field("signature_algo", "Signature", Kind.CHOICE, choices(tuple(SignatureAlgorithm))),
        ),
        update="webhook_endpoints.update",
        key="svc_id",
        about="Every message is sent to it; programs choose among them.",
    ),
    Form(
        "payment-connections",
        "payment provider",
        "payment_connections.create",
        (
            _NAME,
            _credential("secret_key", "Secret key"),
            _credential("access_token", "Access token"),
            _credential("api_key", "API key"),
            _credential("client_id", "Client id"),
            _credential("client_secret", "Client secret"),
            _credential("merchant_account", "Merchant account"),
            _credential("flow_id", "Flow of payment pages"),
            _credential("webhook_secret", "Secret of its notices"),
            _credential("hmac_key", "HMAC key of its notices"),
            _credential("signature_key", "Signature key of its notices"),
            Field("live", "Payments are real: it is not a test account", Kind.FLAG),
            Field("live_prefix", "Prefix of the live address", only_for=_kinds_with("live_prefix")),
            Field("success_redirect_url", "Customers come back to", hint="https://..., after a payment page"),
            Field("supports_3ds", "Cards are confirmed by 3-D Secure", Kind.FLAG, only_for=_kinds_with("supports_3ds")),
            Field(
                "require_terms_of_service_consent",
                "Payment pages ask for consent to your terms",
                Kind.FLAG,
                only_for=_kinds_with("require_terms_of_service_consent"),
            ),
            Field("url", "Address of its API", hint="Empty: its public address"),
        ),
        update="payment_connections.update",
        made_with=(_CODE,),
        chooser=Field("kind", "Provider", Kind.CHOICE, [(kind.name, kind.title) for kind in KINDS.values()]),
        filled={"live": "yes"},
        about="Collects invoices. Customers name it by its code.",
    ),
    Form(
        "tax-connections",
        "tax provider",
        "tax_connections.create",
        (
            _NAME,
            Field("url", "Address", required=True, hint="Like https://taxes.example"),
            Field("api_key", "API key", Kind.SECRET, hint="Empty on a change: the one that it has"),
        ),
        update="tax_connections.update",
        made_with=(_CODE, Field("kind", "System", Kind.CHOICE, choices(TAX_KINDS))),
        about="Computes the taxes of invoices.",
    ),
    Form(
        "sync-connections",
        "connection",
        "sync_connections.create",
        (
            _NAME,
            Field("url", "Address of your bridge", required=True, hint="Like https://books.example"),
            Field("api_key", "API key", Kind.SECRET, hint="Empty on a change: the one that it has"),
            Field("sync_invoices", "It is sent invoices", Kind.FLAG),
            Field("sync_credit_notes", "It is sent credit notes", Kind.FLAG),
            Field("sync_payments", "It is sent payments", Kind.FLAG),
        ),
        update="sync_connections.update",
        made_with=(_CODE, Field("kind", "System", Kind.CHOICE, choices(SYNC_KINDS))),
        filled={"sync_invoices": "yes", "sync_credit_notes": "yes", "sync_payments": "yes"},
        about="An accounting system or CRM is sent customers, invoices, credit notes and payments.",
    ),
    Form(
        "dunning-campaigns",
        "dunning campaign",
        "dunning_campaigns.create",
        (
            _NAME,
            _CODE,
            _DESCRIPTION,
            Field(
                "thresholds",
                "Overdue amounts from which it asks",
                Kind.LINES,
                required=True,
                hint="On each line a currency and an amount, like EUR: 50.00",
                item=_threshold,
                line=_threshold_line,
            ),
            Field("days_between_attempts", "Days between two requests", Kind.WHOLE),
            Field("max_attempts", "Requests, at most", Kind.WHOLE),
            Field("bcc_emails", "Blind copies to", Kind.LIST, hint="Addresses, apart by commas"),
        ),
        update="dunning_campaigns.update",
        about="Asks for overdue invoices again and again. Billing entities and customers name it by its code.",
    ),
    Form(
        "entities",
        "billing entity",
        "billing_entities.create",
        (
            _NAME,
            Field("legal_name", "Legal name"),
            Field("legal_number", "Registration number"),
            Field("tax_identification_number", "Tax id"),
            Field("email", "E-mail address", Kind.EMAIL),
            Field("phone", "Phone"),
            Field("address_line1", "Street and number"),
            Field("address_line2", "More of the address"),
            Field("zipcode", "Postal code"),
            Field("city", "City"),
            Field("state", "State or province"),
            Field("country", "Country", hint="Two letters, like DE"),
            Field("default_currency", "Currency", Kind.CURRENCY, hint="A code, like EUR"),
            Field("timezone", "Time zone", hint="Like Europe/Berlin"),
            Field("document_number_prefix", "Invoice numbers begin with"),
            Field("net_payment_term", "Days to pay", Kind.WHOLE),
            Field("document_locale", "Language of documents", within=_CONFIGURATION, hint="Like en or de"),
            Field("invoice_grace_period", "Days that an invoice is a draft", Kind.WHOLE, within=_CONFIGURATION),
            Field("invoice_footer", "Last line of invoices", Kind.LONG, within=_CONFIGURATION),
            Field("portal_color", "Color of the customer portal", hint="Like #2f55d4"),
            Field(
                "portal_frame_origins",
                "Sites that may show the portal in a frame",
                Kind.LIST,
                hint="Like https://app.example.com, apart by commas",
            ),
            Field("portal_spend_limits", "Customers set spend limits of their own in the portal", Kind.FLAG),
            _TAXES,
        ),
        update="billing_entities.update",
        made_with=(_CODE,),
        about="Who invoices come from, and how they look. Drafts and previews show a change at once.",
    ),
)

BY_PATH: Mapping[str, Form] = {form.path: form for form in FORMS}
