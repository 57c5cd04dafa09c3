"""A stock Jupyter `Session` set to msgpack reads what we write and writes what we read."""

import warnings

import pytest

from execzmq.errors import AuthenticationFailed
from execzmq.protocol.wire import Codec, split
from tests.protocol.samples import KEY, SAMPLES, Sample

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports; none of them is ours to mend
    from jupyter_client.session import Session

CONTENT = {
    "text": "a\u00e9",
    "raw": b"\xff\x00",
    "number": 2**63,
    "float": 1.5,
    "list": [None, True, {"a": []}],
}


@pytest.fixture
def stock() -> Session:
    """A session that speaks msgpack with our key; `check_pid` would only say that it was forked."""
    return Session(packer="msgpack", unpacker="msgpack", key=KEY, session="stock", username="someone")


def test_stock_session_reads_ours(stock: Session) -> None:
    """Header, parent, content and buffers arrive, and the signature is accepted."""
    codec = Codec(KEY, "ours")
    parent = codec.decode(codec.encode("info_request", {})).header
    frames = codec.encode("info_reply", CONTENT, parent=parent, buffers=[b"one", memoryview(b"two")])
    _, rest = stock.feed_identities([b"client", *map(bytes, frames)])
    message = stock.deserialize(rest)
    assert message["msg_type"] == "info_reply"
    assert message["content"] == CONTENT
    assert message["parent_header"]["msg_id"] == parent["msg_id"]
    assert [bytes(buffer) for buffer in message["buffers"]] == [b"one", b"two"]


def test_we_read_stock_session(stock: Session) -> None:
    """What it serializes decodes to the same message."""
    message = stock.msg("info_request", CONTENT, metadata={"traceparent": "00-1-2-01"})
    frames = stock.serialize(message, ident=b"client")
    prefix, rest = split([*frames, b"one", b"two"])
    decoded = Codec(KEY, "ours").decode(rest)
    assert prefix == [b"client"]
    assert (decoded.msg_id, decoded.msg_type, decoded.session) == (message["msg_id"], "info_request", "stock")
    assert decoded.content == CONTENT
    assert decoded.metadata == {"traceparent": "00-1-2-01"}
    assert decoded.buffers == [b"one", b"two"]


def test_reply_to_stock_session_names_its_request(stock: Session) -> None:
    """A reply of ours carries the stock header as parent, whatever it holds."""
    codec = Codec(KEY, "ours")
    _, rest = split(stock.serialize(stock.msg("kernel_info_request", {})))
    request = codec.decode(rest)
    frames = codec.encode("kernel_info_reply", {}, parent=request.header)
    reply = stock.deserialize([bytes(frame) for frame in frames[1:]])
    assert reply["parent_header"]["msg_id"] == request.msg_id


@pytest.mark.parametrize("name", SAMPLES)
def test_stock_session_reads_every_type(stock: Session, name: str) -> None:
    """Every message type, broadcasts with their topic too, is one that a stock session reads."""
    sample: Sample = SAMPLES[name]
    frames = Codec(KEY, "ours").encode(sample.msg_type, sample.content, buffers=sample.buffers)
    _, rest = stock.feed_identities([sample.topic or b"client", *map(bytes, frames)])
    assert stock.deserialize(rest)["content"] == sample.content


def test_wrong_key_is_refused_both_ways_c56(stock: Session) -> None:
    """Neither side takes a message that another key has signed."""
    other = Codec(b"another key", "ours")
    with pytest.raises(ValueError, match="Invalid Signature"):
        stock.deserialize([bytes(frame) for frame in other.encode("info_request", {})[1:]])
    _, rest = split(stock.serialize(stock.msg("info_request", {})))
    with pytest.raises(AuthenticationFailed, match="signature"):
        other.decode(rest)
