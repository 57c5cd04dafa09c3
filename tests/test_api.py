"""The functions of the package on the default server, for real."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import execzmq
from execzmq import api
from execzmq.client import core
from execzmq.connection import state_folder
from tests.support import child, ms, wait_until

ROOT = Path(execzmq.__file__).parents[1]


@pytest.fixture
def default_server(no_leaks: None) -> Iterator[None]:
    """The default server of the test's own home, ended afterwards."""
    yield
    try:
        with execzmq.connect() as client:
            client.shutdown()
    finally:
        if api._Default._client is not None:
            api._Default._client.close()


@pytest.mark.slow
def test_functions_of_the_package(default_server: None, tmp_path: Path) -> None:
    """`run`, `start`, `attach` and `Popen` share one client, whose server is started at first use."""
    assert execzmq.run("echo hi", text=True).stdout == "hi\n"
    process = execzmq.start("read x; echo got $x", stdin=True, name="talk")
    execzmq.attach("talk").write(b"it\n")
    assert list(process.lines()) == ["got it"]
    with execzmq.Popen(["cat"], stdin=execzmq.PIPE, stdout=execzmq.PIPE) as p:
        assert p.communicate(b"x" * 3_000_000)[0] == b"x" * 3_000_000
    with pytest.raises(subprocess.CalledProcessError):
        execzmq.run("exit 3", check=True)
    with pytest.raises(FileNotFoundError):
        execzmq.run(["/no/such/program"])
    with execzmq.connect(str(state_folder("default") / "connection.json")) as client:
        assert client.attach("talk").wait(closed=True).returncode == 0
        path = tmp_path / "output"
        with path.open("wb") as file:
            client.run(["head", "-c", "20000000", "/dev/zero"], stdout=file)
        assert path.stat().st_size == 20_000_000


@pytest.mark.slow
async def test_async_twin(default_server: None) -> None:
    """`aconnect` works in both of its forms."""
    async with execzmq.aconnect() as client:
        done = await client.run("echo $PWD; exit 3")
        assert (done.returncode, done.stdout) == (3, os.getcwdb() + b"\n")
        assert [line async for line in (await client.start("seq 3")).lines()] == ["1", "2", "3"]
    other = await execzmq.aconnect()
    assert len(await other.processes()) == 2
    await other.aclose()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_gets_a_client_of_its_own_c51(default_server: None) -> None:
    """After a fork the functions of the package connect anew."""
    assert execzmq.run(["true"]).returncode == 0
    pid = os.fork()
    if pid == 0:
        code = execzmq.run("exit 7").returncode
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert execzmq.run(["true"]).returncode == 0


@pytest.mark.slow
def test_interpreter_that_ends_without_closing(default_server: None) -> None:
    """A program that only uses `run` and `start` ends at once and cleanly; what it started lives on."""
    code = """
import execzmq
events = execzmq.start("sleep 60", process_id="left").events()
next(events)
print(execzmq.run("echo done", text=True).stdout, end="")
"""
    done = subprocess.run(
        child(code), capture_output=True, timeout=ms(30000), check=False, cwd=ROOT, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert execzmq.attach("left").info().state == "running"


@pytest.mark.slow
@pytest.mark.parametrize("is_given_up", [False, True])
def test_functions_after_an_outage(
    default_server: None, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    """The functions of the package start a server where none runs any more, old handles find it then."""
    monkeypatch.setattr(core, "SERVER_GONE", ms(200) if is_given_up else ms(10_000))
    process = execzmq.start("read x; echo $x", stdin=True)
    client = api._Default._client
    assert client is not None
    if is_given_up:
        events = process.events(after_seq=1)
    os.kill(client.info().pid, signal.SIGKILL)
    if is_given_up:
        with pytest.raises(execzmq.ServerLost):
            next(events)
    else:
        wait_until(lambda: client.state == "lost")
    monkeypatch.setattr(core, "SERVER_GONE", ms(10_000))
    assert execzmq.run("echo hi", text=True).stdout == "hi\n"
    assert process.write(b"back\n") == 5
    assert process.wait(closed=True).returncode == 0


@pytest.mark.parametrize("name", ["", "a b"])
def test_what_is_no_name(name: str) -> None:
    """Only `None` stands for the default server."""
    with pytest.raises(execzmq.InvalidRequest, match="is no name"):
        execzmq.connect(name)


def test_no_such_server() -> None:
    """A name that nobody has is a ConnectionError at once."""
    with pytest.raises(ConnectionError, match="no-such"):
        execzmq.connect("no-such")


async def test_no_such_server_for_async_code() -> None:
    """The async twin says the same."""
    async with asyncio.timeout(ms(10000)):
        with pytest.raises(ConnectionError):
            await execzmq.aconnect("no-such")
        with pytest.raises(ConnectionError):
            async with execzmq.aconnect("no-such"):
                pass


@pytest.mark.parametrize("open_client", [execzmq.local, lambda: execzmq.connect("local")])
def test_local(open_client: Callable[[], execzmq.Client]) -> None:
    """`local` needs no server, and closing it ends its processes."""
    with open_client() as client:
        process = client.start("sleep 60")
        pid = process.info().pid
        assert client.run("echo x").stdout == b"x\n"
    assert not os.path.exists(f"/proc/{pid}")
