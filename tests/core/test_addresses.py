"""Which addresses are on the public internet."""

from __future__ import annotations

import pytest

from usagebill.core.addresses import is_public, names_private


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_public(address: str) -> None:
    assert is_public(address)
    assert not names_private(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        "2001:0:1234::1",
        "2001:db8::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public(address)
    assert names_private(address)


def test_what_is_no_address_names_nothing() -> None:
    with pytest.raises(ValueError, match="example"):
        is_public("example.com")
    assert not names_private("example.com")
    assert names_private("localhost")
    assert names_private("db.localhost")
