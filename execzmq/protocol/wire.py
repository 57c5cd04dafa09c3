"""Own the frames: how a message becomes signed bytes and how bytes become a message again.

A message is `[identities or topic ..., <IDS|MSG>, signature, header, parent header, metadata, content,
buffers ...]`. The four dicts are msgpack, the buffers raw. This module knows no method and no socket; it
trusts nothing before the signature has been checked and remembers nothing at all.
"""

from __future__ import annotations

import hmac
import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import msgpack  # type: ignore[import-untyped]  # it ships no types

from execzmq.errors import AuthenticationFailed, LimitExceeded, LocalProtocolError, RemoteProtocolError
from execzmq.settings import (
    MAX_BUFFERS,
    MAX_CONTAINERS,
    MAX_CONTENT,
    MAX_HEADER,
    MAX_MESSAGE,
    MAX_NESTING,
    MAX_ROUTING,
)

Frame: TypeAlias = bytes | memoryview

DELIMITER = b"<IDS|MSG>"
JUPYTER_VERSION = "5.4"
"""The version of Jupyter's messaging whose frames these are."""

_SIGNATURE, _HEADER, _CONTENT, _BUFFERS = 1, 2, 5, 6
_PARTS = ("header", "parent header", "metadata", "content")
_LIMITS = (MAX_HEADER, MAX_HEADER, MAX_HEADER, MAX_CONTENT)
_EMPTY = b"\x80"
_HEADER_FIELDS = ("msg_id", "msg_type", "session")
_MAX_ID = 256
_HASH_BLOCK = 64
"""Bytes of a block of SHA-256, to which HMAC pads its key."""
_unpackb: Callable[..., object] = msgpack.unpackb
_CONTAINERS = (dict, list)
_UNPACK_ERRORS = (ValueError, TypeError, OverflowError, msgpack.UnpackException)
_PACK_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)


@dataclass(slots=True)
class Message:
    """One message whose signature and bounds have been checked; the meaning of `content` has not."""

    header: dict[str, Any]
    parent: dict[str, Any]
    metadata: dict[str, Any]
    content: dict[str, Any]
    buffers: list[Frame] = field(default_factory=list)

    @property
    def msg_id(self) -> str:
        """Return the id under which a reply is matched."""
        return str(self.header["msg_id"])

    @property
    def msg_type(self) -> str:
        """Return the type, such as `read_request`."""
        return str(self.header["msg_type"])

    @property
    def session(self) -> str:
        """Return the client session, or the server's own, that sent it."""
        return str(self.header["session"])


def split(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Return what comes before the delimiter (identities or a topic) and the rest, delimiter first.

    Raises:
        RemoteProtocolError: there is no delimiter among the first frames.
    """
    for index, frame in enumerate(frames[: MAX_ROUTING + 1]):
        if len(frame) == len(DELIMITER) and frame == DELIMITER:
            return list(frames[:index]), list(frames[index:])
    raise RemoteProtocolError(f"no {DELIMITER.decode()} among the first {MAX_ROUTING + 1} frames")


class _Mac:
    """HMAC-SHA256 (RFC 2104) of many messages under one key, whose two hashes are begun once.

    `hmac` looks its algorithm up anew for each message: a sixth of what a server does for a short command.
    """

    def __init__(self, key: bytes) -> None:
        block = (sha256(key).digest() if len(key) > _HASH_BLOCK else key).ljust(_HASH_BLOCK, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in block))

    def sign(self, data: bytes) -> bytes:
        """Return the signature as lower-case hex."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(data)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


class Codec:
    """Write and read the messages of one side of one connection.

    Args:
        key: of the connection file; empty = messages carry no signature and none is looked at.
        session: random id of this side; goes into every header.
        username: goes into every header; nothing is decided by it.
        digests: put a sha256 of each buffer into `metadata`, and demand it; may be changed at any time.
    """

    def __init__(self, key: bytes, session: str, username: str = "execzmq", digests: bool = False) -> None:
        self.session = session
        self.digests = digests
        self._username = username
        self._mac = _Mac(key) if key else None
        self._pack: Callable[[object], bytes] = msgpack.Packer(use_bin_type=True).pack
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)

    def next_id(self) -> str:
        """Return a message id that no other message has."""
        return f"{self._prefix}-{next(self._numbers)}"

    def encode(
        self,
        msg_type: str,
        content: dict[str, Any],
        *,
        parent: dict[str, Any] | None = None,
        buffers: Iterable[Frame] = (),
        msg_id: str | None = None,
        date: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> list[Frame]:
        """Return the frames of a message from the delimiter on.

        Args:
            parent: header of the message that this one answers.
            msg_id: `None` = a new one; a request is sent again under the id that it had.
            date: ISO 8601, or empty; nothing is decided by it.

        Raises:
            LocalProtocolError: a value cannot be packed, such as a str that is not valid UTF-8.
            LimitExceeded: a part is larger than every receiver accepts.
        """
        header = {
            "msg_id": msg_id or self.next_id(),
            "msg_type": msg_type,
            "session": self.session,
            "username": self._username,
            "date": date,
            "version": JUPYTER_VERSION,
        }
        buffers = list(buffers)
        if self.digests and buffers:
            metadata = {**(metadata or {}), "digests": [sha256(buffer).digest() for buffer in buffers]}
        try:
            parts = [
                self._pack(header),
                self._pack(parent) if parent else _EMPTY,
                self._pack(metadata) if metadata else _EMPTY,
                self._pack(content) if content else _EMPTY,
            ]
        except _PACK_ERRORS as error:
            raise LocalProtocolError(f"a {msg_type} cannot be packed: {error}") from error
        _check_sizes(parts, buffers)
        return [DELIMITER, self._sign(parts), *parts, *buffers]

    def decode(self, frames: Sequence[Frame]) -> Message:
        """Return the message in `frames`, which begin with the delimiter.

        Nothing is unpacked before the signature has been found right. Where it is right and the message
        still bad, `header_of` may tell whom to answer. Buffers are not copied.

        Raises:
            AuthenticationFailed: the signature, or the digest of a buffer, is wrong or missing.
            LimitExceeded: a stated bound is passed; `limit` and `value` tell it.
            RemoteProtocolError: it is not a message.
        """
        parts = self._verified(frames)
        header = _unpack_header(parts[0])
        parent = {} if parts[1] == _EMPTY else _unpack(parts[1], "parent header")
        metadata = {} if parts[2] == _EMPTY else _unpack(parts[2], "metadata")
        content = {} if parts[3] == _EMPTY else _unpack(parts[3], "content")
        buffers = list(frames[_BUFFERS:])
        if self.digests and buffers:
            _check_digests(buffers, metadata.get("digests"))
        return Message(header, parent, metadata, content, buffers)

    def header_of(self, frames: Sequence[Frame]) -> dict[str, Any] | None:
        """Return the header of a message that `decode` refused, or `None` where it cannot be trusted or read.

        A server answers what has a header with an error, so that nobody waits for a reply in vain.
        """
        if len(frames) < _BUFFERS or not self._is_signed(frames) or len(frames[_HEADER]) > MAX_HEADER:
            return None
        try:
            return _unpack_header(frames[_HEADER])
        except (RemoteProtocolError, LimitExceeded):
            return None

    def _sign(self, parts: Sequence[Frame]) -> bytes:
        return b"" if self._mac is None else self._mac.sign(b"".join(parts))

    def _is_signed(self, frames: Sequence[Frame]) -> bool:
        if self._mac is None:
            return True
        return hmac.compare_digest(frames[_SIGNATURE], self._sign(frames[_HEADER:_BUFFERS]))

    def _verified(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        if len(frames) < _BUFFERS or frames[0] != DELIMITER:
            raise RemoteProtocolError(f"{len(frames)} frames are no message, which has {_BUFFERS} or more")
        parts = frames[_HEADER:_BUFFERS]
        _check_sizes(parts, frames[_BUFFERS:])
        if not self._is_signed(frames):
            raise AuthenticationFailed("the signature is wrong; is the connection file out of date?")
        return parts


def _check_sizes(parts: Sequence[Frame], buffers: Sequence[Frame]) -> None:
    if sum(map(len, parts)) > MAX_HEADER:
        for part, name, limit in zip(parts, _PARTS, _LIMITS, strict=True):
            if len(part) > limit:
                raise _exceeded(f"bytes in the {name} of a message", limit, len(part))
    if not buffers:
        return
    if len(buffers) > MAX_BUFFERS:
        raise _exceeded("buffers in a message", MAX_BUFFERS, len(buffers))
    largest = max(memoryview(buffer).nbytes for buffer in buffers)
    if largest > MAX_MESSAGE:
        raise _exceeded("bytes in a buffer of a message", MAX_MESSAGE, largest)


def _exceeded(what: str, limit: int, value: int) -> LimitExceeded:
    return LimitExceeded(f"too many {what}: {value}, and {limit} are allowed", limit=limit, value=value)


def _check_digests(buffers: Sequence[Frame], digests: object) -> None:
    if not isinstance(digests, list) or len(digests) != len(buffers):
        raise AuthenticationFailed("the digests of the buffers are missing, and this connection needs them")
    for buffer, digest in zip(buffers, digests, strict=True):
        if not isinstance(digest, bytes) or not hmac.compare_digest(sha256(buffer).digest(), digest):
            raise AuthenticationFailed("a buffer of a message has been changed on its way")


def _unpack_header(frame: Frame) -> dict[str, Any]:
    header = _unpack(frame, "header")
    for name in _HEADER_FIELDS:
        value = header.get(name)
        if type(value) is not str or not 0 < len(value) <= _MAX_ID:
            raise RemoteProtocolError(f"the header of a message has no {name} of 1 to {_MAX_ID} characters")
    return header


def _unpack(frame: Frame, name: str) -> dict[str, Any]:
    try:
        value = _unpackb(frame, max_ext_len=0) if len(frame) <= MAX_CONTAINERS else _unpack_large(frame)
    except _UNPACK_ERRORS as error:
        raise RemoteProtocolError(f"the {name} of a message is not valid msgpack: {error}") from error
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"the {name} of a message is no map")
    _check_nesting(value, name)
    return value


def _unpack_large(frame: Frame) -> object:
    """Unpack, but stop at very many containers, each of which may take one byte packed and 64 unpacked."""
    numbers = itertools.count(1)

    def count(container: object) -> object:
        if next(numbers) > MAX_CONTAINERS:
            raise _exceeded("maps and lists in a message", MAX_CONTAINERS, MAX_CONTAINERS + 1)
        return container

    return _unpackb(frame, max_ext_len=0, object_hook=count, list_hook=count)


def _check_nesting(value: dict[str, Any], name: str) -> None:
    for inner in value.values():
        if type(inner) in _CONTAINERS:
            break
    else:
        return  # nearly every message: this is the fast path
    level: list[Any] = [value]
    for _ in range(MAX_NESTING):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _CONTAINERS
        ]
        if not level:
            return
    raise _exceeded(f"levels in the {name} of a message", MAX_NESTING, MAX_NESTING + 1)
