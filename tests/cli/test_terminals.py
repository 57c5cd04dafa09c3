"""A real terminal at `run -it` and `attach`: keys, size, sharing, and how it is left behind."""

import json
import os
import signal

import pytest

from tests.cli.shell import UserTerminal, execzmq
from tests.support import child

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]

# Says its size at the start and at each change, and each key that it gets, until `q`.
KEYS = """
import os, signal, sys, tty
tty.setraw(0)
def say(text): os.write(1, text.encode() + b"\\r\\n")
def size(*_): say("size %dx%d" % (os.get_terminal_size().lines, os.get_terminal_size().columns))
signal.signal(signal.SIGWINCH, size)
size()
say("ready")
while (keys := os.read(0, 100)) != b"q": say("keys %r" % keys)
sys.exit(7)
"""


def test_run_lends_the_terminal_c38() -> None:
    """`run -it` gives the command the size, its changes and every key, and ends with its status."""
    with UserTerminal("run", "-it", "--", *child(KEYS), rows=33, cols=99) as terminal:
        terminal.expect(b"size 33x99.*ready")
        assert terminal.is_raw()
        terminal.resize(40, 132)
        terminal.expect(b"size 40x132")
        terminal.type(b"\x03")
        terminal.expect(rb"keys b'\\x03'")
        terminal.type(b"q")
        assert terminal.end() == 7
        assert terminal.is_as_before()


def test_run_without_keys_passes_the_size_c38() -> None:
    """`run -t` without `-i` gives the size and its changes, lets the keys alone, and passes Ctrl-C on."""
    script = "trap 'stty size <&1' WINCH; stty size <&1; echo ready; while :; do sleep 0.05; done"
    with UserTerminal("run", "-t", "--", "sh", "-c", script, rows=33, cols=99) as terminal:
        terminal.expect(b"33 99.*ready")
        assert not terminal.is_raw()
        terminal.resize(40, 132)
        terminal.expect(b"40 132")
        terminal.type(b"\x03")
        terminal.expect(b"sent SIGINT")
        assert terminal.end() == 130


def test_run_detaches() -> None:
    """The detach keys leave the command running, and say how to come back."""
    with UserTerminal("run", "-it", "--name", "keys", "--", *child(KEYS)) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x10\x11")
        terminal.expect(b"execzmq attach ")
        assert terminal.end() == 0
        assert terminal.is_as_before()
    assert execzmq("write", "keys", "q").returncode == 0
    assert execzmq("wait", "keys").returncode == 7


def test_screen_is_restored() -> None:
    """What a program has left set on the screen is undone, and nothing else."""
    code = "import os; os.write(1, b'\\x1b[?1049h\\x1b[?25l\\x1b[?2004h\\x1b[31mleft'); os._exit(3)"
    with UserTerminal("run", "-it", "--", *child(code)) as terminal:
        terminal.expect(rb"left.*\x1b\[m\x1b\[\?25h\x1b\[\?2004l\x1b\[\?1049l")
        assert terminal.end() == 3
        assert terminal.is_as_before()


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGHUP])
def test_run_passes_signals_on_from_a_terminal(signo: signal.Signals) -> None:
    """A signal to `run -it` ends the command, and then the terminal is as before."""
    with UserTerminal("run", "-it", "--", "sh", "-c", "echo ready; exec sleep 60") as terminal:
        terminal.expect(b"ready")
        terminal.send_signal(signo)
        assert terminal.end() == 128 + signo
        assert terminal.is_as_before()


def test_terminal_is_restored_when_the_server_dies() -> None:
    """A killed server leaves the user with an error in one line and a usable terminal."""
    with UserTerminal("run", "-it", "--", "sh", "-c", "echo ready; exec sleep 60") as terminal:
        terminal.expect(b"ready")
        _kill_server()
        terminal.expect(b"execzmq: ")
        assert terminal.end() == 125
        assert terminal.is_as_before()
    assert execzmq("run", "--", "true").returncode == 0


def _kill_server() -> None:
    (server,) = json.loads(execzmq("connections", "--json").stdout)
    os.kill(server["pid"], signal.SIGKILL)


def test_users_terminal_is_out_of_reach_c75() -> None:
    """A command has no way to the terminal of who runs it, nor of who has started the server."""
    with UserTerminal("run", "--", "sh", "-c", "echo LEAK >/dev/tty") as terminal:
        seen = terminal.expect(b"/dev/tty[^\n]*\n")
        assert terminal.end() != 0
        assert b"LEAK" not in seen


def test_terminal_and_pipe_do_not_mix() -> None:
    """`run -it` without a terminal at stdin is refused before anything is started."""
    done = execzmq("run", "-it", "--", "true", input=b"")
    assert done.returncode == 125
    assert b"leave -t out" in done.stderr
    assert execzmq("ps").returncode == 125
