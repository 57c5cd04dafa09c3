"""`Popen`: real pipes, files that stay in the caller, and an end that can be seen at any time."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from execzmq.client.arguments import DEVNULL, PIPE, STDOUT
from execzmq.client.popen import Popen
from execzmq.client.sync import Client
from execzmq.errors import ServerLost, StatusUnknown
from execzmq.types.events import Closed, Exited, Failed, Output, Started
from execzmq.types.results import ExitResult
from tests.client.clients import open_on
from tests.fakes import FakeBackend, script
from tests.support import child, ms, wait_until


def test_communicate(client: Client) -> None:
    """Input goes in, both streams come out, the code is known."""
    with Popen(
        "cat; echo err >&2; exit 3", shell=True, client=client, stdin=PIPE, stdout=PIPE, stderr=PIPE
    ) as p:
        assert p.communicate(b"in") == (b"in", b"err\n")
        assert p.returncode == 3
    assert p.result is not None


def test_communicate_in_text_mode(client: Client) -> None:
    """In text mode `communicate` takes and returns str."""
    with Popen(["cat"], client=client, stdin=PIPE, stdout=PIPE, text=True) as p:
        assert p.communicate("é\r\n") == ("é\n", None)


def test_communicate_with_large_input(client: Client) -> None:
    """Input and output larger than all buffers do not wait for each other."""
    data = b"x" * (10 << 20)
    with Popen(["cat"], client=client, stdin=PIPE, stdout=PIPE) as p:
        assert p.communicate(data)[0] == data


def test_communicate_goes_on_after_a_timeout(client: Client) -> None:
    """A timeout hands over what was read, and a further call has all of it."""
    with Popen("echo a; read x; echo b$x", shell=True, client=client, stdin=PIPE, stdout=PIPE) as p:
        assert p.stdin is not None
        other = os.dup(p.stdin.fileno())  # keeps the command's stdin open
        with pytest.raises(subprocess.TimeoutExpired):
            p.communicate(timeout=ms(200))
        os.write(other, b"c\n")
        os.close(other)
        assert p.communicate(timeout=ms(10000)) == (b"a\nbc\n", None)


def test_interactive_talk(client: Client) -> None:
    """What is written is read by the command at once, what it writes is there at once (C11)."""
    with Popen(["cat"], client=client, stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        for line in ("one\n", "two\n"):
            p.stdin.write(line)
            assert p.stdout.readline() == line


def test_pipeline(client: Client) -> None:
    """One command's stdout is another's stdin, also one of subprocess's own."""
    with (
        Popen(["printf", "b\\na\\n"], client=client, stdout=PIPE) as first,
        Popen(["sort"], client=client, stdin=first.stdout, stdout=PIPE) as second,
        subprocess.Popen(["tr", "a", "c"], stdin=second.stdout, stdout=PIPE) as third,
    ):
        assert third.communicate()[0] == b"c\nb\n"


def test_reader_that_goes_away_ends_the_writer(client: Client) -> None:
    """When nobody reads a pipe any more, the command gets SIGPIPE."""
    with Popen(["yes"], client=client, stdout=PIPE) as p:
        assert p.stdout is not None
        assert p.stdout.read(2) == b"y\n"
        p.stdout.close()
        assert p.wait(ms(10000)) == -signal.SIGPIPE


def test_end_of_a_pipeline_ends_its_beginning(client: Client) -> None:
    """`head` that is satisfied ends an endless writer before it."""
    with Popen(["yes"], client=client, stdout=PIPE) as first:
        with Popen(["head", "-n1"], client=client, stdin=first.stdout, stdout=PIPE) as second:
            assert first.stdout is not None
            first.stdout.close()
            assert second.communicate()[0] == b"y\n"
        assert first.wait(ms(10000)) == -signal.SIGPIPE


def test_sleeping_reader_loses_nothing(client: Client) -> None:
    """The exit is seen while output waits, and all of the output is read afterwards."""
    with Popen(["head", "-c", "20000000", "/dev/zero"], client=client, stdout=PIPE) as p:
        assert p.wait(ms(20000)) == 0
        assert p.stdout is not None
        assert len(p.stdout.read()) == 20_000_000


def test_poll(client: Client) -> None:
    """`poll` is None while the command runs, and its code afterwards, also with output unread."""
    command = "echo ready; read x; head -c 1000000 /dev/zero; exit 5"
    with Popen(command, shell=True, client=client, stdin=PIPE, stdout=PIPE) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        assert p.stdout.readline() == b"ready\n"
        assert p.poll() is None
        assert p.returncode is None
        p.stdin.close()
        wait_until(lambda: p.poll() is not None)
        assert p.returncode == 5


def test_files_are_written_when_wait_returns(client: Client, tmp_path: Path) -> None:
    """A file given as stdout is complete after `wait`, though the caller has closed it."""
    path = tmp_path / "output"
    with path.open("wb") as file:
        p = Popen(["head", "-c", "5000000", "/dev/zero"], client=client, stdout=file, stderr=DEVNULL)
    assert p.wait() == 0
    assert path.stat().st_size == 5_000_000


def test_file_as_stdin(client: Client, tmp_path: Path) -> None:
    """A file given as stdin is copied whether or not anyone calls `communicate`."""
    path = tmp_path / "input"
    path.write_bytes(b"x" * 3_000_000)
    with path.open("rb") as file, Popen(["wc", "-c"], client=client, stdin=file, stdout=PIPE) as p:
        assert p.stdout is not None
        assert p.stdout.read() == b"3000000\n"


def test_file_that_cannot_be_written_is_told_by_wait(client: Client) -> None:
    """A file's error is raised by `wait`; the command goes on."""
    with open("/dev/full", "wb") as file:
        p = Popen("echo x; exit 3", shell=True, client=client, stdout=file)
    with pytest.raises(OSError, match="space"):
        p.wait()
    assert p.wait() == 3


def test_not_given_streams(client: Client, capfdbinary: Any) -> None:
    """stdin that is not given is empty; output goes to the caller's own streams."""
    with Popen("cat; echo out; echo err >&2", shell=True, client=client):
        pass
    assert capfdbinary.readouterr() == (b"out\n", b"err\n")


def test_merged_stderr(client: Client) -> None:
    """STDOUT merges stderr in the child."""
    with Popen("echo a; echo b >&2; echo c", shell=True, client=client, stdout=PIPE, stderr=STDOUT) as p:
        assert p.communicate() == (b"a\nb\nc\n", None)


def test_str_is_a_programs_name(client: Client) -> None:
    """As in subprocess, a str without `shell` is no shell line."""
    with pytest.raises(FileNotFoundError):
        Popen("echo hi", client=client)
    with Popen("true", client=client) as p:
        pass
    assert p.returncode == 0


def test_signals(client: Client) -> None:
    """`send_signal` and `terminate` reach the command; after its end they do nothing."""
    command = "trap 'exit 42' INT; echo ready; while :; do sleep .05; done"
    with Popen(command, shell=True, client=client, stdout=PIPE) as p:
        assert p.stdout is not None
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        assert p.wait(ms(10000)) == 42
        p.send_signal(signal.SIGINT)
        p.terminate()
        p.kill()
    with Popen(["sleep", "60"], client=client) as p:
        p.terminate()
        assert p.wait(ms(10000)) == -signal.SIGTERM


def test_kill_ends_the_tree_c12(client: Client) -> None:
    """`kill` leaves nothing of the tree."""
    with Popen("sleep 61 & echo $!; wait", shell=True, client=client, stdout=PIPE) as p:
        assert p.stdout is not None
        job = int(p.stdout.readline())
        p.kill()
        assert p.wait(ms(10000)) == -signal.SIGKILL
    wait_until(lambda: not Path(f"/proc/{job}").exists())


def test_pid(client: Client) -> None:
    """`pid` is the command's own."""
    with Popen("echo $$", shell=True, client=client, stdout=PIPE) as p:
        assert p.stdout is not None
        assert int(p.stdout.readline()) == p.pid


def test_wait_timeout(client: Client) -> None:
    """`wait` raises subprocess's TimeoutExpired and leaves the command alone."""
    with Popen(["sleep", "60"], client=client) as p:
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(0.05)
        assert p.poll() is None
        p.kill()


def test_interrupt_in_with_is_passed_on(client: Client) -> None:
    """Leaving a `with` by Ctrl-C sends SIGINT, as the terminal would, and does not wait for long."""
    command = "trap 'exit 3' INT; echo ready; while :; do sleep .05; done"
    begun = time.monotonic()

    def talk() -> None:
        with Popen(command, shell=True, client=client, stdout=PIPE) as p:
            seen.append(p)
            assert p.stdout is not None
            p.stdout.readline()
            raise KeyboardInterrupt

    seen: list[Popen] = []
    with pytest.raises(KeyboardInterrupt):
        talk()
    assert time.monotonic() - begun < ms(10000)
    assert seen[0].wait(ms(10000)) == 3


def test_client_closed_while_copying() -> None:
    """Closing the client ends the pipes, and a later `wait` says why (C59)."""
    backend = FakeBackend([Started(1, 1), Output(2, "stdout", 0, b"x" * 5_000_000)])
    client = open_on(backend)
    p = Popen(["x"], client=client, stdout=PIPE)
    assert p.stdout is not None
    p.stdout.read(1)
    client.close()
    p.stdout.read()
    p.stdout.close()
    with pytest.raises(RuntimeError, match="closed"):
        p.wait()


def test_server_lost_c59() -> None:
    """Where the server goes away the pipes end and `wait` raises."""
    backend = FakeBackend([Started(1, 1), ServerLost("gone")])
    with open_on(backend) as client:
        p = Popen(["x"], client=client, stdout=PIPE)
        assert p.stdout is not None
        assert p.stdout.read() == b""
        p.stdout.close()
        with pytest.raises(ServerLost):
            p.wait()
        with pytest.raises(ServerLost):
            p.poll()


def test_unknown_status() -> None:
    """A status that nobody knows is an error, not None for ever."""
    result = ExitResult(cause="server_lost")
    backend = FakeBackend([Started(1, 1), Exited(2, result), Closed(3, result)])
    with open_on(backend) as client, pytest.raises(StatusUnknown):
        Popen(["x"], client=client).wait()


def test_failed_start_that_is_told_later() -> None:
    """A start that fails afterwards is raised by `wait` and `pid`."""
    error = {"ename": "CommandNotFound", "evalue": "x was not found", "details": {}}
    with open_on(FakeBackend([Failed(1, error)])) as client:
        p = Popen(["x"], client=client)
        with pytest.raises(FileNotFoundError):
            p.wait()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"nonsense": 1}, TypeError),
        ({"timeout": 1}, TypeError),
        ({"stdout": STDOUT}, ValueError),
        ({"encoding": "no-such"}, LookupError),
        ({"errors": "no-such"}, LookupError),
        ({"stdin": STDOUT}, ValueError),
        ({"preexec_fn": print}, ValueError),
        ({"pass_fds": [3]}, ValueError),
        ({"stdout": PIPE, "stderr": object()}, TypeError),
        ({"stdin": PIPE, "stdout": 987654}, OSError),
    ],
)
def test_wrong_keywords_start_nothing(options: Any, error: type[Exception]) -> None:
    """What is wrong with the keywords is said at once and leaves no descriptor."""
    backend = FakeBackend(script())
    with open_on(backend) as client, pytest.raises(error):
        Popen(["x"], client=client, **options)
    assert backend.started == []


def test_failed_start_leaves_no_descriptor_c26(client: Client) -> None:
    """A command that does not exist leaves neither pipes nor files open."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with pytest.raises(FileNotFoundError):
            Popen(["/no/such/program"], client=client, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert len(os.listdir("/proc/self/fd")) == before


def test_wrong_input(client: Client) -> None:
    """Input needs a pipe, and bytes or str as the mode is."""
    with Popen(["cat"], client=client, stdout=PIPE) as p, pytest.raises(ValueError, match="stdin=PIPE"):
        p.communicate(b"x")
    with Popen(["cat"], client=client, stdin=PIPE, stdout=PIPE) as p, pytest.raises(TypeError):
        p.communicate("text")


def test_several_threads_read(client: Client) -> None:
    """Each stream can be read by a thread of its own."""
    code = "import os\nfor _ in range(200):\n os.write(1, b'o'*5000)\n os.write(2, b'e'*5000)"
    with Popen(child(code), client=client, stdout=PIPE, stderr=PIPE) as p:
        sizes: dict[str, int] = {}

        def read(name: str, file: Any) -> None:
            sizes[name] = len(file.read())

        threads = [threading.Thread(target=read, args=(n, getattr(p, n))) for n in ("stdout", "stderr")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sizes == {"stdout": 1_000_000, "stderr": 1_000_000}
