"""Own which addresses a proxy may dial for a sandbox. Pure: what is this machine's own is told from outside.

Three kinds: the internet; networks of one's own (private), for a host that is listed in full; and the rest,
which leads to this machine, its link, its cloud's metadata, or nowhere, and is never dialled. An address that
carries an IPv4 one is what it carries.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(table: dict[str, str]) -> tuple[tuple[Network, str], ...]:
    return tuple((_network(word), reason) for reason, words in table.items() for word in words.split())


def _network(word: str) -> Network:
    return IPv6Network(word) if ":" in word else IPv4Network(word)


_NEVER = _networks(
    {
        # Before what they lie in. Azure's lies among public addresses.
        "a cloud's metadata": "169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192 "
        "fd00:ec2::254 fd20:ce::254",
        "unspecified": "0.0.0.0/8 ::/128",
        "loopback": "127.0.0.0/8 ::1/128",
        "link-local": "169.254.0.0/16 fe80::/10",
        "multicast": "224.0.0.0/4 ff00::/8",
        "reserved": "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
        # Teredo is in 2001::/23: it hides its IPv4 address, and where it leads its relay decides.
        "240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20",
    }
)
_PRIVATE = _networks(
    # 100.64.0.0/10 is shared by a carrier's customers, and what overlay networks use.
    {"private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7"}
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def carried(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one stands for (mapped, NAT64, 6to4), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def reason_against(address: Address, *, listed: bool) -> str | None:
    """Say why an address must not be dialled; `None` if it may.

    Args:
        listed: the host was listed in full, as a name or as this address, and not by a pattern.
    """
    address = carried(address)
    if (never := _reason(address, _NEVER)) is not None:
        return never
    if _reason(address, _PRIVATE) is not None:
        return None if listed else "private"
    if isinstance(address, IPv6Address) and address not in _GLOBAL_IPV6:
        return "reserved"
    return None


def _reason(address: Address, table: tuple[tuple[Network, str], ...]) -> str | None:
    # One of the other family is in no network.
    return next((reason for network, reason in table if address in network), None)
