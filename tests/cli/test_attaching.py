"""`attach`: several terminals at one process, one keyboard, everybody's screen as it was afterwards."""

import json
import os
import signal

import pytest

from tests.cli.shell import UserTerminal, execzmq, read_until, running
from tests.cli.test_terminals import KEYS
from tests.support import child

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]

DETACH = b"\x10\x11"


def _start(*words: str) -> str:
    done = execzmq("start", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def test_keyboard_is_shared_and_handed_over() -> None:
    """The first has the keyboard and its size applies; when it leaves, the next who types has both."""
    process = _start("-t", "--", *child(KEYS))
    with UserTerminal("attach", process, rows=30, cols=90) as first:
        first.expect(b"size 30x90")
        with UserTerminal("attach", process, rows=50, cols=100) as second:
            second.expect(b"ready")
            second.expect(rb"\r\nexeczmq: watching only: .* --take-over ")
            second.type(b"no")
            first.type(b"a")
            first.expect(rb"keys b'a'")
            second.expect(rb"keys b'a'")
            first.type(DETACH)
            assert first.end() == 0
            first.expect(rb"\nexeczmq: detached from")
            assert first.is_as_before()
            second.type(b"b")
            second.expect(b"size 50x100.*keys b'b'|keys b'b'.*size 50x100")
            second.type(b"q")
            assert second.end() == 7
            assert second.is_as_before()
    log = execzmq("logs", process).stdout
    assert b"no" not in log
    assert log.count(b"keys") == 2


def test_keyboard_is_taken_over() -> None:
    """`--take-over` takes the keyboard; who had it is told at the next key and watches on."""
    process = _start("-t", "--", *child(KEYS))
    with UserTerminal("attach", process) as first:
        first.expect(b"ready")
        first.type(b"w")
        first.expect(b"keys b'w'")
        with UserTerminal("attach", "--take-over", process) as second:
            second.expect(b"ready")
            second.type(b"x")
            first.expect(b"keys b'x'")
            first.type(b"Y")
            first.expect(b"watching only")
            second.type(b"q")
            assert (first.end(), second.end()) == (7, 7)
            assert first.is_as_before()
    assert b"Y" not in execzmq("logs", process).stdout


def test_watcher_types_nothing() -> None:
    """`--watch` shows the past and passes no key on; Ctrl-C leaves, and the process stays."""
    process = _start("-t", "--", *child(KEYS))
    with UserTerminal("attach", "--watch", process) as watcher:
        watcher.expect(b"ready")
        watcher.type(b"q")
        watcher.type(b"\x03")
        assert watcher.end() == 0
        assert watcher.is_as_before()
    (info,) = json.loads(execzmq("ps", "--json").stdout)
    assert info["state"] == "running"


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
def test_signal_detaches(signo: signal.Signals) -> None:
    """A signal ends `attach`, the terminal is as before, and the process is left alone."""
    process = _start("-t", "--", *child(KEYS))
    with UserTerminal("attach", process) as terminal:
        terminal.expect(b"ready")
        terminal.send_signal(signo)
        assert terminal.end() == 128 + signo
        assert terminal.is_as_before()
    (info,) = json.loads(execzmq("ps", "--json").stdout)
    assert info["state"] == "running"


def test_closed_window_detaches() -> None:
    """Closing the window ends `attach` and frees the keyboard."""
    process = _start("-t", "--", *child(KEYS))
    with UserTerminal("attach", process) as terminal:
        terminal.expect(b"ready")
        terminal.hang_up()
        assert terminal.end() != 0
    with UserTerminal("attach", process) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"q")
        assert terminal.end() == 7


def test_suspended_terminal_is_given_back() -> None:
    """A stopped `attach` gives the terminal back, and takes it again when it goes on."""
    process = _start("-t", "--", *child(KEYS))
    with UserTerminal("attach", process) as terminal:
        terminal.expect(b"ready")
        terminal.send_signal(signal.SIGTSTP)
        _wait_until_stopped(terminal)
        assert terminal.is_as_before()
        terminal.send_signal(signal.SIGCONT)
        terminal.type(b"c")
        terminal.expect(b"keys b'c'")
        assert terminal.is_raw()
        terminal.type(b"q")
        assert terminal.end() == 7


def _wait_until_stopped(terminal: UserTerminal) -> None:
    _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def test_late_joiner_sees_the_screen() -> None:
    """Who joins late is shown what is on the screen, without the questions that led to it."""
    code = "import os; os.write(1, b'old\\x1b[2J\\x1b[6nnew\\r\\n'); os.read(0, 1)"
    process = _start("-t", "--", *child(code))
    with running("logs", "-f", process) as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"new")
    with UserTerminal("attach", process) as terminal:
        seen = terminal.expect(b"new")
        assert b"old" not in seen
        assert b"\x1b[6n" not in seen
        terminal.type(b"\r")
        assert terminal.end() == 0


def test_attach_without_a_terminal() -> None:
    """Attached to a pipe process one sees all that it has said, and `-i` passes lines and their end on."""
    process = _start("-i", "--", "sh", "-c", "echo first; cat; exit 5")
    done = execzmq("attach", "-i", process, input=b"second\n")
    assert (done.returncode, done.stdout) == (5, b"first\nsecond\n")
    done = execzmq("attach", process)
    assert (done.returncode, done.stdout) == (5, b"first\nsecond\n")


def test_interrupt_leaves_the_process() -> None:
    """Ctrl-C at `attach` leaves; the process goes on and one is told how to come back."""
    process = _start("--", "sh", "-c", "echo ready; exec sleep 60")
    with running("attach", process) as attached:
        assert attached.stdout is not None
        assert attached.stderr is not None
        read_until(attached.stdout.fileno(), b"ready")
        attached.send_signal(signal.SIGINT)
        read_until(attached.stderr.fileno(), b"comes back")
        assert attached.wait() == 130
    (info,) = json.loads(execzmq("ps", "--json").stdout)
    assert info["state"] == "running"


def test_ended_process_is_shown() -> None:
    """Attached to what has ended one sees its last screen and ends as it ended."""
    process = _start("-t", "--", "sh", "-c", "echo last words; exit 6")
    assert execzmq("wait", process).returncode == 6
    with UserTerminal("attach", process) as terminal:
        terminal.expect(b"last words")
        assert terminal.end() == 6
        assert terminal.is_as_before()


def test_screen_of_a_long_past() -> None:
    """However much has scrolled by, what the screen shows is shown, where the program sees it."""
    code = KEYS.replace('say("ready")', 'os.write(1, b"past\\r\\n" * 40000); say("ready")')
    process = _start("-t", "--", *child(code))
    with running("logs", "-f", process) as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"ready")
    with UserTerminal("attach", process, rows=24, cols=80) as terminal:
        seen = terminal.expect(rb"ready\r\n\x1b\[m\x1b\[24;1H")
        assert seen.count(b"past\r\n") == 22
        terminal.type(b"q")
        assert terminal.end() == 7


def test_program_whose_screen_is_cut_draws_anew() -> None:
    """Where not all of a screen can be shown, the program is made to draw it for the holder."""
    process = _start("-t", "--", *child(KEYS))
    with running("logs", "-f", process) as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"ready")
        assert execzmq("resize", process, "300", "80").returncode == 0
        read_until(logs.stdout.fileno(), b"size 300x80")
        with UserTerminal("attach", process, rows=24, cols=80) as terminal:
            terminal.expect(b"ready\r\n.*size 23x80.*size 24x80")
            terminal.type(b"q")
            assert terminal.end() == 7


def test_missing_process_leaves_the_terminal_alone() -> None:
    """What cannot be attached to is an error in one line, at a terminal as elsewhere."""
    _start("--", "true")
    with UserTerminal("attach", "nobody") as terminal:
        terminal.expect(b"execzmq: no process 'nobody'; `execzmq ps --all` lists them\r\n")
        assert terminal.end() == 125
        assert terminal.is_as_before()
