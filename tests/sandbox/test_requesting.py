"""What a proxy is asked and what it answers: heads in any pieces, and nothing passed on that must not be."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.sandbox.hosts import parse_target
from execzmq.sandbox.requesting import MAX_HEAD_BYTES, BadRequest, Request, RequestReader, answer, option_for

GET = (
    b"GET http://A.example:80/x/y?q=1#f HTTP/1.1\r\nHost: other.example\r\nUser-Agent: t\r\n"
    b"Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Hop, Content-Length\r\nX-Hop: 1\r\n"
    b"Proxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nbody"
)
CONNECT = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nhello"


def read(*pieces: bytes) -> Request:
    """Read a request that comes in these pieces; it is whole with the last and not before."""
    reader = RequestReader()
    for piece in pieces[:-1]:
        assert reader.feed(piece) is None
    request = reader.feed(pieces[-1])
    assert request is not None
    return request


def test_head_is_rewritten_for_the_server() -> None:
    """Path instead of URL, the host that was checked, and nothing that is the client connection's own."""
    request = read(GET)
    assert str(request.target) == "a.example:80"
    assert request.head == (
        b"GET /x/y?q=1 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: t\r\nContent-Length: 4\r\n"
        b"Connection: close\r\n\r\n"
    )
    assert request.rest == b"body"
    assert not request.is_tunnel


@pytest.mark.parametrize(
    ("url", "first_lines"),
    [
        (b"http://a.example", b"GET / HTTP/1.1\r\nHost: a.example\r\n"),
        (b"HTTP://a.example?x", b"GET /?x HTTP/1.1\r\nHost: a.example\r\n"),
        (b"http://a.example:8080/", b"GET / HTTP/1.1\r\nHost: a.example:8080\r\n"),
        (b"http://[2001:db8::1]/", b"GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n"),
    ],
)
def test_urls(url: bytes, first_lines: bytes) -> None:
    """Path and port may be missing."""
    assert read(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % url).head.startswith(first_lines)


def test_tunnel_keeps_what_was_said_after_the_head() -> None:
    """A client may begin before it is told that it may."""
    assert read(CONNECT) == Request(parse_target("a.example:443"), b"", b"hello")
    assert read(b"CONNECT a.example:443 HTTP/1.0\r\n\r\n").is_tunnel


def test_a_body_is_framed_in_one_way() -> None:
    """Of two framings the server gets one, and it cannot be named away as the connection's own."""
    head = read(
        b"POST http://a.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: transfer-encoding\r\n\r\n"
    ).head
    assert b"Transfer-Encoding: chunked" in head
    assert b"Content-Length" not in head


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (b"GET https://a.example/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://u:p@a.example/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://a.example\\@b.example/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://0x7f.1/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://a.example%2eb/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a.example HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT 2130706433:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\r\n\r\n", 400),
        (b"GET http://a.example/ HTTP/1.1\r\n" + b"x" * (MAX_HEAD_BYTES + 1), 431),
    ],
)
def test_what_is_no_request_is_answered(head: bytes, status: int) -> None:
    """Each has its status, and one line."""
    with pytest.raises(BadRequest) as refused:
        read(head)
    assert refused.value.status == status
    assert b"\r\n\r\nexeczmq: " in answer(status, str(refused.value))


def test_who_goes_without_a_request_is_not_answered() -> None:
    """An end before the first byte is no bad request."""
    with pytest.raises(EOFError):
        RequestReader().feed(b"")


@given(cut=st.integers(1, GET.index(b"\r\n\r\n") + 3))
def test_pieces_make_no_difference(cut: int) -> None:
    """A head is the same in whatever pieces it comes."""
    assert read(GET[:cut], GET[cut:]) == read(GET)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_error(data: bytes) -> None:
    """Nothing else comes of what a client says."""
    with contextlib.suppress(BadRequest, EOFError):
        RequestReader().feed(data)


def test_answer_cannot_be_split() -> None:
    """What a client wrote stays within its line."""
    said = answer(403, "a\r\nSet-Cookie: x\r\n\r\n\u00e9")
    assert said.count(b"\r\n\r\n") == 1
    assert b"\r\nSet-Cookie" not in said
    assert said.startswith(b"HTTP/1.1 403 Forbidden (execzmq: a  Set-Cookie: x")


def test_option_names_no_more_than_is_needed() -> None:
    """The usual ports are left out."""
    assert option_for(parse_target("a.example:443")) == "--allow-host a.example"
    assert option_for(parse_target("[2001:db8::1]:22")) == "--allow-host [2001:db8::1]:22"
