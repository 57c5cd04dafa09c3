"""Own the question whether an address leads to this machine itself, as the kernel would route it now.

Interfaces come and go, and addresses can be routed here that no interface has: only the kernel knows.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address

_GET_ROUTE = 26
_IS_REQUEST = 1
_DESTINATION = 1
_HEADER = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=8BI")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR = 2
_UNICAST = 1
_TYPE = 7
"""Place of the route's type among its fields: local, broadcast and the like are not unicast."""


def leads_here(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is this machine's own, or one of many; `False` where nothing leads to it.

    Raises:
        OSError: the kernel cannot be asked.
    """
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as kernel:
        kernel.settimeout(1.0)
        kernel.send(_question(address))
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        return False
    return bool(_ROUTE.unpack_from(answer, _HEADER.size)[_TYPE] != _UNICAST)


def _question(address: IPv4Address | IPv6Address) -> bytes:
    packed = address.packed
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    body = _ROUTE.pack(family, 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _DESTINATION) + packed
    return _HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _IS_REQUEST, 1, 0) + body
