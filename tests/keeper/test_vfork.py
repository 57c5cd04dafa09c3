"""The start by vfork alone: what the child reports, and that an unknown Python does without it."""

import os
from pathlib import Path

import pytest

from execzmq.keeper import vfork
from execzmq.keeper.child import Plan
from execzmq.keeper.spawn import spawn
from tests.keeper.harness import ENV, shell
from tests.keeper.test_spawn import finish


def report_of(path: bytes, cwd: bytes = b"/") -> bytes:
    """Start and reap what is at a path, and return what the child reported."""
    reader, report = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    try:
        pid = vfork.start(
            Plan([b"/no/such", path], [b"x"], ENV, cwd, None, {0: null, 1: null, 2: null}, False, [], report),
            reader,
        )
        os.waitpid(pid, 0)
    finally:
        os.close(report)
        os.close(null)
    with open(reader, "rb") as file:
        return file.read()


def test_report_is_empty_where_the_program_runs() -> None:
    """The pipe ends at exec, without a word."""
    assert vfork.parse_report(report_of(b"/bin/true")) is None


@pytest.mark.parametrize(
    ("path", "cwd", "number"),
    [(b"/no/program", b"/", 2), (b"/etc/passwd", b"/", 13), (b"/bin/true", b"/etc/passwd", 20)],
)
def test_report_names_the_errno(path: bytes, cwd: bytes, number: int) -> None:
    """Whatever failed, its errno is known."""
    assert vfork.parse_report(report_of(path, cwd)) == ("exec", number)


def test_unknown_python_starts_by_fork(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> None:
    """Where the function's arguments may have changed it is not called, and commands start all the same."""
    monkeypatch.setattr(vfork, "IS_KNOWN", False)
    monkeypatch.delattr(vfork, "start")
    done = finish(spawn(shell("pwd; exit 3", cwd=os.fsencode(short_tmp)), {}))
    assert (done.status, done.out) == (3, os.fsencode(short_tmp) + b"\n")
