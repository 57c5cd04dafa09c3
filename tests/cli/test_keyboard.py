"""Whose keys count, and which keys detach."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.cli.keyboard import DetachKeys, Keyboard
from execzmq.errors import Conflict, PermissionRefused, ProcessNotRunning
from execzmq.types.params import TtySize
from tests.fakes import FakeProcess


@pytest.mark.parametrize(
    ("typed", "passed", "leaves"),
    [
        ([b"abc"], b"abc", False),
        ([b"\x10\x11"], b"", True),
        ([b"a\x10", b"\x11b"], b"a", True),
        ([b"\x10", b"x"], b"\x10x", False),
        ([b"\x10\x10", b"\x11"], b"\x10", True),
        ([b"\x10"], b"", False),
        ([b"\x11\x10", b"\x10", b"q"], b"\x11\x10\x10q", False),
    ],
)
def test_detach_keys(typed: list[bytes], passed: bytes, leaves: bool) -> None:
    """The sequence detaches however it is cut; what only began like it is passed on."""
    keys = DetachKeys(b"\x10\x11")
    fed = [keys.feed(data) for data in typed]
    assert b"".join(data for data, _ in fed) == passed
    assert fed[-1][1] is leaves


@given(st.lists(st.text(alphabet="pqx", max_size=4)), st.text(alphabet="pq", min_size=1, max_size=4))
def test_nothing_typed_is_lost(typed: list[str], sequence: str) -> None:
    """Up to the sequence every key is passed on, once and in order; one that may begin it is held back."""
    keys, passed, everything = DetachKeys(sequence.encode()), b"", "".join(typed).encode()
    for text in typed:
        data, is_over = keys.feed(text.encode())
        passed += data
        if is_over:
            assert passed == everything[: everything.find(sequence.encode())]
            return
    assert sequence.encode() not in everything
    assert everything.startswith(passed)
    assert sequence.encode().startswith(everything[len(passed) :])


def test_no_detach_keys() -> None:
    """Without a sequence every key is passed on at once."""
    assert DetachKeys(b"").feed(b"\x10\x11") == (b"\x10\x11", False)


class Shared(FakeProcess):
    """A process whose keyboard is `held` by another, or not."""

    held = False

    async def claim_keyboard(self, take_over: bool = False) -> None:
        self.calls.append(("claim_keyboard", take_over))
        if self.held and not take_over:
            raise Conflict("another session has the keyboard; ask it, or --take-over")
        self.held = False

    async def write(self, data: bytes, end: bool = False) -> int:
        if self.held:
            raise Conflict("another session has the keyboard")
        return await super().write(data, end)


def _keyboard(process: Shared, told: list[str], *, watch: bool = False) -> Keyboard:
    return Keyboard(process, lambda: TtySize(30, 90), told.append, watch=watch)


async def test_holder_types_and_sets_the_size() -> None:
    """Who claims a free keyboard gives the process its size and may type."""
    process, told = Shared("p", []), list[str]()
    keyboard = _keyboard(process, told)
    assert await keyboard.claim()
    assert not await keyboard.type(b"x")
    await keyboard.release()
    assert [call[0] for call in process.calls] == ["claim_keyboard", "resize", "write", "release_keyboard"]
    assert ("resize", 30, 90) in process.calls
    assert told == []


async def test_refused_once_told_once() -> None:
    """Who does not get the keyboard is told why once, and gets it with the first key after it is free."""
    process, told = Shared("p", []), list[str]()
    process.held = True
    keyboard = _keyboard(process, told)
    assert not await keyboard.claim()
    await keyboard.type(b"a")
    assert len(told) == 1
    assert "--take-over" in told[0]
    process.held = False
    await keyboard.type(b"b")
    assert ("write", b"b", False) in process.calls
    assert ("write", b"a", False) not in process.calls


async def test_lost_keyboard_is_told() -> None:
    """Who loses the keyboard learns it at the next key and types no more."""
    process, told = Shared("p", []), list[str]()
    keyboard = _keyboard(process, told)
    await keyboard.claim()
    process.held = True
    await keyboard.type(b"a")
    assert not keyboard.is_held
    assert "taken" in told[0]
    await keyboard.fit()
    assert [call for call in process.calls if call[0] == "resize"] == [("resize", 30, 90)]


async def test_cancelled_claim_is_handed_back() -> None:
    """A claim that was cancelled before its answer came may have been granted: it is handed back."""

    class Slow(Shared):
        async def claim_keyboard(self, take_over: bool = False) -> None:
            await super().claim_keyboard(take_over)
            raise asyncio.CancelledError

    process = Slow("p", [])
    keyboard = _keyboard(process, [])
    with pytest.raises(asyncio.CancelledError):
        await keyboard.claim()
    await keyboard.release()
    assert process.calls[-1][0] == "release_keyboard"


async def test_watcher_claims_nothing() -> None:
    """A watcher never claims, and Ctrl-C is how it leaves."""
    process = Shared("p", [])
    keyboard = _keyboard(process, [], watch=True)
    assert not await keyboard.claim()
    assert not await keyboard.type(b"q")
    assert await keyboard.type(b"\x03")
    assert process.calls == []


async def test_process_that_has_ended_is_no_error() -> None:
    """Keys, size and claims that come too late are dropped: its end is on its way."""

    class Ended(Shared):
        async def write(self, data: bytes, end: bool = False) -> int:
            raise ProcessNotRunning("gone")

        async def resize(self, rows: int, cols: int) -> None:
            raise ProcessNotRunning("gone")

    keyboard = _keyboard(Ended("p", []), [])
    assert await keyboard.claim()
    assert not await keyboard.type(b"x")


class ToBeWatched(FakeProcess):
    """A process of which the connection file allows no more."""

    async def claim_keyboard(self, take_over: bool = False) -> None:
        self.calls.append(("claim_keyboard", take_over))
        raise PermissionRefused("claim_keyboard is for the role operator")


async def test_who_may_only_watch_watches() -> None:
    """It is said once, Ctrl-C leaves, and nothing is asked for any more."""
    said: list[str] = []
    process = ToBeWatched("p", [])
    keyboard = Keyboard(process, lambda: TtySize(24, 80), said.append, watch=False)
    assert not await keyboard.claim()
    assert not await keyboard.type(b"x")
    assert await keyboard.type(b"\x03")
    await keyboard.release()
    assert len(said) == 1
    assert process.calls == [("claim_keyboard", False)]
