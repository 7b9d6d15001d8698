"""CloudEvents 1.0 as usage events: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md.

`type` is the code of a billable metric, `subject` the external id of a subscription, `data` the properties. `source`
and `id` together identify an event (section "Required Attributes"), so its transaction id is made from both. The
extension `precisetotalamountcents` is the amount of a dynamic charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

_REQUIRED = ("id", "source", "type", "subject")
_AMOUNT = "precisetotalamountcents"


class NotACloudEvent(ValueError):
    """A CloudEvent that cannot be read. `problems` maps attributes to codes."""

    def __init__(self, problems: Mapping[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name}: {', '.join(codes)}" for name, codes in problems.items()))
        self.problems = problems


def is_cloud_event(sent: Mapping[str, object]) -> bool:
    """Whether this claims to be a CloudEvent."""
    return "specversion" in sent


def usage_event(sent: Mapping[str, object]) -> Mapping[str, object]:
    """The usage event, with the keys of `EventInput`, in a CloudEvent in JSON. Raises `NotACloudEvent`.

    `subject` is required here though optional in CloudEvents: usage without a subscription is billed to nobody.
    """
    problems: dict[str, list[str]] = {}
    if sent.get("specversion") != "1.0":
        problems["specversion"] = ["value_is_invalid"]
    for name in _REQUIRED:
        value = sent.get(name)
        if not isinstance(value, str) or not value.strip():
            problems[name] = ["value_is_mandatory"] if value is None or value == "" else ["value_is_invalid"]
    timestamp = _unix_seconds(sent.get("time"))
    if sent.get("time") is not None and timestamp is None:
        problems["time"] = ["invalid_format"]
    properties = sent.get("data")
    if "data_base64" in sent or not (properties is None or isinstance(properties, Mapping)):
        problems["data"] = ["value_is_invalid"]
    if problems:
        raise NotACloudEvent(problems)
    return {
        "transaction_id": _transaction_id(str(sent["source"]), str(sent["id"])),
        "code": sent["type"],
        "external_subscription_id": sent["subject"],
        "timestamp": timestamp,
        "properties": {} if properties is None else properties,
        "precise_total_amount_cents": sent.get(_AMOUNT),
    }


def _transaction_id(source: str, id: str) -> str:
    """One text for each pair: `source#id`, whose last # is the one between them.

    An id that has a # itself would be taken for the end of a longer source. It is written in a form that no other pair
    gives, since no source is blank: a #, and both with %, # and & percent-encoded.
    """
    return f"#{_encoded(source)}&{_encoded(id)}" if "#" in id else f"{source}#{id}"


def _encoded(text: str) -> str:
    return text.replace("%", "%25").replace("#", "%23").replace("&", "%26")


def _unix_seconds(time: object) -> str | None:
    """Unix seconds as decimal text, cut to microseconds; None if `time` is no RFC 3339 timestamp."""
    if not isinstance(time, str) or "T" not in time.upper():
        return None
    try:
        instant = datetime.fromisoformat(time)
    except ValueError:
        return None
    if instant.tzinfo is None:
        return None
    elapsed = instant.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    sign = "-" if whole < 0 else ""
    return f"{sign}{abs(whole) // 1_000_000}.{abs(whole) % 1_000_000:06}"
