"""Frames: signatures before all else, bounds by name, one kind of error for each kind of fault."""

import ast
import hmac
import inspect
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import pytest

from execzmq.errors import AuthenticationFailed, LimitExceeded, LocalProtocolError, RemoteProtocolError
from execzmq.protocol import wire
from execzmq.protocol.wire import DELIMITER, Codec, Frame, Message, split
from execzmq.settings import (
    MAX_BUFFERS,
    MAX_CONTAINERS,
    MAX_CONTENT,
    MAX_HEADER,
    MAX_MESSAGE,
    MAX_NESTING,
    MAX_ROUTING,
)

KEY = b"a key"


@pytest.fixture
def codec() -> Codec:
    """One side of a connection with a key."""
    return Codec(KEY, "session")


def _signed(codec: Codec, *parts: bytes, buffers: tuple[bytes, ...] = ()) -> list[Frame]:
    """Return frames that are signed rightly, whatever their parts are."""
    return [DELIMITER, codec._sign(parts), *parts, *buffers]


def _header(**changes: Any) -> bytes:
    header = {"msg_id": "id", "msg_type": "info_request", "session": "s", **changes}
    return bytes(msgpack.packb({name: value for name, value in header.items() if value is not None}))


def _nested(levels: int) -> bytes:
    return b"\x81\xa1a" * (levels - 1) + b"\x80"


def test_message_round_trip(codec: Codec) -> None:
    """Every part of a message arrives as it was sent; bytes stay bytes and buffers are not copied."""
    data = memoryview(b"\x00\xff" * 10)
    content = {"argv": [b"a\xff"], "text": "\u20ac", "n": -1, "none": None, "map": {b"k": 1.5}}
    frames = codec.encode(
        "start_request", content, buffers=[data, b""], metadata={"traceparent": "x"}, date="d"
    )
    message = Codec(KEY, "other").decode(frames)
    assert message.content == content
    assert message.metadata == {"traceparent": "x"}
    assert message.parent == {}
    assert message.buffers[0] is data
    assert message.header == {
        "msg_id": message.msg_id,
        "msg_type": "start_request",
        "session": "session",
        "username": "execzmq",
        "date": "d",
        "version": "5.4",
    }


def test_frames_may_be_views(codec: Codec) -> None:
    """A message is read from memoryviews as from bytes."""
    frames = [memoryview(frame) for frame in [b"id", *codec.encode("x", {"a": 1}, buffers=[b"b"])]]
    prefix, rest = split(frames)
    assert prefix == [b"id"]
    assert codec.decode(rest).content == {"a": 1}


def test_ids_differ_between_messages_and_codecs(codec: Codec) -> None:
    """No two messages have one id, also when two connections share a session."""
    ids = {Codec(KEY, "session").next_id() for _ in range(100)} | {codec.next_id() for _ in range(100)}
    assert len(ids) == 200


def test_repeat_keeps_its_id(codec: Codec) -> None:
    """A request that is sent again is byte for byte the same."""
    first = codec.encode("x_request", {"a": 1}, msg_id="m")
    assert codec.encode("x_request", {"a": 1}, msg_id="m") == first


@pytest.mark.parametrize("part", range(1, 6))
def test_any_changed_byte_is_refused_c56(codec: Codec, part: int) -> None:
    """One flipped bit in signature, header, parent, metadata or content is found."""
    frames = codec.encode("x", {"a": 1}, parent={"msg_id": "p"}, metadata={"m": 1})
    frames[part] = bytes([frames[part][0] ^ 1]) + bytes(frames[part][1:])
    with pytest.raises(AuthenticationFailed):
        codec.decode(frames)
    assert codec.header_of(frames) is None


@pytest.mark.parametrize("signature", [b"", b"0" * 64, b"\xff" * 64, b"0" * 63, b"0" * 10_000])
def test_wrong_signature_is_refused_before_unpacking_c56(
    codec: Codec, signature: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a message is unpacked as long as its signature is not known to be right."""
    frames = codec.encode("x", {})
    frames[1] = signature
    monkeypatch.setattr(wire, "_unpack", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(AuthenticationFailed):
        codec.decode(frames)


def test_same_frames_decode_twice_c56(codec: Codec) -> None:
    """A codec remembers nothing, so two consumers in one process can read the same bytes."""
    frames = codec.encode("x", {})
    assert codec.decode(frames) == codec.decode(frames)


@pytest.mark.parametrize("key", [b"k", b"k" * 36, b"k" * 63, b"k" * 64, b"k" * 65, bytes(range(256)) * 4])
def test_signature_is_that_of_hmac(key: bytes) -> None:
    """The standard library says the same for keys shorter and longer than a block of the hash."""
    codec = Codec(key, "s")
    for content in ({}, {"a": b"\0" * 100}, {"b": "c" * 70_000}):
        _, signature, *parts = codec.encode("info_request", content)
        assert signature == hmac.new(key, b"".join(parts), "sha256").hexdigest().encode()


def test_empty_key_means_no_signature() -> None:
    """Without a key the signature is empty when writing and not looked at when reading."""
    codec = Codec(b"", "session")
    frames = codec.encode("x", {})
    assert frames[1] == b""
    frames[1] = b"whatever"
    assert codec.decode(frames).msg_type == "x"


def test_changed_buffer_is_refused_c56() -> None:
    """With digests a buffer cannot be changed, taken away or added."""
    codec = Codec(KEY, "session", digests=True)
    frames = codec.encode("x", {}, buffers=[b"one", b"two"])
    assert codec.decode(frames).buffers == [b"one", b"two"]
    for buffers in ([b"one", b"twO"], [b"one"], [b"two", b"one"], [b"one", b"two", b""]):
        with pytest.raises(AuthenticationFailed):
            codec.decode([*frames[:6], *buffers])


@pytest.mark.parametrize("digests", [None, "x", [], [b"short"], ["text"]])
def test_digests_are_demanded(digests: object) -> None:
    """Where digests are asked for, a message with buffers and without right ones is refused."""
    frames = Codec(KEY, "s").encode("x", {}, buffers=[b"one"], metadata={"digests": digests})
    with pytest.raises(AuthenticationFailed):
        Codec(KEY, "s", digests=True).decode(frames)
    assert Codec(KEY, "s").decode(frames).buffers == [b"one"]


@pytest.mark.parametrize("count", range(6))
def test_too_few_frames(codec: Codec, count: int) -> None:
    """A message that ends too early is refused, before a frame is looked at by its place (C56)."""
    frames = codec.encode("x", {})[:count]
    with pytest.raises(RemoteProtocolError):
        codec.decode(frames)
    assert codec.header_of(frames) is None


def test_split_looks_at_the_first_frames_only() -> None:
    """A message without delimiter, or with too much before it, is refused."""
    for frames in ([], [b"a", b"b"], [b"id"] * (MAX_ROUTING + 1) + [DELIMITER]):
        with pytest.raises(RemoteProtocolError, match="no <IDS"):
            split(frames)
    assert split([b"id"] * MAX_ROUTING + [DELIMITER, b"s"]) == ([b"id"] * MAX_ROUTING, [DELIMITER, b"s"])


NOT_MAPS = [
    b"",
    b"\xc1",
    b"\x01",
    b"\x90",
    b"\x81\xa1a",
    b"\x80\x80",
    b"\x81\x01\x02",
    b"\x81\xa1\xff\x01",
    b"not msgpack",
    b"\xdf\xff\xff\xff\xff",
    b"\x81\xa1a\xc7\x05\x01hello",
    b"\x81\xa1a\xd6\xff\x00\x00\x00\x01",
]


@pytest.mark.parametrize("content", NOT_MAPS)
def test_bad_content_is_refused_and_still_answerable(codec: Codec, content: bytes) -> None:
    """A signed message whose content is no map of msgpack is refused, and its header can be read."""
    frames = _signed(codec, _header(), b"\x80", b"\x80", content)
    with pytest.raises(RemoteProtocolError, match="content"):
        codec.decode(frames)
    header = codec.header_of(frames)
    assert header is not None
    assert header["msg_id"] == "id"


@pytest.mark.parametrize("name", ["msg_id", "msg_type", "session"])
@pytest.mark.parametrize("value", [None, "", 7, b"id", "x" * 257, ["id"]])
def test_header_without_a_field_is_refused(codec: Codec, name: str, value: object) -> None:
    """A header must have its three fields as strings of 1 to 256 characters."""
    frames = _signed(codec, _header(**{name: value}), b"\x80", b"\x80", b"\x80")
    with pytest.raises(RemoteProtocolError, match=name):
        codec.decode(frames)
    assert codec.header_of(frames) is None


@pytest.mark.parametrize(
    ("part", "limit"), [(0, MAX_HEADER), (1, MAX_HEADER), (2, MAX_HEADER), (3, MAX_CONTENT)]
)
def test_large_parts_are_refused_by_name(codec: Codec, part: int, limit: int) -> None:
    """Each packed dict has its bound; passing it is told with limit and value."""
    parts = [_header(), b"\x80", b"\x80", b"\x80"]
    parts[part] = parts[part].ljust(limit + 1, b"\x00")
    with pytest.raises(LimitExceeded) as caught:
        codec.decode(_signed(codec, *parts))
    assert (caught.value.limit, caught.value.value) == (limit, limit + 1)


def test_largest_content_passes(codec: Codec) -> None:
    """Content of exactly the bound is accepted."""
    frames = codec.encode("x", {"a": bytes(MAX_CONTENT - 8)})
    assert len(frames[5]) == MAX_CONTENT
    assert len(codec.decode(frames).content["a"]) == MAX_CONTENT - 8
    with pytest.raises(LimitExceeded):
        codec.encode("x", {"a": bytes(MAX_CONTENT)})


def test_buffers_are_bounded_in_number_and_size(codec: Codec) -> None:
    """Too many or too large buffers are refused when writing and when reading."""
    largest = bytes(MAX_MESSAGE)
    assert (
        codec.decode(codec.encode("x", {}, buffers=[largest] + [b""] * (MAX_BUFFERS - 1))).buffers[0]
        is largest
    )
    for buffers in ([b""] * (MAX_BUFFERS + 1), [largest + b"x"], [memoryview(largest + bytes(8)).cast("Q")]):
        with pytest.raises(LimitExceeded):
            codec.encode("x", {}, buffers=buffers)
        with pytest.raises(LimitExceeded):
            codec.decode([*codec.encode("x", {}), *buffers])


@pytest.mark.parametrize(
    ("levels", "is_refused"), [(MAX_NESTING, False), (MAX_NESTING + 1, True), (900, True)]
)
def test_nesting_is_bounded(codec: Codec, levels: int, is_refused: bool) -> None:
    """Maps and lists within each other are accepted to a stated depth."""
    frames = _signed(codec, _header(), b"\x80", b"\x80", _nested(levels))
    if not is_refused:
        assert isinstance(codec.decode(frames), Message)
        return
    with pytest.raises(LimitExceeded) as caught:
        codec.decode(frames)
    assert caught.value.limit == MAX_NESTING


@pytest.mark.parametrize("levels", [2000, 500_000])
def test_nesting_beyond_the_unpacker_is_refused(codec: Codec, levels: int) -> None:
    """Nesting that the unpacker itself cannot follow is a fault of the other side, no crash."""
    frames = _signed(codec, _header(), b"\x80", b"\x80", b"\x81\xa1a" + b"\x91" * levels + b"\x90")
    with pytest.raises(RemoteProtocolError):
        codec.decode(frames)


def test_many_containers_are_refused(codec: Codec) -> None:
    """A frame of a few bytes per map cannot be made to take a hundred times its size in memory."""
    count = MAX_CONTAINERS + 8
    content = b"\x81\xa1a\xdd" + count.to_bytes(4, "big") + b"\x80" * count
    with pytest.raises(LimitExceeded, match="maps and lists"):
        codec.decode(_signed(codec, _header(), b"\x80", b"\x80", content))
    large = {"a": [[b"x" * 100]] * 5000}
    assert codec.decode(codec.encode("x", large)).content == large


@pytest.mark.parametrize("value", ["\udcff", "a\ud800b", 2**64, -(2**63) - 1, object(), {1, 2}])
def test_what_cannot_be_packed_is_our_own_fault_c45(codec: Codec, value: object) -> None:
    """Text that is no Unicode, and whatever else msgpack cannot carry, is refused; the codec works on."""
    with pytest.raises(LocalProtocolError, match="x_request"):
        codec.encode("x_request", {"a": value})
    with pytest.raises(LocalProtocolError):
        codec.encode("x_request", {}, metadata={"a": {"b": value}})
    assert codec.decode(codec.encode("x_request", {"a": 1})).content == {"a": 1}


def test_endless_content_is_our_own_fault(codec: Codec) -> None:
    """A value that holds itself is refused."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(LocalProtocolError):
        codec.encode("x", {"a": endless})


def test_names_that_are_not_unicode_travel_as_bytes_c45(codec: Codec) -> None:
    """Every byte string a Unix name can be arrives unchanged."""
    names = [bytes([byte]) for byte in range(256)] + [b"a\xffb", b"d\xff"]
    assert codec.decode(codec.encode("x", {"argv": names})).content["argv"] == names


def test_signatures_are_compared_in_constant_time() -> None:
    """No signature or digest is compared by `==`."""
    tree = ast.parse(inspect.getsource(wire))
    compared = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    assert not [text for text in compared if "digest" in text and "len(" not in text]
    assert inspect.getsource(wire).count("hmac.compare_digest(") == 2
