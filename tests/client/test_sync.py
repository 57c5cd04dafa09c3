"""The blocking face: the same names as the async one, usable from anywhere."""

import asyncio
import gc
import inspect
import os
import signal
import subprocess
import threading
from typing import Any

import pytest

import execzmq
from execzmq.client.aio import AsyncClient, AsyncProcess
from execzmq.client.batches import MOST_AHEAD
from execzmq.client.sync import Client, Process
from execzmq.errors import ClientClosed, ServerLost, WaitTimeout
from execzmq.types.events import Closed, Exited, Output, Started
from tests.client.clients import open_client, open_on
from tests.fakes import FakeBackend, script
from tests.support import child, ms, wait_until

ROOT = os.path.dirname(os.path.dirname(execzmq.__file__))
ONLY_ASYNC = {"backend", "caller", "aclose"}
ONLY_SYNC = {"open", "aio", "portal", "is_usable", "close"}


def public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "original"), [(Client, AsyncClient), (Process, AsyncProcess)])
def test_same_names_and_keywords(blocking: type, original: type) -> None:
    """The two faces have the same methods with the same parameters and results."""
    assert public(blocking) - ONLY_SYNC == public(original) - ONLY_ASYNC
    for name in public(blocking) - ONLY_SYNC:
        mine, theirs = getattr(blocking, name), getattr(original, name)
        if not callable(mine):
            continue
        signature, twin = inspect.signature(mine), inspect.signature(theirs)
        assert list(signature.parameters.values()) == list(twin.parameters.values()), name
        assert _plain(signature.return_annotation) == _plain(twin.return_annotation), name
        assert mine.__doc__, name


def _plain(annotation: Any) -> str:
    return (
        str(annotation)
        .replace("runs.", "")
        .replace("Async", "")
        .replace(", None, None]", "]")
        .replace(", None]", "]")
    )


def test_daily_use(client: Client) -> None:
    """Start, talk, look, wait, find again, forget."""
    process = client.start("read x; echo got $x; exit 3", stdin=True, process_id="p", name="n")
    assert process.process_id == "p"
    assert process.write(b"it\n") == 3
    process.close_stdin()
    assert process.wait(ms(10000)).exit_code == 3
    assert process.wait(closed=True).output_bytes["stdout"] == 7
    assert list(process.lines()) == ["got it"]
    assert b"".join(item.data for item in process.output() if isinstance(item, Output)) == b"got it\n"
    assert [type(event) for event in process.events()] == [Started, Output, Exited, Closed]
    page = process.read()
    assert (page.closed, page.exit_code) == (True, 3)
    assert client.attach("n").info().process_id == "p"
    assert [info.process_id for info in client.processes()] == ["p"]
    assert client.info().pid
    process.forget()
    assert client.processes() == []


def test_terminal(client: Client) -> None:
    """Size, signals and the end of a terminal process."""
    process = client.start("stty size; read x; stty size; exec cat", tty=True, size=(40, 132), tty_echo=False)
    lines = process.lines()
    assert next(lines) == "40 132"
    process.claim_keyboard()
    process.resize(rows=3, cols=5)
    process.write(b"\n")
    assert next(lines) == "3 5"
    shown = process.screen()
    assert (shown.rows, shown.cols, shown.instance) == (3, 5, process.instance)
    process.write(b"here\n")
    assert next(lines) == "here"  # a shell that is about to exec loses an interrupt
    process.release_keyboard()
    lines.close()
    process.signal("INT")
    assert process.wait(ms(10000)).signal == signal.SIGINT


def test_terminate_and_kill(client: Client) -> None:
    """Both end the tree and tell what became of it."""
    for end in (Process.terminate, Process.kill):
        process = client.start("sleep 61 & sleep 62")
        assert end(process).survivors == ()
        assert process.wait(ms(10000)).signal in (signal.SIGTERM, signal.SIGKILL)


def test_wait_timeout(client: Client) -> None:
    """`wait` that is not answered in time raises and leaves the process alone."""
    process = client.start("sleep 60")
    with pytest.raises(WaitTimeout):
        process.wait(0.05)
    assert process.info().state == "running"


def test_interrupt_leaves_a_started_process(client: Client) -> None:
    """Ctrl-C in `wait` or in a `for` over events ends neither the process nor the client."""
    process = client.start("echo ready; read x; exit 5", stdin=True)
    events = process.events()
    assert isinstance(next(events), Started)
    assert isinstance(next(events), Output)
    for blocked in (process.wait, lambda: next(events)):
        timer = threading.Timer(ms(100), os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            blocked()
        timer.join()
    process.close_stdin()
    assert process.wait(ms(10000)).exit_code == 5


def test_large_output_through_the_facade(client: Client) -> None:
    """A `for` gets every byte, also of more than is read ahead."""
    process = client.start(["head", "-c", "30000000", "/dev/zero"])
    assert sum(len(item.data) for item in process.output() if isinstance(item, Output)) == 30_000_000


def test_reading_ahead_is_bounded() -> None:
    """Of what nobody takes, only so much is read ahead."""
    piece = b"x" * 1_000_000
    backend = FakeBackend(script(*(("stdout", piece) for _ in range(100))))
    with open_on(backend) as client:
        process = client.start("x")
        events = process.events()
        next(events)
        ahead = _read_ahead(events)
        wait_until(lambda: ahead._is_waiting)
        assert ahead._put <= MOST_AHEAD + 2 * len(piece)
        assert sum(isinstance(event, Output) for event in events) == 100


def _read_ahead(events: Any) -> Any:
    return events.gi_yieldfrom.gi_frame.f_locals["ahead"]


def test_dropped_iterator_is_closed() -> None:
    """A `for` that is left by `break` leaves nothing on the loop."""
    backend = FakeBackend([Started(1, 1), asyncio.Event()])
    with open_on(backend) as client:
        process = client.start("x")
        for _ in process.events():
            break
        gc.collect()
        fake = backend.processes[process.process_id]
        wait_until(lambda: fake.open_iterators == 0)


def test_error_in_the_events() -> None:
    """What the backend raises is raised in the `for`."""
    backend = FakeBackend([Started(1, 1), ServerLost("gone")])
    with open_on(backend) as client:
        events = client.start("x").events()
        next(events)
        with pytest.raises(ServerLost):
            next(events)


def test_close_ends_an_iteration_in_another_thread_c59() -> None:
    """A thread that waits for an event learns that the client was closed."""
    backend = FakeBackend([Started(1, 1), asyncio.Event()])
    client = open_on(backend)
    events = client.start("x").events()
    next(events)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            next(events)
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    client.close()
    thread.join(ms(10000))
    assert len(errors) == 1


async def test_inside_a_running_loop() -> None:
    """Calls and iterations work where a loop is running, as in a notebook."""
    with open_client() as client:
        assert client.run(["echo", "x"]).stdout == b"x\n"
        assert list(client.start("echo y").lines()) == ["y"]


def test_several_threads(client: Client) -> None:
    """Threads share a client, each gets its own results."""
    results: dict[int, bytes] = {}

    def use(number: int) -> None:
        results[number] = client.run(["echo", str(number)]).stdout

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: b"%d\n" % number for number in range(8)}


def test_client_that_nobody_refers_to_is_closed() -> None:
    """A dropped client closes its backend; a process of it keeps it open."""
    backend = FakeBackend(script())
    process = open_on(backend).start("x")
    gc.collect()
    assert backend.calls == []
    assert process.info().pid
    del process
    gc.collect()
    assert backend.calls == ["aclose"]


def test_an_iteration_keeps_its_client() -> None:
    """Also where nobody refers to anything but the iterator, as in one line."""
    events = open_client().start(["echo", "x"]).events()
    gc.collect()
    assert [type(event) for event in events] == [Started, Output, Exited, Closed]


def test_closed_client() -> None:
    """After `close`, which may come twice, calls are refused."""
    client = open_on(FakeBackend())
    client.close()
    client.close()
    assert not client.is_usable
    for call in (client.processes, lambda: client.run("true"), lambda: client.start("true")):
        with pytest.raises(ClientClosed):
            call()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_is_refused(client: Client) -> None:
    """A forked child cannot use its parent's client, nor harm it."""
    process = client.start("read x", stdin=True)
    events = process.events()
    next(events)
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (client.processes, process.info, lambda: next(process.events())):
            try:
                call()
            except ClientClosed:
                refused += 1
        client.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    process.close_stdin()
    assert process.wait(ms(10000)).exit_code == 1


def test_exit_without_close_ends_a_local_client() -> None:
    """A program that forgets to close its local client ends, and so do its commands."""
    code = """
import execzmq
client = execzmq.local()
print(client.start(["sleep", "60"]).info().pid, flush=True)
"""
    done = subprocess.run(
        child(code), capture_output=True, timeout=ms(30000), check=False, cwd=ROOT, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: not os.path.exists(f"/proc/{int(done.stdout)}"))
