"""The pages of the portal: one module and one template each."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.portal.pages import details, documents, invoice, limits, overview, payment_methods, plan, usage, wallet
from usagebill.portal.pages.page import Page as Page

PAGES: Sequence[Page] = (
    *overview.PAGES,
    *usage.PAGES,
    *plan.PAGES,
    *limits.PAGES,
    *invoice.PAGES,
    *wallet.PAGES,
    *payment_methods.PAGES,
    *documents.PAGES,
    *details.PAGES,
)
