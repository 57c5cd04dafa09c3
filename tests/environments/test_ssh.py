"""Another machine by ssh, with a real ssh and sshd."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import execzmq
from execzmq import connection
from execzmq.client import core
from execzmq.client.remote import RemoteBackend
from execzmq.environments import tunnel
from execzmq.environments.model import Ssh
from tests.cli.shell import execzmq as command_line
from tests.cli.shell import running
from tests.environments.conftest import name_environments
from tests.environments.sshd import SSH, SshServer
from tests.support import deadline, ms, wait_until

pytestmark = pytest.mark.slow

COUNTER = ["sh", "-c", "i=0; while read x; do i=$((i+1)); echo line $i; done; echo end"]
"""A command that says one line for each that it reads."""


def _folders() -> list[Path]:
    return list(connection.socket_folder("default").parent.glob("*ssh-*"))


def _words_of_all() -> Iterator[bytes]:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            yield Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue


def _connect() -> None:
    """Connect, and close."""
    with execzmq.connect("box") as client:
        client.connect()


def test_commands_run_there_and_know_nothing_of_here(box: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is started there; neither our variables nor our folder go there; the next client finds it."""
    monkeypatch.setenv("ONLY_HERE", "1")
    with execzmq.connect("box") as client:
        done = client.run("echo $HOME $PWD ${ONLY_HERE-unset}; exit 3", text=True)
        assert (done.stdout, done.returncode) == (f"{box.home}/h {box.home}/h unset\n", 3)
        (box.home / "h" / "sub").mkdir()
        assert client.run("pwd", cwd="sub", text=True).stdout == f"{box.home}/h/sub\n"
        assert not client.aio.backend.is_local
        client.start(["sleep", "60"], process_id="s")
    wait_until(lambda: not box.connections())
    assert not _folders()
    with execzmq.connect("box") as client:
        assert client.attach("s").info().state == "running"


async def test_async_twin(box: SshServer) -> None:
    """`aconnect` takes the same names."""
    async with execzmq.aconnect("box") as client:
        assert (await client.run("echo hi")).stdout == b"hi\n"


def test_key_is_on_no_command_line_and_sockets_are_private(box: SshServer) -> None:
    """The connection file goes over the connection, to nobody else."""
    with execzmq.connect("box") as client:
        client.connect()
        backend = client.aio.backend
        assert isinstance(backend, RemoteBackend)
        info = backend._connection.info
        assert not [words for words in _words_of_all() if info.key.encode() in words]
        assert connection.folder_is_ours(os.path.dirname(info.ip))


def test_output_goes_on_where_the_connection_was_cut(box: SshServer) -> None:
    """Each event comes once and in order, and what is written meanwhile arrives once."""
    with execzmq.connect("box") as client:
        process = client.start(COUNTER, stdin=True)
        lines = process.lines()
        for count in range(1, 6):
            process.write(b"\n")
            assert next(lines) == f"line {count}"
            box.cut()
        process.write(b"\n" * 3)
        process.close_stdin()
        assert list(lines) == ["line 6", "line 7", "line 8", "end"]


def test_machine_that_does_not_come_back_is_said(box: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ServerLost` comes within its time with ssh's own words; the same client goes on when it is back."""
    monkeypatch.setattr(core, "SERVER_GONE", ms(1000))
    with execzmq.connect("box") as client:
        assert (client.state, _state()) == ("idle", "-")
        process = client.start(COUNTER, stdin=True)
        assert (client.state, _state()) == ("connected", "open")
        box.stop()
        with pytest.raises(execzmq.ServerLost, match=r"environment box: ssh to 127.0.0.1: .*refused"):
            process.wait()
        assert _state() == "broken"
        monkeypatch.setattr(core, "SERVER_GONE", ms(10_000))
        box.start()
        _write_when_it_is_back(process)
        assert next(process.lines()) == "line 1"


def _state() -> str:
    listed = json.loads(command_line("environments", "--json").stdout)
    state: str = next(one["state"] for one in listed if one["name"] == "box")
    return state


def _write_when_it_is_back(process: execzmq.Process) -> None:
    limit = deadline(20)
    while True:
        try:
            process.write(b"x\n")
            return
        except execzmq.ServerLost:
            limit.left()


def test_login_that_is_refused_meanwhile(box: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said too; it is tried again, but seldom, and goes on when the login is allowed again."""
    monkeypatch.setattr(core, "SERVER_GONE", ms(1000))
    monkeypatch.setattr(tunnel, "_PAUSE_REFUSED", ms(100))
    with execzmq.connect("box") as client:
        process = client.start(COUNTER, stdin=True)
        allowed = (box.folder / "authorized").rename(box.folder / "withdrawn")
        box.cut()
        with pytest.raises(execzmq.ServerLost, match="does not let this user in"):
            process.wait()
        allowed.rename(box.folder / "authorized")
        _write_when_it_is_back(process)
        assert next(process.lines()) == "line 1"


def test_client_that_is_killed_leaves_nothing_for_long(box: SshServer) -> None:
    """Its ssh ends with it, and the next one removes its folder."""
    code = "import execzmq; c = execzmq.connect('box'); c.connect(); print('ready', flush=True)"
    code += "; c.run('sleep 60')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not box.connections(), 20)
    assert len(_folders()) == 1
    with execzmq.connect("box") as client:
        client.connect()
        assert len(_folders()) == 1
    assert not _folders()


def test_folder_that_others_removed_is_made_anew(box: SshServer) -> None:
    """Whatever cleans such places up: the next connection has its sockets again."""
    with execzmq.connect("box") as client:
        client.connect()
        [folder] = _folders()
        shutil.rmtree(folder)
        box.cut()
        assert client.run(["echo", "x"]).stdout == b"x\n"
        assert _folders() == [folder]


@pytest.fixture
def silent_host() -> Iterator[socket.socket]:
    """A machine, named `box`, that takes connections and says nothing; accept one to see that it has come."""
    if SSH is None:
        pytest.skip("needs OpenSSH's client")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(ms(20_000))
        name_environments(f"[box]\nssh = '127.0.0.1'\nport = {listener.getsockname()[1]}\n")
        yield listener


def test_machine_that_says_nothing(silent_host: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it for ever."""
    monkeypatch.setattr(tunnel, "OPEN_SECONDS", ms(300))
    with pytest.raises(execzmq.RequestTimeout, match=r"has not answered for .*`ssh -p \d+ 127.0.0.1 true`"):
        _connect()
    assert not _folders()


def test_interrupt_while_connecting(silent_host: socket.socket) -> None:
    """Ctrl-C ends the attempt at once, and its ssh with it."""
    with running("ps", "--on", "box") as process:
        peer, _ = silent_host.accept()
        process.send_signal(signal.SIGINT)
        assert process.wait(deadline(5).left()) == 130
        peer.close()
    assert not _folders()


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"command": "no-such-program"}, execzmq.ConnectionFailed, "has no execzmq on its PATH: install"),
        ({"command": "echo No such option --lend >&2; exit 125;"}, execzmq.VersionMismatch, "too old"),
        ({"command": "echo broken >&2; exit 4;"}, execzmq.ConnectionFailed, r"broken \(status 4\)"),
        ({"command": "echo execzmq-lends {};"}, execzmq.ConnectionFailed, "transport is missing"),
        ({"ssh": "nobody-there@127.0.0.1"}, execzmq.AuthenticationFailed, "does not let this user in"),
    ],
)
def test_what_is_wrong_there_is_said(
    box: SshServer, fields: dict[str, str], kind: type[Exception], said: str
) -> None:
    """Each fault has its own words, and leaves nothing here."""
    name_environments(box.environment(**fields))
    with pytest.raises(kind, match=f"^environment box: .*{said}"):
        _connect()
    assert not _folders()


def test_unknown_host_key_is_said(box: SshServer) -> None:
    """A host whose key is not known yet is shown to a person; one whose key has changed is not trusted."""
    box.know("")
    with pytest.raises(execzmq.AuthenticationFailed, match="not known yet"):
        _connect()
    box.know((box.folder / "user.pub").read_text())
    with pytest.raises(execzmq.AuthenticationFailed, match="another one than before"):
        _connect()


def test_nobody_listens(box: SshServer) -> None:
    """A machine that is off is said at once."""
    box.stop()
    with pytest.raises(execzmq.ConnectionFailed, match=r"ssh to 127.0.0.1: .*Connection refused"):
        _connect()


def test_server_that_forwards_no_sockets(box: SshServer) -> None:
    """The administrator is told which line does it."""
    box.stop()
    with (box.folder / "config").open("a") as file:
        file.write("AllowStreamLocalForwarding no\n")
    box.start()
    with pytest.raises(execzmq.ConnectionFailed, match="AllowStreamLocalForwarding yes"):
        _connect()


def test_no_ssh_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without OpenSSH's client the error names it."""
    name_environments("[box]\nssh = 'box'")
    monkeypatch.setenv("PATH", "/no/such/folder")
    with pytest.raises(execzmq.ConnectionFailed, match="there is no ssh here"):
        _connect()


def test_commands_of_the_command_line(box: SshServer) -> None:
    """`--on` takes an environment everywhere; those that only look start no server."""
    done = command_line("ps", "--on", "box")
    assert done.returncode == 125
    assert b"no server default runs there" in done.stderr
    done = command_line("run", "--on", "box", "--", "sh", "-c", "echo hi; exit 4")
    assert (done.stdout, done.returncode) == (b"hi\n", 4)
    sandboxed = ("run", "--on", "box", "--sandbox", "workspace-write")
    done = command_line(*sandboxed, "--root", "here", "--", "true")
    assert (done.returncode, b"give an absolute path" in done.stderr) == (125, True), done.stderr
    assert command_line("start", "--on", "box", "--name", "s", "--", "sleep", "60").returncode == 0
    assert b"sleep 60" in command_line("ps", "--on", "box").stdout
    assert b"ok   server: default is alive" in command_line("doctor", "--on", "box").stdout
    assert command_line("kill", "--on", "box", "s").returncode == 0
    assert command_line("shutdown", "--on", "box").returncode == 0
    assert command_line("ps", "--on", "box").returncode == 125


def test_interrupt_at_the_terminal_does_not_reach_ssh(box: SshServer) -> None:
    """ssh has a session of its own: what a terminal sends to the foreground ends no connection."""
    with execzmq.connect("box") as client:
        client.run(["true"])
        here = os.getsid(0)
        found = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_ssh(pid)]
        assert found
        assert here not in map(os.getsid, found)


def _is_ssh(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return str(connection.socket_folder("default").parent).encode() in words and b"BatchMode" in words


def test_server_name_of_the_environment(box: SshServer) -> None:
    """An environment may name another server than the default one."""
    name_environments(box.environment() + "name = 'train'\n")
    with execzmq.connect("box") as client:
        assert client.info().name == "train"
    assert Ssh("x").name == "default"
