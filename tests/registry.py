"""A VAT registry with answers chosen by the test."""

from __future__ import annotations

from collections.abc import Callable

from usagebill.core.vat import NotRegistered, Registered, RegistryError, Unavailable, VatNumber


def unknown() -> NotRegistered:
    return NotRegistered()


def rate_limited() -> Unavailable:
    return Unavailable(kind=RegistryError.RATE_LIMIT, message="MS_MAX_CONCURRENT_REQ")


class Registry:
    """Gives the next of `answers` (repeating the last); `known` means that any number is registered.

    `meanwhile` is called once, between a request and its answer.
    """

    known = Registered(country_code="", vat_number="")

    def __init__(self) -> None:
        self.answers: list[Registered | NotRegistered | Unavailable] = [self.known]
        self.asked: list[VatNumber] = []
        self.failure: Exception | None = None
        self.meanwhile: Callable[[], object] | None = None
        self._last: dict[str, bool] = {}

    def check(self, number: VatNumber) -> Registered | NotRegistered | Unavailable:
        self.asked.append(number)
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        if self.failure is not None:
            raise self.failure
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self._last[number.prefix + number.digits] = answer is self.known
        if answer is self.known:
            return Registered(country_code=number.prefix, vat_number=number.digits)
        return answer

    def answered_last(self, number: str | None) -> bool:
        """Whether the registry knew the number at the last check, or never checked it."""
        return self._last.get(number or "", True)
