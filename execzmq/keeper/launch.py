"""What the keeper is asked to start, and the ways in which that can be refused.

Owns `Launch`, `SpawnError` and the checks that need no look at the file system. Pure: it must not know
sockets, processes or clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

# The kernel refuses a single string of argv or env (its NUL included) beyond 32 pages.
MAX_STRING_BYTES = 131_071
MAX_TERMINAL_SIDE = 65_535
SEGMENT_BYTES = 4 << 20
"""Size of a log's files where a server does not say."""
LIMIT_NAMES = frozenset(
    {"as", "core", "cpu", "data", "fsize", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss"}
    | {"rtprio", "rttime", "sigpending", "stack"}
)
STREAM_NAMES = frozenset({"pidfd", "stdin", "stdout", "stderr", "pty", "mid_r", "mid_w"})

Limit = tuple[int | None, int | None]


class Tty(NamedTuple):
    """The terminal of a command.

    Attributes:
        rows, cols: size in characters.
        echo: whether it echoes from the first instruction on.
        controls: it is the command's controlling terminal; else the command can make it that of another.
    """

    rows: int
    cols: int
    echo: bool = True
    controls: bool = True


_NOTHING: MappingProxyType[Any, Any] = MappingProxyType({})


class Environment(Mapping[bytes, bytes]):
    """Variables in one block, as /proc shows them, taken apart only for who asks for one.

    Attributes:
        entries: the variables as `NAME=VALUE`.

    Raises:
        ValueError: an entry has no name, or no `=`.
    """

    def __init__(self, block: bytes) -> None:
        self.entries = block.split(b"\0") if block else []
        self._block = b"\0" + block
        if min(map(bytes.find, self.entries, repeat(b"=")), default=1) < 1:
            raise ValueError("env has an entry without a name or without '='")

    def __getitem__(self, name: bytes) -> bytes:
        _, found, rest = self._block.partition(b"\0" + name + b"=")
        if not found:
            raise KeyError(name)
        return rest.partition(b"\0")[0]

    def __iter__(self) -> Iterator[bytes]:
        return iter([entry.partition(b"=")[0] for entry in self.entries])

    def __len__(self) -> int:
        return len(self.entries)


def entries_of(env: Mapping[bytes, bytes]) -> list[bytes]:
    """Write an environment as the entries that exec(3) takes."""
    if type(env) is Environment:
        return env.entries
    return [name + b"=" + value for name, value in env.items()]


# No dataclasses in what the keeper loads: they cost it a quarter of its start and 2 MB.
class Launch(NamedTuple):
    """Everything that decides how one command starts.

    Attributes:
        process_id: key under which the keeper knows the command; unique until forgotten.
        argv: program and arguments. The program is looked up in the PATH of `env`.
        cwd: working directory; None is `/`. Relative programs are relative to it.
        env: the whole environment; nothing is added.
        umask: file mode mask; None keeps the keeper's.
        arg0: what the program sees as its own name; None is `argv[0]`.
        limits: resource name (`nofile`, `cpu`, …) to (soft, hard); None in a pair is unlimited.
        tty: a terminal instead of pipes; stdin and stderr are then the terminal too.
        stdin: `null` is /dev/null, `pipe` a new pipe, `fd` the passed descriptor named `stdin`.
        merge_stderr: stderr is the same pipe as stdout.
        folder: where the keeper leaves the exit record if it is orphaned; None leaves none.
        drain_limit_bytes: how much of the output an orphaned keeper may store in `folder`; None is no limit.
        segment_bytes: size from which on it begins another file there.
        passed: name of a passed descriptor to its number in the command (3 and above).
        gate: name of the passed descriptor at which the command waits by itself until it is released: a pipe
            that is open for reading and writing, so that no end of anybody lets it go.
        joins: files of control groups to which the command writes itself before it is executed: for others to
            do that takes the kernel ten times as long. One that cannot be joined is left out.
        scoped: it reaches no abstract socket and no process that it has not made itself.
        detached: its mounts are its own where that is possible (`mounts`); takes some ms.
    """

    process_id: str
    argv: tuple[bytes, ...]
    cwd: bytes | None = None
    env: Mapping[bytes, bytes] = _NOTHING
    umask: int | None = None
    arg0: bytes | None = None
    limits: Mapping[str, Limit] = _NOTHING
    tty: Tty | None = None
    stdin: Literal["null", "pipe", "fd"] = "null"
    merge_stderr: bool = False
    folder: bytes | None = None
    drain_limit_bytes: int | None = None
    segment_bytes: int = SEGMENT_BYTES
    passed: Mapping[str, int] = _NOTHING
    gate: str | None = None
    joins: tuple[bytes, ...] = ()
    scoped: bool = False
    detached: bool = False

    @property
    def descriptor_names(self) -> tuple[str, ...]:
        """Name the descriptors that travel with this launch, in their order."""
        return ("stdin", *self.passed) if self.stdin == "fd" else tuple(self.passed)


class SpawnError(Exception):
    """A command could not be started; nothing of it is left.

    Attributes:
        reason: stable name of the cause, such as `not_found` or `cwd_missing`.
        errno: the system's number, None where no system call was made.
        message: one line for people.
        details: the cause's own facts, such as `interpreter` or `entry`; values fit into JSON.
    """

    def __init__(
        self, reason: str, errno: int | None, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.errno = errno
        self.message = message
        self.details: dict[str, Any] = dict(details or {})


def show(name: bytes) -> str:
    """Write a Unix name so that any terminal can print it; bytes that are not UTF-8 become `\\xNN`."""
    return name.decode("utf-8", "backslashreplace")


def check_launch(launch: Launch) -> None:
    """Refuse what can be seen to be wrong without trying it.

    Raises:
        SpawnError: `empty_argv`, `empty_program`, `nul_in_name`, `invalid_env_name`, `argument_too_long`,
            `invalid_limit`, `invalid_terminal_size` or `invalid_descriptor`.
    """
    if not launch.argv:
        raise SpawnError("empty_argv", None, "argv is empty: there is no program to run")
    if not launch.argv[0]:
        raise SpawnError("empty_program", None, "argv[0] is empty: there is no program to run")
    # One that came as a block has been checked with that.
    if type(launch.env) is not Environment:
        _check_env_names(launch.env)
    if not _has_plain_strings(launch):
        for entry, value in _strings(launch):
            _check_string(entry, value)
    # Most commands have none of these.
    if launch.limits:
        _check_limits(launch.limits)
    if launch.tty is not None:
        _check_tty(launch.tty)
    if launch.passed:
        _check_passed(launch.passed)
    if launch.gate is not None:
        _check_gate(launch)


def _has_plain_strings(launch: Launch) -> bool:
    """Tell quickly that no string can be wrong: naming each one for an error would cost every start."""
    others = (launch.arg0 or b"", launch.cwd or b"", launch.folder or b"")
    strings = (*launch.argv, *entries_of(launch.env), *others)
    return b"\0" not in b"".join(strings) and max(map(len, strings)) <= MAX_STRING_BYTES


def _strings(launch: Launch) -> Iterator[tuple[str, bytes]]:
    """Yield each string that reaches the kernel, with the name by which an error calls it."""
    for index, argument in enumerate(launch.argv):
        yield f"argv[{index}]", argument
    if launch.arg0 is not None:
        yield "arg0", launch.arg0
    if launch.cwd is not None:
        yield "cwd", launch.cwd
    if launch.folder is not None:
        yield "folder", launch.folder
    for name, value in launch.env.items():
        yield f"env {show(name)[:64]}", name + b"=" + value


def _check_string(entry: str, value: bytes) -> None:
    if b"\0" in value:
        raise SpawnError("nul_in_name", None, f"{entry} has a NUL byte", {"entry": entry})
    if len(value) > MAX_STRING_BYTES:
        raise SpawnError(
            "argument_too_long",
            None,
            f"{entry} is too long: {len(value)} bytes (limit {MAX_STRING_BYTES} bytes per string)",
            {"entry": entry, "size": len(value), "limit": MAX_STRING_BYTES},
        )


def _check_env_names(env: Mapping[bytes, bytes]) -> None:
    if b"" not in env and b"=" not in b"".join(env):
        return
    for name in env:
        if not name or b"=" in name:
            shown = show(name)[:64]
            problem = "has '=' in it" if name else "is empty"
            raise SpawnError("invalid_env_name", None, f"env name {shown!r} {problem}", {"name": shown})


def _check_limits(limits: Mapping[str, Limit]) -> None:
    for name, (soft, hard) in limits.items():
        known = name in LIMIT_NAMES
        ordered = hard is None or (soft is not None and 0 <= soft <= hard)
        if not known or not ordered or (soft is not None and soft < 0):
            raise SpawnError(
                "invalid_limit", None, f"limit {name!r}: ({soft}, {hard}) cannot be set", {"limit": name}
            )


def _check_tty(tty: Tty) -> None:
    if not (1 <= tty.rows <= MAX_TERMINAL_SIDE and 1 <= tty.cols <= MAX_TERMINAL_SIDE):
        raise SpawnError(
            "invalid_terminal_size",
            None,
            f"a terminal of {tty.rows} rows and {tty.cols} columns cannot be made",
            {"rows": tty.rows, "cols": tty.cols},
        )


def _check_passed(passed: Mapping[str, int]) -> None:
    numbers = list(passed.values())
    if STREAM_NAMES & passed.keys() or len(set(numbers)) != len(numbers) or any(n < 3 for n in numbers):
        raise SpawnError(
            "invalid_descriptor",
            None,
            "passed descriptors need names of their own and different numbers from 3 on",
            {"passed": dict(passed)},
        )


def _check_gate(launch: Launch) -> None:
    if launch.gate not in launch.passed:
        words = "the gate is not one of the passed descriptors"
        raise SpawnError("invalid_descriptor", None, words, {"gate": launch.gate})
