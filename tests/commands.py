"""Commands for tests, and what one wants to know of them: what they wrote, how they ended."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from execzmq.types.backend import ExecBackend, ExecProcess
from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Output, last_seq_of
from execzmq.types.params import ExecParams
from execzmq.types.results import ExitResult
from tests.support import child, deadline

SECONDS = 15.0
"""Deadline of a wait that takes far less on an idle machine."""

_E = TypeVar("_E", bound=Event)


def words(*argv: str | bytes, **more: Any) -> ExecParams:
    """Return the start of these words."""
    return ExecParams(argv=tuple(os.fsencode(word) for word in argv), **more)


def shell(line: str, **more: Any) -> ExecParams:
    """Return the start of a shell line."""
    return words("/bin/sh", "-c", line, **more)


def python(code: str, **more: Any) -> ExecParams:
    """Return the start of an unbuffered Python child that runs `code`."""
    return words(*child(code), **more)


async def events_until(
    process: ExecProcess, enough: Callable[[list[Event]], bool], after_seq: int = 0, seconds: float = SECONDS
) -> list[Event]:
    """Return the events after `after_seq` up to the one with which `enough` holds, or to the last."""
    seen: list[Event] = []
    async with deadline(seconds), aclosing(_events(process, after_seq)) as events:
        async for event in events:
            seen.append(event)
            if enough(seen):
                break
    return seen


async def _events(process: ExecProcess, after_seq: int) -> AsyncGenerator[Event, None]:
    events = process.subscribe_events(after_seq)
    try:
        async for event in events:
            yield event
    finally:
        await events.aclose()  # type: ignore[attr-defined]  # both backends' iterators can be closed


async def all_events(process: ExecProcess, after_seq: int = 0, seconds: float = SECONDS) -> list[Event]:
    """Return every event after `after_seq`, to the end."""
    return await events_until(process, lambda seen: False, after_seq, seconds)


async def until_output(
    process: ExecProcess, wanted: bytes, after_seq: int = 0, seconds: float = SECONDS
) -> list[Event]:
    """Return the events up to the one with which `wanted` stands in the output.

    Raises:
        AssertionError: the process ended before it had written that.
    """
    seen = await events_until(process, lambda seen: wanted in output_of(seen), after_seq, seconds)
    assert wanted in output_of(seen), f"{wanted!r} is not in {output_of(seen)[-500:]!r}"
    return seen


def output_of(events: list[Event], stream: str | None = None) -> bytes:
    """Return the bytes of all output events, or of those of one stream."""
    chunks = [event for event in events if isinstance(event, Output)]
    return b"".join(chunk.data for chunk in chunks if stream in (None, chunk.stream))


def only(events: list[Event], kind: type[_E]) -> _E:
    """Return the one event of a kind."""
    (found,) = (event for event in events if isinstance(event, kind))
    return found


def exit_of(events: list[Event]) -> ExitResult:
    """Return the result that `exited` told."""
    return only(events, Exited).result


def end_of(events: list[Event]) -> ExitResult:
    """Return the result that `closed` told."""
    return only(events, Closed).result


def kinds_of(events: list[Event]) -> list[str]:
    """Return the kinds of the events, a row of the same ones as one."""
    names = [type(event).__name__.lower() for event in events]
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


def assert_seqs_whole(events: list[Event], after_seq: int = 0) -> None:
    """Assert that no seq is missing or comes twice."""
    for event in events:
        first = event.from_seq if isinstance(event, Gap) else event.seq
        assert first == after_seq + 1, f"seq {first} after {after_seq}"
        after_seq = last_seq_of(event)


def assert_offsets_whole(events: list[Event]) -> None:
    """Assert that each output event begins where its stream had come to."""
    ends = {"stdout": 0, "stderr": 0}
    for event in events:
        if isinstance(event, Output):
            assert event.offset == ends[event.stream]
            ends[event.stream] += len(event.data)


async def run(
    backend: ExecBackend, params: ExecParams, seconds: float = SECONDS
) -> tuple[list[Event], bytes, ExitResult]:
    """Run a command to its end; return its events, its output and its result.

    Raises:
        AssertionError: the events have holes, or it could not be started.
    """
    process = await backend.start(params)
    events = await all_events(process, seconds=seconds)
    assert_seqs_whole(events)
    assert_offsets_whole(events)
    assert not [event for event in events if isinstance(event, Failed)]
    return events, output_of(events), end_of(events)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False
