"""Bytes stay what they are, names that are no text too, and no output is too much."""

import os
from pathlib import Path

import pytest

from execzmq.errors import InvalidRequest
from execzmq.settings import Settings
from execzmq.types.events import Gap, Output
from tests.commands import all_events, assert_seqs_whole, end_of, output_of, python, run, shell, words
from tests.factories import Factory

pytestmark = pytest.mark.slow


async def test_bytes_are_exact_c41(factory: Factory) -> None:
    """Characters that are split over events, cut at the end, or none at all, pass unchanged."""
    split = "import os, time\nfor b in '€'.encode(): os.write(1, bytes([b])); time.sleep(0.01)"
    async with factory() as backend:
        for params, expected in (
            (python(split), "€".encode()),
            (words("printf", "ok\\342\\202"), b"ok\xe2\x82"),
            (words("printf", "a\\377b"), b"a\xffb"),
        ):
            _, output, _ = await run(backend, params)
            assert output == expected


async def test_random_bytes_are_exact_c41(factory: Factory) -> None:
    """65,537 random bytes come as they are."""
    data = os.urandom(65537)
    async with factory() as backend:
        _, output, _ = await run(backend, words("cat", stdin="data", stdin_data=data))
        assert output == data


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_endless_line_does_not_fill_memory_c43(factory: Factory) -> None:
    """200 MB in one line, read by nobody: memory stays flat, the newest is kept, what went is told."""
    async with factory(Settings(disk_budget=48 << 20, shutdown_grace=0.0)) as backend:
        before = _resident()
        line = "head -c 200000000 /dev/zero | tr '\\0' x; echo end"
        process = await backend.start(shell(line, log_budget=16 << 20))
        assert (await process.wait("closed", 30.0)).closed
        assert _resident() - before < 32 << 20
        page = await process.read(0, max_bytes=1)
        assert page.dropped_bytes["stdout"] > 100_000_000
        events = await all_events(process)
        assert_seqs_whole(events)
        gone = sum(event.bytes for event in events if isinstance(event, Gap))
        assert gone == page.dropped_bytes["stdout"] == end_of(events).dropped_bytes["stdout"]
        assert gone + len(output_of(events)) == 200_000_004
        assert output_of(events).endswith(b"xend\n")


async def test_many_finished_logs_fit_c43(factory: Factory) -> None:
    """All logs together keep within the disk budget: the oldest finished ones go first."""
    async with factory(Settings(disk_budget=20 << 20, shutdown_grace=0.0)) as backend:
        for _ in range(12):
            await run(backend, words("head", "-c", "4000000", "/dev/zero"))
        infos = await backend.list_processes()
        assert 2 <= len(infos) <= 6
        last = await backend.attach(infos[-1].process_id)
        assert len(output_of(await all_events(last))) == 4_000_000


async def test_names_that_are_not_text_c45(factory: Factory, short_tmp: Path) -> None:
    """Arguments, variables and folders are bytes, and listings show them as such."""
    folder = os.fsencode(short_tmp) + b"/d\xff"
    os.mkdir(folder)
    async with factory() as backend:
        _, output, _ = await run(backend, words("printf", "%s", b"a\xffb"))
        assert output == b"a\xffb"
        _, output, _ = await run(backend, shell('printf %s "$V"', env={b"V": b"\xfe"}))
        assert output == b"\xfe"
        process = await backend.start(words("pwd", b"-\xff", cwd=folder))
        assert process.process_id
        info = (await backend.list_processes())[-1]
        assert (info.argv, info.cwd) == ((b"pwd", b"-\xff"), folder)
        _, output, _ = await run(backend, words("/bin/pwd", cwd=folder))
        assert output == folder + b"\n"


async def test_names_that_cannot_be_c45(factory: Factory) -> None:
    """NUL bytes, `=` in a variable's name and an empty name are refused; the server lives on."""
    async with factory() as backend:
        for bad in (
            words("printf", b"a\0b"),
            words("true", env={b"A=B": b"1"}),
            words("true", env={b"": b"1"}),
            words("true", env={b"A": b"x\0"}),
            words("true", cwd=b"/\0"),
        ):
            with pytest.raises(InvalidRequest):
                await backend.start(bad)
        await run(backend, words("true"))


async def test_carriage_returns_c46(factory: Factory) -> None:
    """A progress bar passes untouched, also beside another one."""
    bar = """
import time
for i in range(5):
    print('\\r%d%%' % (i * 25), end='', flush=True)
    time.sleep(0.01)
print()
"""
    async with factory() as backend:
        first, second = await backend.start(python(bar)), await backend.start(python(bar))
        for process in (first, second):
            events = await all_events(process)
            assert output_of(events) == b"\r0%\r25%\r50%\r75%\r100%\n"
            assert all(isinstance(event.data, bytes) for event in events if isinstance(event, Output))
