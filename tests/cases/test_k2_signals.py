"""Signals reach whom they are meant for, and an end is the end of the whole tree."""

import asyncio
import json
import subprocess
import sys
import time

import pytest

from execzmq.types.backend import ExecBackend
from tests.commands import (
    all_events,
    end_of,
    is_alive,
    output_of,
    python,
    run,
    shell,
    until_output,
    words,
)
from tests.factories import Factory
from tests.support import TIMESCALE, deadline

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "line",
    [
        "sleep 61 & echo $!; wait",
        'python3 -c "import os, time; print(os.getpid(), flush=True); time.sleep(62)"; true',
    ],
)
async def test_killing_the_wrapper_kills_the_work_c12(factory: Factory, line: str) -> None:
    """Nothing of the tree is left when the kill has been answered."""
    async with factory() as backend:
        process = await backend.start(shell(line))
        job = int(output_of(await until_output(process, b"\n")))
        async with deadline(5):
            report = await process.terminate(0.0)
        assert report.survivors == ()
        assert not is_alive(job)


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        time.sleep(63)
    os._exit(0)
os.wait()
print('up')
time.sleep(63)
"""


async def test_own_session_does_not_escape_c13(factory: Factory) -> None:
    """A child with a session of its own is ended with the tree."""
    async with factory() as backend:
        process = await backend.start(shell("setsid sleep 63 & echo $!; sleep 63"))
        job = int(output_of(await until_output(process, b"\n")))
        report = await process.terminate(0.0)
        assert report.survivors == ()
        assert not is_alive(job)


async def test_daemon_does_not_escape_c13(factory: Factory) -> None:
    """One that forked twice and closed its streams is ended with the tree, or named as a survivor."""
    async with factory() as backend:
        process = await backend.start(python(DAEMON))
        await until_output(process, b"up")
        report = await process.terminate(0.0)
        assert report.survivors == ()
        assert len(report.ended) == 2
        assert not [ref for ref in report.ended if is_alive(ref.pid)]


async def test_daemon_outlives_its_leader_c13(factory: Factory) -> None:
    """When the command has ended already, what it left is found and ended all the same."""
    async with factory() as backend:
        process = await backend.start(shell("setsid sleep 63 >/dev/null 2>&1 & echo $!"))
        events = await all_events(process)
        job = int(output_of(events))
        assert is_alive(job)
        report = await process.terminate(0.0)
        assert [ref.pid for ref in report.ended] == [job]
        assert not is_alive(job)


async def test_time_limit_with_background_job_c16(factory: Factory) -> None:
    """The time limit ends the tree, so that the streams end too: nobody waits for the job."""
    async with factory() as backend:
        began = time.monotonic()
        _, output, result = await run(
            backend, shell("echo part; sleep 30 & wait", timeout=0.3, timeout_grace=1.0)
        )
        assert time.monotonic() - began < 5 * TIMESCALE
        assert output == b"part\n"
        assert result.cause == "timed_out"


async def test_time_limit_of_a_tree_that_ignores_term_c16(factory: Factory) -> None:
    """A tree that ignores TERM is killed when the grace is over."""
    line = "trap '' TERM; (trap '' TERM; sleep 30) & echo part; while :; do sleep 0.05; done"
    async with factory() as backend:
        _, output, result = await run(backend, shell(line, timeout=0.3, timeout_grace=0.3))
        assert output == b"part\n"
        assert (result.cause, result.signal) == ("timed_out", 9)


async def _worst_ping(backend: ExecBackend, work: "asyncio.Future[object]") -> float:
    """Ask for the server's description until the work is done; return the longest time to an answer."""
    worst = 0.0
    while not work.done():
        began = time.monotonic()
        await backend.server_info()
        worst = max(worst, time.monotonic() - began)
        await asyncio.wait([work], timeout=0.02)
    return worst


async def test_nobody_stalls_the_service_c17(factory: Factory) -> None:
    """Slow ends, a writer into a full terminal and a flood at once: others are answered meanwhile."""
    deaf = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    async with factory() as backend:
        stubborn = [await backend.start(shell(deaf)) for _ in range(20)]
        for process in stubborn:
            await until_output(process, b"up")
        typist = await backend.start(shell("stty raw -echo; echo R; sleep 60", tty=True))
        await until_output(typist, b"R")
        await backend.start(words("head", "-c", "30000000", "/dev/zero"))
        writing = asyncio.ensure_future(typist.write(b"x" * (8 << 20)))
        ending = asyncio.gather(*(process.terminate(0.5) for process in stubborn))
        began = time.monotonic()
        worst = await _worst_ping(backend, asyncio.ensure_future(ending))
        assert worst < 1.0 * TIMESCALE
        assert time.monotonic() - began < 6.0 * TIMESCALE
        assert not [report for report in ending.result() if report.survivors]
        await typist.terminate(0.0)
        await asyncio.wait([writing], timeout=5.0)
        writing.exception()


SERVER_WITH_ODD_SIGNALS = """
import asyncio, json, signal, sys
{setup}
from execzmq.backends.local import LocalBackend
from execzmq.types.params import ExecParams
from tests.commands import all_events, end_of, output_of, words, shell
async def main():
    backend = await LocalBackend.open_private()
    try:
{body}
    finally:
        await backend.aclose()
asyncio.run(main())
"""


def server_with(setup: str, body: str) -> list[object]:
    """Run a server of its own Python, and return what it printed last as JSON."""
    indented = "\n".join(" " * 8 + line for line in body.splitlines())
    code = SERVER_WITH_ODD_SIGNALS.format(setup=setup, body=indented)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answer, list)
    return answer


def test_signals_of_the_server_do_not_pass_c19() -> None:
    """A command starts with no signal ignored or blocked, whatever the server's own are."""
    answer = server_with(
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
        """process = await backend.start(words("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"))
answer = [output_of(await all_events(process)).decode()]
for name in ("INT", "TERM"):
    process = await backend.start(words("sleep", "66"))
    await process.signal(name)
    answer.append(end_of(await all_events(process)).signal)
print(json.dumps(answer))""",
    )
    masks = str(answer[0]).split()
    assert masks[1::2] == ["0" * 16, "0" * 16]
    assert answer[1:] == [2, 15]


@pytest.mark.parametrize("tty", [False, True])
async def test_sigpipe_is_default_c20(factory: Factory, tty: bool) -> None:
    """A writer whose reader has gone ends silently."""
    async with factory() as backend:
        events, output, result = await run(backend, shell("yes | head -n1", tty=tty))
        assert output.replace(b"\r", b"") == b"y\n"
        assert output_of(events, "stderr") == b""
        assert result.exit_code == 0


async def test_interrupt_is_a_real_signal_c22(factory: Factory) -> None:
    """INT runs the program's own handler, and its own exit code counts."""
    async with factory() as backend:
        line = 'trap "echo caught; exit 42" INT; echo up; while :; do sleep 0.05; done'
        process = await backend.start(shell(line))
        await until_output(process, b"up")
        await process.signal("INT")
        events = await all_events(process)
        assert output_of(events, "stdout") == b"up\ncaught\n"
        assert (end_of(events).exit_code, end_of(events).cause) == (42, "exited")


async def test_interrupt_of_a_raw_terminal_c22(factory: Factory) -> None:
    """Where the terminal makes no signals of keys, 0x03 is data, and the signal call still interrupts."""
    code = """
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'caught'), os._exit(42)))
os.system('stty -isig -icanon -echo min 1')
os.write(1, b'R')
os.write(1, b'got %d ' % os.read(0, 1)[0])
time.sleep(60)
"""
    async with factory() as backend:
        process = await backend.start(python(code, tty=True))
        await until_output(process, b"R")
        await process.write(b"\x03")
        await until_output(process, b"got 3")
        await process.signal("INT")
        events = await all_events(process)
        assert output_of(events).endswith(b"caught")
        assert end_of(events).exit_code == 42
