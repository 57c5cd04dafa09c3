"""`logs`: the bytes as they were, and recordings."""

import os
import select
import sys

import pytest

from tests.casts import Cast
from tests.cli.shell import UserTerminal, execzmq, read_until, running
from tests.cli.test_terminals import KEYS
from tests.support import child, deadline

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]


def test_logs_are_the_bytes_of_both_streams() -> None:
    """`logs` prints stdout to stdout and stderr to stderr, from an event on, or one stream."""
    execzmq("run", "--id", "p", "--", "sh", "-c", "echo out; echo err >&2")
    done = execzmq("logs", "p")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")
    done = execzmq("logs", "--stream", "stderr", "p")
    assert (done.stdout, done.stderr) == (b"", b"err\n")
    done = execzmq("logs", "--since-seq", "2", "p")
    assert b"out" not in done.stdout or b"err" not in done.stderr
    done = execzmq("logs", "--since-seq", "1000", "p")
    assert (done.returncode, done.stdout) == (0, b"")


def test_logs_follow_until_the_end() -> None:
    """`logs -f` shows what comes as it comes and ends when the streams have ended; without it, at once."""
    execzmq("start", "-i", "--id", "p", "--", "sh", "-c", "echo first; cat")
    with running("logs", "-f", "p") as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"first\n")
        assert execzmq("logs", "p").stdout == b"first\n"
        execzmq("write", "p", "second\n")
        read_until(logs.stdout.fileno(), b"second\n")
        execzmq("write", "--end", "p", "")
        assert logs.wait(deadline(20).left()) == 0


def test_the_last_lines() -> None:
    """`--tail` prints the last lines of both streams or of one, an unfinished one too."""
    code = r"seq 5; read go; printf 'e1\ne2\n' >&2; read go; printf 'a\nb'"
    execzmq("start", "-i", "--id", "p", "--", "sh", "-c", code)
    with running("logs", "-f", "p") as logs:
        assert logs.stdout is not None
        assert logs.stderr is not None
        read_until(logs.stdout.fileno(), b"5\n")
        execzmq("write", "p", "go\n")
        read_until(logs.stderr.fileno(), b"e2\n")
        execzmq("write", "p", "go\n")
        assert logs.wait(deadline(20).left()) == 0
    for words, out, err in (
        (("--tail", "0"), b"", b""),
        (("--tail", "2"), b"a\nb", b""),
        (("-n", "3"), b"a\nb", b"e2\n"),
        (("-n", "5"), b"5\na\nb", b"e1\ne2\n"),
        (("-n", "100"), b"1\n2\n3\n4\n5\na\nb", b"e1\ne2\n"),
        (("-n", "all"), b"1\n2\n3\n4\n5\na\nb", b"e1\ne2\n"),
        (("-n", "1", "--stream", "stderr"), b"", b"e2\n"),
        (("-n", "9", "--since-seq", "2"), b"a\nb", b"e1\ne2\n"),
    ):
        done = execzmq("logs", *words, "p")
        assert (done.returncode, done.stdout, done.stderr) == (0, out, err), words
    for wrong in ("-1", "some", ""):
        assert execzmq("logs", "--tail", wrong, "p").returncode == 125


def test_only_what_is_new() -> None:
    """`--tail 0 -f` begins with what comes from now on."""
    execzmq("start", "-i", "--id", "p", "--", "sh", "-c", "echo old; cat")
    with running("logs", "-f", "p") as first:
        assert first.stdout is not None
        read_until(first.stdout.fileno(), b"old\n")
        with running("logs", "--tail", "0", "-f", "p") as logs:
            assert logs.stdout is not None
            said = b""
            while not said:  # it may still be on its way to the server
                execzmq("write", "p", "new\n")
                ready, _, _ = select.select([logs.stdout], [], [], 0)
                said = os.read(logs.stdout.fileno(), 100) if ready else b""
            assert said.startswith(b"new\n")
            execzmq("write", "--end", "p", "")
            assert logs.wait(deadline(20).left()) == 0


def test_what_is_gone_is_said() -> None:
    """Where the log has lost bytes, one is told how many at the place where they were."""
    code = "import os; [os.write(1, b'%07d\\n' % n * 8192) for n in range(256)]"
    words = ("--name", "small", "--log-budget", str(1 << 20), "--disk-budget", str(4 << 20))
    with running("serve", *words) as server:
        assert server.stderr is not None
        read_until(server.stderr.fileno(), b"ready")
        assert execzmq("run", "--on", "small", "--id", "p", "--", sys.executable, "-c", code).returncode == 0
        done = execzmq("logs", "--on", "small", "p")
        assert done.stdout.startswith(b"0000000\n")
        assert done.stdout.endswith(b"0000255\n")
        assert len(done.stdout) < 256 * 65536
        assert b"no longer in the log" in done.stderr
        assert execzmq("shutdown", "--on", "small").returncode == 0
        server.communicate(timeout=deadline(20).left())


def test_recording_of_a_terminal() -> None:
    """A recording has the size at the start and each after it, every byte, and the exit status."""
    with UserTerminal(
        "run", "-it", "--id", "p", "--name", "keys", "--", *child(KEYS), rows=33, cols=99
    ) as terminal:
        terminal.expect(b"ready")
        with running("logs", "-f", "--format", "asciicast", "p") as logs:
            assert logs.stdout is not None
            head = read_until(logs.stdout.fileno(), b"ready.*\n")
            terminal.resize(40, 132)
            terminal.expect(b"size 40x132")
            terminal.type(b"q")
            assert terminal.end() == 7
            rest, _ = logs.communicate(timeout=deadline(20).left())
    cast = Cast.read(head + rest)
    assert (cast.rows, cast.cols, cast.header["title"]) == (33, 99, "keys")
    assert str(cast.header["command"]).startswith(sys.executable)
    assert cast.of("r") == ["132x40"]
    assert cast.of("x") == ["7"]
    assert cast.text.encode() == execzmq("logs", "p").stdout
    done = execzmq("logs", "--format", "asciicast", "p")
    assert (done.stdout, done.stderr) == (head + rest, b"")


def test_recording_of_pipes() -> None:
    """Both streams are in it, as a terminal would show them; of what still runs there is no end."""
    execzmq(
        "start",
        "-i",
        "--id",
        "p",
        "--",
        "sh",
        "-c",
        r"printf 'a\nb\r\n'; printf 'caf\351\n' >&2; read x; kill -9 $$",
    )
    with running("logs", "-f", "--format", "asciicast", "p") as logs:
        assert logs.stdout is not None
        seen = read_until(logs.stdout.fileno(), b"caf.*\n")
        so_far = Cast.read(execzmq("logs", "--format", "asciicast", "p").stdout)
        assert so_far.of("x") == []
        execzmq("write", "--end", "p", "")
        rest, _ = logs.communicate(timeout=deadline(20).left())
    cast = Cast.read(seen + rest)
    assert (cast.rows, cast.cols) == (24, 80)
    assert sorted(cast.text.split("\r\n")) == ["", "a", "b", "caf\N{REPLACEMENT CHARACTER}"]
    assert cast.of("x") == ["137"]
    only = Cast.read(execzmq("logs", "--format", "asciicast", "--stream", "stdout", "p").stdout)
    assert only.text == "a\r\nb\r\n"
    late = Cast.read(execzmq("logs", "--format", "asciicast", "--since-seq", "1000", "p").stdout)
    assert late.events == []


def test_recording_begins_with_an_event() -> None:
    """It cannot begin with a line; what to do instead is said."""
    done = execzmq("logs", "--format", "asciicast", "--tail", "3", "p")
    assert (done.returncode, b"--since-seq" in done.stderr) == (125, True)
