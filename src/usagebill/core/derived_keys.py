"""Keys derived from an organization's root key: one for each purpose, none of which tells of another."""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum

# The random bytes of a root key.
ROOT_KEY_BYTES = 32


class Purpose(StrEnum):
    """What a derived key signs. A changed value makes another key: links and bridges verify no longer."""

    PORTAL_LINK = "usagebill portal link"
    DOCUMENT_LINK = "usagebill document link"
    BRIDGE_CALL = "usagebill bridge call"


def derived_key(root_key: str, purpose: Purpose) -> str:
    """The key for a purpose, in hex: HKDF-SHA256 (RFC 5869) without salt, with the purpose as its `info`.

    Raises `ValueError` for a root key that is not the hex of at least 32 bytes: nothing is signed with a key that
    anybody could derive.
    """
    material = bytes.fromhex(root_key)
    if len(material) < ROOT_KEY_BYTES:
        raise ValueError("the organization has no root key")
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), material, hashlib.sha256)
    # As long as one hash, so it is the first block alone.
    return hmac.digest(extracted, purpose.encode() + b"\x01", hashlib.sha256).hex()
