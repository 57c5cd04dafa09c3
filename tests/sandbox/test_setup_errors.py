"""Errors of starts that did not come about: from bwrap's words to the names that a plain start has too."""

import errno
import os
import subprocess

import pytest

from execzmq.errors import (
    CommandNotFound,
    ExecZMQError,
    NotExecutable,
    SandboxUnavailable,
    SpawnFailed,
    WorkingDirectoryMissing,
)
from execzmq.sandbox.setup_errors import Explained, start_error, terminal_error
from execzmq.sandbox.sight import Sight

HOST = Sight("host", ((b"/ws", "write"), (b"/secret", "deny")))
MINIMAL = Sight("minimal", ((b"/ws", "write"),))


def explain(step: str, number: int) -> Explained:
    """Explain as a host does that has no such program and no such folder."""
    reason = "cwd_missing" if step == "cwd" else "not_found"
    if number == errno.EACCES:
        reason = "not_executable"
    return Explained(reason, f"{reason}!", {"program": "prog"})


def error_of(words: bytes, sight: Sight = HOST, told: Explained | None = None) -> ExecZMQError:
    """Return the error of a start of `prog` after which bwrap said this."""
    return start_error(words, (b"prog",), sight, lambda step, number: told or explain(step, number))


@pytest.mark.parametrize(
    ("words", "cls", "reason"),
    [
        (b"bwrap: execvp prog: No such file or directory\n", CommandNotFound, "not_found"),
        (b"bwrap: execvp prog: Permission denied\n", NotExecutable, "not_executable"),
        (b"bwrap: Can't chdir to /no: No such file or directory\n", WorkingDirectoryMissing, "cwd_missing"),
        (
            b"bwrap: Can't find source path /x: No such file or directory\n",
            SandboxUnavailable,
            "source_missing",
        ),
        (b"bwrap: Race condition binding dirfd\n", SandboxUnavailable, "race_condition"),
        (
            b"bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded"
            b" (ENOSPC)\n",
            SandboxUnavailable,
            "too_many_namespaces",
        ),
        (b"bwrap: No permissions to create new namespace, likely\n", SandboxUnavailable, "no_namespaces"),
        (
            b"bwrap: Creating new namespace failed: Operation not permitted\n",
            SandboxUnavailable,
            "no_namespaces",
        ),
        (b"bwrap: setting up uid map: Operation not permitted\n", SandboxUnavailable, "no_uid_map"),
        (
            b"bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n",
            SandboxUnavailable,
            "no_proc",
        ),
        (
            b"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n",
            SandboxUnavailable,
            "no_network_namespace",
        ),
        (
            b"bwrap: Can't fork for pid 1: Resource temporarily unavailable\n",
            SandboxUnavailable,
            "no_resources",
        ),
        (b"bwrap: Unknown option --bind-fd\n", SandboxUnavailable, "bwrap_too_old"),
        (b"bwrap: something new\n", SandboxUnavailable, "setup_failed"),
        (b"", SandboxUnavailable, "setup_failed"),
        (b"\xff\n", SandboxUnavailable, "setup_failed"),
    ],
)
def test_words_of_bwrap(words: bytes, cls: type[ExecZMQError], reason: str) -> None:
    """Each of bwrap's words has an error with a reason, in one line."""
    error = error_of(words)
    assert type(error) is cls
    assert error.details["reason"] == reason
    assert "\n" not in error.message


def test_what_the_host_has_and_the_sandbox_hides() -> None:
    """A program that is on the host but not shown is not told as missing its interpreter."""
    words = b"bwrap: execvp /opt/tool: No such file or directory\n"
    told = Explained("interpreter_not_found", "?", {"path": "/opt/tool", "interpreter": ""})
    error = error_of(words, MINIMAL, told)
    assert isinstance(error, CommandNotFound)
    assert error.details["reason"] == "hidden_by_sandbox"


def test_interpreter_that_is_hidden() -> None:
    """A script of the workspace whose interpreter is not shown is told so."""
    told = Explained("interpreter_not_found", "?", {"path": "/ws/run", "interpreter": "/opt/python"})
    error = error_of(b"bwrap: execvp /ws/run: No such file or directory\n", MINIMAL, told)
    assert "/opt/python" in error.message


def test_program_that_is_denied() -> None:
    """A program in a denied folder is told as the profile's refusal, not as one without the right mode."""
    told = Explained("not_executable", "?", {"path": "/secret/tool"})
    error = error_of(b"bwrap: execvp /secret/tool: Permission denied\n", HOST, told)
    assert (type(error), error.details["reason"]) == (NotExecutable, "denied_by_sandbox")


@pytest.mark.parametrize(
    ("number", "cls", "reason"),
    [
        (errno.ENOENT, WorkingDirectoryMissing, "cwd_hidden_by_sandbox"),
        (errno.EACCES, SpawnFailed, "cwd_denied"),
    ],
)
def test_cwd_that_only_the_host_has(number: int, cls: type[ExecZMQError], reason: str) -> None:
    """A working directory that the host has nothing against is told as the sandbox's refusal."""
    told = Explained("exec_failed", "?", {"cwd": "/opt"})
    error = error_of(f"bwrap: Can't chdir to /opt: {os.strerror(number)}\n".encode(), MINIMAL, told)
    assert (type(error), error.details["reason"]) == (cls, reason)


def test_setsid_is_no_fault_of_the_command() -> None:
    """Where what gives a command its terminal cannot be executed, the command is not blamed."""
    words = b"bwrap: execvp /usr/bin/setsid: Permission denied\n"
    error = error_of(words)
    assert (type(error), error.details["reason"]) == (SandboxUnavailable, "no_setsid")
    assert "/usr/bin/setsid cannot be executed in its sandbox (Permission denied)" in error.message
    own = start_error(words, (b"/usr/bin/setsid", b"x"), HOST, explain)
    assert isinstance(own, NotExecutable)


def test_terminal() -> None:
    """At a terminal setsid executes: only its words, alone and with its code, are a failed start."""
    words = b"setsid: failed to execute prog: No such file or directory\r\n"
    error = terminal_error(words, 127, (b"prog",), HOST, explain)
    assert isinstance(error, CommandNotFound)
    for output, code, program in (
        (b"more\n" + words, 127, b"prog"),
        (words, 1, b"prog"),
        (words, 127, b"other"),
        (b"", 127, b"prog"),
        (b"setsid: failed to execute prog: Strange\n", 127, b"prog"),
    ):
        assert terminal_error(output, code, (program,), HOST, explain) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "program", "cls"),
    [
        ((), "/nosuch/prog", CommandNotFound),
        ((), "/etc/passwd", NotExecutable),
        (("--chdir", "/nosuch"), "true", WorkingDirectoryMissing),
        (("--bind", "/nosuch", "/mnt"), "true", SandboxUnavailable),
    ],
)
def test_words_of_the_real_bwrap(options: tuple[str, ...], program: str, cls: type[ExecZMQError]) -> None:
    """What this machine's bwrap says is understood."""
    argv = ["/usr/bin/bwrap", "--unshare-user", "--ro-bind", "/", "/", *options, "--", program]
    done = subprocess.run(argv, env={}, capture_output=True)
    assert type(error_of(done.stderr)) is cls
