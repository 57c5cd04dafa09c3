"""From the parameters of a start to what the keeper takes, and from its refusals to errors."""

import errno
import os

import pytest

from execzmq.backends.launching import check_params, digest_of, launch_of, spawn_error
from execzmq.errors import (
    ArgumentTooLong,
    BadFormat,
    CommandNotFound,
    ExecZMQError,
    InvalidRequest,
    NotExecutable,
    ServerLost,
    SpawnFailed,
    WorkingDirectoryMissing,
)
from execzmq.keeper.client import KeeperLost
from execzmq.keeper.diagnose import explain
from execzmq.keeper.launch import Launch, SpawnError, Tty
from execzmq.process.spec import spec_of
from execzmq.types.params import EnvPolicy, ExecParams, Limits, TtySize

BASE = {b"PATH": b"/bin", b"HOME": b"/h"}


def launch(**more: object) -> tuple[Launch, dict[str, int]]:
    """Return the launch of a start, and its descriptors."""
    params = ExecParams(argv=(b"x", b"-\xff"), **more)  # type: ignore[arg-type]  # fields
    spec = spec_of(params, "p", 0xAB, b"/d", 1, "s", "d", 0.0)
    return launch_of(params, spec, BASE, "/state/p")


def test_plain_start() -> None:
    """Words, folder and key are passed on; stdin is empty, there is no terminal and no limit."""
    made, files = launch()
    assert (made.process_id, made.argv, made.cwd) == ("p.00000000000000ab", (b"x", b"-\xff"), b"/d")
    assert (made.stdin, made.tty, made.limits, made.folder) == ("null", None, {}, b"/state/p")
    assert not files


def test_environment_is_the_base_and_a_mark() -> None:
    """Without a word the base is taken; an empty one is empty, without a mark."""
    made, _ = launch()
    assert {name: value for name, value in made.env.items() if name in BASE} == BASE
    assert b"p.00000000000000ab" in made.env.values()
    assert launch(env={})[0].env == {}
    assert b"HOME" not in launch(env_policy=EnvPolicy(inherit="none"))[0].env


@pytest.mark.parametrize("name", [b"", b"A=B"])
def test_bad_variable(name: bytes) -> None:
    """A variable that cannot be one is refused, here or by the keeper."""
    try:
        made, _ = launch(env={name: b"1"})
    except InvalidRequest:
        return
    assert name in made.env


def test_terminal_and_limits() -> None:
    """A terminal has its size and echo; limits have the keeper's names and hold for soft and hard."""
    made, _ = launch(tty=True, tty_size=TtySize(3, 4), tty_echo=False, limits=Limits(memory=1, descriptors=2))
    assert made.tty == Tty(3, 4, False)
    assert made.limits == {"as": (1, 1), "nofile": (2, 2)}
    assert made.stdin == "null"


def test_stdin_data() -> None:
    """Data are a file that can be read and not written; no data are no stdin."""
    made, files = launch(stdin="data", stdin_data=b"abc")
    assert made.stdin == "fd"
    fd = files["stdin"]
    assert os.read(fd, 10) == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(fd, b"x")
    os.close(fd)
    assert launch(stdin="data")[0].stdin == "null"


def test_refused_before_anything_is_begun() -> None:
    """Data for a terminal is refused."""
    check_params(ExecParams(argv=(b"x",)))
    with pytest.raises(InvalidRequest):
        check_params(ExecParams(argv=(b"x",), tty=True, stdin="data", stdin_data=b"x"))


def test_digest() -> None:
    """The same request has the same digest, any other one another, names that are no text too."""
    one = ExecParams(argv=(b"x",), name="\udcff", env={b"A": b"1"})
    assert digest_of(one) == digest_of(ExecParams(argv=(b"x",), name="\udcff", env={b"A": b"1"}))
    assert digest_of(one) != digest_of(ExecParams(argv=(b"x",), name="\udcff", env={b"A": b"2"}))


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("not_found", CommandNotFound),
        ("interpreter_not_found", CommandNotFound),
        ("not_executable", NotExecutable),
        ("is_directory", NotExecutable),
        ("bad_format", BadFormat),
        ("cwd_missing", WorkingDirectoryMissing),
        ("argument_too_long", ArgumentTooLong),
        ("empty_argv", InvalidRequest),
        ("nul_in_name", InvalidRequest),
        ("something_new", SpawnFailed),
    ],
)
def test_refusals(reason: str, error: type[ExecZMQError]) -> None:
    """Each refusal of the keeper is an error by name, with its number and words."""
    made = spawn_error(SpawnError(reason, 2, "words", {"entry": 1}))
    assert type(made) is error
    assert (made.message, made.details["errno"], made.details["entry"]) == ("words", 2, 1)


def test_other_failures() -> None:
    """A keeper that is gone, and what nobody has foreseen, are errors of ours too."""
    assert type(spawn_error(KeeperLost("gone"))) is ServerLost
    assert type(spawn_error(RuntimeError("odd"))) is SpawnFailed


def test_a_start_that_never_left_is_told_apart() -> None:
    """Whoever hears that nothing was started may safely try again."""
    assert "is not known" in str(spawn_error(KeeperLost("gone")))
    assert "nothing was started" in str(spawn_error(KeeperLost("gone", was_asked=False)))


@pytest.mark.parametrize(
    ("number", "reason", "remedy"),
    [
        (errno.EMFILE, "too_many_descriptors", "ulimit -n"),
        (errno.ENFILE, "too_many_descriptors", "ulimit -n"),
        (errno.ENOMEM, "no_memory", "memory"),
        (errno.EAGAIN, "try_again", "ulimit -u"),
    ],
)
def test_what_the_machine_lacks_is_told_with_a_remedy_x01(number: int, reason: str, remedy: str) -> None:
    """Whether the keeper or this process has met it."""
    launch = Launch(process_id="p", argv=(b"x",), env={})
    for error in (explain(launch, "exec", number), OSError(number, os.strerror(number))):
        told = spawn_error(error)
        assert type(told) is SpawnFailed
        assert (told.errno, told.details["reason"]) == (number, reason)
        assert remedy in str(told)


def test_no_descriptor_for_stdin_is_told_by_name_x01(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data for stdin stands in a file in memory, for which there may be none."""

    def refuse(*arguments: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(SpawnFailed, match="ulimit -n"):
        launch(stdin="data", stdin_data=b"x")
