"""Patterns of hosts: what is one, what it allows, and what two lists of them share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.errors import InvalidRequest
from execzmq.sandbox.hosts import checked_hosts, is_allowed, parse_host, shared_hosts

LABELS = st.sampled_from(["a", "b", "com"])
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
PORTS = st.sampled_from([80, 443])
PATTERNS = st.one_of(
    NAMES, NAMES.map("*.{}".format), st.tuples(NAMES, PORTS).map(lambda pair: f"{pair[0]}:{pair[1]}")
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Index.Example.", "index.example"),
        ("index.example:443", "index.example:443"),
        ("*.Example.com", "*.example.com"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8:0::1]:443", "[2001:db8::1]:443"),
        ("my_host-1", "my_host-1"),
        ("1password.com", "1password.com"),
    ],
)
def test_pattern_has_one_form(text: str, canonical: str) -> None:
    """However it is written, a pattern is kept in one form, which is read as itself."""
    assert checked_hosts([text, canonical]) == (canonical,)


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "*.", ".", "a..b", "https://a.com", "a.com/x", "a b", "a\0b", "é.fr", "user@a.com"),
        *("a.com:0", "a.com:65536", "a.com:", "a.com:x", "a.com:²", "*.a.com:443", "a.*.com", "*a.com"),
        *("127.1", "0x7f.1", "1.2.3.4.5", "256.1.1.1", "*.127.0.0.1", "[::1", "-a.com", "a" * 64, "a." * 200),
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    """A text that could mean something else, or nothing, is refused by name."""
    with pytest.raises(InvalidRequest, match="is no pattern of hosts") as caught:
        parse_host(text)
    assert caught.value.reason == "bad_host"


@pytest.mark.parametrize(
    ("pattern", "host", "port", "allowed"),
    [
        ("a.com", "A.com.", 80, True),
        ("a.com", "b.a.com", 80, False),
        ("a.com:443", "a.com", 443, True),
        ("a.com:443", "a.com", 80, False),
        ("*.a.com", "b.c.a.com", 80, True),
        ("*.a.com", "a.com", 80, False),
        ("*.a.com", "ba.com", 80, False),
        ("[::1]:443", "[0:0::1]", 443, True),
        ("::1", "::1", 80, True),
    ],
)
def test_pattern_allows(pattern: str, host: str, port: int, allowed: bool) -> None:
    """A name means itself on its port or on all, a wild one what is below it."""
    assert is_allowed([pattern], host, port) is allowed


@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4), NAMES, PORTS)
def test_shared_is_what_both_allow(left: list[str], right: list[str], host: str, port: int) -> None:
    """What two lists share allows a host exactly where each of them does."""
    both = is_allowed(left, host, port) and is_allowed(right, host, port)
    assert is_allowed(shared_hosts(left, right), host, port) is both
