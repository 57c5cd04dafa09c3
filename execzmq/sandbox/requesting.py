"""Own what a client says to a proxy and what it is told, as bytes. Pure; h11 reads the head.

One request per connection: what follows a head is passed on as it comes, in both directions, and each side is
told that the connection ends with this request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11

from execzmq.sandbox.hosts import DEFAULT_PORTS, Target, parse_target, written

MAX_HEAD_BYTES = 32 * 1024

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

_PHRASES = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
} | {
    501: "Not Implemented",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}
_URL = re.compile(r"http://(?P<host>[^/?#]+)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?:#.*)?", re.IGNORECASE)
# Of one connection only. `Transfer-Encoding` stays: the body is passed on as it is framed.
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade"}) | {
    b"proxy-authorization",
    b"proxy-authenticate",
}
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"host"})


@dataclass(slots=True, frozen=True)
class Request:
    """What a client wants.

    Args:
        target: whom it wants to speak to.
        head: what that one is told first; empty for a tunnel.
        rest: what the client has said already after its head.
    """

    target: Target
    head: bytes
    rest: bytes

    @property
    def is_tunnel(self) -> bool:
        """Tell whether the client waits for `ESTABLISHED`."""
        return not self.head


class BadRequest(Exception):
    """The client said what is not understood here.

    Attributes:
        status: of the answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestReader:
    """Read one request from bytes as they come."""

    def __init__(self) -> None:
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    def feed(self, data: bytes) -> Request | None:
        """Take what has come (empty: the end); `None` until the head is whole.

        Raises:
            BadRequest: it is not HTTP, or not what is asked of a proxy.
            EOFError: the client has gone without a request.
        """
        try:
            self._parser.receive_data(data)
            event = self._parser.next_event()
        except h11.RemoteProtocolError as exc:
            raise BadRequest(exc.error_status_hint, str(exc)) from exc
        if event is h11.NEED_DATA:
            return None
        if not isinstance(event, h11.Request):
            raise EOFError
        return _understood(event, self._parser.trailing_data[0])


def answer(status: int, line: str) -> bytes:
    """Write a refusal: one line, also where a client shows nothing but the status line."""
    text = "execzmq: " + line.encode("ascii", "backslashreplace").decode().replace("\r", " ").replace(
        "\n", " "
    )
    phrase = f"{_PHRASES.get(status, 'Error')} ({text})"
    body = text + "\n"
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n{body}"
    ).encode()


def option_for(target: Target) -> str:
    """Write the option that would allow a target."""
    listed = written(target.host) if target.port in DEFAULT_PORTS else str(target)
    return f"--allow-host {listed}"


def _understood(request: h11.Request, rest: bytes) -> Request:
    words = request.target.decode("ascii", "replace")
    try:
        if request.method == b"CONNECT":
            return Request(parse_target(words), b"", rest)
        url = _URL.fullmatch(words)
        if url is None:
            raise BadRequest(
                400, "a proxy is asked for http://HOST/PATH, or for anything else by CONNECT HOST:PORT"
            )
        target = parse_target(url["host"], 80)
    except ValueError as exc:
        raise BadRequest(400, str(exc)) from exc
    path = (url["path"] or "/") + (url["query"] or "")
    return Request(target, _head(request, target, path), rest)


def _head(request: h11.Request, target: Target, path: str) -> bytes:
    """Write the head for the server itself: without this connection's words, with the checked host."""
    host = written(target.host) if target.port == 80 else str(target)
    lines = [
        b"%s %s HTTP/%s" % (request.method, path.encode("ascii"), request.http_version),
        b"Host: " + host.encode("ascii"),
        *(name + b": " + value for name, value in _end_to_end(request)),
        b"Connection: close",
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _end_to_end(request: h11.Request) -> list[tuple[bytes, bytes]]:
    dropped = _HOP_BY_HOP | {b"host"}
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names:
        dropped |= {b"content-length"}
    for name, value in request.headers:
        if name == b"connection":
            # What frames the body cannot be named away: the two ends would see different requests.
            dropped |= {word.strip().lower() for word in value.split(b",")} - _FRAMING
    return [(name, value) for name, value in request.headers.raw_items() if name.lower() not in dropped]
