"""A real keeper: it reaps and remembers, outlives its server, hands over, and ends when it should."""

import array
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.keeper.client import KeeperRefused
from execzmq.keeper.launch import SpawnError, Tty
from execzmq.keeper.listener import connect
from execzmq.keeper.messages import PROTOCOL_VERSION
from execzmq.keeper.start import KeeperProcess, KeeperStartError
from execzmq.keeper.tree import parent_of
from tests.keeper.harness import (
    ENV,
    Harness,
    behind_gate,
    keeper,
    launch,
    open_gate,
    read_to_end,
    read_until,
    shell,
)
from tests.support import deadline, ms, wait_until

ROOT = Path(__file__).parents[2]

# A server that starts commands, says so, and waits to be killed.
SERVER = """
import asyncio, os, sys
sys.path.insert(0, {root!r})
GATE = os.open(f"/proc/self/fd/{{os.pipe()[0]}}", os.O_RDWR)
from execzmq.keeper.client import KeeperClient
from execzmq.keeper.launch import Launch, Tty
async def main():
    client = await KeeperClient.connect_or_launch(
        {folder!r}, {mode!r}, on_process=print, on_exit=lambda *ended: None, on_lost=lambda: None)
    for launch in {launches!r}:
        await client.spawn(Launch(**launch), {{"gate": GATE}})
    print(client.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def killed_server(folder: Path, mode: str, *launches: dict[str, object]) -> int:
    """Have a server start commands, kill it, and return its keeper's pid."""
    return await asyncio.to_thread(_killed_server, folder, mode, launches)


def _killed_server(folder: Path, mode: str, launches: tuple[dict[str, object], ...]) -> int:
    program = SERVER.format(root=str(ROOT), folder=str(folder), mode=mode, launches=launches)
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        return int(server.stdout.readline())
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def command(process_id: str, line: str, **more: object) -> dict[str, object]:
    """Return a launch for a server of another process."""
    return {"process_id": process_id, "argv": (b"/bin/sh", b"-c", line.encode()), "env": ENV, **more}


def is_alive(pid: int) -> bool:
    """Tell whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def wait_gone(pid: int) -> None:
    """Wait until a process is no more."""
    await asyncio.to_thread(wait_until, lambda: not is_alive(pid))


async def test_streams_and_status(short_tmp: Path) -> None:
    """A command's output and status arrive, by pipe and by terminal."""
    async with keeper(short_tmp) as own:
        assert await own.run(shell("echo out; echo err >&2; exit 3")) == (3, b"out\n", b"err\n")
        assert await own.run(shell("tty -s && stty size; kill -9 $$", tty=Tty(30, 90))) == (
            -9,
            b"30 90\r\n",
            b"",
        )


@pytest.mark.slow
async def test_every_status_is_right_with_sigchld_ignored_c25(short_tmp: Path) -> None:
    """500 of 500 commands end with 7, though the keeper's parent ignores SIGCHLD."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with keeper(short_tmp) as own:
            for _ in range(10):
                done = await asyncio.gather(*(own.run(shell("exit 7")) for _ in range(50)))
                assert {one.status for one in done} == {7}
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.slow
async def test_terminal_has_its_size_from_the_first_instruction_c38(short_tmp: Path) -> None:
    """200 of 200 programs see the right size."""
    async with keeper(short_tmp) as own:
        sized = launch("stty", "size", tty=Tty(41, 133))
        done = await asyncio.gather(*(own.run(sized) for _ in range(200)))
        assert {one.out for one in done} == {b"41 133\r\n"}


async def test_signals_are_clean_whatever_the_keeper_inherited_c19(short_tmp: Path) -> None:
    """Ignored and blocked signals of the server reach no command, and INT and TERM end it."""
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        own = Harness()
        await own.connect(short_tmp, "end")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGUSR1})
        for number, handler in ignored.items():
            signal.signal(number, handler)
    done = await own.run(launch("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"))
    assert [int(word, 16) for word in done.out.split()[1::2]] == [0, 0]
    for number in (signal.SIGINT, signal.SIGTERM):
        process = await own.client.spawn(launch("sleep", "66", process_id=number.name))
        signal.pidfd_send_signal(process.pidfd, number)
        assert await own.exit(number.name) == number
        process.close()
    await own.client.aclose()


async def test_keeper_is_not_ended_by_signals(short_tmp: Path) -> None:
    """INT, TERM, HUP and QUIT to the keeper change nothing."""
    async with keeper(short_tmp) as own:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(own.client.pid, number)
        assert (await own.run(shell("exit 5"))).status == 5


async def test_no_descriptor_of_the_server_in_keeper_or_command(short_tmp: Path) -> None:
    """An inherited lock would outlive the server: the keeper has its own descriptors alone."""
    lock = os.open(short_tmp / "lock", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(lock, True)
    async with keeper(short_tmp) as own:
        held = f"/proc/{own.client.pid}/fd"
        assert not any("lock" in os.readlink(f"{held}/{name}") for name in os.listdir(held))
        assert b"lock" not in (await own.run(shell("ls -l /proc/self/fd"))).out
    os.close(lock)


async def test_orphaned_grandchild_is_reaped_c13(short_tmp: Path) -> None:
    """Who loses a parent becomes the keeper's child, and no zombie stays."""
    async with keeper(short_tmp) as own:
        line = "exec 9<&0; setsid sh -c 'echo $$; read x <&9' & exit 0"
        process = await own.client.spawn(shell(line, stdin="pipe"))
        pid = int(await read_until(process.fds["stdout"], b"\n"))
        await own.exit("p")
        assert parent_of(pid) == own.client.pid
        process.close()
        own.client.close_name("p", "stdin")
        await asyncio.to_thread(wait_until, lambda: not parent_of(pid))


async def test_failed_starts_leave_no_descriptor_c26(short_tmp: Path) -> None:
    """Each refusal by name leaves the keeper as it was, and the id is free again."""
    async with keeper(short_tmp) as own:
        await own.run(shell("true"))
        await own.settle()
        before = own.fd_count()
        for wanted, reason in [
            (launch("nosuch"), "not_found"),
            (launch("nosuch", tty=Tty(24, 80)), "not_found"),
            (launch("true", cwd=b"/no/such"), "cwd_missing"),
            (launch("/tmp"), "is_directory"),
            (launch("true", "x" * 131_072), "argument_too_long"),
            (launch(), "empty_argv"),
            (launch("a\0b"), "nul_in_name"),
        ]:
            with pytest.raises(SpawnError) as refused:
                await own.client.spawn(wanted)
            assert refused.value.reason == reason
        assert (await own.run(shell("exit 6"))).status == 6
        await own.settle()
        assert own.fd_count() == before


async def test_two_megabytes_of_arguments(short_tmp: Path) -> None:
    """What a packet cannot carry goes by a file in memory."""
    async with keeper(short_tmp) as own:
        words = [b"x" * 100_000] * 15
        assert (
            int(
                (
                    await own.run(
                        shell('echo "$*" | wc -c', arg0=b"sh")._replace(
                            argv=(b"/bin/sh", b"-c", b'echo "$*" | wc -c', b"sh", *words)
                        )
                    )
                ).out
            )
            == 15 * 100_001
        )


async def test_who_waits_at_a_gate_is_released_once(short_tmp: Path) -> None:
    """It runs at its release, and `released` says so."""
    async with keeper(short_tmp) as own:
        with open_gate() as gate:
            process = await own.client.spawn(behind_gate("echo ran"), {"gate": gate})
        assert not process.released
        await own.client.release("p")
        assert await read_to_end(process.fds["stdout"]) == b"ran\n"
        assert await own.exit("p") == 0
        process.close()
        with pytest.raises(SpawnError) as refused:
            await own.client.release("p")
        assert refused.value.reason == "not_waiting"


async def test_who_ended_at_its_gate_is_not_released(short_tmp: Path) -> None:
    """The release says so by name; nothing is left when it is forgotten."""
    async with keeper(short_tmp) as own:
        await own.settle()
        before = own.fd_count()
        with open_gate() as gate:
            process = await own.client.spawn(behind_gate("exit 3", waits=False), {"gate": gate})
        await own.exit("p")
        with pytest.raises(SpawnError) as refused:
            await own.client.release("p")
        assert refused.value.reason == "ended_while_waiting"
        process.close()
        own.client.forget("p")
        await asyncio.to_thread(wait_until, lambda: own.fd_count() == before)


async def test_server_killed_before_release_c26(short_tmp: Path) -> None:
    """What waits when its server dies is never run, nor what it has begun in a session of its own."""
    mark = short_tmp / "ran"
    line = f"setsid sh -c 'echo >{mark}.waits; read x <&7; echo >{mark}' & wait"
    await killed_server(
        short_tmp,
        "keep",
        command("waits", line, passed={"gate": 7}, gate="gate", folder=os.fsencode(short_tmp / "f")),
        command("other", "sleep 60"),
    )
    async with keeper(short_tmp) as own:
        assert not own.found["waits"].released
        await own.exit("waits")
        own.client.forget("waits")
        assert (await own.run(shell("exit 3"))).status == 3
    assert not mark.exists()


async def test_killed_server_loses_nothing(short_tmp: Path) -> None:
    """The next server gets every command with its descriptors, output, marks and status."""
    folder = short_tmp / "p" / "ended"
    pid = await killed_server(
        short_tmp,
        "keep",
        command("lives", "echo early; read line; echo got $line; exit 5", stdin="pipe"),
        command("ended", "echo said; exit 37", folder=os.fsencode(folder)),
        command("terminal", "stty size; sleep 60", tty=Tty(33, 99)),
    )
    async with keeper(short_tmp) as own:
        assert own.client.pid == pid
        assert set(own.found) == {"lives", "ended", "terminal"}
        assert os.waitstatus_to_exitcode(await own.exit("ended")) == 37
        in_the_log = (folder / "out.0").read_bytes() if (folder / "out.0").exists() else b""
        assert in_the_log + await read_to_end(own.found["ended"].fds["stdout"]) == b"said\n"
        assert set(own.found["terminal"].fds) == {"pty", "mid_r", "mid_w"}
        assert await read_until(own.found["terminal"].fds["pty"], b"\n") == b"33 99\r\n"
        lives = own.found["lives"]
        assert lives.exit is None
        os.write(lives.fds["stdin"], b"it\n")
        assert await read_to_end(lives.fds["stdout"]) == b"early\ngot it\n"
        assert os.waitstatus_to_exitcode(await own.exit("lives")) == 5
    await wait_gone(pid)


async def test_orphaned_keeper_writes_ends_and_ends(short_tmp: Path) -> None:
    """When its last command has ended without a server, the ends are on disk and the keeper is gone."""
    folder = short_tmp / "p" / "a"
    pid = await killed_server(
        short_tmp, "keep", command("a", "read x; exit 11", stdin="pipe", folder=os.fsencode(folder))
    )
    assert is_alive(pid)
    child = _child_of(pid)
    os.kill(child, signal.SIGTERM)
    await wait_gone(pid)
    end = json.loads((folder / "exit").read_bytes())
    assert (end["id"], end["status"], end["released"]) == ("a", signal.SIGTERM, True)
    assert set(end["rusage"]) == {"user", "system", "max_rss"}
    assert not (short_tmp / "keeper.sock").exists()


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


async def test_orphaned_keeper_stays_for_unread_output(short_tmp: Path) -> None:
    """Output that no server has read yet, and that it cannot store, is not lost with the keeper."""
    pid = await killed_server(short_tmp, "keep", command("a", "echo unread; exit 0"))
    async with keeper(short_tmp) as own:
        assert own.client.pid == pid
        assert await read_to_end(own.found["a"].fds["stdout"]) == b"unread\n"


async def test_orphaned_keeper_stores_output_and_ends(short_tmp: Path) -> None:
    """Commands run on and end though they write more than a pipe takes; all of it stands in their logs."""
    pipe, terminal = short_tmp / "p" / "pipe", short_tmp / "p" / "terminal"
    pid = await killed_server(
        short_tmp,
        "keep",
        command("pipe", "head -c 300000 /dev/zero; echo err >&2; exit 3", folder=os.fsencode(pipe)),
        command(
            "terminal",
            "head -c 300000 /dev/zero; echo ok; exit 4",
            folder=os.fsencode(terminal),
            tty=Tty(24, 80),
        ),
    )
    await wait_gone(pid)
    assert (pipe / "out.0").read_bytes() == bytes(300_000)
    assert (pipe / "err.0").read_bytes() == b"err\n"
    assert (terminal / "out.0").read_bytes() == bytes(300_000) + b"ok\r\n"
    assert [json.loads((folder / "exit").read_bytes())["status"] for folder in (pipe, terminal)] == [
        3 << 8,
        4 << 8,
    ]


async def test_beyond_the_drain_limit_the_command_waits_for_a_server(short_tmp: Path) -> None:
    """What does not go into the log stays in the pipe, and the command with it."""
    folder = short_tmp / "p" / "a"
    pid = await killed_server(
        short_tmp,
        "keep",
        command(
            "a", "head -c 300000 /dev/zero; exit 3", folder=os.fsencode(folder), drain_limit_bytes=100_000
        ),
    )
    await asyncio.to_thread(wait_until, lambda: stored(folder) == 100_000)
    async with keeper(short_tmp) as own:
        assert own.client.pid == pid
        assert await read_to_end(own.found["a"].fds["stdout"]) == bytes(200_000)
        assert await own.exit("a") == 3 << 8
        assert stored(folder) == 100_000
        own.found["a"].close()


def stored(folder: Path) -> int:
    """Count the bytes of stdout in a log."""
    return sum(path.stat().st_size for path in folder.glob("out.*"))


async def test_a_server_reads_alone(short_tmp: Path) -> None:
    """From the handover on the keeper moves nothing, and from the end of the connection on it does again."""
    folder = short_tmp / "p" / "a"
    line = "echo one; read x; echo two; read x; echo three"
    pid = await killed_server(short_tmp, "keep", command("a", line, folder=os.fsencode(folder), stdin="pipe"))
    await asyncio.to_thread(wait_until, lambda: stored(folder) == 4)
    own = Harness()
    await own.connect(short_tmp, "keep")
    os.write(own.found["a"].fds["stdin"], b"\n")
    assert await read_to_newline(own) == b"two\n"
    os.write(own.found["a"].fds["stdin"], b"\n")
    own.client.close()
    own.found["a"].close()
    await asyncio.to_thread(wait_until, lambda: (folder / "out.0").read_bytes() == b"one\nthree\n")
    await wait_gone(pid)
    await own.client.aclose()


async def read_to_newline(own: Harness) -> bytes:
    """Read a line of the command `a`."""
    return await read_until(own.found["a"].fds["stdout"], b"\n")


async def test_mode_end_kills_the_whole_tree_c12_c13(short_tmp: Path) -> None:
    """With the connection everything ends, also a daemon that left session, parent and streams."""
    async with keeper(short_tmp) as own:
        daemon = "sleep 61 & echo $$ $! >&3; exec 3>&-; exec sleep 62"
        line = f"setsid sh -c '{daemon}' 3>&1 >/dev/null 2>&1 & exec sleep 63"
        process = await own.client.spawn(shell(line))
        said = await read_until(process.fds["stdout"], b"\n")
        pids = [process.pid, *map(int, said.split())]
        process.close()
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
    for pid in pids:
        await wait_gone(pid)
    assert not is_alive(own.client.pid)


async def test_mode_end_of_a_killed_server(short_tmp: Path) -> None:
    """Mode `end` also holds when the server is killed."""
    pid = await killed_server(
        short_tmp, "end", command("a", "sleep 60"), command("b", "trap '' TERM HUP; sleep 60")
    )
    await wait_gone(pid)


async def test_one_server_at_a_time(short_tmp: Path) -> None:
    """A second server is refused with a reason while the first is connected, then served."""
    async with keeper(short_tmp, "keep") as own:
        other = Harness()
        with pytest.raises(KeeperRefused) as refused:
            await other.connect(short_tmp)
        assert refused.value.reason == "busy"
        (await own.client.spawn(launch("sleep", "60"))).close()
        own.client.close()
        async with keeper(short_tmp) as later:
            assert later.client.pid == own.client.pid
        await own.reap()


async def test_descendant_is_refused(short_tmp: Path) -> None:
    """A command of the keeper cannot be its server, not even one that lost its parent."""
    code = "; ".join(
        [
            "import socket",
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
            f"s.connect({str(short_tmp / 'keeper.sock')!r})",
            "print(s.recv(1000))",
        ]
    )
    async with keeper(short_tmp) as own:
        assert b'"reason":"descendant"' in (await own.run(launch(sys.executable, "-c", code))).out
        line = f'setsid {sys.executable} -c "{code}" & exit 0'
        assert b'"reason":"descendant"' in (await own.run(shell(line))).out


async def test_second_keeper_does_not_start(short_tmp: Path) -> None:
    """The folder of a living keeper is taken; a socket that a dead one left is not in the way."""
    async with keeper(short_tmp):
        with pytest.raises(KeeperStartError, match="in use"):
            await KeeperProcess.start(os.fsencode(short_tmp))
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stale.bind(str(short_tmp / "keeper.sock"))
    stale.close()
    async with keeper(short_tmp) as own:
        assert (await own.run(shell("exit 1"))).status == 1


async def test_long_state_folder(short_tmp: Path) -> None:
    """A path that no socket's address can hold works all the same."""
    folder = short_tmp / ("long" * 30)
    folder.mkdir()
    async with keeper(folder) as own:
        assert (await own.run(shell("exit 1"))).status == 1
        assert oct((folder / "keeper.sock").stat().st_mode & 0o777) == "0o600"


async def test_state_folder_that_is_no_folder(short_tmp: Path) -> None:
    """A keeper that cannot listen says why."""
    with pytest.raises(KeeperStartError, match="No such file"):
        await KeeperProcess.start(os.fsencode(short_tmp / "missing"))


@contextlib.contextmanager
def raw_connection(folder: Path) -> Iterator[socket.socket]:
    """Speak to a keeper by hand."""
    sock = connect(os.fsencode(folder))
    sock.settimeout(ms(5000))
    try:
        yield sock
    finally:
        sock.close()


async def test_bad_messages_are_answered_and_nothing_dies(short_tmp: Path) -> None:
    """Garbage, unknown ops and wrong descriptors get an error each; the keeper goes on."""
    process = await KeeperProcess.start(os.fsencode(short_tmp))
    with raw_connection(short_tmp) as sock:
        for body in (
            b"garbage",
            b'{"op":"dance","id":"x"}',
            b'{"op":"spawn","id":"x","argv":[1],"env":"","stdin":"null"}',
            b'{"op":"spawn","id":"x","argv":["true"],"env":"","stdin":"null","fds":7}',
            b'{"op":"spawn","id":"x","argv":["true"],"env":"","stdin":"fd","fds":["stdin"]}',
            b'{"op":"hold","id":"x","name":"in"}',
            b'{"op":"hold","id":"x","name":"stdout"}',
            b'{"op":"forget","ids":["nobody"]}',
            b'{"memfd":12}',
        ):
            sock.send(body)
            assert json.loads(sock.recv(4096))["op"] == "error", body
        sock.send(b'{"op":"hello","version":99,"mode":"end","news":true}')
        assert json.loads(sock.recv(4096))["version"] == PROTOCOL_VERSION
        assert json.loads(sock.recv(4096))["op"] == "ready"
    await process.ended


async def test_descriptors_nobody_wants_are_closed(short_tmp: Path) -> None:
    """What comes with a message that does not use it is closed at once."""
    process = await KeeperProcess.start(os.fsencode(short_tmp))
    with raw_connection(short_tmp) as sock:
        sock.send(b'{"op":"hello","version":1,"mode":"end"}')
        sock.recv(4096)
        sock.recv(4096)
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        reader, writer = os.pipe()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer]))]
        sock.sendmsg([b'{"op":"forget","ids":["nobody"]}'], rights)
        sock.recv(4096)
        os.close(writer)
        assert os.read(reader, 1) == b""
        os.close(reader)
        assert len(os.listdir(f"/proc/{process.pid}/fd")) == before
    await process.ended


async def test_quit_needs_an_end_of_all(short_tmp: Path) -> None:
    """The keeper ends when it is asked to, unless a command still runs."""
    own = Harness()
    await own.connect(short_tmp, "keep")
    process = await own.client.spawn(launch("sleep", "60"))
    with pytest.raises(SpawnError) as refused:
        await own.client.quit()
    assert refused.value.reason == "running"
    signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
    await own.exit("p")
    process.close()
    await own.client.quit()
    await own.client.aclose()
    assert not is_alive(own.client.pid)
    assert not own.is_lost


def test_signal_at_the_very_end_is_the_end(short_tmp: Path) -> None:
    """A signal that comes when the keeper has closed everything does not keep it going."""
    program = (
        "import os, signal, sys\n"
        "from execzmq.keeper import main, signals\n"
        "wakeup = signals.take_over()\n"
        "keeper = main.Keeper(main.Listener(os.fsencode(sys.argv[1])), wakeup, main.DescriptorLimit())\n"
        "keeper.close()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(short_tmp)], check=True, timeout=10)


async def test_a_large_start_that_comes_without_its_memfd_is_answered(short_tmp: Path) -> None:
    """A keeper without a free descriptor refuses it by name, and takes the next one."""
    async with keeper(short_tmp) as own:
        own.found.clear()
        large = shell("true", env={b"LARGE": b"x" * 100_000, b"MORE": b"x" * 50_000})
        await own.settle()
        limit = resource.prlimit(own.client.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(own.client.pid, resource.RLIMIT_NOFILE, (own.fd_count(), limit[1]))
        try:
            async with deadline(10):
                with pytest.raises(SpawnError) as refused:
                    await own.client.spawn(large)
        finally:
            resource.prlimit(own.client.pid, resource.RLIMIT_NOFILE, limit)
        assert refused.value.reason == "too_many_descriptors"
        (await own.client.spawn(large)).close()


async def test_who_waits_at_a_gate_does_not_outlive_who_has_started_it(short_tmp: Path) -> None:
    """Where the wrapper ends before the release nobody opens the gate: who waits there is ended."""
    async with keeper(short_tmp) as own:
        with open_gate() as gate:
            line = "sh -c 'read -r x <&7; echo ran' & echo $!; exit 3"
            process = await own.client.spawn(behind_gate(line, waits=False), {"gate": gate})
        waiting = int(await read_until(process.fds["stdout"], b"\n"))
        await asyncio.to_thread(wait_until, lambda: not parent_of(waiting))
        process.close()
