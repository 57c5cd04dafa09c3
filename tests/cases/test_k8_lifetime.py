"""Replay, reconnecting, repeated starts, and how long a process lives; and some that are of no kind."""

import asyncio
import gc
import os
import resource
from pathlib import Path

import pytest

from execzmq.backends.local import LocalBackend
from execzmq.client.aio import AsyncClient
from execzmq.client.remote import RemoteBackend
from execzmq.errors import Conflict, StdinClosed
from execzmq.types.events import Exited, Output, last_seq_of
from execzmq.types.params import EnvPolicy
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    events_until,
    output_of,
    python,
    run,
    shell,
    until_output,
    words,
)
from tests.factories import Factory, open_server
from tests.support import deadline, wait_until

pytestmark = pytest.mark.slow

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 400_001))


async def test_replay_joins_live_c60(factory: Factory) -> None:
    """Who comes back in the middle of a flood gets the rest once each and in order."""
    async with factory() as backend:
        process = await backend.start(words("seq", "1", "400000"))
        first = await events_until(process, lambda seen: len(seen) >= 5)
        rest = await all_events(process, last_seq_of(first[-1]))
        assert_seqs_whole(first + rest)
        assert output_of(first + rest) == NUMBERS
        assert len([event for event in rest if isinstance(event, Exited)]) == 1


async def test_new_client_goes_on_c60() -> None:
    """A client that dropped its sockets goes on with its cursor in a new connection."""
    async with open_server() as server:
        client = await RemoteBackend.open(server.info)
        process = await client.start(shell("seq 1 200000; sleep 0.05; seq 200001 400000"))
        first = await events_until(process, lambda seen: len(seen) >= 5)
        await client.aclose()
        client = await RemoteBackend.open(server.info)
        rest = await all_events(await client.attach(process.process_id), last_seq_of(first[-1]))
        await client.aclose()
        assert_seqs_whole(first + rest)
        assert output_of(first + rest) == NUMBERS


async def test_seqs_have_no_holes_c61(factory: Factory) -> None:
    """Two streams, tiny and giant events: each seq is used once, and offsets are whole."""
    code = """
import os
for i in range(300):
    os.write(1, b'o' * (1 if i % 3 else 400000 if i % 50 == 0 else 1000))
    os.write(2, b'e')
"""
    async with factory() as backend:
        process = await backend.start(python(code))
        events = await all_events(process)
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        assert len(output_of(events, "stderr")) == 300
        sizes = [len(event.data) for event in events if isinstance(event, Output)]
        assert max(sizes) <= 262_144
        assert min(sizes) >= 1


async def test_repeated_start_c64(factory: Factory, short_tmp: Path) -> None:
    """The same start again, in parallel and after the end, starts nothing; another one is refused."""
    file = short_tmp / "file"
    params = shell(f"echo x >>{file}; sleep 0.05", process_id="once")
    async with factory() as backend:
        handles = await asyncio.gather(*(backend.start(params) for _ in range(4)))
        assert len({handle.instance for handle in handles}) == 1
        await all_events(handles[0])
        await backend.start(params)
        assert file.read_text() == "x\n"
        with pytest.raises(Conflict):
            await backend.start(shell("true", process_id="once"))


async def test_repeated_start_from_other_client_c64(short_tmp: Path) -> None:
    """A repeat through a new connection finds the same process."""
    file = short_tmp / "file"
    params = shell(f"echo x >>{file}", process_id="once")
    async with open_server() as server:
        instances = []
        for _ in range(2):
            client = await RemoteBackend.open(server.info)
            process = await client.start(params)
            await all_events(process)
            instances.append(process.instance)
            await client.aclose()
        assert instances[0] == instances[1]
        assert file.read_text() == "x\n"


async def test_process_outlives_its_client_c65() -> None:
    """A process is listed, attached to, written to and waited for by another client when its own has gone."""
    async with open_server() as server:
        client = await RemoteBackend.open(server.info)
        process = await client.start(shell("read x; echo ok $x", stdin="pipe", name="job"))
        await client.aclose()
        other = await RemoteBackend.open(server.info)
        assert [info.process_id for info in await other.list_processes()] == [process.process_id]
        again = await other.attach("job")
        await again.write(b"there\n")
        assert output_of(await all_events(again)) == b"ok there\n"
        await other.aclose()


async def test_dropped_handle_and_cancelled_call_c65(factory: Factory) -> None:
    """Neither a handle that nobody holds nor a cancelled call ends a process."""
    async with factory() as backend:
        process_id = (await backend.start(shell("read x; echo ok", stdin="pipe"))).process_id
        gc.collect()
        process = await backend.attach(process_id)
        waiting = asyncio.ensure_future(process.wait("closed", 30.0))
        await process.info()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await process.write(b"\n")
        assert output_of(await all_events(process)) == b"ok\n"


async def test_more_descriptors_than_select_takes_x01() -> None:
    """300 commands with over 1,023 descriptors stream and end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    backend = await LocalBackend.open_private()
    try:
        async with deadline(40):
            line = shell("echo up; read x; echo down", stdin="pipe")
            processes = [await backend.start(line) for _ in range(300)]
            for process in processes:
                await until_output(process, b"up")
            assert len(os.listdir("/proc/self/fd")) > 1023
            for process in processes:
                await process.write(b"\n")
            for process in processes:
                events = await all_events(process)
                assert output_of(events) == b"up\ndown\n"
                assert end_of(events).exit_code == 0
    finally:
        await backend.aclose()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_environment_by_policy_x04(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    """`core` leaves out what is no command's business, a pattern what it names, and `env={}` everything."""
    for name in ("X_API_KEY", "VIRTUAL_ENV", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "secret")
    async with factory() as backend:
        for policy, gone in (
            (EnvPolicy(inherit="core"), {b"X_API_KEY", b"VIRTUAL_ENV", b"LD_LIBRARY_PATH"}),
            (EnvPolicy(exclude=("*key*",)), {b"X_API_KEY"}),
            (EnvPolicy(inherit="none", set={b"A": b"1"}), {b"X_API_KEY", b"PATH", b"HOME"}),
        ):
            _, output, _ = await run(backend, words("/usr/bin/env", env_policy=policy))
            names = {line.partition(b"=")[0] for line in output.splitlines()}
            assert not names & gone
        _, output, _ = await run(backend, words("/usr/bin/env"))
        assert b"X_API_KEY=secret" in output.splitlines()
        _, output, _ = await run(backend, words("/usr/bin/env", env={}))
        assert output == b""


@pytest.mark.parametrize(("tty", "expected"), [(False, b""), (True, b"text\r\n")])
async def test_buffered_text_of_a_killed_program_x07(
    factory: Factory, short_tmp: Path, tty: bool, expected: bytes
) -> None:
    """What a program holds in its own buffer is lost when it is killed; at a terminal it does not buffer."""
    ready = short_tmp / "ready"
    code = f"import time; print('text'); open({str(ready)!r}, 'w').close(); time.sleep(60)"
    policy = EnvPolicy(exclude=("PYTHONUNBUFFERED",))
    async with factory() as backend:
        process = await backend.start(words("python3", "-c", code, tty=tty, env_policy=policy))
        await asyncio.to_thread(wait_until, ready.exists)
        await process.signal("KILL")
        assert output_of(await all_events(process)) == expected


async def test_client_that_closes_ends_what_it_holds_c65() -> None:
    """A process with the lifetime of its client ends when the client says that it goes; another lives on."""
    async with open_server() as server:
        client, other = await RemoteBackend.open(server.info), await RemoteBackend.open(server.info)
        held = await client.start(words("sleep", "60", lifetime="client"))
        free = await client.start(words("sleep", "60"))
        watched = await other.attach(held.process_id)
        await client.aclose()
        async with deadline(10):
            end = end_of(await all_events(watched))
        assert (end.cause, end.asked_by) == ("terminated", "lease")
        assert (await (await other.attach(free.process_id)).info()).state == "running"
        await other.aclose()


async def test_slow_writer_that_waits_for_its_starter_goes_on_c05() -> None:
    """Also one so slow that all is broadcast: the starter is asked how far it has come, and tells at once."""
    code = (
        "import os, sys, time\nsys.stdin.read(1)\n"
        "for n in range(96):\n os.write(1, b'%02d' % n * 16384); time.sleep(0.003)"
    )
    async with open_server() as server:
        client = await RemoteBackend.open(server.info)
        process = await client.start(python(code, backpressure="pause", stdin="pipe"))
        server._backend.table.require(process.process_id).streams.room_is_short(True)
        await process.write(b"x", end=True)
        async with deadline(3):
            output = output_of(await all_events(process))
        assert output == b"".join(b"%02d" % number * 16384 for number in range(96))
        await client.aclose()


async def test_closing_the_stdin_of_an_ended_process_is_no_error(factory: Factory) -> None:
    """It may end at any moment; without a stdin at all it is one."""
    async with factory() as backend:
        client = AsyncClient(backend)
        process = await client.start(["head", "-c", "1"], stdin=True)
        await process.write(b"x")
        await process.wait()
        await process.close_stdin()
        other = await client.start(["sleep", "60"])
        with pytest.raises(StdinClosed):
            await other.close_stdin()
        await other.kill()
