"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.plans import ChargeFilter
from usagebill.fields import (
    ActivationRuleFields,
    AddressFields,
    AppliedPricingUnitFields,
    AuthorizationFields,
    BillingConfigurationFields,
    ChargeFilterFields,
    ChargeProperties,
    CustomerMetadataFields,
    CustomSectionChoice,
    EntityConfigurationFields,
    FixedChargeProperties,
    IntegrationCustomerFields,
    Number,
    PaymentMethodChoice,
    PlanOverridesFields,
    UsageThresholdFields,
)
from usagebill.records import (
    AppliedCoupon,
    BillingEntity,
    Charge,
    Customer,
    FixedCharge,
    InvoiceCustomSection,
    LifetimeUsageNow,
    Organization,
    Pages,
    SetupPage,
    Subscription,
)

class AppliedCoupons(Resource):
    """Coupons of customers."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def apply(
        self,
        *,
        external_customer_id: str,
        coupon_code: str,
        frequency: Literal["once", "recurring", "forever"] | None = ...,
        frequency_duration: int | None = ...,
        amount_cents: int | None = ...,
        amount_currency: str | None = ...,
        percentage_rate: Number | None = ...,
    ) -> AppliedCoupon:
        """Attach a coupon to a customer.

        A fixed amount has to be in the customer's currency, and gives its own to a customer without one. Raises `NotFound`
        for the customer or an active coupon of this code, `NotAllowed` if the customer has a coupon with the same targets,
        and `Invalid`.

        external_customer_id: The customer, by your own id. Required.
        coupon_code: The coupon, by code. Required.
        frequency: How many invoices it reduces. One of once, recurring, forever. Default: that of the coupon.
        frequency_duration: How many invoices a recurring coupon reduces. In invoices.
        amount_cents: The discount. In cents. Default: that of the coupon.
        amount_currency: The currency of the amount, ISO 4217.
        percentage_rate: The discount. In percent. Default: that of the coupon.
        """

    def list_of_customer(
        self,
        external_id: str,
        *,
        external_customer_id: str | None = ...,
        status: Literal["active", "terminated"] | None = ...,
        coupon_code: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[AppliedCoupon]:
        """The applied coupons of one customer, latest first. Raises `NotFound` for an unknown customer.

        external_id: Your own id of it.
        external_customer_id: The customer, by your own id.
        status: Only those with this status. One of active, terminated.
        coupon_code: Only those of these coupons, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def terminate(self, external_id: str, applied_coupon_id: str) -> AppliedCoupon:
        """End a coupon for a customer; past discounts stay. Raises `NotFound` for the customer or the coupon.

        external_id: Your own id of it.
        applied_coupon_id: The applied coupon, by id.
        """

    def list(
        self,
        *,
        external_customer_id: str | None = ...,
        status: Literal["active", "terminated"] | None = ...,
        coupon_code: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[AppliedCoupon]:
        """Applied coupons, latest first; those of deleted customers are left out.

        external_customer_id: The customer, by your own id.
        status: Only those with this status. One of active, terminated.
        coupon_code: Only those of these coupons, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class BillingEntities(Resource):
    """Who issues invoices."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        default_currency: str | None = ...,
        document_numbering: Literal["per_customer", "per_billing_entity"] | None = ...,
        document_number_prefix: str | None = ...,
        finalize_zero_amount_invoice: bool | None = ...,
        net_payment_term: int | None = ...,
        address_line1: str | None = ...,
        address_line2: str | None = ...,
        city: str | None = ...,
        state: str | None = ...,
        country: str | None = ...,
        zipcode: str | None = ...,
        email: str | None = ...,
        phone: str | None = ...,
        legal_name: str | None = ...,
        legal_number: str | None = ...,
        tax_identification_number: str | None = ...,
        timezone: str | None = ...,
        email_settings: Sequence[str] | None = ...,
        billing_configuration: EntityConfigurationFields | Mapping[str, Any] | None = ...,
        einvoicing: bool | None = ...,
        eu_tax_management: bool | None = ...,
        logo: str | None = ...,
        tax_codes: Sequence[str] | None = ...,
        invoice_custom_section_codes: Sequence[str] | None = ...,
        applied_dunning_campaign_code: str | None = ...,
    ) -> BillingEntity:
        """A new billing entity, with defaults for absent fields. Raises `Invalid`, and `NotFound` for taxes.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        default_currency: The currency of customers without one, ISO 4217.
        document_numbering: The scope of invoice numbers. One of per_customer, per_billing_entity. Default: per_customer.
        document_number_prefix: The prefix of invoice numbers, up to ten letters.
        finalize_zero_amount_invoice: Whether invoices with a total of 0 are issued. Default: true.
        net_payment_term: The payment term of invoices. In days. Default: 0.
        address_line1: Street and number.
        address_line2: The second line of the address.
        city: The city.
        state: The state or province.
        country: The country, ISO 3166-1 with two letters.
        zipcode: The postal code.
        email: The e-mail address; several are separated by commas.
        phone: The telephone number.
        legal_name: The legal name, shown on documents.
        legal_number: The company registration number.
        tax_identification_number: The VAT or other tax number.
        timezone: The time zone of days and billing periods, by its IANA name.
        email_settings: The e-mails to send. One of invoice.finalized, credit_note.created, payment_receipt.created.
        billing_configuration: How invoices are issued and paid.
        einvoicing: Whether to create e-invoices. Default: false.
        eu_tax_management: Whether EU VAT is determined from addresses and VAT numbers. Default: false.
        logo: The logo of documents: a PNG or JPEG as `data:image/png;base64,...`.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        invoice_custom_section_codes: The custom sections at the end of invoices, by code.
        applied_dunning_campaign_code: The dunning campaign for overdue invoices, by code.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        default_currency: str | None = ...,
        document_numbering: Literal["per_customer", "per_billing_entity"] | None = ...,
        document_number_prefix: str | None = ...,
        finalize_zero_amount_invoice: bool | None = ...,
        net_payment_term: int | None = ...,
        address_line1: str | None = ...,
        address_line2: str | None = ...,
        city: str | None = ...,
        state: str | None = ...,
        country: str | None = ...,
        zipcode: str | None = ...,
        email: str | None = ...,
        phone: str | None = ...,
        legal_name: str | None = ...,
        legal_number: str | None = ...,
        tax_identification_number: str | None = ...,
        timezone: str | None = ...,
        email_settings: Sequence[str] | None = ...,
        billing_configuration: EntityConfigurationFields | Mapping[str, Any] | None = ...,
        code: str | None = ...,
        einvoicing: bool | None = ...,
        eu_tax_management: bool | None = ...,
        logo: str | None = ...,
        tax_codes: Sequence[str] | None = ...,
        invoice_custom_section_codes: Sequence[str] | None = ...,
        applied_dunning_campaign_code: str | None = ...,
    ) -> BillingEntity:
        """Change what is sent, never the code; drafts of its customers follow. Raises as `create` does.

        current_code: Its code.
        name: A readable name.
        default_currency: The currency of customers without one, ISO 4217.
        document_numbering: The scope of invoice numbers. One of per_customer, per_billing_entity. Default: per_customer.
        document_number_prefix: The prefix of invoice numbers, up to ten letters.
        finalize_zero_amount_invoice: Whether invoices with a total of 0 are issued. Default: true.
        net_payment_term: The payment term of invoices. In days. Default: 0.
        address_line1: Street and number.
        address_line2: The second line of the address.
        city: The city.
        state: The state or province.
        country: The country, ISO 3166-1 with two letters.
        zipcode: The postal code.
        email: The e-mail address; several are separated by commas.
        phone: The telephone number.
        legal_name: The legal name, shown on documents.
        legal_number: The company registration number.
        tax_identification_number: The VAT or other tax number.
        timezone: The time zone of days and billing periods, by its IANA name.
        email_settings: The e-mails to send. One of invoice.finalized, credit_note.created, payment_receipt.created.
        billing_configuration: How invoices are issued and paid.
        code: The code that identifies it, unique among its kind.
        einvoicing: Whether to create e-invoices. Default: false.
        eu_tax_management: Whether EU VAT is determined from addresses and VAT numbers. Default: false.
        logo: The logo of documents: a PNG or JPEG as `data:image/png;base64,...`.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        invoice_custom_section_codes: The custom sections at the end of invoices, by code.
        applied_dunning_campaign_code: The dunning campaign for overdue invoices, by code.
        """

    def get(self, code: str) -> BillingEntity:
        """The billing entity with this code; an archived one only if no active one has it. Raises `NotFound`.

        code: Its code.
        """

    def list(self) -> list[BillingEntity]:
        """The active billing entities, oldest first; the first is the default one."""

class Customers(Resource):
    """Who is billed."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def upsert(
        self,
        *,
        external_id: str,
        billing_entity_code: str | None = ...,
        name: str | None = ...,
        firstname: str | None = ...,
        lastname: str | None = ...,
        customer_type: Literal["company", "individual"] | None = ...,
        account_type: Literal["customer", "partner"] | None = ...,
        currency: str | None = ...,
        email: str | None = ...,
        phone: str | None = ...,
        url: str | None = ...,
        logo_url: str | None = ...,
        legal_name: str | None = ...,
        legal_number: str | None = ...,
        tax_identification_number: str | None = ...,
        address_line1: str | None = ...,
        address_line2: str | None = ...,
        city: str | None = ...,
        state: str | None = ...,
        zipcode: str | None = ...,
        country: str | None = ...,
        shipping_address: AddressFields | Mapping[str, Any] | None = ...,
        timezone: str | None = ...,
        net_payment_term: int | None = ...,
        finalize_zero_amount_invoice: Literal["inherit", "skip", "finalize"] | None = ...,
        skip_invoice_custom_sections: bool | None = ...,
        invoice_custom_section_codes: Sequence[str] | None = ...,
        billing_configuration: BillingConfigurationFields | Mapping[str, Any] | None = ...,
        metadata: Sequence[CustomerMetadataFields | Mapping[str, Any]] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        integration_customers: Sequence[IntegrationCustomerFields | Mapping[str, Any]] | None = ...,
        applied_dunning_campaign_code: str | None = ...,
        exclude_from_dunning_campaign: bool | None = ...,
    ) -> Customer:
        """Create the customer with this external id, or change the sent fields of the existing one, all or nothing.

        `tax_codes`, `metadata` and the selection of custom sections are replaced. Raises `Invalid`, and
        `NotFound` for unknown billing entities and taxes.

        external_id: Your own id of the customer; an existing id updates that customer. Required.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        name: A readable name.
        firstname: The first name of the person.
        lastname: The last name of the person.
        customer_type: Whether it is a company or a person. One of company, individual.
        account_type: Invoices of partners are self-billed. One of customer, partner.
        currency: The currency, ISO 4217.
        email: The e-mail address; several are separated by commas.
        phone: The telephone number.
        url: The web site.
        logo_url: Where the logo is.
        legal_name: The legal name, shown on documents.
        legal_number: The company registration number.
        tax_identification_number: The VAT or other tax number.
        address_line1: Street and number.
        address_line2: The second line of the address.
        city: The city.
        state: The state or province.
        zipcode: The postal code.
        country: The country, ISO 3166-1 with two letters.
        shipping_address: The delivery address; if present, it determines taxes.
        timezone: The time zone of days and billing periods, by its IANA name.
        net_payment_term: The payment term of invoices. In days. Default: 0.
        finalize_zero_amount_invoice: Whether invoices with a total of 0 are issued. One of inherit, skip, finalize. Default: inherit.
        skip_invoice_custom_sections: Whether invoices have no custom sections. Default: false.
        invoice_custom_section_codes: The custom sections at the end of invoices, by code.
        billing_configuration: How invoices are issued and paid.
        metadata: Your own values, each with a key.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        integration_customers: The systems that the customer is linked to. Links that are not sent are removed.
        applied_dunning_campaign_code: The dunning campaign for overdue invoices, by code.
        exclude_from_dunning_campaign: Whether dunning campaigns skip this customer. Default: false.
        """

    def get(self, external_id: str) -> Customer:
        """The customer with this external id. Raises `NotFound`.

        external_id: Your own id of it.
        """

    def delete(self, external_id: str) -> Customer:
        """Delete the customer; its subscriptions, wallets and coupons end right after. Invoices stay, its id is free.

        external_id: Your own id of it.
        """

    def portal_url(self, external_customer_id: str) -> str:
        """A new link to the customer's pages, valid for 12 hours. Raises `NotFound`.

        external_customer_id: The customer, by your own id.
        """

    def checkout_url(self, external_id: str) -> SetupPage:
        """A page on which the customer sets up a payment method at its provider.

        Raises `NotFound`, `Invalid` if the customer has no provider or needs no setup, `NotAllowed` if the provider has no
        such pages, and `ThirdPartyError` if it refuses.

        external_id: Your own id of it.
        """

    def list(
        self,
        *,
        external_id: str | None = ...,
        search_term: str | None = ...,
        account_type: Sequence[str] | None = ...,
        customer_type: Literal["company", "individual"] | None = ...,
        has_customer_type: Literal["true", "false"] | None = ...,
        has_tax_identification_number: Literal["true", "false"] | None = ...,
        countries: Sequence[str] | None = ...,
        states: Sequence[str] | None = ...,
        zipcodes: Sequence[str] | None = ...,
        currencies: Sequence[str] | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Customer]:
        """Customers, newest first. Raises `Invalid` for meaningless filters, `NotFound` for a billing entity.

        external_id: Your own id, which identifies it everywhere.
        search_term: Only those that contain this text, in upper or lower case.
        account_type: Only those of these types of account. One of customer, partner.
        customer_type: Only those of this type. One of company, individual.
        has_customer_type: Only those with a type, or only those without. One of true, false.
        has_tax_identification_number: Only those with a tax number, or only those without. One of true, false.
        countries: Only those in these countries.
        states: Only those in these states.
        zipcodes: Only those with these postal codes.
        currencies: Only those with one of these currencies, ISO 4217.
        billing_entity_codes: Only those of one of these billing entities, by code.
        metadata: Your own values by key, stored and returned with it.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class InvoiceCustomSections(Resource):
    """Texts that invoices end with."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        description: str | None = ...,
        details: str | None = ...,
        display_name: str | None = ...,
    ) -> InvoiceCustomSection:
        """A new section, not selected anywhere yet. Raises `Invalid`.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        description: A text for people; it has no effect.
        details: The text on documents.
        display_name: The heading on documents.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        description: str | None = ...,
        details: str | None = ...,
        display_name: str | None = ...,
    ) -> InvoiceCustomSection:
        """Change what is sent; invoices keep their copies. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        description: A text for people; it has no effect.
        details: The text on documents.
        display_name: The heading on documents.
        """

    def get(self, code: str) -> InvoiceCustomSection:
        """The section with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> InvoiceCustomSection:
        """Delete the section and deselect it everywhere; invoices keep their copies.

        code: Its code.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[InvoiceCustomSection]:
        """Sections by name.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Organizations(Resource):
    """The organization itself."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self) -> Organization:
        """The current organization."""

    def update(
        self,
        *,
        name: str | None = ...,
        default_currency: str | None = ...,
        document_numbering: Literal["per_customer", "per_organization"] | None = ...,
        document_number_prefix: str | None = ...,
        finalize_zero_amount_invoice: bool | None = ...,
        net_payment_term: int | None = ...,
        address_line1: str | None = ...,
        address_line2: str | None = ...,
        city: str | None = ...,
        state: str | None = ...,
        country: str | None = ...,
        zipcode: str | None = ...,
        email: str | None = ...,
        phone: str | None = ...,
        legal_name: str | None = ...,
        legal_number: str | None = ...,
        tax_identification_number: str | None = ...,
        timezone: str | None = ...,
        email_settings: Sequence[str] | None = ...,
        billing_configuration: EntityConfigurationFields | Mapping[str, Any] | None = ...,
        webhook_url: str | None = ...,
        eu_tax_management: bool | None = ...,
    ) -> Organization:
        """Change the sent fields of the organization and of its default billing entity.

        `webhook_url` is the address of its oldest webhook endpoint, which is created if there is none. Raises `Invalid`.

        name: A readable name.
        default_currency: The currency of customers without one, ISO 4217.
        document_numbering: The scope of invoice numbers. One of per_customer, per_organization. Default: per_customer.
        document_number_prefix: The prefix of invoice numbers, up to ten letters.
        finalize_zero_amount_invoice: Whether invoices with a total of 0 are issued. Default: true.
        net_payment_term: The payment term of invoices. In days. Default: 0.
        address_line1: Street and number.
        address_line2: The second line of the address.
        city: The city.
        state: The state or province.
        country: The country, ISO 3166-1 with two letters.
        zipcode: The postal code.
        email: The e-mail address; several are separated by commas.
        phone: The telephone number.
        legal_name: The legal name, shown on documents.
        legal_number: The company registration number.
        tax_identification_number: The VAT or other tax number.
        timezone: The time zone of days and billing periods, by its IANA name.
        email_settings: The e-mails to send. One of invoice.finalized, credit_note.created, payment_receipt.created.
        billing_configuration: How invoices are issued and paid.
        webhook_url: The URL that receives webhook messages.
        eu_tax_management: Whether EU VAT is determined from addresses and VAT numbers. Default: false.
        """

class Subscriptions(Resource):
    """Customers on plans."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        external_customer_id: str,
        plan_code: str,
        external_id: str,
        name: str | None = ...,
        billing_time: Literal["calendar", "anniversary"] | None = ...,
        subscription_at: date | str | None = ...,
        bill_from: Literal["now", "current_period", "start"] | None = ...,
        ending_at: date | str | None = ...,
        billing_entity_code: str | None = ...,
        plan_overrides: PlanOverridesFields | Mapping[str, Any] | None = ...,
        usage_thresholds: Sequence[UsageThresholdFields | Mapping[str, Any]] | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        activation_rules: Sequence[ActivationRuleFields | Mapping[str, Any]] | None = ...,
        consolidate_invoice: bool | None = ...,
        progressive_billing_disabled: bool | None = ...,
        purchase_order_number: str | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
        authorization: AuthorizationFields | Mapping[str, Any] | None = ...,
    ) -> Subscription:
        """Put a customer on a plan.

        For an external id without a live subscription of the customer, this creates one: active at once if it starts today
        or started in the past, pending if it starts later. On the same plan, the existing one is returned unchanged. On
        another plan it is an upgrade, effective at once, if that plan costs at least as much a year, else a downgrade at
        the end of the current interval. An unknown customer is created; one without a currency gets the plan's, and a plan
        in another currency than the customer's is refused.

        With an `authorization`, Stripe has to authorize that amount first; it is neither captured nor held afterwards. No
        subscription is created if Stripe refuses (`AuthorizationRefused`), if Stripe does not collect from the customer
        (`StripeRequired`), or without a payment method (`Invalid`).

        external_customer_id: The customer, by your own id. Required.
        plan_code: The plan, by code. Required.
        external_id: Your own id of the subscription, which events refer to. Another plan for it is an upgrade or a downgrade. Required.
        name: The name on invoices. Default: the name of the plan.
        billing_time: Whether periods follow the calendar, or start on the day of the subscription's start. One of calendar, anniversary. Default: calendar.
        subscription_at: When it starts. If that is on an earlier day, `bill_from` says what is billed of the time since: by default only what the next runs bill. Default: now.
        bill_from: What is billed of a start in the past: `now`: only what the next runs bill; `current_period`: also what the open period is billed in advance; `start`: everything since the start, one invoice for each billing day. One of now, current_period, start. Default: now.
        ending_at: When it ends automatically.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        plan_overrides: Values that this subscription has instead of its plan's.
        usage_thresholds: Amounts of lifetime usage at which usage is invoiced immediately.
        payment_method: How its invoices are paid. Default: the customer's method.
        activation_rules: Conditions for its activation: `payment` waits for the first payment.
        consolidate_invoice: Whether it shares invoices with the customer's other subscriptions. Default: true.
        progressive_billing_disabled: Whether usage thresholds are ignored. Default: false.
        purchase_order_number: The customer's order number, shown on invoices.
        invoice_custom_section: The custom sections at the end of its invoices.
        authorization: An amount that Stripe must authorize on the customer's payment method first; it is not charged.
        """

    def update(
        self,
        external_id: str,
        *,
        name: str | None = ...,
        subscription_at: date | str | None = ...,
        ending_at: date | str | None = ...,
        billing_entity_code: str | None = ...,
        plan_overrides: PlanOverridesFields | Mapping[str, Any] | None = ...,
        usage_thresholds: Sequence[UsageThresholdFields | Mapping[str, Any]] | None = ...,
        payment_method: PaymentMethodChoice | Mapping[str, Any] | None = ...,
        activation_rules: Sequence[ActivationRuleFields | Mapping[str, Any]] | None = ...,
        consolidate_invoice: bool | None = ...,
        progressive_billing_disabled: bool | None = ...,
        purchase_order_number: str | None = ...,
        on_termination_credit_note: Literal["credit", "refund", "offset", "skip"] | None = ...,
        on_termination_invoice: Literal["generate", "skip"] | None = ...,
        invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Subscription:
        """Change the sent fields. Raises `NotFound`, `NotAllowed` or `Invalid`.

        The start of a pending subscription can be moved: to a later date, or into the past, which starts it.

        external_id: Your own id of it.
        name: A readable name.
        subscription_at: When it starts. If that is on an earlier day, `bill_from` says what is billed of the time since: by default only what the next runs bill. Default: now.
        ending_at: When it ends automatically.
        billing_entity_code: The billing entity that issues invoices, by code. Default: the default one.
        plan_overrides: Values that this subscription has instead of its plan's.
        usage_thresholds: Amounts of lifetime usage at which usage is invoiced immediately.
        payment_method: How its invoices are paid. Default: the customer's method.
        activation_rules: Conditions for its activation: `payment` waits for the first payment.
        consolidate_invoice: Whether it shares invoices with the customer's other subscriptions. Default: true.
        progressive_billing_disabled: Whether usage thresholds are ignored. Default: false.
        purchase_order_number: The customer's order number, shown on invoices.
        on_termination_credit_note: What happens to the paid but unused part. One of credit, refund, offset, skip. Default: credit.
        on_termination_invoice: Whether usage up to the end is invoiced. One of generate, skip. Default: generate.
        invoice_custom_section: The custom sections at the end of its invoices.
        status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        """

    def get(
        self,
        external_id: str,
        *,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Subscription:
        """The subscription with this external id and status. Raises `NotFound`.

        external_id: Your own id of it.
        status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        """

    def list_of_customer(
        self,
        current_external_customer_id: str,
        /,
        *,
        status: Sequence[str] | None = ...,
        external_customer_id: str | None = ...,
        external_id: str | None = ...,
        plan_code: str | None = ...,
        currency: str | None = ...,
        overridden: bool | None = ...,
        overriden: bool | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Subscription]:
        """The subscriptions of one customer. Raises `NotFound` for an unknown customer.

        current_external_customer_id: The customer, by your own id.
        status: Only those with these statuses. One of pending, incomplete, active, terminated, canceled. Default: active.
        external_customer_id: The customer, by your own id.
        external_id: Your own id, which identifies it everywhere.
        plan_code: The plan, by code.
        currency: The currency, ISO 4217.
        overridden: Whether the plan is an override for the subscription.
        overriden: Older spelling of `overridden`.
        billing_entity_codes: Only those of one of these billing entities, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def terminate(
        self,
        external_id: str,
        *,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        on_termination_credit_note: Literal["credit", "refund", "offset", "skip"] | None = ...,
        on_termination_invoice: Literal["generate", "skip"] | None = ...,
    ) -> Subscription:
        """End the active subscription with this external id now, or cancel the pending one (`status`).

        Raises `NotFound`, `Invalid` for unknown options, and `NotAllowed` while the taxes of a fee to be credited are
        unknown.

        external_id: Your own id of it.
        status: The status of the subscription to end, if several share the id. One of pending, incomplete, active, terminated, canceled.
        on_termination_credit_note: What happens to the paid but unused part. One of credit, refund, offset, skip. Default: credit.
        on_termination_invoice: Whether usage up to the end is invoiced. One of generate, skip. Default: generate.
        """

    def list_charges(
        self,
        external_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Charge]:
        """The charges of the subscription's plan, newest first. Raises `NotFound`.

        external_id: Your own id of it.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def get_charge(
        self,
        external_id: str,
        charge_code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Charge:
        """One charge of the subscription's plan. Raises `NotFound`.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def update_charge(
        self,
        external_id: str,
        charge_code: str,
        *,
        id: str | None = ...,
        code: str | None = ...,
        billable_metric_id: str | None = ...,
        charge_model: Literal[
            "standard", "graduated", "graduated_percentage", "package", "percentage", "volume", "dynamic", "custom"
        ]
        | None = ...,
        invoice_display_name: str | None = ...,
        pay_in_advance: bool | None = ...,
        prorated: bool | None = ...,
        invoiceable: bool | None = ...,
        regroup_paid_fees: Literal["invoice"] | None = ...,
        min_amount_cents: int | None = ...,
        accepts_target_wallet: bool | None = ...,
        properties: ChargeProperties | Mapping[str, Any] | None = ...,
        filters: Sequence[ChargeFilterFields | Mapping[str, Any]] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        applied_pricing_unit: AppliedPricingUnitFields | Mapping[str, Any] | None = ...,
        cascade_updates: bool | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> Charge:
        """Change the sent fields of a charge, for this subscription alone. Raises `NotFound` and `Invalid`.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        id: The id of an existing one; without it, a new one is added.
        code: The code that identifies it, unique among its kind.
        billable_metric_id: The billable metric that is priced, by id.
        charge_model: How units are priced. One of standard, graduated, graduated_percentage, package, percentage, volume, dynamic, custom.
        invoice_display_name: The name on invoices. Default: its name.
        pay_in_advance: Whether it is billed at the start of a period; for usage, with each event. Default: false.
        prorated: Whether units are prorated by the part of the period in which they were active. Default: false.
        invoiceable: Whether each fee paid in advance gets an invoice. Default: true.
        regroup_paid_fees: `invoice`: paid fees without an invoice are put on one invoice per period. One of invoice.
        min_amount_cents: The minimum amount of the charge per period. In cents. Default: 0.
        accepts_target_wallet: Whether events may choose the wallet that pays for them. Default: false.
        properties: The prices, in the form of the charge model.
        filters: Other prices for events with certain properties.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        applied_pricing_unit: A pricing unit of your own, and its conversion rate.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def list_filters(
        self,
        external_id: str,
        charge_code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[tuple[Charge, ChargeFilter]]:
        """The filters of a charge, in their order. Raises `NotFound`.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def get_filter(
        self,
        external_id: str,
        charge_code: str,
        filter_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """One filter of a charge, with the charge. Raises `NotFound`.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        filter_id: The filter, by id.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def create_filter(
        self,
        external_id: str,
        charge_code: str,
        *,
        properties: ChargeProperties | Mapping[str, Any],
        values: Mapping[str, Sequence[str]],
        invoice_display_name: str | None = ...,
        cascade_updates: bool | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """Add a filter, for this subscription alone. Raises `NotFound`, and `Invalid` for values already filtered.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        properties: Its prices, in the form of the charge's model. Required.
        values: Property -> the values that match. Required.
        invoice_display_name: The name on invoices. Default: its name.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def update_filter(
        self,
        external_id: str,
        charge_code: str,
        filter_id: str,
        *,
        invoice_display_name: str | None = ...,
        properties: ChargeProperties | Mapping[str, Any] | None = ...,
        values: Mapping[str, Sequence[str]] | None = ...,
        cascade_updates: bool | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """Change the name or the properties of a filter, for this subscription alone. Raises `NotFound`, `Invalid`.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        filter_id: The filter, by id.
        invoice_display_name: The name on invoices. Default: its name.
        properties: Its prices, in the form of the charge's model.
        values: Property -> the values that match.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def delete_filter(
        self,
        external_id: str,
        charge_code: str,
        filter_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """Remove a filter, for this subscription alone. Raises `NotFound`.

        external_id: Your own id of it.
        charge_code: The charge, by code.
        filter_id: The filter, by id.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def list_fixed_charges(
        self,
        external_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[FixedCharge]:
        """The fixed charges of the subscription's plan with its own units, newest first. Raises `NotFound`.

        external_id: Your own id of it.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def get_fixed_charge(
        self,
        external_id: str,
        fixed_charge_code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> FixedCharge:
        """One fixed charge of the subscription's plan, with its own units. Raises `NotFound`.

        external_id: Your own id of it.
        fixed_charge_code: The fixed charge, by code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def update_fixed_charge(
        self,
        external_id: str,
        fixed_charge_code: str,
        *,
        id: str | None = ...,
        code: str | None = ...,
        add_on_id: str | None = ...,
        add_on_code: str | None = ...,
        invoice_display_name: str | None = ...,
        units: Number | None = ...,
        apply_units_immediately: bool | None = ...,
        charge_model: Literal["standard", "graduated", "volume"] | None = ...,
        pay_in_advance: bool | None = ...,
        prorated: bool | None = ...,
        properties: FixedChargeProperties | Mapping[str, Any] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        cascade_updates: bool | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> FixedCharge:
        """Change the sent fields of a fixed charge, for this subscription alone. Raises `NotFound`, `Invalid`, `Forbidden`.

        Units alone are kept on the subscription, which stays on its catalog plan; anything else gives it an override.

        external_id: Your own id of it.
        fixed_charge_code: The fixed charge, by code.
        id: The id of an existing one; without it, a new one is added.
        code: The code that identifies it, unique among its kind.
        add_on_id: The add-on, by id; alternatively its code.
        add_on_code: The add-on, by code.
        invoice_display_name: The name on invoices. Default: its name.
        units: The number of units charged. In units.
        apply_units_immediately: Whether changed units apply immediately, not from the next period. Default: false.
        charge_model: How units are priced. One of standard, graduated, volume.
        pay_in_advance: Whether it is paid at the start of a period. Default: false.
        prorated: Whether the price is prorated for part of a period. Default: false.
        properties: The prices, in the form of the charge model.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def lifetime_usage(
        self,
        external_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> LifetimeUsageNow:
        """The lifetime usage of a subscription: historical, invoiced and current, with progress towards its thresholds.

        external_id: Your own id of it.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def set_lifetime_usage(
        self,
        external_id: str,
        *,
        external_historical_usage_amount_cents: int | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> LifetimeUsageNow:
        """Set the lifetime usage of a subscription from before it was imported.

        external_id: Your own id of it.
        external_historical_usage_amount_cents: Usage before the customer was billed by usagebill. In cents.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def list(
        self,
        *,
        status: Sequence[str] | None = ...,
        external_customer_id: str | None = ...,
        external_id: str | None = ...,
        plan_code: str | None = ...,
        currency: str | None = ...,
        overridden: bool | None = ...,
        overriden: bool | None = ...,
        billing_entity_codes: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Subscription]:
        """Subscriptions, latest `subscription_at` first. Raises `NotFound` for an unknown billing entity code.

        status: Only those with these statuses. One of pending, incomplete, active, terminated, canceled. Default: active.
        external_customer_id: The customer, by your own id.
        external_id: Your own id, which identifies it everywhere.
        plan_code: The plan, by code.
        currency: The currency, ISO 4217.
        overridden: Whether the plan is an override for the subscription.
        overriden: Older spelling of `overridden`.
        billing_entity_codes: Only those of one of these billing entities, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
