"""Outside answers that a unit of work needs: fetched while no transaction is open; then the work is run again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from usagebill.core.organizations import Organization
from usagebill.core.tax_providers import ProviderFailure, ProviderTaxes
from usagebill.outside.job_host import JobHost
from usagebill.outside.provider_calls import answer_of
from usagebill.outside.tax_provider import taxes_of
from usagebill.runtime.work import Answers, DrawingWanted, ProviderAnswer, ProviderWanted, TaxesWanted
from usagebill.storage import deadline

T = TypeVar("T")
# The most tax requests of one unit of work.
_MOST_QUESTIONS = 20


def answering(act: Callable[[Answers], T], host: JobHost, organization: Organization) -> T:
    """The result of `act`, run again until it has every answer and file that it needs."""
    taxes: dict[Hashable, ProviderTaxes | ProviderFailure] = {}
    drawings: dict[Hashable, bytes] = {}
    payments: dict[Hashable, ProviderAnswer] = {}
    while True:
        try:
            return act(Answers(taxes, drawings, payments))
        except (TaxesWanted, DrawingWanted, ProviderWanted) as problem:
            wanted = problem
        # Outside the transaction, which has been rolled back by now.
        deadline.lift()
        if isinstance(wanted, DrawingWanted):
            drawings[wanted.key] = wanted.draw()
        elif isinstance(wanted, ProviderWanted):
            if wanted.first is not None:
                host.writing(wanted.first, organization)
            answer = answer_of(host.payment_providers, wanted.connection, wanted.request)
            payments[wanted.key] = ProviderAnswer(wanted.request, answer)
        else:
            patient = len(taxes) < _MOST_QUESTIONS
            taxes[wanted.key] = taxes_of(host.tax_provider, wanted.connection, wanted.question, patient=patient)
