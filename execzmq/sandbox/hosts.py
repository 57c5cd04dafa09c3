"""Own the patterns that name the proxy's hosts: what one looks like, what it allows, what two share. Pure.

`NAME` is that name or address on every port, `NAME:PORT` on one port, `*.NAME` all names below it, but not
`NAME` itself. Names are compared without regard to case; an IPv6 address with a port is `[ADDRESS]:PORT`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from execzmq.errors import InvalidRequest

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_MOST_NAME = 253
_REMEDY = "write NAME, NAME:PORT or *.NAME, in ASCII (xn--… for others), without a scheme"


class HostPattern(NamedTuple):
    """One pattern, taken apart; `name` is in lower case and without a final dot.

    Attributes:
        is_wild: all names below `name` are meant.
        port: the one port; `None` = every port.
    """

    name: str
    is_wild: bool = False
    port: int | None = None

    def __str__(self) -> str:
        if self.is_wild:
            return f"*.{self.name}"
        if self.port is None:
            return self.name
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    def allows(self, host: str, port: int) -> bool:
        """Tell whether a name or address, as a client of the proxy gives it, may be reached on that port."""
        name = canonical(host)
        if self.is_wild:
            return name.endswith(f".{self.name}")
        return name == self.name and self.port in (None, port)

    def shared(self, other: HostPattern) -> HostPattern | None:
        """Return the pattern of what both allow, `None` where that is nothing."""
        if other.is_wild and not self.is_wild:
            return other.shared(self)
        if self.is_wild:
            if other.name.endswith(f".{self.name}") or other == self:
                return other
            return self if other.is_wild and self.name.endswith(f".{other.name}") else None
        if self.name != other.name or (None not in (self.port, other.port) and self.port != other.port):
            return None
        return self if other.port is None else other


def canonical(host: str) -> str:
    """Return a name or address in the form in which two are compared."""
    name = host.lower().removesuffix(".")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    address = _address(name)
    return name if address is None else address


def parse_host(text: str) -> HostPattern:
    """Return the pattern that a text is.

    Raises:
        InvalidRequest: it is none; reason `bad_host`.
    """
    rest, port = _split(text)
    if rest.startswith("*."):
        if port is not None:
            raise _bad(text, "*.NAME has no port; name its hosts one by one")
        return HostPattern(_checked(text, rest[2:], may_be_address=False), is_wild=True)
    return HostPattern(_checked(text, rest, may_be_address=True), port=port)


def checked_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return patterns in their canonical form, each once.

    Raises:
        InvalidRequest: one is none; reason `bad_host`.
    """
    return tuple(dict.fromkeys(str(parse_host(text)) for text in texts))


def shared_hosts(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """Return patterns that together allow what both lists allow."""
    ours, theirs = [parse_host(text) for text in left], [parse_host(text) for text in right]
    pairs = (one.shared(other) for one in ours for other in theirs)
    return tuple(dict.fromkeys(str(pattern) for pattern in pairs if pattern is not None))


def is_allowed(patterns: Iterable[str], host: str, port: int) -> bool:
    """Tell whether one of the patterns allows that name or address on that port."""
    return any(parse_host(text).allows(host, port) for text in patterns)


def _split(text: str) -> tuple[str, int | None]:
    """Return the host of a pattern and its port, if it has one."""
    if _address(text.lower()) is not None:
        return text, None
    host, colon, digits = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    if not (digits.isascii() and digits.isdigit() and 1 <= int(digits[:6]) <= 65535):
        raise _bad(text)
    return host, int(digits)


def _checked(text: str, host: str, *, may_be_address: bool) -> str:
    name = canonical(host)
    if _address(name) is not None and may_be_address:
        return name
    labels = name.split(".")
    # A name that ends in a number is an address in one of its odd forms (127.1, 0x7f.1) to some programs.
    is_name = all(map(_LABEL.match, labels)) and not re.match(r"(0x[0-9a-f]*|[0-9]+)\Z", labels[-1])
    if not is_name or len(name) > _MOST_NAME:
        raise _bad(text)
    return name


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _bad(text: str, remedy: str = _REMEDY) -> InvalidRequest:
    shown = text[:300]
    return InvalidRequest(f"{shown!r} is no pattern of hosts: {remedy}", reason="bad_host", host=shown)
