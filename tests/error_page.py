"""The page of error codes, generated from the table: `python -m tests.error_page` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from usagebill.core.error_codes import BY_STATE, CODES, NOT_PERMITTED, RESOURCES, Refusal

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

_HEAD = """\
# Errors

Every refusal has a status, a code for programs and a `message` for people. The message names the value, its place in
the request and the remedy; it may change from version to version, codes do not.

```json
{"status": 422, "error": "Unprocessable Entity", "code": "validation_errors",
 "error_details": {"properties": ["invalid_graduated_ranges"]},
 "message": "charges[2].properties.graduated_ranges[1]: starts at 50, the range before ends at 10; start it at 10",
 "messages": {"properties":
   ["charges[2].properties.graduated_ranges[1]: starts at 50, the range before ends at 10; start it at 10"]}}
```

`error_details` maps each field to its codes, and `messages` the same fields to their texts in the same order. The
library raises exceptions with the same `code`, `details`, `message` and `messages`, and `str(error)` has them all;
commands print the message. Places begin below the root of the body (`plan`, `customer`, ...). Values longer than 80
characters are cut, and keys, passwords and secrets are never shown.

## Statuses

| Status | Means | What to do |
| --- | --- | --- |
| 400 | The body cannot be read, or lacks its root key | The message says where parsing stopped, or which key it lacks |
| 401 | No key, or one that is not valid | Send `Authorization: Bearer <API key>` |
| 403 | The key or the product does not permit it | The message names the permission that the key lacks |
| 404 | There is no such record, or no such operation | The message names the missing record, and a similar code |
| 405 | The record's state does not permit it | The message names the state and the alternatives |
| 408 | The rest of the request did not arrive in time | Send it again |
| 413 | The body is longer than 10 MiB | Send less at once |
| 422 | Invalid values | Correct each field as `messages` says |
| 429 | The key, its organization or a tax provider has reached a limit of requests | Wait for `Retry-After` seconds |
| 500 | An internal error; the request changed nothing | Send it again; the service's log has the cause |
| 503 | The database does not answer, or the clock is implausible | Wait for `Retry-After` seconds |
| 507 | The database has no room left on its disk | Make room |

Similar codes are searched among the newest 200 plans, metrics, coupons, taxes, add-ons, features and billing entities,
not among customers, subscriptions and invoices.
"""


def _table(rows: Iterable[tuple[str, Refusal]]) -> str:
    lines = ["| Code | Means | Remedy |", "| --- | --- | --- |"]
    lines += [f"| `{code}` | {refusal.meaning} | {refusal.remedy} |" for code, refusal in rows]
    return "\n".join(lines)


def _sorted(codes: Mapping[str, Refusal]) -> str:
    return _table(sorted(codes.items(), key=lambda row: row[0].casefold()))


def text() -> str:
    """The whole page."""
    permission = Refusal("the key lacks the permission", "use a key that has it (`usagebill keys create`)")
    denied = {
        "read_action_not_allowed_for_<resource>": permission,
        "write_action_not_allowed_for_<resource>": permission,
        **NOT_PERMITTED,
    }
    missing = {
        f"{resource}_not_found": Refusal(f"there is no such {name}", f"see {where}")
        for resource, (name, where) in RESOURCES.items()
    }
    return "\n".join(
        [
            _HEAD,
            "## Codes of fields (422)\n",
            "Each meaning continues the name of the field. `base` stands for the request as a whole. A code that is a",
            "sentence (`must be one of: ...`) names the values itself; a failed expression is one text instead of",
            "codes by field, and `third_party_error` has a payment provider's message.\n",
            _sorted(CODES),
            "\n## States (405)\n",
            _sorted(BY_STATE),
            "\n## Permissions (403)\n",
            _sorted(denied),
            "\n## Missing records (404)\n",
            _sorted(missing),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
