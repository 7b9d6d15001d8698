"""The key of a request, known by its hash alone."""

from __future__ import annotations

import base64
import hashlib

# The key of an ASGI scope that holds the Authorization header, apart from the others.
KEY_SENT = "usagebill.authorization"


def key_hash(authorization: str) -> str | None:
    """The hash of the key in an `Authorization` header; None without one. No error shows the key itself."""
    words = authorization.split()
    if len(words) < 2:
        return None
    value = _password(words[1]) if words[0].lower() == "basic" else words[1].encode()
    return hashlib.sha256(value).hexdigest()


def _password(credentials: str) -> bytes:
    """The password of HTTP basic credentials, or the name if there is none; any other text is taken as it is."""
    try:
        name, _, password = base64.b64decode(credentials, validate=True).partition(b":")
    except ValueError:
        return credentials.encode()
    return password or name
