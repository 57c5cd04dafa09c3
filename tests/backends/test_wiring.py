"""The descriptors of a command become pumps and a feeder; none is left over or owned twice."""

import os
from pathlib import Path

import pytest

from execzmq.backends.local import LocalBackend
from tests.commands import all_events, output_of, shell, until_output, words

pytestmark = pytest.mark.slow


def descriptors() -> set[str]:
    """Return what this Python has open, but for the listing itself."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 3), ({"stdin": "pipe"}, 4), ({"merge_stderr": True}, 2), ({"tty": True}, 5)],
)
async def test_descriptors_of_a_process(short_tmp: Path, options: dict[str, object], most: int) -> None:
    """A running command costs few descriptors here, an ended one none."""
    backend = await LocalBackend.open_private()
    try:
        before = descriptors()
        process = await backend.start(words("sleep", "60", **options))
        opened = descriptors() - before
        assert len(opened) <= most, opened
        await process.terminate(0.0)
        await all_events(process)
        assert {line for line in descriptors() - before if "journal" not in line} == set()
    finally:
        await backend.aclose()


async def test_many_ends_leave_no_descriptor() -> None:
    """However commands end, their descriptors are closed."""
    backend = await LocalBackend.open_private()
    try:
        await all_events(await backend.start(shell("echo x")))
        before = descriptors()
        for options in ({}, {"tty": True}, {"stdin": "pipe"}, {"drain_limit": 0.0}):
            process = await backend.start(shell("echo x; exit 1", **options))
            await all_events(process)
        assert len(descriptors() - before) <= 1
    finally:
        await backend.aclose()


async def test_terminal_and_its_input_have_their_own_descriptors() -> None:
    """Input that waits at a terminal does not outlive it: the descriptor of one is not that of the other."""
    backend = await LocalBackend.open_private()
    try:
        for _ in range(3):
            process = await backend.start(shell("stty raw -echo; echo R; read x", tty=True))
            await until_output(process, b"R")
            await process.write(b"x" * 200_000)
            await process.signal("KILL")
            assert output_of(await all_events(process)).strip() == b"R"
    finally:
        await backend.aclose()
