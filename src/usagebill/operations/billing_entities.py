"""Billing entities: the issuers of invoices, with settings that their customers inherit."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from usagebill.core import limits
from usagebill.core.billing_entities import (
    DOCUMENT_NUMBERINGS,
    BillingEntity,
    default_document_number_prefix,
    definition_errors,
    einvoicing_gaps,
    is_logo,
)
from usagebill.core.contacts import LOCALES, normalized_email
from usagebill.core.customers import Customer, dating_settings
from usagebill.core.dunning import DunningProgress
from usagebill.core.email_texts import LONGEST_PART, LONGEST_SUBJECT, PLACEHOLDERS, EmailText
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import RescheduleEntity
from usagebill.operations import draft_invoices, dunning_progress, invoice_custom_sections, taxes, vat
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.process.timezones import is_timezone
from usagebill.queries.billing_entities import forget_default_entity
from usagebill.queries.dunning import campaign_by_code
from usagebill.requests.inputs import ABSENT, Input, Maybe, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq, missing, related

# They are in a header of every page of the portal.
_MOST_ORIGINS = 20


@Input
class EntityConfigurationInput:
    invoice_footer: Maybe[str] = ABSENT
    document_locale: Maybe[str] = ABSENT
    invoice_grace_period: Maybe[Annotated[int, limits.GRACE_PERIOD]] = ABSENT
    subscription_invoice_issuing_date_anchor: Maybe[str] = ABSENT
    subscription_invoice_issuing_date_adjustment: Maybe[str] = ABSENT


@Input
class EntitySettingsInput:
    """The settings of a billing entity, and of an organization for its default one."""

    name: Maybe[str] = ABSENT
    default_currency: Maybe[str] = ABSENT
    document_numbering: Maybe[str] = ABSENT
    document_number_prefix: Maybe[str] = ABSENT
    finalize_zero_amount_invoice: Maybe[bool] = ABSENT
    net_payment_term: Maybe[Annotated[int, limits.PAYMENT_TERM]] = ABSENT
    address_line1: Maybe[str] = ABSENT
    address_line2: Maybe[str] = ABSENT
    city: Maybe[str] = ABSENT
    state: Maybe[str] = ABSENT
    country: Maybe[str] = ABSENT
    zipcode: Maybe[str] = ABSENT
    email: Maybe[str] = ABSENT
    phone: Maybe[str] = ABSENT
    legal_name: Maybe[str] = ABSENT
    legal_number: Maybe[str] = ABSENT
    tax_identification_number: Maybe[str] = ABSENT
    timezone: Maybe[str] = ABSENT
    email_settings: Maybe[tuple[str, ...]] = ABSENT
    billing_configuration: Maybe[EntityConfigurationInput] = ABSENT


@Input
class EmailTextInput:
    """The seller's own words in e-mails of a kind, in a language; what is left out is as usagebill writes it."""

    kind: Maybe[str] = described("The kind of e-mail.", values=tuple(PLACEHOLDERS), required="always")
    locale: Maybe[str] = described("The language of the e-mails that it is for.", values=LOCALES, required="always")
    subject: Maybe[str] = described(
        f"The subject, up to {LONGEST_SUBJECT} characters. Each text may have `{{entity}}`, `{{customer}}` and"
        " `{amount}`; of a document also `{number}`, of a usage level also `{subscription}`.",
        example="{entity}: invoice {number}",
    )
    intro: Maybe[str] = described(
        f"What comes first, up to {LONGEST_PART} characters; an empty line begins a paragraph.",
        example="Hello {customer},",
    )
    closing: Maybe[str] = described("What comes last, just so.", example="Kind regards from all of us")


@Input
class BillingEntityInput(EntitySettingsInput):
    code: Maybe[str] = ABSENT
    einvoicing: Maybe[bool] = described("Whether to create e-invoices.", default="false")
    eu_tax_management: Maybe[bool] = ABSENT
    logo: Maybe[str] = described("The logo of documents: a PNG or JPEG as `data:image/png;base64,...`.")
    portal_color: Maybe[str] = ABSENT
    portal_frame_origins: Maybe[tuple[str, ...]] = described(most=_MOST_ORIGINS)
    portal_spend_limits: Maybe[bool] = ABSENT
    email_texts: Maybe[tuple[EmailTextInput, ...]] = described(
        "The seller's own words in e-mails, the whole list.", most=len(PLACEHOLDERS) * len(LOCALES)
    )
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    invoice_custom_section_codes: Maybe[tuple[str, ...]] = ABSENT
    applied_dunning_campaign_code: Maybe[str] = ABSENT


_PLAIN = (
    "name",
    "default_currency",
    "document_number_prefix",
    "finalize_zero_amount_invoice",
    "net_payment_term",
    "address_line1",
    "address_line2",
    "city",
    "state",
    "country",
    "zipcode",
    "email",
    "phone",
    "legal_name",
    "legal_number",
    "tax_identification_number",
    "timezone",
)
_OPTIONAL = frozenset(
    [
        "address_line1",
        "address_line2",
        "city",
        "state",
        "country",
        "zipcode",
        "email",
        "phone",
        "legal_name",
        "legal_number",
        "tax_identification_number",
        "invoice_footer",
    ]
)
_PARTS = ("subject", "intro", "closing")
_IN_CAPITALS = ("country", "default_currency", "document_number_prefix")


def get(reader: Reader, code: str) -> BillingEntity:
    """The billing entity with this code; an archived one only if no active one has it. Raises `NotFound`."""
    entity = reader.tx.first(BillingEntity, eq("code", code), missing("archived_at")) or reader.tx.first(
        BillingEntity, eq("code", code), order=[desc("archived_at")]
    )
    if entity is None:
        raise NotFound("billing_entity", code)
    return entity


def list_all(reader: Reader) -> list[BillingEntity]:
    """The active billing entities, oldest first; the first is the default one."""
    return reader.tx.find(BillingEntity, missing("archived_at"), order=[asc("created_at"), asc("id")])


@without_backlog(Unrelated.NEW)
def create(work: Work, request: BillingEntityInput) -> BillingEntity:
    """A new billing entity, with defaults for absent fields. Raises `Invalid`, and `NotFound` for taxes."""
    id = work.new_id()
    name = value_or(request.name, "")
    entity = BillingEntity(
        id=id,
        organization_id=work.organization.id,
        code=value_or(request.code, ""),
        name=name,
        document_number_prefix=default_document_number_prefix(name, id),
        created_at=work.now,
        updated_at=work.now,
    )
    entity = replace(entity, **{field: value for field, value in settings_of(request).items() if value is not None})
    entity = _with_more(work, entity, request)
    problems = einvoicing_gaps(entity) | _problems(entity)
    if entity.code and work.tx.first(BillingEntity, eq("code", entity.code), missing("archived_at")) is not None:
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)
    work.tx.insert(entity)
    forget_default_entity(work)
    if entity.eu_tax_management:
        vat.make_taxes(work)
    return entity


@after_backlog(of_everyone)
def update(work: Work, code: str, request: BillingEntityInput) -> BillingEntity:
    """Change what is sent, never the code; drafts of its customers follow. Raises as `create` does."""
    before = get(work, code)
    after = apply(work, before, _with_more(work, replace(before, **settings_of(request)), request))
    if request.eu_tax_management is True:
        vat.make_taxes(work)
    return after


def apply(work: Work, before: BillingEntity, after: BillingEntity) -> BillingEntity:
    """Store a changed billing entity, and update everything that its customers inherit. Raises `Invalid`."""
    problems = _new_gaps(before, after) | _problems(after)
    if problems:
        raise Invalid(problems)
    after = replace(after, updated_at=work.now)
    work.tx.replace(after)
    forget_default_entity(work)
    _move_drafts(work, before, after)
    if before.tax_ids != after.tax_ids:
        draft_invoices.flag(work, eq("billing_entity_id", after.id))
    if before.eu_tax_management and not after.eu_tax_management:
        vat.switch_off(work, after)
    if before.applied_dunning_campaign_id != after.applied_dunning_campaign_id:
        _follow_campaign(work, after)
    if before.timezone != after.timezone:
        work.schedule(RescheduleEntity(billing_entity_id=after.id), work.now)
    return after


def settings_of(request: EntitySettingsInput) -> dict[str, Any]:
    """The sent settings as stored. Nulls that cannot be stored are left out."""
    settings: dict[str, Any] = changes(request, *_PLAIN)
    configuration = value_or(request.billing_configuration, EntityConfigurationInput())
    settings |= changes(configuration)
    for name in _IN_CAPITALS:
        if isinstance(settings.get(name), str):
            settings[name] = settings[name].upper()
    if isinstance(settings.get("email"), str):
        settings["email"] = normalized_email(settings["email"])
    if settings.get("country") == "":
        settings["country"] = None
    if request.email_settings is not ABSENT and request.email_settings is not None:
        settings["email_settings"] = tuple(dict.fromkeys(request.email_settings))
    if request.document_numbering:
        per_customer, per_entity = DOCUMENT_NUMBERINGS
        settings["document_numbering"] = per_customer if request.document_numbering == per_customer else per_entity
    refused = {name: ["value_is_invalid"] for name in ("finalize_zero_amount_invoice",) if _is_null(settings, name)}
    refused |= {name: ["value_is_mandatory"] for name in ("name",) if _is_null(settings, name)}
    if refused:
        raise Invalid(refused)
    return {name: value for name, value in settings.items() if value is not None or name in _OPTIONAL}


def _is_null(value: dict[str, Any], name: str) -> bool:
    return name in value and value[name] is None


def _with_more(reader: Reader, entity: BillingEntity, request: BillingEntityInput) -> BillingEntity:
    if is_given(request.logo):
        if request.logo:
            _check_logo(request.logo)
        entity = replace(entity, logo_url=request.logo or None)
    if is_given(request.portal_color):
        entity = replace(entity, portal_color=(request.portal_color or "").lower() or None)
    if is_given(request.portal_frame_origins):
        origins = (origin.lower().rstrip("/") for origin in request.portal_frame_origins or ())
        entity = replace(entity, portal_frame_origins=tuple(dict.fromkeys(origins)))
    if is_given(request.email_texts):
        sent = (_email_text(text) for text in request.email_texts or ())
        entity = replace(entity, email_texts=tuple(text for text in sent if not text.is_empty))
    if request.tax_codes is not ABSENT and request.tax_codes is not None:
        entity = replace(entity, tax_ids=taxes.ids_of_codes(reader, request.tax_codes, any_case=True))
    if request.invoice_custom_section_codes is not ABSENT and request.invoice_custom_section_codes is not None:
        ids = invoice_custom_sections.ids_of_codes(reader, request.invoice_custom_section_codes)
        entity = replace(entity, invoice_custom_section_ids=ids)
    if is_given(request.applied_dunning_campaign_code):
        code = request.applied_dunning_campaign_code
        entity = replace(entity, applied_dunning_campaign_id=campaign_by_code(reader, code).id if code else None)
    return replace(
        entity,
        einvoicing=value_or(request.einvoicing, entity.einvoicing),
        portal_spend_limits=value_or(request.portal_spend_limits, entity.portal_spend_limits),
        eu_tax_management=value_or(request.eu_tax_management, entity.eu_tax_management),
    )


def _email_text(sent: EmailTextInput) -> EmailText:
    texts = {name: value_or(getattr(sent, name), None) or "" for name in _PARTS}
    parts = {name: text.replace("\r\n", "\n").strip() or None for name, text in texts.items()}
    return EmailText(kind=value_or(sent.kind, None) or "", locale=value_or(sent.locale, None) or "", **parts)


def _check_logo(logo: str) -> None:
    if not is_logo(logo):
        raise Invalid(logo="invalid_content_type")
    # Imported on first use: most processes never read images.
    from usagebill.printing.logos import BadLogo, opened

    try:
        opened(logo)
    except BadLogo as problem:
        raise Invalid(logo=problem.code) from problem


def _problems(entity: BillingEntity) -> dict[str, list[str]]:
    problems = definition_errors(entity)
    if not is_timezone(entity.timezone):
        problems["timezone"] = ["invalid_timezone"]
    return problems


def _new_gaps(before: BillingEntity, after: BillingEntity) -> dict[str, list[str]]:
    """Missing e-invoicing fields of the seller that are newly missing; old gaps must not block other changes."""
    old_gaps = einvoicing_gaps(before) if before.country == after.country else {}
    return {field: codes for field, codes in einvoicing_gaps(after).items() if field not in old_gaps}


def _follow_campaign(work: Work, entity: BillingEntity) -> None:
    """Reset the dunning attempts of customers without a campaign of their own: another campaign applies now."""
    relying = related(
        Customer, "customer_id", eq("billing_entity_id", entity.id), missing("applied_dunning_campaign_id")
    )
    for progress in work.tx.find(DunningProgress, relying):
        work.tx.delete(progress)
    dunning_progress.review(work)


def _move_drafts(work: Work, before: BillingEntity, after: BillingEntity) -> None:
    """Move the draft dates of the customers who inherit the changed settings."""
    of_entity = related(Customer, "customer_id", eq("billing_entity_id", after.id))
    drafts = work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT), of_entity)
    for id in dict.fromkeys(draft.customer_id for draft in drafts):
        customer = work.tx.get(Customer, id, deleted=True)
        if customer is None:
            continue
        old, new = dating_settings(customer, before), dating_settings(customer, after)
        draft_invoices.shift(work, id, old, new)
        if old.net_payment_term != new.net_payment_term:
            draft_invoices.redate(work, id, new.net_payment_term)
