"""HTML forms as browsers send them."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request

# The largest form.
_MOST_BYTES = 64 * 1024


async def received(request: Request) -> bytes:
    """The body of a form; empty if it is longer than forms are."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            return b""
    return body


def form_of(body: bytes) -> dict[str, str]:
    """The fields of a form, the last of each name."""
    parsed = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in parsed.items()}
