"""`run`: subprocess's keywords, its end, and what is left when it cannot go on."""

import asyncio
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from execzmq.client import limit
from execzmq.client.aio import AsyncClient
from execzmq.client.arguments import DEVNULL, INHERIT, PIPE, STDOUT
from execzmq.client.run import END_TIME, CalledProcessError, CompletedProcess
from execzmq.client.sync import Client
from execzmq.errors import CommandNotFound, ServerLost, StatusUnknown
from execzmq.types.events import Exited, Failed, Gap, Output, Started
from execzmq.types.results import ExitResult, ProcessInfo
from tests.client.clients import open_on, until
from tests.fakes import FakeBackend, script
from tests.support import child, ms


def test_both_streams_are_captured(client: Client) -> None:
    """Output is captured by default, each stream apart, and the code is the command's."""
    done = client.run("echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert done.result.cause == "exited"
    assert isinstance(done, subprocess.CompletedProcess)


def test_stdin_is_empty_by_default_c39(client: Client) -> None:
    """A command that reads its stdin meets its end at once."""
    assert client.run("cat; echo end").stdout == b"end\n"


def test_input(client: Client) -> None:
    """`input` is all that the command reads."""
    assert client.run(["cat"], input=b"a\0b").stdout == b"a\0b"
    assert client.run(["cat"], input="é\n", text=True).stdout == "é\n"


def test_large_input_is_written_while_output_is_read(client: Client) -> None:
    """An input larger than all buffers passes through a filter without a deadlock."""
    data = os.urandom(1 << 20) * 20
    assert client.run(["cat"], input=data).stdout == data


def test_input_that_nobody_reads(client: Client) -> None:
    """A command that ends without reading its input is no error."""
    assert client.run(["true"], input=b"x" * (5 << 20)).returncode == 0


def test_stdin_from_a_file(client: Client, tmp_path: Path) -> None:
    """A file is read from where its descriptor stands."""
    path = tmp_path / "input"
    path.write_bytes(b"skipped kept")
    with path.open("rb", buffering=0) as file:
        file.seek(8)
        assert client.run(["cat"], stdin=file).stdout == b"kept"


def test_stdin_from_an_object(client: Client) -> None:
    """An object without a descriptor is read too."""
    assert client.run(["cat"], stdin=io.BytesIO(b"data")).stdout == b"data"


def test_silent_stdin_does_not_hold_up_the_end(client: Client) -> None:
    """A pipe given as stdin that stays silent is let go when the command has ended."""
    read_end, write_end = os.pipe()
    try:
        assert client.run(["true"], stdin=read_end, timeout=ms(10000)).returncode == 0
    finally:
        os.close(read_end)
        os.close(write_end)


def test_stdin_that_cannot_be_read(client: Client, tmp_path: Path) -> None:
    """A descriptor that cannot be read is the caller's error, and the command is ended."""
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError):
            client.run("cat; sleep 60", stdin=fd)
    finally:
        os.close(fd)


def test_stdout_to_a_file(client: Client, tmp_path: Path) -> None:
    """A file gets every byte, and stdout is not captured."""
    path = tmp_path / "output"
    with path.open("wb") as file:
        done = client.run(["head", "-c", "30000000", "/dev/zero"], stdout=file)
    assert done.stdout is None
    assert path.stat().st_size == 30_000_000


def test_both_streams_to_one_file_keep_their_order(client: Client, tmp_path: Path) -> None:
    """Two streams that go to one file are written in the order in which they came."""
    path = tmp_path / "output"
    with path.open("wb") as file:
        client.run(
            "for i in 1 2 3; do echo o$i; sleep .02; echo e$i >&2; sleep .02; done", stdout=file, stderr=file
        )
    assert path.read_text().split() == ["o1", "e1", "o2", "e2", "o3", "e3"]


def test_stdout_to_an_object(client: Client) -> None:
    """An object without a descriptor gets bytes, or text where it is a text file."""
    binary, text = io.BytesIO(), io.StringIO()
    client.run("printf 'é'", stdout=binary)
    client.run("printf 'é\\342\\202'", stdout=text)
    assert (binary.getvalue(), text.getvalue()) == ("é".encode(), "é\ufffd")


def test_file_that_cannot_be_written(client: Client) -> None:
    """A file that fails is the caller's error, and the tree is ended."""
    with open("/dev/full", "wb") as file, pytest.raises(OSError, match="space"):
        client.run("yes", stdout=file, timeout=ms(20000))
    assert all(info.closed for info in client.processes())


def test_stderr_merged_in_the_child(client: Client) -> None:
    """With STDOUT the streams are one, in their order."""
    done = client.run("echo a; echo b >&2; echo c", stderr=STDOUT)
    assert (done.stdout, done.stderr) == (b"a\nb\nc\n", None)


def test_devnull(client: Client) -> None:
    """What goes to DEVNULL is nowhere."""
    done = client.run("echo a; echo b >&2", stdout=DEVNULL, stderr=PIPE)
    assert (done.stdout, done.stderr) == (None, b"b\n")


def test_inherit_writes_to_the_callers_own_stream(client: Client, capfdbinary: Any) -> None:
    """With INHERIT the output is the caller's own, after what was printed before."""
    print("before")
    done = client.run("printf 'out\\377'; echo err >&2", stdout=INHERIT, stderr=INHERIT)
    assert (done.stdout, done.stderr) == (None, None)
    assert capfdbinary.readouterr() == (b"before\nout\xff", b"err\n")


def test_inherit_follows_a_replaced_stream(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sys.stdout has been replaced, as in a notebook, INHERIT writes there."""
    cell = io.StringIO()
    monkeypatch.setattr(sys, "stdout", cell)
    client.run("echo cell", stdout=INHERIT)
    assert cell.getvalue() == "cell\n"


def test_inherited_output_comes_while_the_command_runs(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With INHERIT a line is there before the command ends (C11)."""
    seen = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            seen.set()
            return super().write(text)

    read_end, write_end = os.pipe()
    monkeypatch.setattr(sys, "stdout", Watched())
    closer = threading.Thread(target=lambda: seen.wait(ms(10000)) and os.write(write_end, b"go\n"))
    closer.start()
    try:
        done = client.run("printf prompt; read answer; test $answer = go", stdout=INHERIT, stdin=read_end)
    finally:
        closer.join()
        os.close(read_end)
        os.close(write_end)
    assert done.returncode == 0


def test_text_mode(client: Client) -> None:
    """Text is UTF-8 with replacement and universal newlines, unless told otherwise."""
    assert client.run("printf 'a\\r\\nb\\377'", text=True).stdout == "a\nb\ufffd"
    assert client.run("printf '\\351'", encoding="latin-1").stdout == "é"
    with pytest.raises(UnicodeDecodeError):
        client.run("printf '\\377'", text=True, errors="strict")


@pytest.mark.parametrize(
    ("args", "options", "stdout"),
    [
        ("echo $0 a", {}, b"/bin/sh a\n"),
        ("echo $0 a", {"shell": True}, b"/bin/sh a\n"),
        ("echo ${BASH_VERSION:+bash}", {"shell": "bash"}, b"bash\n"),
        (["echo", "$HOME; b"], {}, b"$HOME; b\n"),
        ([b"printf", b"%s", b"a\xffb"], {}, b"a\xffb"),
        (["echo $1", "zero", "one"], {"shell": True}, b"one\n"),
        ([Path("/bin/echo"), Path("x")], {}, b"x\n"),
        (["other name", "-c", "echo $0"], {"executable": "/bin/sh"}, b"other name\n"),
        ("pwd", {"cwd": "/usr"}, b"/usr\n"),
        ("echo $A$HOME", {"env": {"A": "b"}}, b"b\n"),
        (["/usr/bin/env"], {"env": {}}, b""),
        ("umask", {"umask": 0o27}, b"0027\n"),
    ],
)
def test_forms_of_a_command(client: Client, args: Any, options: Any, stdout: bytes) -> None:
    """A str is a shell line, a list or a path is argv; the keywords mean what subprocess says."""
    assert client.run(args, **options).stdout == stdout


def test_defaults_are_the_callers(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the caller's own machine folder and variables are those that the caller has now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXECZMQ_TEST", "here")
    assert client.run('printf "%s %s" "$PWD" $EXECZMQ_TEST').stdout == f"{tmp_path} here".encode()


def test_check(client: Client) -> None:
    """With `check` a failure is a CalledProcessError with the output."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        client.run("echo why >&2; exit 4", check=True, text=True)
    assert (caught.value.returncode, caught.value.stderr) == (4, "why\n")
    assert isinstance(caught.value, CalledProcessError)
    assert caught.value.result.exit_code == 4


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (
            ExitResult(
                1, cause="sandbox_denied", confidence="high", evidence=("not_writable /x (stderr: x)",)
            ),
            "exit code 1 (sandbox_denied); not_writable /x (stderr: x)",
        ),
        (
            ExitResult(signal=24, cause="signaled", evidence=("limit cpu=1 (status)",)),
            "signal 24 (XCPU); limit cpu=1 (status)",
        ),
        (
            ExitResult(137, cause="oom", evidence=("oom 1 killed (limits)",)),
            "exit code 137 (oom); oom 1 killed",
        ),
        (ExitResult(1, evidence=("no_network none (stderr: x)",)), ""),
    ],
)
def test_failure_says_why(result: ExitResult, note: str) -> None:
    """What the status does not say is in the error, and in its traceback; also after a pickle."""
    with pytest.raises(CalledProcessError) as caught:
        CompletedProcess(["x"], result, b"o", b"e", {}).check_returncode()
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.cmd, error.stdout, error.stderr, error.result) == (["x"], b"o", b"e", result)
        assert "".join(getattr(error, "__notes__", ())).startswith(note)
        assert bool(note) == hasattr(error, "__notes__")


def test_signal_is_a_negative_code(client: Client) -> None:
    """A command that a signal ended has its negative number, as in subprocess."""
    done = client.run("kill -9 $$")
    assert (done.returncode, done.result.signal) == (-9, 9)


def test_timeout_with_a_background_job_c16(client: Client) -> None:
    """At the time limit the whole tree ends and the output so far is handed over."""
    begun = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        client.run("echo part; sleep 30 & wait", timeout=0.5)
    assert caught.value.stdout == b"part\n"
    assert time.monotonic() - begun < ms(5000)


def test_own_exit_124_is_no_timeout(client: Client) -> None:
    """A program that exits 124 by itself is not taken for a timeout."""
    assert client.run("exit 124", timeout=30).returncode == 124


def test_grandchild_keeps_the_pipe_c01(client: Client) -> None:
    """A background job that holds the streams open delays the end by `drain` only, and is named."""
    begun = time.monotonic()
    done = client.run("sleep 30 & echo $!; exit 5", drain=0.2)
    assert time.monotonic() - begun < ms(5000)
    job = int(done.stdout)
    os.kill(job, signal.SIGKILL)
    assert done.returncode == 5
    assert [(pid, "sleep" in command) for pid, command in done.result.held_open_by] == [(job, True)]


def test_command_that_does_not_exist(client: Client) -> None:
    """A missing program is a FileNotFoundError, as in subprocess, and by name."""
    with pytest.raises(FileNotFoundError) as caught:
        client.run(["/no/such/program"])
    assert isinstance(caught.value, CommandNotFound)
    assert (caught.value.errno, caught.value.filename) == (2, "/no/such/program")
    with pytest.raises(FileNotFoundError) as missing:
        client.run("true", cwd="/no/such/folder")
    assert missing.value.filename == "/no/such/folder"


def test_interrupt_ends_the_tree_c12(client: Client, tmp_path: Path) -> None:
    """Ctrl-C ends all of the tree, not only its leader, before it is raised."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)

    def interrupt() -> None:
        with ready.open("rb") as fifo:
            fifo.read()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        client.run(f"sleep 61 & sleep 62 & : >{ready}; wait")
    thread.join()
    (info,) = client.processes()
    assert info.closed
    assert info.result is not None
    assert info.result.signal == signal.SIGKILL


async def test_cancel_ends_the_tree() -> None:
    """Cancelling the async `run` ends the command."""
    never = asyncio.Event()
    backend = FakeBackend([Started(1, 1), never])
    task = asyncio.create_task(AsyncClient(backend).run("sleep 60"))
    await until(lambda: bool(backend.processes) and backend.processes["fake-0"].open_iterators == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ("terminate", 0.0) in backend.processes["fake-0"].calls
    assert backend.processes["fake-0"].open_iterators == 0


async def test_cancelled_run_waits_until_its_end_is_known() -> None:
    """Who asks after an interrupted `run` is told that it has ended, however late its parent saw that."""
    known, asked = asyncio.Event(), asyncio.Event()
    backend = FakeBackend([Started(1, 1), asyncio.Event()])
    task = asyncio.create_task(AsyncClient(backend).run("sleep 60"))
    await until(lambda: bool(backend.processes) and backend.processes["fake-0"].open_iterators == 1)
    process = backend.processes["fake-0"]

    async def wait(until: str, seconds: float) -> ProcessInfo:
        asked.set()
        await known.wait()
        return process.information

    process.wait = wait  # type: ignore[method-assign,assignment]  # the fake's own knows the end at once
    task.cancel()
    await asked.wait()
    assert not task.done()
    known.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancel_during_the_start_ends_what_was_started_c65() -> None:
    """A `run` that is cancelled while the server starts the command leaves no stray."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await go_on.wait()

    backend = FakeBackend(script(), slow)
    task = asyncio.create_task(AsyncClient(backend).run("true"))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.processes["fake-0"].calls == [("terminate", 0.0), ("wait", "closed", END_TIME)]


async def test_closing_the_client_ends_what_it_runs() -> None:
    """A client that is closed while `run` is under way leaves no stray."""
    never = asyncio.Event()
    backend = FakeBackend([Started(1, 1), never])
    client = AsyncClient(backend)
    task = asyncio.create_task(client.run("sleep 60"))
    await until(lambda: bool(backend.processes) and backend.processes["fake-0"].open_iterators == 1)
    await client.aclose()
    assert ("terminate", 0.0) in backend.processes["fake-0"].calls
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_the_client_ends_what_it_starts() -> None:
    """Also where the server has not answered the start yet."""
    begun, never = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await never.wait()

    backend = FakeBackend(script(), slow)
    client = AsyncClient(backend)
    task = asyncio.create_task(client.run("sleep 60"))
    await begun.wait()
    await client.aclose()
    assert backend.processes["fake-0"].calls == [("terminate", 0.0), ("wait", "closed", END_TIME)]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_server_lost_on_the_way_c59() -> None:
    """Where the server goes away `run` raises, and tries to end what it started."""
    backend = FakeBackend([Started(1, 1), ServerLost("gone")])
    with pytest.raises(ServerLost):
        await AsyncClient(backend).run("sleep 60")
    assert backend.processes["fake-0"].calls[-2:] == [("terminate", 0.0), ("wait", "closed", END_TIME)]


async def test_server_that_does_not_keep_the_time_limit_c59(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing comes at the time limit the client ends the wait by itself."""
    monkeypatch.setattr(limit, "NET", ms(10))
    backend = FakeBackend([Started(1, 1), Output(2, "stdout", 0, b"part"), asyncio.Event()])
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        await AsyncClient(backend).run("sleep 60", timeout=ms(10), drain=0.0)
    assert caught.value.stdout == b"part"
    assert backend.processes["fake-0"].calls[-2:] == [("terminate", 0.0), ("wait", "closed", END_TIME)]


@pytest.mark.parametrize("cause", ["server_lost", "failed"])
async def test_unknown_status_raises(cause: Any) -> None:
    """A command of which nobody knows how it ended is never a success."""
    with pytest.raises(StatusUnknown, match=cause):
        await AsyncClient(FakeBackend(script(result=ExitResult(cause=cause)))).run("true")


async def test_failed_event_is_raised_by_name() -> None:
    """A start that fails afterwards is the exception that it names."""
    error = {"ename": "CommandNotFound", "evalue": "x was not found", "details": {"errno": 2}}
    with pytest.raises(CommandNotFound, match="x was not found"):
        await AsyncClient(FakeBackend([Failed(1, error)])).run("x")


async def test_lost_output_is_told() -> None:
    """Bytes that are gone from the log too are not passed over in silence."""
    steps = [Started(1, 1), Gap(2, 5, 1000), *script()[-2:]]
    with pytest.warns(RuntimeWarning, match="1000 bytes"):
        await AsyncClient(FakeBackend(steps)).run("x")


async def test_events_that_end_early() -> None:
    """Events that stop before the streams have ended are an error, not an end."""
    with pytest.raises(StatusUnknown):
        await AsyncClient(FakeBackend([Started(1, 1), Exited(2, ExitResult(exit_code=0))])).run("x")


@pytest.mark.parametrize("size", [0, 1, 9, 10])
async def test_max_output_keeps_what_fits(size: int) -> None:
    """Output within `max_output` is whole."""
    data = b"0123456789"[:size]
    done = await AsyncClient(FakeBackend(script(("stdout", data)))).run("x", max_output=10)
    assert (done.stdout, done.omitted) == (data, {})


async def test_max_output_keeps_both_ends() -> None:
    """Beyond `max_output` the first and the newest half are kept, and a mark between them."""
    steps = script(*(("stdout", b"%03d " % number) for number in range(100)), ("stderr", b"short"))
    done = await AsyncClient(FakeBackend(steps)).run("x", max_output=20)
    assert done.stdout == b"000 001 00\n[... 380 bytes omitted ...]\n7 098 099 "
    assert done.omitted == {"stdout": 380}
    assert done.stderr == b"short"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"nonsense": 1}, TypeError),
        ({"input": b"", "stdin": PIPE}, ValueError),
        ({"input": "text"}, TypeError),
        ({"input": b"bytes", "text": True}, TypeError),
        ({"capture_output": True, "stdout": PIPE}, ValueError),
        ({"stdout": STDOUT}, ValueError),
        ({"preexec_fn": print}, ValueError),
        ({"pass_fds": (3,)}, ValueError),
        ({"close_fds": False}, ValueError),
        ({"user": "nobody"}, ValueError),
        ({"text": True, "universal_newlines": False}, subprocess.SubprocessError),
        ({"timeout": "1"}, TypeError),
        ({"max_output": -1}, ValueError),
        ({"max_output": 1.5}, TypeError),
        ({"stdout": object()}, TypeError),
        ({"stdin": object()}, TypeError),
        ({"stdout": 987654}, OSError),
        ({"process_id": "not an id"}, ValueError),
        ({"env": {"A=B": ""}}, ValueError),
        ({"env": {"A": "b\0"}}, ValueError),
    ],
)
def test_wrong_keywords_start_nothing(options: Any, error: type[Exception]) -> None:
    """What is wrong with the keywords is said at once."""
    backend = FakeBackend(script())
    with open_on(backend) as client, pytest.raises(error):
        client.run("true", **options)
    assert backend.started == []


@pytest.mark.parametrize("args", [[], [""], "a\0b", 3, ["a", 3], None])
def test_wrong_commands_start_nothing_c27(args: Any) -> None:
    """What is no command is said at once."""
    backend = FakeBackend(script())
    with open_on(backend) as client, pytest.raises((ValueError, TypeError)):
        client.run(args)
    assert backend.started == []


def test_harmless_keywords_are_taken() -> None:
    """Keywords of subprocess that ask for what always holds are taken."""
    backend = FakeBackend(script())
    with open_on(backend) as client:
        client.run(
            ["x"], close_fds=True, start_new_session=True, restore_signals=True, bufsize=0, pass_fds=()
        )
        client.run(["x"], process_group=0, capture_output=False, stdout=DEVNULL, stderr=DEVNULL)
    assert [params.backpressure for params in backend.started] == ["pause", "pause"]


def test_elsewhere_the_defaults_are_the_servers() -> None:
    """On another machine neither the caller's folder nor variables are sent."""
    backend = FakeBackend(script(), is_local=False)
    with open_on(backend) as client:
        client.run("true")
    assert (backend.started[0].cwd, backend.started[0].env) == (None, None)


def test_signal_to_the_parent_harms_nobody(client: Client) -> None:
    """A command that signals its parent, as if that were its own shell, leaves the others alone."""
    for name in ("TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "PIPE", "TSTP"):
        assert client.run(f"kill -{name} $PPID; echo sent", timeout=ms(10000)).stdout == b"sent\n"


def test_run_of_many_true(client: Client) -> None:
    """A hundred short commands in a row all succeed."""
    assert {client.run(["true"]).returncode for _ in range(100)} == {0}


def test_output_of_a_python_child(client: Client) -> None:
    """What a child writes just before it ends is there (C02)."""
    code = "import sys\nfor i in range(40): print(f'line{i}')\nsys.exit(3)"
    done = client.run(child(code))
    assert done.stdout.splitlines()[-1] == b"line39"
    assert done.returncode == 3
