"""The messages' bytes: golden ones of this version, names that are not UTF-8, and what is refused."""

import json
from pathlib import Path

import pytest

from execzmq.keeper.launch import SEGMENT_BYTES, Launch, SpawnError, Tty
from execzmq.keeper.messages import (
    FROM_KEEPER,
    FROM_SERVER,
    PROTOCOL_VERSION,
    MessageError,
    decode,
    encode,
    error_message,
    launch_from,
    raw,
    spawn_error_from,
    spawn_message,
    text,
)

GOLDEN = Path(__file__).parent / "golden"
DIRECTIONS = {"from_server": FROM_SERVER, "from_keeper": FROM_KEEPER}
PACKETS = [
    (direction, line)
    for direction in DIRECTIONS
    for line in (GOLDEN / f"v{PROTOCOL_VERSION}_{direction}.json").read_bytes().splitlines()
]


@pytest.mark.parametrize(("direction", "line"), PACKETS)
def test_golden_messages_keep_their_bytes(direction: str, line: bytes) -> None:
    """Each message of this version is read, and written again byte by byte."""
    assert encode(decode(line, DIRECTIONS[direction])) == line


@pytest.mark.parametrize("direction", list(DIRECTIONS))
def test_golden_messages_are_complete(direction: str) -> None:
    """Every kind of message has a golden one."""
    kinds = {json.loads(line)["op"] for where, line in PACKETS if where == direction}
    assert kinds == set(DIRECTIONS[direction])


@pytest.mark.parametrize("version", range(1, PROTOCOL_VERSION))
@pytest.mark.parametrize("direction", list(DIRECTIONS))
def test_messages_of_the_versions_before_are_read(direction: str, version: int) -> None:
    """An upgrade meets the keeper that is there: what the older program says is understood."""
    for line in (GOLDEN / f"v{version}_{direction}.json").read_bytes().splitlines():
        message = decode(line, DIRECTIONS[direction])
        if message["op"] == "spawn":
            launch = launch_from(message)
            assert launch.tty == Tty(40, 132, False, True)
            assert launch.gate is None
            assert launch.segment_bytes == (SEGMENT_BYTES if version == 1 else 1 << 16)


def test_golden_spawn_is_what_a_launch_writes() -> None:
    """A launch with everything in it gives the golden message, and comes back from it."""
    full = Launch(
        process_id="train-7",
        argv=(b"printf", b"%s", b"a\xffb"),
        cwd=b"/d\xff",
        env={b"PATH": b"/usr/bin", b"X": b"\xfe"},
        umask=0o22,
        arg0=b"-printf",
        limits={"nofile": (64, 128), "core": (0, None)},
        tty=Tty(40, 132, False),
        stdin="fd",
        merge_stderr=True,
        folder=b"/state/p/train-7.00",
        drain_limit_bytes=1 << 20,
        segment_bytes=1 << 16,
        passed={"block": 7},
        gate="block",
        joins=(b"/g/x\xff/tasks",),
        scoped=True,
        detached=True,
    )
    lines = [line for where, line in PACKETS if where == "from_server"]
    assert encode(spawn_message(full)) in lines
    assert launch_from(spawn_message(full)) == full


def test_every_byte_passes_c45() -> None:
    """Names are bytes: all 255 come back, as pure ASCII on the way."""
    name = bytes(range(1, 256))
    wanted = Launch(process_id="p", argv=(name,), env={name.replace(b"=", b""): name}, cwd=name)
    body = encode(spawn_message(wanted))
    assert body.isascii()
    assert launch_from(decode(body, FROM_SERVER)) == wanted
    assert raw(text(name)) == name


def test_unknown_fields_are_ignored() -> None:
    """A newer program may say more than this one knows."""
    message = spawn_message(Launch(process_id="p", argv=(b"true",))) | {"colour": "red"}
    assert launch_from(decode(encode(message), FROM_SERVER)).argv == (b"true",)


def test_fields_may_be_missing_that_have_a_default() -> None:
    """An older program may say less."""
    message = decode(b'{"op":"spawn","id":"p","argv":["true"],"env":"","stdin":"null"}', FROM_SERVER)
    assert launch_from(message) == Launch(process_id="p", argv=(b"true",), env={})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "bad_message"),
        (b"{", "bad_message"),
        (b"[]", "bad_message"),
        (b"\xff", "bad_message"),
        (b"[" * 100_000, "bad_message"),
        (b'{"id":"p"}', "bad_message"),
        (b'{"op":7}', "bad_message"),
        (b'{"op":"close","id":"p"}', "bad_message"),
        (b'{"op":"dance","id":"p"}', "unknown_op"),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, reason: str) -> None:
    """Bytes that are no message have a reason, and the id if it can be read."""
    with pytest.raises(MessageError) as refused:
        decode(body, FROM_SERVER)
    assert refused.value.reason == reason
    assert refused.value.process_id == ("p" if b'"p"' in body else None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": [1]},
        {"env": "A"},
        {"stdin": "socket"},
        {"tty": [24]},
        {"limits": {"cpu": 5}},
        {"umask": "x"},
        {"passed": []},
    ],
)
def test_wrong_launch_is_refused(wrong: dict[str, object]) -> None:
    """A field with an impossible value is a bad message and nothing worse."""
    message = spawn_message(Launch(process_id="p", argv=(b"true",)))
    with pytest.raises(MessageError, match="spawn"):
        launch_from(message | wrong)


def test_error_keeps_its_facts() -> None:
    """A refusal comes out as it went in."""
    error = SpawnError("not_found", 2, "no such program", {"program": "x"})
    again = spawn_error_from(decode(encode(error_message("spawn", "p", error)), FROM_KEEPER))
    assert (again.reason, again.errno, again.message, again.details) == (
        "not_found",
        2,
        str(error),
        {"program": "x"},
    )
