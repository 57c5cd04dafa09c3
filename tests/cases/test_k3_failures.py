"""Exit codes are the command's own, and a command that cannot be started says why."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from execzmq.errors import (
    ArgumentTooLong,
    BadFormat,
    CommandNotFound,
    ExecZMQError,
    InvalidRequest,
    NotExecutable,
    WorkingDirectoryMissing,
)
from execzmq.types.events import Failed
from execzmq.types.params import ExecParams
from tests.cases.test_k2_signals import server_with
from tests.commands import all_events, kinds_of, only, run, shell, words
from tests.factories import Factory

pytestmark = pytest.mark.slow


def test_sigchld_of_the_server_c25() -> None:
    """A server that was started with SIGCHLD ignored knows every exit code."""
    answer = server_with(
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        """async def once():
    return end_of(await all_events(await backend.start(shell("exit 7")))).exit_code
codes = []
for _ in range(10):
    codes += await asyncio.gather(*(once() for _ in range(10)))
print(json.dumps(codes))""",
    )
    assert answer == [7] * 100


async def test_signal_races_with_the_exit_c25(factory: Factory) -> None:
    """A signal that meets the end of the command changes no exit code to one that is neither."""
    async with factory() as backend:
        for _ in range(20):
            process = await backend.start(shell("exit 7"))
            results = await asyncio.gather(process.signal("TERM"), return_exceptions=True)
            assert all(error is None or isinstance(error, ExecZMQError) for error in results)
            info = await process.wait("closed", 10.0)
            assert info.result is not None
            assert info.result.returncode in (7, -15)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        (words("/no/such/prog", process_id="x"), CommandNotFound),
        (shell("true", process_id="x", cwd=b"/no/such"), WorkingDirectoryMissing),
        (shell("true", process_id="x", cwd=b"/bin/sh"), WorkingDirectoryMissing),
    ],
)
async def test_failed_start_is_an_event_c26(
    factory: Factory, params: ExecParams, error: type[ExecZMQError]
) -> None:
    """A start that fails is an error to who asked and `failed` to who watches; the id is free."""
    async with factory() as backend:
        with pytest.raises(error):
            await backend.start(params)
        events = await all_events(await backend.attach("x"))
        assert kinds_of(events) == ["failed"]
        assert only(events, Failed).error["ename"] == error.__name__
        _, output, _ = await run(backend, shell("echo ok", process_id="x"))
        assert output == b"ok\n"


def _make(folder: Path) -> None:
    for name, text, mode in (
        ("plain", "echo hi\n", 0o644),
        ("bare", "echo hi\n", 0o755),
        ("lost", "#!/no/such/interpreter\n", 0o755),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    (folder / "folder").mkdir()


@pytest.mark.parametrize(
    ("name", "error", "number", "code"),
    [
        ("missing", CommandNotFound, 2, 127),
        ("plain", NotExecutable, 13, 126),
        ("bare", BadFormat, 8, 0),
        ("lost", CommandNotFound, 2, 127),
        ("folder", NotExecutable, 13, 126),
    ],
)
async def test_what_cannot_be_executed_c27(
    factory: Factory, short_tmp: Path, name: str, error: type[ExecZMQError], number: int, code: int
) -> None:
    """Not found, not executable and bad format are told apart; in a shell line the shell says it."""
    _make(short_tmp)
    async with factory() as backend:
        with pytest.raises(error) as caught:
            await backend.start(words(str(short_tmp / name)))
        assert caught.value.details["errno"] == number
        if name == "lost":
            assert "/no/such/interpreter" in str(caught.value)
        events, _, result = await run(backend, shell(f"{short_tmp / name}; exit $?"))
        assert result.exit_code == code
        assert kinds_of(events)[-1] == "closed"


@pytest.mark.parametrize("argv", [(), (b"",), (b"a\0b",), (b"/bin/echo", b"a\0b")])
async def test_words_that_are_none_c27(factory: Factory, argv: tuple[bytes, ...]) -> None:
    """An empty command and NUL bytes are refused as invalid; the server lives on."""
    async with factory() as backend:
        with pytest.raises(InvalidRequest):
            await backend.start(ExecParams(argv=argv))
        await run(backend, shell("true"))


async def test_longest_argument_c29(factory: Factory) -> None:
    """131,071 bytes in one argument or variable are possible, one more is refused by name."""
    async with factory() as backend:
        await run(backend, words("true", "x" * 131071))
        with pytest.raises(ArgumentTooLong, match=r"131,?071"):
            await backend.start(words("true", "x" * 131072))
        with pytest.raises(ArgumentTooLong, match=r"131,?071"):
            await backend.start(words("true", env={b"A": b"x" * 131070}))
        await run(backend, words("true", env={b"A": b"x" * 100_000, b"PATH": os.environb[b"PATH"]}))


async def test_long_script_by_stdin_c29(factory: Factory) -> None:
    """A script of 300 kB runs from stdin."""
    script = b"# " + b"x" * 300_000 + b"\necho done\n"
    async with factory() as backend:
        _, output, _ = await run(backend, words("/bin/sh", stdin="data", stdin_data=script))
        assert output == b"done\n"


def test_shell_codes_are_those_of_this_shell_c27(short_tmp: Path) -> None:
    """The codes of the shell form above are those that the shell itself gives."""
    _make(short_tmp)
    codes = {"missing": 127, "plain": 126, "bare": 0, "lost": 127, "folder": 126}
    for name, code in codes.items():
        done = subprocess.run(
            ["/bin/sh", "-c", f"{short_tmp / name}; exit $?"], capture_output=True, check=False
        )
        assert done.returncode == code
