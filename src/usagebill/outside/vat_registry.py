"""The VAT registry: the client that checks a number, and the job that uses it."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.tasks import CheckVatNumber
from usagebill.core.vat import NotRegistered, Registered, RegistryError, Unavailable, VatNumber
from usagebill.operations import vat
from usagebill.outside.bounded_http import Asking
from usagebill.outside.job_host import (
    JobHost,
    VatRegistry as VatRegistry,
)
from usagebill.process.json_text import encode_json, parse_json

_LARGEST_ANSWER = 64 * 1024


# VIES's errors, by the kind that they are reported as.
_ERRORS: Mapping[str, RegistryError] = {
    "GLOBAL_MAX_CONCURRENT_REQ": RegistryError.RATE_LIMIT,
    "GLOBAL_MAX_CONCURRENT_REQ_TIME": RegistryError.RATE_LIMIT,
    "MS_MAX_CONCURRENT_REQ": RegistryError.RATE_LIMIT,
    "MS_MAX_CONCURRENT_REQ_TIME": RegistryError.RATE_LIMIT,
    "TIMEOUT": RegistryError.TIMEOUT,
    "VAT_BLOCKED": RegistryError.BLOCKED,
    "IP_BLOCKED": RegistryError.BLOCKED,
    "INVALID_REQUESTER_INFO": RegistryError.INVALID_REQUESTER,
    "SERVICE_UNAVAILABLE": RegistryError.SERVICE_UNAVAILABLE,
    "MS_UNAVAILABLE": RegistryError.MEMBER_STATE_UNAVAILABLE,
}
_STATUSES: Mapping[int, RegistryError] = {
    403: RegistryError.BLOCKED,
    408: RegistryError.TIMEOUT,
    429: RegistryError.RATE_LIMIT,
    500: RegistryError.SERVICE_UNAVAILABLE,
    502: RegistryError.SERVICE_UNAVAILABLE,
    503: RegistryError.SERVICE_UNAVAILABLE,
    504: RegistryError.TIMEOUT,
}
_DETAILS = {
    "requestDate": "request_date",
    "requestIdentifier": "request_identifier",
    "name": "name",
    "address": "address",
}
# What VIES answers for data that a country does not disclose.
_NOT_TOLD = ("", "---")


class HttpVatRegistry:
    """VIES, or a service with the same protocol: a `POST` of `countryCode` and `vatNumber` as JSON to `url`.

    The European Commission's own is at `https://ec.europa.eu/taxation_customs/vies/rest-api/check-vat-number`.
    `timeout` is in seconds, for a whole request.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._asking = Asking(timeout, _LARGEST_ANSWER)

    def close(self) -> None:
        self._asking.close()

    def check(self, number: VatNumber) -> Registered | NotRegistered | Unavailable:
        """See `VatRegistry`. Raises nothing."""
        fields = {"countryCode": number.prefix, "vatNumber": number.digits}
        try:
            status, body = self._asking.post(self._url, {"content-type": "application/json"}, encode_json(fields))
        except TimeoutError as problem:
            return Unavailable(kind=RegistryError.TIMEOUT, message=_message(problem))
        except OSError as problem:
            return Unavailable(kind=RegistryError.SERVICE_UNAVAILABLE, message=_message(problem))
        except Exception as problem:
            # Any other error on the way to the registry leaves the result open.
            return Unavailable(kind=RegistryError.UNKNOWN, message=_message(problem))
        return _answer(number, status, body)


def _message(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _answer(number: VatNumber, status: int, body: bytes) -> Registered | NotRegistered | Unavailable:
    try:
        said = parse_json(body)
    except ValueError:
        said = None
    error = _error(said)
    if error == "INVALID_INPUT":
        return NotRegistered()
    if error is not None:
        return Unavailable(kind=_ERRORS.get(error, RegistryError.UNKNOWN), message=error)
    valid = said.get("valid") if isinstance(said, dict) and status == 200 else None
    if valid is True:
        texts = {ours: said[theirs] for theirs, ours in _DETAILS.items() if isinstance(said.get(theirs), str)}
        details = {name: value for name, value in texts.items() if value not in _NOT_TOLD}
        return Registered(country_code=number.prefix, vat_number=number.digits, details=details)
    if valid is False:
        return NotRegistered()
    return Unavailable(kind=_STATUSES.get(status, RegistryError.UNKNOWN), message=f"status {status}")


def _error(said: object) -> str | None:
    """The first error that the registry names."""
    if not isinstance(said, dict) or not isinstance(said.get("errorWrappers"), list):
        return None
    named = [error.get("error") for error in said["errorWrappers"] if isinstance(error, dict)]
    return next((error for error in named if isinstance(error, str)), None)


def check_vat_number(host: JobHost, organization: Organization, job: Job, task: CheckVatNumber) -> None:
    """Ask the registry about the number of the task's customer, once, and act on the answer."""
    registry = host.vat_registry
    number = host.writing(lambda work: vat.prepare(work, job, task, registry=registry is not None), organization)
    if number is None or registry is None:
        return
    try:
        answer = registry.check(number)
    except Exception as problem:
        # A registry that raises counts as one that does not answer: the check is retried.
        answer = Unavailable(kind=RegistryError.UNKNOWN, message=_message(problem))
    host.writing(lambda work: vat.conclude(work, job, task, answer), organization)
