"""Keys for one purpose each, derived from an organization's root key."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from usagebill.core.derived_keys import ROOT_KEY_BYTES, Purpose, derived_key

ROOT = bytes(range(ROOT_KEY_BYTES)).hex()


@pytest.mark.parametrize("purpose", Purpose)
def test_a_key_is_that_of_rfc_5869(purpose: Purpose) -> None:
    expected = HKDF(SHA256(), 32, salt=None, info=purpose.encode()).derive(bytes.fromhex(ROOT))
    assert derived_key(ROOT, purpose) == expected.hex()


def test_keys_stay_what_they_are() -> None:
    """Links and bridges verify with the keys of earlier versions."""
    assert {purpose.name: derived_key(ROOT, purpose)[:16] for purpose in Purpose} == {
        "PORTAL_LINK": "78a4b3fdb1e9d237",
        "DOCUMENT_LINK": "e58c9e4c518284d3",
        "BRIDGE_CALL": "e55dbcb6da785ad9",
    }


def test_every_purpose_and_every_root_key_has_a_key_of_its_own() -> None:
    roots = (ROOT, ROOT.replace("1f", "20"))
    assert len({*roots, *(derived_key(root, purpose) for root in roots for purpose in Purpose)}) == 2 + 2 * len(Purpose)


@pytest.mark.parametrize("root", ["", ROOT[2:], "b7c9a0f2-3d64-4e19-8f0a-5c1d2e3f4a5b"])
@pytest.mark.parametrize("purpose", Purpose)
def test_nothing_is_signed_without_a_root_key(root: str, purpose: Purpose) -> None:
    with pytest.raises(ValueError, match=r"root key|hexadecimal"):
        derived_key(root, purpose)
