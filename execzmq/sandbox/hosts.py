"""Own how hosts are written: in a list of what a sandbox may reach, and in what it asks a proxy for. Pure.

Names are compared as they go to the resolver: lower case, ASCII, without the dot at the end. What a resolver
would take for an address although it is not written as one (`127.1`, `0x7f.1`, `2130706433`) is no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from execzmq.errors import InvalidRequest
from execzmq.sandbox.addresses import reason_against

Address = IPv4Address | IPv6Address

DEFAULT_PORTS = frozenset({80, 443})
"""The ports of a pattern that names none."""

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@]*@)?([^/?#]*)")
_MAX_NAME = 253
_MAX_SHOWN, _MAX_WORDS = 300, 500
"""Characters of a wrong pattern, and of what is said of it."""


@dataclass(slots=True, frozen=True)
class Target:
    """What is asked for: a name or an address, and a port."""

    host: str | Address
    port: int

    def __str__(self) -> str:
        return f"{written(self.host)}:{self.port}"


@dataclass(slots=True, frozen=True)
class HostPattern:
    """What one entry of a list allows.

    Args:
        host: a name or an address.
        port: that port only; `None` = 80 and 443.
        below: every name below `host`, but not that itself.
    """

    host: str | Address
    port: int | None = None
    below: bool = False

    def matches(self, target: Target) -> bool:
        """Tell whether it allows a target."""
        if target.port not in (DEFAULT_PORTS if self.port is None else (self.port,)):
            return False
        if self.below:
            return isinstance(target.host, str) and target.host.endswith(f".{self.host}")
        return target.host == self.host

    def shared(self, other: HostPattern) -> HostPattern | None:
        """Return the pattern of what both allow, `None` where that is nothing."""
        inner, outer = (other, self) if self.below else (self, other)
        if outer.below and inner.below and not _is_within(inner, outer):
            inner, outer = outer, inner
        port = _shared_port(inner.port, outer.port)
        if port == 0 or not (_is_within(inner, outer) if outer.below else inner.host == outer.host):
            return None
        return replace(inner, port=port)

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{'*.' if self.below else ''}{written(self.host)}{port}"


def _is_within(inner: HostPattern, outer: HostPattern) -> bool:
    """Tell whether what a pattern names is below the name of another; `*.NAME` is within itself."""
    if not isinstance(inner.host, str):
        return False
    return inner.host.endswith(f".{outer.host}") or (inner.below and inner.host == outer.host)


def _shared_port(one: int | None, other: int | None) -> int | None:
    """Return the port that both allow, `None` for the ports of both that name none, 0 for nothing."""
    if one is None or other is None:
        named = one or other
        return named if named is None or named in DEFAULT_PORTS else 0
    return one if one == other else 0


def checked_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return patterns in the form in which they are compared, each once.

    Raises:
        InvalidRequest: one is none; reason `bad_host`.
    """
    found: dict[str, None] = {}
    for text in texts:
        try:
            pattern = parse_pattern(text)
            _check_reachable(pattern, text)
            found[str(pattern)] = None
        except ValueError as error:
            words = f"no pattern of hosts: {error}"[:_MAX_WORDS]
            raise InvalidRequest(words, reason="bad_host", host=text[:_MAX_SHOWN]) from None
    return tuple(found)


def _check_reachable(pattern: HostPattern, text: str) -> None:
    """Raises ValueError: the proxy dials none of it, whatever is listed."""
    host = pattern.host
    if isinstance(host, str):
        reason = "loopback" if f".{host}".endswith(".localhost") else None
    else:
        reason = reason_against(host, listed=True)
    if reason is not None:
        shown = f"{text!r} is never reached through the proxy ({reason})"
        raise ValueError(f"{shown}: this machine's own needs network host" if reason == "loopback" else shown)


def shared_hosts(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """Return patterns that together allow what both lists allow."""
    ours, theirs = [parse_pattern(text) for text in left], [parse_pattern(text) for text in right]
    pairs = (one.shared(other) for one in ours for other in theirs)
    return tuple(dict.fromkeys(str(pattern) for pattern in pairs if pattern is not None))


def parse_pattern(text: str) -> HostPattern:
    """Read `NAME`, `NAME:PORT`, `*.NAME`, `*.NAME:PORT`; an address stands for a name, IPv6 in brackets.

    Raises:
        ValueError: it is none of these; one line says what to write.
    """
    if url := _URL.match(text):
        raise ValueError(f"a URL is no host, write its host alone: {url[1] or 'NAME'}")
    host, port = _split(text)
    below = host.startswith("*.")
    found = parse_host(host.removeprefix("*.") if below else host)
    if below and not isinstance(found, str):
        raise ValueError(f"{text!r}: nothing is below an address: write a name after '*.'")
    return HostPattern(found, port, below)


def parse_target(text: str, port: int | None = None) -> Target:
    """Read `HOST:PORT`; with a default port also `HOST`.

    Raises:
        ValueError: it is not that.
    """
    host, own = _split(text)
    if own is None and port is None:
        raise ValueError(f"{text!r} names no port")
    return Target(parse_host(host), port if own is None else own)  # type: ignore[arg-type]  # not both None


def parse_host(text: str) -> str | Address:
    """Read a name or an address (IPv6 in brackets), in the one form in which it is compared.

    Raises:
        ValueError: it is neither, or an address in a form that hides it.
    """
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text)
    name = text.lower().removesuffix(".")
    if not text.isascii():
        raise ValueError(f"{text!r} is not ASCII: write the name as the resolver gets it (xn--…)")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(text)
    if len(name) > _MAX_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{text!r} is not a host: write NAME, NAME:PORT or *.NAME")
    return name


def first_match(patterns: Iterable[HostPattern], target: Target) -> HostPattern | None:
    """Return the pattern that allows a target, one that names it in full before one that does not."""
    matching = [pattern for pattern in patterns if pattern.matches(target)]
    return min(matching, key=lambda pattern: pattern.below, default=None)


def written(host: str | Address) -> str:
    """Write a host as it stands in a list and in a URL."""
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)


def _split(text: str) -> tuple[str, int | None]:
    """Take the port off; a colon inside of brackets is the address's."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r}: {port!r} is not a port (1 to 65535); IPv6 is written in brackets")
    return host, int(port)


def _ipv4(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise ValueError(f"{text!r} is not a host: write an address as four decimal numbers") from None


def _ipv6(text: str) -> IPv6Address:
    try:
        address = IPv6Address(text[1:-1])
    except AddressValueError:
        raise ValueError(f"{text!r} is not an IPv6 address in brackets") from None
    if address.scope_id is not None:
        raise ValueError(f"{text!r} has a zone: an address of one link only is never reached")
    return address
