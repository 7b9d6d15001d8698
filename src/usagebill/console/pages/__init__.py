"""The pages of the console: one module and one template each."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.console.pages import (
    actions,
    analytics,
    audit,
    comparison,
    customer,
    document,
    email_texts,
    entitlement,
    entity_sample,
    form,
    home,
    invoice,
    limits,
    listing,
    live,
    next_invoice,
    phases,
    plan,
    plan_terms,
    prices,
    record,
    scheduled_prices,
    session,
    subscription,
    users,
)
from usagebill.console.pages.page import Page as Page

PAGES: Sequence[Page] = (
    *home.PAGES,
    *analytics.PAGES,
    *audit.PAGES,
    *session.PAGES,
    *users.PAGES,
    *customer.PAGES,
    *phases.PAGES,
    *subscription.PAGES,
    *actions.PAGES,
    *document.PAGES,
    *invoice.PAGES,
    *next_invoice.PAGES,
    *comparison.PAGES,
    *entitlement.PAGES,
    *plan_terms.PAGES,
    *scheduled_prices.PAGES,
    *plan.PAGES,
    *prices.PAGES,
    *entity_sample.PAGES,
    *email_texts.PAGES,
    *form.PAGES,
    *limits.PAGES,
    *live.PAGES,
    *listing.PAGES,
    *record.PAGES,
)
