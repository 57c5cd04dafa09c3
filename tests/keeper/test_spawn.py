"""Starts in this very process: what the command finds, why it fails by name, and that nothing is left."""

import os
import resource
import select
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.launch import Launch, SpawnError, Tty
from execzmq.keeper.spawn import Spawned, spawn
from execzmq.keeper.tree import descendants, kill_from
from tests.keeper.harness import ENV, Done, behind_gate, launch, open_gate, shell

# A plain start goes by vfork; each of these goes by fork.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "limits": {"limits": {"core": (0, 0)}},
    "terminal": {"tty": Tty(24, 80)},
}


def finish(spawned: Spawned) -> Done:
    """Read all that a command says, reap it and close everything."""
    out, err = bytearray(), bytearray()
    ends = {
        name: buffer
        for name, buffer in (("stdout", out), ("stderr", err), ("pty", out))
        if name in spawned.fds
    }
    for name, buffer in ends.items():
        _read_to_end(spawned.fds[name], buffer)
    _, status = os.waitpid(spawned.pid, 0)
    close(spawned)
    return Done(os.waitstatus_to_exitcode(status), bytes(out), bytes(err))


def _read_to_end(fd: int, buffer: bytearray) -> None:
    os.set_blocking(fd, True)
    try:
        while data := os.read(fd, 1 << 16):
            buffer += data
    except OSError:  # the end of a terminal
        return


def close(spawned: Spawned) -> None:
    """Close every descriptor of a start."""
    for fd in (*spawned.fds.values(), spawned.pidfd, spawned.release):
        if fd >= 0:
            os.close(fd)


def run(wanted: Launch, fds: Mapping[str, int] | None = None) -> Done:
    """Start a command and see it through."""
    return finish(spawn(wanted, fds or {}))


def open_fds() -> int:
    """Count this process's descriptors."""
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def oddities() -> Iterator[None]:
    """Ignore and block signals, as a server started by nohup or a careless parent would."""
    ignored = [signal.SIGINT, signal.SIGUSR1]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("way", WAYS)
def test_own_session_and_no_inherited_descriptors_c75(way: str) -> None:
    """The command leads a session, has descriptors 0, 1, 2 alone and no terminal that it was not given."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        done = run(
            shell(
                "ps -o sid= -p $$ | tr -d ' '; echo $$; ls /proc/self/fd | tr '\\n' ' '; "
                "echo; { : >/dev/tty; } 2>/dev/null && echo terminal",
                **WAYS[way],
            )
        )
    finally:
        os.close(reader)
        os.close(writer)
    session, pid, fds, *rest = done.out.splitlines()
    assert session.strip() == pid.strip()
    assert fds.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing's own
    assert (b"terminal" in b"".join(rest)) == (way == "terminal")


@pytest.mark.parametrize("way", WAYS)
def test_cwd_env_umask_arg0(way: str, short_tmp: Path) -> None:
    """The command has the cwd, umask and own name that it was given, and its env is exact."""
    done = run(shell("pwd; umask", cwd=os.fsencode(short_tmp), umask=0o27, **WAYS[way]))
    assert done.out.decode().split() == [str(short_tmp), "0027"]
    assert run(launch("env", env={**ENV, b"A": b"1"}, **WAYS[way])).out.split() == [
        b"PATH=" + ENV[b"PATH"],
        b"A=1",
    ]
    name = run(launch("/bin/sh", "-c", "cat /proc/$$/cmdline; :", arg0=b"-me", **WAYS[way])).out
    assert name.startswith(b"-me\0")
    assert run(launch("/usr/bin/env", env={}, **WAYS[way])).out == b""


@pytest.mark.parametrize("way", WAYS)
def test_names_that_are_not_utf8_c45(way: str, short_tmp: Path) -> None:
    """Bytes of argv, env and cwd reach the command as they are."""
    folder = os.path.join(os.fsencode(short_tmp), b"d\xff")
    os.mkdir(folder)
    assert run(launch(b"printf", b"%s", b"a\xffb", cwd=folder, **WAYS[way])).out == b"a\xffb"
    env = {**ENV, b"X\xfd": b"\xfe"}
    assert b"X\xfd=\xfe" in run(launch("env", env=env, cwd=folder, **WAYS[way])).out
    assert run(launch("/bin/pwd", cwd=folder, **WAYS[way])).out.rstrip(b"\r\n") == folder


@pytest.mark.parametrize("way", WAYS)
def test_sigpipe_is_default_c20(way: str) -> None:
    """A writer dies quietly of a broken pipe, in pipe and terminal mode."""
    done = run(shell("yes | head -n1", **WAYS[way]))
    assert (done.status, done.out.rstrip(b"\r\n"), done.err) == (0, b"y", b"")


def test_fork_clears_signals_c19() -> None:
    """A blocked mask of the parent does not reach a command that was started by fork."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        done = run(launch("grep", "-E", "SigBlk", "/proc/self/status", **WAYS["limits"]))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
    assert int(done.out.split()[1], 16) == 0


def test_stdin_is_empty_unless_asked_for() -> None:
    """Without more, stdin is /dev/null and there is no pipe of ours."""
    spawned = spawn(launch("cat"), {})
    assert set(spawned.fds) == {"stdout", "stderr"}
    assert finish(spawned) == Done(0, b"", b"")


def test_stdin_pipe() -> None:
    """What is written into the pipe reaches the command, and its end too."""
    spawned = spawn(launch("cat", stdin="pipe"), {})
    os.write(spawned.fds["stdin"], b"hello")
    os.close(spawned.fds.pop("stdin"))
    assert finish(spawned).out == b"hello"


@pytest.mark.parametrize("way", ["plain", "limits"])
def test_stdin_from_a_descriptor(way: str, short_tmp: Path) -> None:
    """A passed file is the command's stdin and stays the caller's."""
    (short_tmp / "in").write_bytes(b"given")
    with open(short_tmp / "in", "rb") as file:
        assert run(launch("cat", stdin="fd", **WAYS[way]), {"stdin": file.fileno()}).out == b"given"
        assert not file.closed


@pytest.mark.parametrize("way", ["plain", "limits"])
def test_merged_stderr_keeps_order(way: str) -> None:
    """With merge_stderr both streams are one pipe."""
    done = run(shell("echo a; echo b >&2; echo c", merge_stderr=True, **WAYS[way]))
    assert done.out == b"a\nb\nc\n"


def test_our_ends_do_not_block_and_theirs_do() -> None:
    """O_NONBLOCK is set on our ends alone."""
    code = "import os; print(os.get_blocking(0), os.get_blocking(1))"
    spawned = spawn(launch(sys.executable, "-c", code, stdin="pipe"), {})
    assert not any(os.get_blocking(fd) for fd in spawned.fds.values())
    assert finish(spawned).out == b"True True\n"


def test_limits_are_set_before_exec() -> None:
    """The first instruction finds the limits, soft and hard."""
    done = run(shell("ulimit -Sn; ulimit -Hn; ulimit -St", limits={"nofile": (99, 100), "cpu": (7, None)}))
    assert done.out == b"99\n100\n7\n"


@pytest.mark.parametrize("way", WAYS)
def test_raised_limit_is_not_inherited(way: str) -> None:
    """The keeper raises its own limit of descriptors; its commands get the old one however many are open."""
    inherited = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, inherited[1]))
    limit = DescriptorLimit()
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    try:
        spawned = spawn(shell("ulimit -Sn", **WAYS[way]), {}, limit)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (inherited[1], inherited[1])
        assert finish(spawned).out.rstrip() == b"64"
    finally:
        for fd in many:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, inherited)


def test_passed_descriptors_have_their_numbers() -> None:
    """Each passed descriptor is found at its number, also where the numbers cross."""
    pipes = [os.pipe(), os.pipe()]
    numbers = {"a": pipes[1][0], "b": pipes[0][0], "c": 50}
    fds = {"a": pipes[0][0], "b": pipes[1][0], "c": pipes[0][0]}
    os.write(pipes[0][1], b"first...")
    os.write(pipes[1][1], b"second..")
    code = f"import os; print(*(os.read(fd, 4).decode() for fd in ({numbers['a']}, {numbers['b']}, 50)))"
    try:
        done = run(launch(sys.executable, "-c", code, passed=numbers), fds)
    finally:
        for fd in (*pipes[0], *pipes[1]):
            os.close(fd)
    assert done.out == b"firs seco t...\n"


def test_terminal_echo_is_set_before_exec_c37() -> None:
    """Without echo, nothing that was typed comes back, however early it was typed."""
    for echo in (True, False):
        spawned = spawn(launch("head", "-n1", tty=Tty(24, 80, echo)), {})
        os.write(spawned.fds["pty"], b"hi\n")
        assert finish(spawned).out == (b"hi\r\nhi\r\n" if echo else b"hi\r\n")


def test_terminal_ends_c31() -> None:
    """Our copy of the slave is closed: the end of the command is the end of the terminal."""
    assert run(shell("printf end", tty=Tty(24, 80))) == Done(0, b"end", b"")


def test_terminal_is_spliced_through_its_pipe() -> None:
    """What the terminal says can be moved into the pipe beside it."""
    spawned = spawn(shell("printf spliced", tty=Tty(24, 80)), {})
    os.waitpid(spawned.pid, 0)
    assert os.splice(spawned.fds["pty"], spawned.fds["mid_w"], 100) == 7
    assert os.read(spawned.fds["mid_r"], 100) == b"spliced"
    close(spawned)


@pytest.fixture
def scripts(short_tmp: Path) -> Path:
    """Files that cannot be run, each for another reason."""
    files = {
        "plain644": (b"#!/bin/sh\n", 0o644),
        "noformat": (b"echo hi\n", 0o755),
        "nointerp": (b"#! /no/such -x\n", 0o755),
        "crlf": (b"#!/bin/sh\r\necho hi\r\n", 0o755),
    }
    for name, (content, mode) in files.items():
        (short_tmp / name).write_bytes(content)
        (short_tmp / name).chmod(mode)
    elf = bytearray(Path("/bin/true").read_bytes()[:4096])
    loader = elf.index(b"/lib")
    elf[loader : loader + 4] = b"/LIB"
    (short_tmp / "noloader").write_bytes(elf)
    (short_tmp / "noloader").chmod(0o755)
    return short_tmp


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("program", "reason", "detail"),
    [
        ("nosuch", "not_found", "nosuch"),
        ("/no/such/prog", "not_found", "/no/such/prog"),
        ("/etc/passwd/x", "not_found", "/etc/passwd/x"),
        ("./plain644", "not_executable", "plain644"),
        ("./noformat", "bad_format", "noformat"),
        ("./nointerp", "interpreter_not_found", "/no/such"),
        ("./crlf", "interpreter_not_found", "/bin/sh\r"),
        ("./noloader", "interpreter_not_found", "/LIB"),
        ("./", "is_directory", "./"),
        ("/tmp", "is_directory", "/tmp"),
    ],
)
def test_programs_that_cannot_run_c26_c27(
    way: str, program: str, reason: str, detail: str, scripts: Path
) -> None:
    """A refusal names what is wrong, and leaves neither descriptor nor zombie."""
    before = open_fds()
    with pytest.raises(SpawnError) as refused:
        spawn(launch(program, cwd=os.fsencode(scripts), **WAYS[way]), {})
    assert refused.value.reason == reason
    assert any(detail in str(value) for value in refused.value.details.values())
    assert refused.value.errno
    assert open_fds() == before
    assert not descendants(os.getpid())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cwd": b"/no/such"}, "cwd_missing"),
        ({"cwd": b"/etc/passwd"}, "cwd_not_directory"),
        ({"argv": (b"true", *([b"x" * 131_000] * 60))}, "argument_too_long"),
        ({"argv": (b"true", b"x" * 131_072)}, "argument_too_long"),
        ({"argv": ()}, "empty_argv"),
        ({"stdin": "fd", "tty": None}, "invalid_descriptor"),
    ],
)
def test_other_refusals_leave_nothing_c26_c27_c29(way: str, change: dict[str, Any], reason: str) -> None:
    """A wrong folder, too long an argv, a missing descriptor: by name, and nothing is left."""
    before = open_fds()
    with pytest.raises(SpawnError) as refused:
        spawn(launch("true", **{**WAYS[way], **change}), {})
    assert refused.value.reason == reason
    assert open_fds() == before


def test_longest_argument_passes_c29() -> None:
    """131,071 bytes in one string are allowed."""
    assert run(launch("true", b"x" * 131_071)).status == 0


def test_limit_that_may_not_be_set_is_named() -> None:
    """A limit that the kernel refuses is an error of the start."""
    with pytest.raises(SpawnError) as refused:
        spawn(launch("true", limits={"nofile": (1 << 40, 1 << 40)}), {})
    assert refused.value.reason == "limit_refused"


@pytest.mark.parametrize("way", [*WAYS, "gate"])
def test_no_descriptor_left(way: str, gate: int) -> None:
    """With any number of free descriptors a start succeeds, or is refused by name and leaves nothing."""
    inherited = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_fds()
    wanted = behind_gate("exit 0") if way == "gate" else launch("true", **WAYS[way])
    free_ones = []
    for free in range(20):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + free, inherited[1]))
        reason = None
        try:
            spawned = spawn(wanted, {"gate": gate})
            let_go(spawned)
            finish(spawned)
            free_ones.append(free)
        except SpawnError as exc:
            reason = exc.reason
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, inherited)
        assert reason in (None, "too_many_descriptors")
        assert open_fds() == before
    assert free_ones, "no start succeeded"
    assert free_ones == list(range(free_ones[0], 20))


def let_go(spawned: Spawned) -> None:
    """Release a command that waits at its gate."""
    if spawned.release >= 0:
        os.write(spawned.release, b"G")


@pytest.fixture
def gate() -> Iterator[int]:
    """Give a pipe that is open for reading and writing."""
    with open_gate() as fd:
        yield fd


def test_who_waits_at_a_gate_runs_at_its_release(short_tmp: Path, gate: int) -> None:
    """Nothing of it runs before the release, then all does; the caller's descriptor may be gone by then."""
    mark = short_tmp / "ran"
    own = os.dup(gate)
    spawned = spawn(behind_gate(f"echo >{mark}; exit 4"), {"gate": own})
    os.close(own)
    assert not mark.exists()
    let_go(spawned)
    assert finish(spawned).status == 4
    assert mark.exists()


def test_who_waits_at_a_gate_can_be_ended_with_its_children(short_tmp: Path, gate: int) -> None:
    """What waits may have made a session of its own, as a sandbox does: it ends too and never runs."""
    mark = short_tmp / "ran"
    line = f"setsid sh -c 'echo $$; read x <&7; echo >{mark}' & wait"
    spawned = spawn(behind_gate(line, waits=False), {"gate": gate})
    os.set_blocking(spawned.fds["stdout"], True)
    inner = int(os.read(spawned.fds["stdout"], 64))
    pidfd = os.pidfd_open(inner)
    kill_from(spawned.pid)
    assert finish(spawned).status == -signal.SIGKILL
    assert select.select([pidfd], [], [], 5)[0]
    os.close(pidfd)
    assert not mark.exists()


def test_a_gate_is_a_passed_descriptor(gate: int) -> None:
    """A launch with another gate is refused by name and leaves nothing."""
    before = open_fds()
    with pytest.raises(SpawnError) as refused:
        spawn(launch("true", gate="door", passed={"gate": 7}), {"gate": gate})
    assert refused.value.reason == "invalid_descriptor"
    assert open_fds() == before


def test_terminal_that_does_not_control() -> None:
    """A command may get a terminal that another is to control: it has its size, and no keys reach it."""
    line = "stty size; true </dev/tty || setsid -c sh -c 'true </dev/tty && echo mine'"
    out = run(shell(line, tty=Tty(9, 40, True, False))).out
    assert b"9 40" in out
    assert b"mine" in out
