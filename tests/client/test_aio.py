"""`AsyncClient` and `AsyncProcess` over a backend."""

import asyncio
import inspect
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from execzmq import settings
from execzmq.backends.local import LocalBackend
from execzmq.client import aio
from execzmq.client.aio import AsyncClient, AsyncProcess
from execzmq.client.arguments import STDOUT, StartOptions
from execzmq.errors import ClientClosed, InvalidRequest, ProcessNotFound, ServerLost, WaitTimeout
from execzmq.process.environ import build_env
from execzmq.sandbox.profiles import builtin_profiles
from execzmq.types.events import Gap, Output, Started
from execzmq.types.params import EnvPolicy, Limits, SandboxIntent, TtySize
from execzmq.types.results import ExitResult
from tests.client.clients import until
from tests.fakes import FakeBackend, FakeProcess, script
from tests.support import deadline, ms


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend(script(("stdout", b"a\nb"), ("stderr", b"e\n"), ("stdout", b"c\n")))


async def started(backend: FakeBackend, **options: Any) -> tuple[AsyncProcess, FakeProcess]:
    process = await AsyncClient(backend).start("x", **options)
    return process, backend.processes[process.process_id]


async def test_events_end_after_closed(backend: FakeBackend) -> None:
    """Every event comes once and in order, and the iterator ends."""
    process, _ = await started(backend)
    assert [event async for event in process.events()] == backend.steps


async def test_events_after_a_seq(backend: FakeBackend) -> None:
    """`after_seq` is the backend's to keep."""
    process, fake = await started(backend)
    async with aclosing(process.events(after_seq=3)) as events:
        await anext(events)
    assert fake.calls == [("subscribe_events", 3)]
    assert fake.open_iterators == 0


@pytest.mark.parametrize("method", ["events", "output", "lines"])
async def test_iterator_that_is_left_is_closed(backend: FakeBackend, method: str) -> None:
    """Cancelling an iteration leaves nothing behind in the backend."""
    backend.steps = [*backend.steps[:2], asyncio.Event()]
    process, fake = await started(backend)

    async def consume() -> None:
        async with aclosing(getattr(process, method)()) as iterator:
            async for _ in iterator:
                pass

    task = asyncio.create_task(consume())
    await until(lambda: fake.open_iterators == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fake.open_iterators == 0


async def test_output(backend: FakeBackend) -> None:
    """`output` yields output and says where bytes are lost."""
    gap = Gap(2, 3, 7)
    backend.steps = [Started(1, 1), gap, *script(("stdout", b"x"))[1:]]
    process, _ = await started(backend)
    assert [item async for item in process.output()] == [gap, Output(2, "stdout", 0, b"x")]


async def test_lines_are_whole_across_chunks(backend: FakeBackend) -> None:
    """Lines of the two streams do not mix."""
    process, _ = await started(backend)
    assert [line async for line in process.lines()] == ["a", "e", "bc"]


async def test_error_in_the_events(backend: FakeBackend) -> None:
    """What the backend raises reaches the caller after the events before it."""
    backend.steps = [Started(1, 1), ServerLost("gone")]
    process, _ = await started(backend)
    events = process.events()
    assert await anext(events) == Started(1, 1)
    with pytest.raises(ServerLost):
        await anext(events)


async def test_large_write_goes_in_pieces(backend: FakeBackend) -> None:
    """What is larger than one request allows is written in several, in order."""
    process, fake = await started(backend, stdin=True)
    data = b"a" * settings.WRITE_PIECE + b"b"
    assert await process.write(data) == len(data)
    await process.close_stdin()
    assert fake.calls == [
        ("write", data[: settings.WRITE_PIECE], False),
        ("write", b"b", False),
        ("write", b"", True),
    ]


async def test_methods_of_a_process(backend: FakeBackend) -> None:
    """Each method is one call of the backend's process."""
    process, fake = await started(backend)
    await process.read(3, 10, 1.0)
    await process.resize(40, 132)
    assert await process.screen() is fake.shown
    await process.signal("INT")
    await process.terminate()
    await process.kill()
    await process.claim_keyboard(True)
    await process.release_keyboard()
    await process.info()
    await process.forget()
    assert fake.calls == [
        ("read", 3, 10, 1.0),
        ("resize", 40, 132),
        ("screen",),
        ("signal", "INT"),
        ("terminate", 5.0),
        ("terminate", 0.0),
        ("claim_keyboard", True),
        ("release_keyboard",),
        ("info",),
        ("forget",),
    ]


async def test_wait_until_exited_and_closed(backend: FakeBackend) -> None:
    """`wait` ends at the exit, with `closed` only when the streams have ended too."""
    process, fake = await started(backend)
    fake.end(ExitResult(exit_code=3), closed=False)
    assert (await process.wait()).returncode == 3
    with pytest.raises(WaitTimeout):
        await process.wait(0.0, closed=True)
    fake.end(ExitResult(exit_code=3))
    assert (await process.wait(closed=True)).returncode == 3


async def test_wait_asks_within_the_long_poll_c59(backend: FakeBackend) -> None:
    """Without a limit each question to the server still has one."""
    process, fake = await started(backend)
    fake.end(ExitResult(exit_code=0))
    await process.wait()
    await process.wait(1e6)
    assert fake.calls == [("ended", "exited", settings.LONG_POLL)] * 2


async def test_wait_keeps_its_time_where_nobody_answers(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is stopped is no reason to wait longer than was asked for."""
    process, fake = await started(backend)

    async def ended(until: str, timeout: float) -> None:  # noqa: ASYNC109  # the seam has it
        await asyncio.Event().wait()

    monkeypatch.setattr(aio, "_ANSWER", ms(10))
    monkeypatch.setattr(fake, "ended", ended)
    async with deadline(5):
        with pytest.raises(WaitTimeout):
            await process.wait(ms(10))


async def test_client_methods(backend: FakeBackend) -> None:
    """Attach, list, describe, shut down."""
    async with AsyncClient(backend) as client:
        await client.start("x", process_id="one")
        assert (await client.attach("one")).process_id == "one"
        with pytest.raises(ProcessNotFound):
            await client.attach("two")
        assert [info.process_id for info in await client.processes()] == ["one"]
        assert (await client.info()).name == "fake"
        await client.shutdown()
    assert backend.calls == ["shutdown", "aclose"]
    await client.aclose()
    assert backend.calls == ["shutdown", "aclose"]
    with pytest.raises(ClientClosed):
        await client.processes()


async def test_start_options(backend: FakeBackend) -> None:
    """Every keyword of `start` has its field."""
    policy, limits = EnvPolicy(inherit="core"), Limits(cpu=3)
    await AsyncClient(backend).start(
        ["a", b"b"],
        process_id="p",
        name="n",
        cwd="/c",
        env={"K": "v"},
        env_policy=policy,
        stdin=b"data",
        stderr=STDOUT,
        arg0="zero",
        size=TtySize(3, 4),
        tty_echo=False,
        timeout=3,
        timeout_grace=1,
        lifetime="client",
        backpressure="pause",
        log_budget=5,
        drain_limit=2,
        umask=0o22,
        limits=limits,
        sandbox="workspace-write",
        workspace_roots=["/r", "r"],
        network="proxy",
        allowed_hosts=["a.example"],
    )
    (params,) = backend.started
    assert (params.argv, params.arg0) == ((b"a", b"b"), b"zero")
    assert (params.process_id, params.name, params.cwd) == ("p", "n", b"/c")
    assert (params.env, params.env_policy, params.limits) == ({b"K": b"v"}, policy, limits)
    assert (params.stdin, params.stdin_data, params.merge_stderr) == ("data", b"data", True)
    assert (params.tty, params.tty_size, params.tty_echo) == (False, TtySize(3, 4), False)
    assert (params.timeout, params.timeout_grace, params.drain_limit) == (3.0, 1.0, 2.0)
    assert (params.lifetime, params.backpressure, params.log_budget) == ("client", "pause", 5)
    assert params.umask == 0o22
    assert params.sandbox is not None
    assert (params.sandbox.profile, params.sandbox.workspace_roots) == (
        "workspace-write",
        (b"/r", os.path.join(os.getcwdb(), b"r")),
    )
    assert (params.sandbox.network, params.sandbox.allowed_hosts) == ("proxy", ("a.example",))


async def test_explain_and_profiles(backend: FakeBackend) -> None:
    """A start is explained with its own keywords, and nothing is started; profiles are described."""
    client = AsyncClient(backend)
    explained = await client.explain(["x"], sandbox="read-only", cwd="/c")
    assert explained["argv"] == [b"x"]
    (params,) = backend.explained
    assert (params.sandbox, params.cwd) == (SandboxIntent("read-only"), b"/c")
    assert [one.name for one in await client.profiles()] == ["full-access"]
    assert backend.started == []
    with pytest.raises(TypeError, match=r"explain\(\) got an unexpected keyword argument 'nonsense'"):
        await client.explain("x", nonsense=1)  # type: ignore[call-arg]  # that it is wrong


async def test_roots_elsewhere_are_passed_on_as_they_are(backend: FakeBackend) -> None:
    """On another machine the caller's folder means nothing."""
    backend.is_local = False
    await AsyncClient(backend).start("x", sandbox="p", workspace_roots=["r"])
    assert backend.started[0].sandbox == SandboxIntent("p", (b"r",))


async def test_variables_of_a_policy_are_as_those_of_env(backend: FakeBackend) -> None:
    """Names and values are str, bytes or paths; what is none of them is named, and its value is not told."""
    client = AsyncClient(backend)
    policy = EnvPolicy(set={"A": "\udcff", b"B": b"\xfe", Path("C"): Path("/c")})
    await client.start("x", env_policy=policy)
    (params,) = backend.started
    assert params.env_policy == EnvPolicy(set={b"A": b"\xff", b"B": b"\xfe", b"C": b"/c"})
    with pytest.raises(TypeError, match="'A' in the set of env_policy must be str, bytes or a path, not int"):
        await client.start("x", env_policy=EnvPolicy(set={"A": 1}))  # type: ignore[dict-item]  # that it is wrong


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"nonsense": 1}, TypeError),
        ({"stdin": "text"}, TypeError),
        ({"stdin": b"x", "tty": True}, InvalidRequest),
        ({"size": (0, 80)}, InvalidRequest),
        ({"size": (70000, 1)}, InvalidRequest),
        ({"lifetime": "for ever"}, InvalidRequest),
        ({"backpressure": "no"}, InvalidRequest),
        ({"timeout": float("nan")}, InvalidRequest),
        ({"timeout": True}, TypeError),
        ({"name": "with blank"}, InvalidRequest),
        ({"process_id": 3}, TypeError),
        ({"limits": {"memory": 1}}, TypeError),
        ({"env_policy": "core"}, TypeError),
        ({"process_id": "x" * 65}, InvalidRequest),
        ({"stderr": -1}, InvalidRequest),
        ({"workspace_roots": "/r", "sandbox": "p"}, TypeError),
        ({"workspace_roots": ["/r\0"], "sandbox": "p"}, InvalidRequest),
        ({"allowed_hosts": "a", "sandbox": "p"}, TypeError),
        ({"allowed_hosts": [b"a"], "sandbox": "p"}, TypeError),
        ({"network": "lan", "sandbox": "p"}, InvalidRequest),
        ({"sandbox": "a b"}, InvalidRequest),
        ({"sandbox": 1}, TypeError),
        ({"env": {"": "x"}}, InvalidRequest),
        ({"env": ["A=1"]}, TypeError),
        ({"env_policy": EnvPolicy(set={"A=": "x"})}, InvalidRequest),
        ({"env_policy": EnvPolicy(set={"A": "x\0"})}, InvalidRequest),
        ({"env_policy": EnvPolicy(set={1: "x"})}, TypeError),
        ({"env_policy": EnvPolicy(set=[("A", "x")])}, TypeError),  # type: ignore[arg-type]  # that it is wrong
        ({"cwd": "a\0b"}, InvalidRequest),
    ],
)
async def test_wrong_options_start_nothing(
    backend: FakeBackend, options: Any, error: type[Exception]
) -> None:
    """What is wrong with the keywords is said at once."""
    with pytest.raises(error):
        await AsyncClient(backend).start("x", **options)
    assert backend.started == []


@pytest.mark.parametrize(
    "options", [{"workspace_roots": ["/r"]}, {"network": "none"}, {"allowed_hosts": ["a"]}]
)
async def test_no_profile_narrows_the_default(backend: FakeBackend, options: Any) -> None:
    """What narrows a sandbox goes to the server without a profile: it knows whether it has a default."""
    await AsyncClient(backend).start("x", **options)
    (params,) = backend.started
    assert params.sandbox is not None
    assert params.sandbox.profile == ""


def test_keywords_are_shown() -> None:
    """`help` and completion show the keywords of `start` and `run`."""
    parameters = inspect.signature(AsyncClient.start).parameters
    assert list(parameters)[2:] == list(StartOptions.__annotations__)


async def test_secrets_do_not_go_into_a_sandbox(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandboxed command gets what its profile lets through of the caller's variables, if not told else.

    What is named is told from what only stands for it by a policy, so that the server, which knows the
    profile, keeps the one and shapes the other.
    """
    monkeypatch.setenv("MY_TOKEN", "hush")
    client = AsyncClient(backend)
    await client.start("x", sandbox="read-only")
    await client.start("x", sandbox="read-only", env={"A": "b", "MY_TOKEN": "meant"})
    await client.start("x", sandbox="read-only", env_policy=EnvPolicy(set={"B": "c"}))
    await client.start("x", sandbox="read-only", env={})
    profile = builtin_profiles(b"/home/u")["read-only"].env_policy
    default, named, added, empty = (
        build_env(params.env or {}, params.env_policy, None, profile) for params in backend.started
    )
    assert b"PATH" in default
    assert b"MY_TOKEN" not in default
    assert default[b"TMPDIR"] == b"/tmp"
    assert named == {b"A": b"b", b"MY_TOKEN": b"meant"}
    assert added == {**default, b"B": b"c"}
    assert empty == {}


async def test_folder_that_is_gone(
    backend: FakeBackend, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the caller's folder has been removed the command is not run somewhere else."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError):
        await AsyncClient(backend).start("x")
    await AsyncClient(backend).start("x", cwd="/")
    assert backend.started[0].cwd == b"/"


async def test_cancelled_wait_leaves_the_command_c65() -> None:
    """A task that is cancelled in `wait` or `events` does not end the command."""
    async with AsyncClient(await LocalBackend.open_private()) as client:
        process = await client.start("read x; exit $x", stdin=True)
        for waiting in (process.wait(), anext(process.events(after_seq=1))):
            task = asyncio.ensure_future(waiting)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await process.write(b"7\n")
        assert (await process.wait()).returncode == 7


async def test_characters_split_over_chunks_c41() -> None:
    """A character whose bytes come one by one is one character; what is none is replaced."""
    code = r"printf '\342'; sleep .05; printf '\202'; sleep .05; printf '\254\n'; printf 'a\377b\nok\342\202'"
    async with AsyncClient(await LocalBackend.open_private()) as client:
        process = await client.start(code)
        live = [line async for line in process.lines()]
        replayed = [line async for line in process.lines()]
    assert live == ["€", "a\ufffdb", "ok\ufffd"]
    assert replayed == live


async def test_words_that_are_no_unix_names_are_refused_by_name_c45(backend: FakeBackend) -> None:
    """A lone surrogate stands for no byte; it is an error of ours like any other wrong argument."""
    with pytest.raises(InvalidRequest, match="argument"):
        await AsyncClient(backend).start(["echo", "\ud800"])
