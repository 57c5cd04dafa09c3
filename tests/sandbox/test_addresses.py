"""Which addresses a proxy may dial: none that leads back to this machine, in whatever form."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.sandbox.addresses import reason_against

NEVER = {
    "loopback": "127.0.0.1 127.255.255.254 ::1",
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "link-local": "169.254.0.1 169.254.255.255 fe80::1 febf::1",
    "a cloud's metadata": "169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192 "
    "fd00:ec2::254 fd20:ce::254",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1",
    "reserved": "192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 240.0.0.1 "
    "255.255.255.255 2001:db8::1 2001::1 3fff::1 100::1 64:ff9b:1::1 ::7f00:1 ::ffff:0:127.0.0.1 fec0::1 "
    "5f00::1 4000::1",
}
PRIVATE = (
    "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255 fc00::1 fdff::1"
)
PUBLIC = (
    "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 172.15.255.255 172.32.0.1 192.167.1.1 100.63.1.1 100.128.0.1 "
    "126.1.1.1 128.0.0.1 223.255.255.255 2606:4700:4700::1111 2a00:1450:4001::1 2003::1"
)


@pytest.mark.parametrize(
    ("text", "reason"), [(text, reason) for reason, texts in NEVER.items() for text in texts.split()]
)
@pytest.mark.parametrize("listed", [False, True])
def test_what_is_never_dialled(text: str, reason: str, listed: bool) -> None:
    """Not even for a host that is listed in full: DNS rebinding, escape 81."""
    assert reason_against(ip_address(text), listed=listed) == reason


@pytest.mark.parametrize("text", PRIVATE.split())
def test_private_ones_need_a_host_listed_in_full(text: str) -> None:
    """A name below a pattern, which may be anybody's, leads to no network of one's own."""
    assert reason_against(ip_address(text), listed=False) == "private"
    assert reason_against(ip_address(text), listed=True) is None


@pytest.mark.parametrize("text", PUBLIC.split())
def test_the_internet_is_dialled(text: str) -> None:
    """Neighbours of what is refused are not refused with it."""
    assert reason_against(ip_address(text), listed=False) is None


def disguises(address: IPv4Address) -> list[IPv6Address]:
    """Write an IPv4 address as mapped, by NAT64 and by 6to4."""
    number = int(address)
    return [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(int(IPv6Address("64:ff9b::")) | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
    ]


@given(address=st.ip_addresses(v=4), listed=st.booleans())
def test_an_address_that_carries_another_is_that(address: IPv4Address, listed: bool) -> None:
    """No IPv6 form of an IPv4 address gets further than that."""
    reason = reason_against(address, listed=listed)
    assert [reason_against(form, listed=listed) for form in disguises(address)] == [reason] * 3


@given(address=st.ip_addresses())
def test_what_python_calls_special_is_not_the_internet(address: IPv4Address | IPv6Address) -> None:
    """Listed in full allows what a pattern allows; what `ipaddress` knows as special needs more than that."""
    if reason_against(address, listed=False) is None:
        assert reason_against(address, listed=True) is None
        special = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
        assert not any((*special, address.is_private))
