"""Network addresses: telling public ones from private ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# Networks whose addresses embed an IPv4 address, and the bit offset of that address.
_NAT64 = IPv6Network("64:ff9b::/96")
# Networks that embed addresses in an unreadable form: Teredo, local NAT64, IPv4-compatible.
_OPAQUE = (IPv6Network("2001::/32"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))


def is_public(address: str) -> bool:
    """Whether a numeric address (IPv4 or IPv6, with or without a zone) is on the public internet.

    Loopback, private, shared, link-local, unspecified, multicast and reserved addresses are not, and neither are IPv6
    addresses that embed such an IPv4 address. ValueError if `address` is not numeric.
    """
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        inner = _wrapped(parsed)
        if inner is not None:
            return is_public(str(inner))
        if parsed.is_site_local or any(parsed in network for network in _OPAQUE):
            return False
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved or parsed.is_unspecified)


def names_private(host: str) -> bool:
    """Whether a host name alone shows that the host is private. Most private hosts have names that do not."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not is_public(host)
    except ValueError:
        return False


def _wrapped(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address embeds."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
