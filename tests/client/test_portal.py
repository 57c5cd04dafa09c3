"""The bridge from blocking code to the loop."""

import asyncio
import contextvars
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

import execzmq
from execzmq.client import portal as portals
from execzmq.client.portal import LoopThread
from execzmq.errors import ClientClosed
from tests.support import child, ms

ROOT = os.path.dirname(os.path.dirname(execzmq.__file__))


@pytest.fixture
def portal(no_leaks: None) -> Iterator[LoopThread]:
    portal = LoopThread("test-loop")
    yield portal
    portal.close()


async def answer() -> int:
    return 42


async def fail() -> int:
    raise KeyError("no")


def test_result(portal: LoopThread) -> None:
    """A call returns what the coroutine returns, and runs it on the loop's thread."""

    async def thread_name() -> str:
        return threading.current_thread().name

    assert portal.call(answer()) == 42
    assert portal.call(thread_name()) == "test-loop"


def test_error(portal: LoopThread) -> None:
    """A call raises what the coroutine raises."""
    with pytest.raises(KeyError):
        portal.call(fail())


def test_interrupt_cancels_the_work_and_waits_for_its_cleanup(portal: LoopThread) -> None:
    """Ctrl-C reaches the caller only after the coroutine has been cancelled and has cleaned up."""
    steps = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0)
            steps.append("clean")
            raise

    with pytest.raises(KeyboardInterrupt):
        portal.call(work())
    assert steps == ["cancelled", "clean"]
    assert portal.call(answer()) == 42


def test_interrupt_before_the_work_has_begun(portal: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the loop is busy waits no longer than the loop is: the work is never begun."""
    begun, go_on, ended = [], threading.Event(), []
    wait = portals._Call.wait

    async def work() -> None:
        begun.append(True)

    def interrupted(call: portals._Call[None], timeout: float = -1) -> None:
        if timeout < 0:
            raise KeyboardInterrupt
        go_on.set()  # the loop meets the call and its cancelling in one turn
        wait(call, timeout)
        ended.append(call.error)

    monkeypatch.setattr(portals._Call, "wait", interrupted)
    portal.post(go_on.wait)
    with pytest.raises(KeyboardInterrupt):
        portal.call(work())
    assert not begun
    assert isinstance(ended[0], asyncio.CancelledError)


def test_interrupt_before_the_call_is_handed_over(
    portal: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes then that the caller could wait for."""
    begun = []

    async def work() -> None:
        begun.append(True)

    def interrupted(call: portals._Call[None]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(portal, "_submit", interrupted)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        portal.call(work())
    assert time.monotonic() - start < portals.CLEANUP_TIME / 2
    assert not begun


def test_second_interrupt_ends_the_wait_for_cleanup(portal: LoopThread) -> None:
    """Whoever presses Ctrl-C twice is let go; the cleanup goes on."""
    let_go, clean = asyncio.Event(), threading.Event()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await let_go.wait()
            clean.set()

    with pytest.raises(KeyboardInterrupt):
        portal.call(work())
    portal.post(let_go.set)
    assert clean.wait(ms(5000))


def test_own_thread_is_refused(portal: LoopThread) -> None:
    """A blocking call on the loop's own thread is an error instead of a wait for itself."""

    async def call_again() -> int:
        return portal.call(answer())

    with pytest.raises(RuntimeError, match="own event loop thread"):
        portal.call(call_again())


async def test_inside_a_running_loop(portal: LoopThread) -> None:
    """A call works where a loop is running already, as in a notebook."""
    assert portal.call(answer()) == 42


def test_several_threads(portal: LoopThread) -> None:
    """Threads may call at the same time, each gets its own answer."""
    answers: list[int] = []
    meeting = asyncio.Barrier(8)

    async def meet(number: int) -> int:
        await meeting.wait()
        return number

    threads = [threading.Thread(target=lambda n=n: answers.append(portal.call(meet(n)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(8))


def test_close_ends_calls_under_way(portal: LoopThread) -> None:
    """Closing cancels what runs, and its caller learns it at once (C59)."""
    begun, cleaned, errors = threading.Event(), threading.Event(), []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    def call() -> None:
        try:
            portal.call(work())
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(ms(5000))
    portal.close()
    thread.join(ms(5000))
    assert cleaned.is_set()
    assert len(errors) == 1


def test_call_after_close(portal: LoopThread) -> None:
    """After `close`, which may come twice, a call is refused."""
    portal.close()
    portal.close()
    assert not portal.is_usable
    with pytest.raises(ClientClosed):
        portal.call(answer())
    portal.post(lambda: pytest.fail("called"))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_is_refused(portal: LoopThread) -> None:
    """In a forked child a call is refused at once, since the loop's thread is not there."""
    pid = os.fork()
    if pid == 0:
        try:
            portal.call(answer())
        except ClientClosed:
            portal.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_context_goes_along(portal: LoopThread) -> None:
    """The coroutine sees the context variables of its caller."""
    variable = contextvars.ContextVar("variable", default="unset")

    async def look() -> str:
        return variable.get()

    variable.set("set")
    assert portal.call(look()) == "set"


def test_interpreter_exits_with_a_call_under_way() -> None:
    """A call that never ends in a daemon thread does not hold up the exit of the interpreter."""
    code = """
import asyncio, threading
from execzmq.client import portal as portals
from execzmq.client.portal import LoopThread
portal, begun = LoopThread("loop"), threading.Event()
async def work():
    begun.set()
    await asyncio.Event().wait()
threading.Thread(target=lambda: portal.call(work()), daemon=True).start()
begun.wait()
"""
    done = subprocess.run(child(code), capture_output=True, timeout=ms(20000), check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"")


def test_interrupt_right_after_the_result(portal: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt that falls between the result and its taking is raised at once: it awaits nothing."""
    real = portals._Call.wait

    async def given(number: int) -> int:
        return number

    def interrupted(call: portals._Call[int], timeout: float = -1) -> None:
        monkeypatch.setattr(portals._Call, "wait", real)
        call._finished.acquire()
        raise KeyboardInterrupt

    monkeypatch.setattr(portals._Call, "wait", interrupted)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        portal.call(given(1))
    assert time.monotonic() - begun < portals.CLEANUP_TIME / 2
    assert portal.call(given(2)) == 2
