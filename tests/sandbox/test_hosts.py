"""Hosts as they are listed and asked for: one form of each name, and none that hides an address."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.errors import InvalidRequest
from execzmq.sandbox.hosts import (
    Address,
    HostPattern,
    Target,
    checked_hosts,
    first_match,
    parse_host,
    parse_pattern,
    parse_target,
    shared_hosts,
    written,
)

NAMES = st.from_regex(
    r"[a-z0-9]([a-z0-9_-]{0,9}[a-z0-9])?(\.[a-z]([a-z0-9-]{0,9}[a-z0-9])?){1,4}", fullmatch=True
)
HOSTS: st.SearchStrategy[str | Address] = st.one_of(NAMES, st.ip_addresses())
PORTS = st.integers(1, 65_535)

LIKE_ADDRESSES = """127.1 127.0.1 0x7f.1 0x7f000001 0x 2130706433 017700000001 0177.0.0.1 0 127.0.0.01
127.0.0.1. 1.2.3.4.5 256.1.1.1 a.1 a.0x1 127.0.0.0x1 \uff11\uff12\uff17.0.0.1 127\u30020\u30020\u30021"""
"""What resolvers take for an address, some of them for one of this machine."""
NO_HOSTS = ". .. a..b .a -a a- * *. a.* *a.b *.*.a *.127.0.0.1 *.[::1] a/b a@b a%41 http://a \u212a.com"
ODD_HOSTS = ["", "a b", "a\n", "a\0", "a" * 64, "a." * 127 + "aa", "ex\u00e4mple.com"]
NO_PORTS = "a: a:0 a:65536 a:-1 a:+1 a:1:2 a:http a:\u0661 ::1 fe80::1"
NO_BRACKETS = "[ [] [::1 ::1] [1.2.3.4] [fe80::1%eth0] [::1]x [::1]: [a]"
REFUSED = f"{LIKE_ADDRESSES} {NO_HOSTS} {NO_PORTS} {NO_BRACKETS}"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("mirror.example", HostPattern("mirror.example")),
        ("Mirror.Example.", HostPattern("mirror.example")),
        ("mirror.example:8443", HostPattern("mirror.example", 8443)),
        ("*.example.com", HostPattern("example.com", None, True)),
        ("*.example.com:22", HostPattern("example.com", 22, True)),
        ("localhost", HostPattern("localhost")),
        ("a_b.example", HostPattern("a_b.example")),
        ("xn--strae-oqa.example", HostPattern("xn--strae-oqa.example")),
        ("10.0.0.7:5432", HostPattern(IPv4Address("10.0.0.7"), 5432)),
        ("[2001:DB8:0::7]", HostPattern(IPv6Address("2001:db8::7"))),
        ("[2001:db8::7]:443", HostPattern(IPv6Address("2001:db8::7"), 443)),
    ],
)
def test_pattern_has_one_form(text: str, pattern: HostPattern) -> None:
    """Case, the dot at the end and the ways to write an IPv6 address make no difference."""
    assert parse_pattern(text) == pattern


@pytest.mark.parametrize("text", [*REFUSED.split(), *ODD_HOSTS])
def test_what_is_no_host_is_refused(text: str) -> None:
    """Whatever is not plainly a name or an address is an error with one line."""
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "allowed", "refused"),
    [
        (
            "a.example",
            ["a.example:80", "A.example.:443"],
            ["a.example:8080", "b.example:80", "x.a.example:80"],
        ),
        ("a.example:8080", ["a.example:8080"], ["a.example:80", "a.example:443"]),
        ("*.example", ["a.example:80", "b.a.example:443"], ["example:80", "aexample:80", "a.example.org:80"]),
        ("10.0.0.7", ["10.0.0.7:80"], ["10.0.0.70:80", "[::ffff:10.0.0.7]:80"]),
    ],
)
def test_matching(pattern: str, allowed: list[str], refused: list[str]) -> None:
    """Without a port 80 and 443 are meant; `*.NAME` is all below a name and not the name."""
    found = parse_pattern(pattern)
    assert all(found.matches(parse_target(text)) for text in allowed)
    assert not any(found.matches(parse_target(text)) for text in refused)


def test_pattern_that_names_a_host_in_full_comes_first() -> None:
    """What a full name allows is not lost by a pattern before it."""
    patterns = [parse_pattern("*.corp.example"), parse_pattern("git.corp.example")]
    assert first_match(patterns, parse_target("git.corp.example:443")) is patterns[1]
    assert first_match(patterns, parse_target("ci.corp.example:443")) is patterns[0]
    assert first_match(patterns, parse_target("example.com:443")) is None


def test_target_needs_a_port() -> None:
    """A port is given or has a default."""
    assert parse_target("a.example", 80) == Target("a.example", 80)
    assert parse_target("a.example:81", 80) == Target("a.example", 81)
    with pytest.raises(ValueError, match="names no port"):
        parse_target("a.example")


@given(host=HOSTS, port=PORTS)
def test_written_host_comes_back(host: str | Address, port: int) -> None:
    """What is printed for people can be listed."""
    target = Target(host, port)
    assert parse_target(str(target)) == target
    assert parse_pattern(str(target)) == HostPattern(host, port)
    assert parse_host(written(host)) == host


@given(name=NAMES, below=NAMES, port=PORTS)
def test_star_is_what_is_below(name: str, below: str, port: int) -> None:
    """`*.NAME` allows every name that ends in `.NAME`, and no address."""
    pattern = parse_pattern(f"*.{name}:{port}")
    assert pattern.matches(Target(f"{below}.{name}", port))
    assert not pattern.matches(Target(name, port))
    assert not pattern.matches(Target(f"{below}{name}", port)) or f"{below}{name}".endswith(f".{name}")


@given(text=st.text())
def test_any_text_is_a_host_or_an_error(text: str) -> None:
    """Nothing else comes of it, and what passes is written in ASCII."""
    try:
        pattern = parse_pattern(text)
    except ValueError:
        return
    assert written(pattern.host).isascii()


PATTERN_PORTS = st.sampled_from([None, 80, 443, 22])
FEW_NAMES = st.lists(st.sampled_from(["a", "b", "com"]), min_size=1, max_size=3).map(".".join)
LISTED = st.builds(HostPattern, FEW_NAMES, PATTERN_PORTS, st.booleans()).map(str)


@given(
    st.lists(LISTED, max_size=4),
    st.lists(LISTED, max_size=4),
    FEW_NAMES,
    st.sampled_from([80, 443, 22, 8080]),
)
def test_shared_is_what_both_allow(left: list[str], right: list[str], host: str, port: int) -> None:
    """What two lists share allows a host exactly where each of them does."""
    target = Target(host, port)

    def allows(texts: Iterable[str]) -> bool:
        return first_match(map(parse_pattern, texts), target) is not None

    assert allows(shared_hosts(left, right)) is (allows(left) and allows(right))


@given(LISTED)
def test_pattern_of_a_list_has_one_form(text: str) -> None:
    """However it is written, a pattern is kept in one form, which is read as itself."""
    assert checked_hosts([text.upper(), text]) == (text,)


@pytest.mark.parametrize(
    "text", ["", "*", "https://a.com", "a.com/x", "user@a.com", "a.com:0", "127.1", "é.fr"]
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    """A text that could mean something else, or nothing, is refused by name."""
    with pytest.raises(InvalidRequest, match="no pattern of hosts") as caught:
        checked_hosts([text])
    assert caught.value.details["reason"] == "bad_host"


@pytest.mark.parametrize(
    "text", ["localhost", "LocalHost:8080", "*.localhost", "127.0.0.1", "[::1]:80", "169.254.169.254"]
)
def test_what_is_never_dialled_is_refused(text: str) -> None:
    """To list it would do nothing; a network of one's own may be listed."""
    with pytest.raises(InvalidRequest, match="is never reached through the proxy"):
        checked_hosts([text])
    assert checked_hosts(["10.0.0.7", "localhost.example"]) == ("10.0.0.7", "localhost.example")
