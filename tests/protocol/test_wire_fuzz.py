"""Fuzzing of the decoder: whatever arrives is a message or an error of ours, and honest peers are served."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from execzmq.errors import AuthenticationFailed, LimitExceeded, RemoteProtocolError
from execzmq.protocol.wire import DELIMITER, Codec, Frame, Message, split
from tests.protocol.samples import CLIENT, KEY, SAMPLES, load

SIGNED = Codec(KEY, CLIENT)
OPEN = Codec(b"", CLIENT)
DEMANDING = Codec(KEY, CLIENT, digests=True)
HONEST = OPEN.encode("info_request", {"a": [1, b"\xff"]})
GOLDEN = [load(name) for name in SAMPLES]
FAULTS = (RemoteProtocolError, AuthenticationFailed, LimitExceeded)

PIECES = [DELIMITER, b"", b"\x80", b"\x81\xa1a", b"\xc1", *map(bytes, HONEST[1:])]
INTERESTING = [0x00, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xC6, 0xC9, 0xD4, 0xDB, 0xDD, 0xDF, 0xFF]


def _cut(blob: bytes) -> list[bytes]:
    """Return frames made of a random string: each begins with what stands for a length or a whole frame."""
    frames, position = [], 0
    while position < len(blob):
        kind = blob[position]
        position += 1
        if kind < len(PIECES):
            frames.append(PIECES[kind])
        else:
            frames.append(blob[position : position + kind % 12])
            position += kind % 12
    return frames


def _changed(frame: bytes, changes: bytes) -> bytes:
    """Return the frame with some bytes replaced, and cut off or made longer."""
    changed = bytearray(frame)
    for place, value in zip(changes[1::2], changes[2::2], strict=False):
        changed[place * 7 % len(changed)] = INTERESTING[value] if value < len(INTERESTING) else value
    cut = changes[0] % 8
    return bytes(changed[:-cut] if cut > 4 else changed) + bytes(cut % 5 // 4)


def _take(codec: Codec, frames: Sequence[Frame]) -> Message | None:
    """Decode as a server does: any fault is one of three, and may still be answered."""
    try:
        return codec.decode(split(frames)[1])
    except FAULTS as error:
        message = error.message
    assert len(message) < 400
    assert message.isprintable()
    header = codec.header_of(frames)
    assert header is None or isinstance(header["msg_id"], str)
    return None


@hypothesis_settings(max_examples=3000)
@given(st.binary(max_size=60))
@example(b"")
@example(b"\x00" * 8)
@example(bytes([0, 5, 6, 2, 2, 9]))
def test_random_frames(blob: bytes) -> None:
    """Random frames never bring down a reader, and no random message is taken for a signed one."""
    frames = _cut(blob)
    assert _take(SIGNED, frames) is None
    _take(OPEN, frames)
    assert OPEN.decode(HONEST).content == {"a": [1, b"\xff"]}


@hypothesis_settings(max_examples=5000)
@given(st.binary(min_size=3, max_size=12))
def test_changed_dicts_with_a_right_signature(blob: bytes) -> None:
    """A peer that has the key and sends nonsense gets a fault, or a message of plain values."""
    frames = split(GOLDEN[blob[0] % len(GOLDEN)])[1]
    part = (2, 5, 5, 3)[blob[1] % 4]
    frames[part] = _changed(bytes(frames[part]), blob[2:])
    frames[1] = SIGNED._sign(frames[2:6])
    for codec in (SIGNED, DEMANDING):
        message = _take(codec, frames)
        assert message is None or all(isinstance(name, (str, bytes)) for name in message.content)


@hypothesis_settings(max_examples=2000)
@given(st.binary(min_size=5, max_size=5))
def test_changed_frames_are_never_accepted_c56(blob: bytes) -> None:
    """Frames that are cut, doubled, swapped or changed in one bit do not pass the signature."""
    frames = split(GOLDEN[blob[0] % len(GOLDEN)])[1][:6]
    changed, index, other = list(frames), blob[1] % 6, blob[2] % 6
    if blob[3] % 4 == 0:
        flipped = bytearray(frames[index])
        flipped[blob[4] % len(flipped)] ^= 1 << blob[2] % 8
        changed[index] = bytes(flipped)
    elif blob[3] % 4 == 1:
        del changed[index]
    elif blob[3] % 4 == 2:
        changed.insert(index, frames[index])
    else:
        changed[index], changed[other] = changed[other], changed[index]
    assert (_take(SIGNED, changed) is not None) == (changed[:6] == frames)


def test_unsplit_frames_are_refused() -> None:
    """A reader that forgets to split off the identities gets a fault and no other message."""
    assert _take(OPEN, [b"id", *HONEST]) is not None
    with pytest.raises(RemoteProtocolError):
        OPEN.decode([b"id", *HONEST])


SHORT = [
    test_random_frames,
    test_changed_dicts_with_a_right_signature,
    test_changed_frames_are_never_accepted_c56,
]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("short", SHORT)
def test_fuzz_for_long(short: Callable[[bytes], None]) -> None:
    """The same with many more and longer inputs."""
    inner = short.hypothesis.inner_test  # type: ignore[attr-defined]  # what `given` has wrapped
    hypothesis_settings(max_examples=200_000)(given(st.binary(min_size=5, max_size=200))(inner))()
