"""Whether an address is this machine's own is the kernel's to say."""

from ipaddress import ip_address

import psutil
import pytest

from execzmq.sandbox.routes import leads_here

OWN = [
    address.address.partition("%")[0]
    for addresses in psutil.net_if_addrs().values()
    for address in addresses
    if address.family.name in ("AF_INET", "AF_INET6")
]


@pytest.mark.parametrize("text", ["127.0.0.1", "127.9.9.9", "224.0.0.1", "255.255.255.255", *OWN])
def test_own_addresses_and_those_of_many(text: str) -> None:
    """Every interface's address, the whole loopback, broadcast and multicast."""
    assert leads_here(ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "2606:4700:4700::1111"])
def test_others_are_not(text: str) -> None:
    """Whether there is a route to them or none."""
    assert not leads_here(ip_address(text))
