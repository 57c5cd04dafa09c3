"""Terminals: their end, their size, what is typed, and who drains them."""

import asyncio
import time
from pathlib import Path

import pytest

from execzmq.errors import ExecZMQError
from execzmq.types.params import TtySize
from tests.commands import all_events, end_of, exit_of, kinds_of, output_of, run, shell, until_output, words
from tests.factories import Factory
from tests.support import TIMESCALE, deadline, wait_until

pytestmark = pytest.mark.slow


async def test_end_of_a_terminal_c31(factory: Factory) -> None:
    """The end of a terminal is an end and no error, and its last text comes once."""
    async with factory() as backend:
        events, output, result = await run(backend, shell("printf end", tty=True))
        assert output == b"end"
        assert result.exit_code == 0
        assert kinds_of(events) == ["started", "output", "exited", "closed"]


async def test_job_holds_the_terminal_c31(factory: Factory, short_tmp: Path) -> None:
    """A job that survives the hang-up keeps the terminal open: `exited` at once, `closed` with the job."""
    flag = short_tmp / "flag"
    line = f"trap '' HUP; (while [ ! -e {flag} ]; do sleep 0.02; done) & echo bye"
    async with factory() as backend:
        process = await backend.start(shell(line, tty=True))
        info = await process.wait("exited", 5.0)
        assert (info.exited, info.closed) == (True, False)
        flag.touch()
        events = await all_events(process)
        assert output_of(events) == b"bye\r\n"
        assert exit_of(events).exit_code == 0


async def test_drain_limit_of_a_terminal_c31(factory: Factory) -> None:
    """The drain limit holds for terminals too, and names who holds it."""
    async with factory() as backend:
        process = await backend.start(
            shell("trap '' HUP; sleep 60 & echo $!", tty=True, drain_limit=0.1)
        )  # fmt: skip
        events = await all_events(process)
        assert int(output_of(events)) in [pid for pid, _ in end_of(events).held_open_by]


async def test_nobody_drains_the_terminal_c33(factory: Factory, short_tmp: Path) -> None:
    """A program at a terminal that nobody watches runs on, and what it wrote is there for who comes back."""
    done, line40 = short_tmp / "done", "0123456789" * 4
    line = f"i=0; while [ $i -lt 3000 ]; do echo {line40}; i=$((i+1)); done; echo done >{done}; sleep 60"
    async with factory() as backend:
        process = await backend.start(shell(line, tty=True))
        await asyncio.to_thread(wait_until, done.exists, 10.0)
        back = await backend.attach(process.process_id)
        events = await until_output(back, (line40 + "\r\n").encode() * 3000)
        assert output_of(events).count(b"\n") == 3000


async def test_big_paste_blocks_nobody_c34(factory: Factory) -> None:
    """A megabyte for a program that does not read is queued; others are answered, and the kill works."""
    async with factory() as backend:
        process = await backend.start(shell("stty raw -echo; echo R; sleep 60", tty=True))
        await until_output(process, b"R")
        writing = asyncio.ensure_future(process.write(b"x" * (1 << 20)))
        used, began = time.process_time(), time.monotonic()
        for _ in range(10):
            asked = time.monotonic()
            await backend.server_info()
            assert time.monotonic() - asked < 0.5 * TIMESCALE
            await process.wait("exited", 0.05)
        assert time.process_time() - used < (time.monotonic() - began) / 2
        async with deadline(5):
            await process.terminate(0.0)
        assert end_of(await all_events(process)).signal == 9
        await asyncio.wait([writing], timeout=5.0)
        assert writing.exception() is None or isinstance(writing.exception(), ExecZMQError)


@pytest.mark.parametrize(("tty", "length"), [(True, b"4095"), (False, b"6000")])
async def test_long_line_c35(factory: Factory, tty: bool, length: bytes) -> None:
    """A terminal in line mode hands over 4,095 bytes of a line, by the kernel's law; a pipe all."""
    line = "IFS= read -r x; echo ${#x}"
    params = shell(line, tty=True, tty_echo=False) if tty else shell(line, stdin="pipe")
    async with factory() as backend:
        process = await backend.start(params)
        for _ in range(12):
            await process.write(b"a" * 500)
        await process.write(b"\n")
        assert output_of(await all_events(process)).split() == [length]


async def test_echo_and_line_ends_c37(factory: Factory) -> None:
    """A terminal's bytes are passed on as they are; echo can be off before the first instruction."""
    async with factory() as backend:
        process = await backend.start(words("cat", tty=True))
        await process.write(b"hi\n", end=True)
        events = await all_events(process)
        assert output_of(events, "stdout") == b"hi\r\nhi\r\n"
        assert output_of(events, "stderr") == b""
        _, output, _ = await run(backend, words("printf", "a\\nb\\n", tty=True))
        assert output == b"a\r\nb\r\n"
        quiet = await backend.start(words("cat", tty=True, tty_echo=False))
        await quiet.write(b"hi\n", end=True)
        assert output_of(await all_events(quiet)) == b"hi\r\n"


async def test_size_from_the_first_instruction_c38(factory: Factory) -> None:
    """The size is there before the program looks; without one it is 24 by 80."""
    async with factory() as backend:
        for _ in range(10):
            _, output, _ = await run(backend, words("stty", "size", tty=True))
            assert output == b"24 80\r\n"
            _, output, _ = await run(backend, words("stty", "size", tty=True, tty_size=TtySize(50, 133)))
            assert output == b"50 133\r\n"


@pytest.mark.parametrize("size", [TtySize(0, 0), TtySize(70000, 1), TtySize(24, 0), TtySize(-1, 80)])
async def test_absurd_size_c38(factory: Factory, size: TtySize) -> None:
    """An absurd size is refused at the start too."""
    async with factory() as backend:
        with pytest.raises(ExecZMQError):
            await backend.start(words("true", tty=True, tty_size=size))
