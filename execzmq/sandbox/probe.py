"""Own the proof that this machine can enforce a sandbox: a real one is made, and looked at from inside.

Whatever fails means that no sandbox is made at all: there is no weaker one. It does not know how the
arguments come about: it is handed those of a real start.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import BinaryIO, NamedTuple

from execzmq.aside import Aside
from execzmq.errors import SandboxUnavailable
from execzmq.sandbox import checker, wrapper
from execzmq.sandbox.remedies import Machine, Trouble, explain
from execzmq.sandbox.wrapper import Wrapper
from execzmq.types.finding import Finding

TIMEOUT = 10.0
"""Seconds of one look; a bubblewrap that takes longer is killed."""
_GRACE = 6.0
"""Seconds more until a look that not even a kill has ended is given up."""
_REPORT = "the sandbox is not what it must be here: report it, with the output of `execzmq doctor`"


class Attempt(NamedTuple):
    """What a real start hands to bubblewrap.

    Attributes:
        arguments: what it reads from `--args`.
        program: what it reads from `--seccomp`.
        descriptors: those that the arguments name; open, and kept at their numbers.
    """

    arguments: bytes
    program: bytes
    descriptors: tuple[int, ...] = ()


Build = Callable[[], AbstractContextManager[Attempt]]
"""Makes what a start with the profile `workspace-write`, without network, would hand over; at its end the
descriptors are closed. It may raise SandboxUnavailable and OSError."""


class Report(NamedTuple):
    """What one look has found.

    Attributes:
        findings: in the order in which they were looked at.
        wrapper: the bubblewrap that was run; None = there is none.
        trouble: why no sandbox can be enforced; None = it can.
    """

    findings: tuple[Finding, ...]
    wrapper: Wrapper | None
    trouble: Trouble | None


def look(build: Build, secrets: Sequence[bytes] = ()) -> Report:
    """Make a sandbox and look at it from inside; takes milliseconds, and `TIMEOUT` at most.

    Args:
        build: makes the arguments.
        secrets: paths of existing files of the server that must not be readable inside.
    """
    try:
        found = wrapper.find()
    except SandboxUnavailable as error:
        return _failed("bubblewrap", Trouble(error.reason, error.message, wrapper.REMEDY), None)
    known = Finding("sandbox: bubblewrap", True, found.path)
    try:
        with build() as attempt:
            said = _run(found, attempt, secrets)
    except SandboxUnavailable as error:
        return _failed("start", Trouble(error.reason, error.message, _REPORT), found, known)
    except OSError as error:
        trouble = Trouble(
            "probe_failed", f"no sandbox could be tried: {error.strerror}", "free some resources"
        )
        return _failed("start", trouble, found, known)
    if isinstance(said, Trouble):
        return _failed("start", said, found, known)
    checks = checker.judge(said.output, len(secrets), _namespaces("self"), said.namespaces)
    findings = [known, *(_finding(check) for check in checks)]
    faults = [check.fault for check in checks if check.fault]
    first = Trouble(faults[0].reason, faults[0].text, _REPORT) if faults else None
    return Report(tuple(findings), found, first)


class Probe:
    """Knows whether sandboxes can be enforced here; looks again after a failure or when bubblewrap changes.

    Args:
        build: makes the arguments.
        secrets: paths of existing files of the server that must not be readable inside.
    """

    def __init__(self, build: Build, secrets: Sequence[bytes] = ()) -> None:
        self._build = build
        self._secrets = tuple(secrets)
        self._looking = Aside(self.look)
        self._passed: Wrapper | None = None

    def look(self) -> Report:
        """Look, in the caller's thread, for as long as `look` does."""
        report = look(self._build, self._secrets)
        self._passed = None if report.trouble else report.wrapper
        return report

    async def require(self) -> Wrapper:
        """Return the bubblewrap with which sandboxes can be enforced; the loop is never held up.

        Raises:
            SandboxUnavailable: they cannot; `reason` and the text say why, and what to do.
        """
        if self._passed is not None and wrapper.is_unchanged(self._passed):
            return self._passed
        try:
            async with asyncio.timeout(TIMEOUT + _GRACE):
                report = await self._looking.do()
        except TimeoutError:
            raise _refusal(_TOO_LONG) from None
        if report.trouble is not None or report.wrapper is None:
            raise _refusal(report.trouble or _TOO_LONG)
        return report.wrapper


_TOO_LONG = Trouble(
    "probe_timeout",
    f"bubblewrap did not come to its end within {TIMEOUT:.0f} s",
    "see what holds it up: dmesg",
)


def _refusal(trouble: Trouble) -> SandboxUnavailable:
    text = f"no sandbox can be enforced here: {trouble.text}; {trouble.remedy}"
    return SandboxUnavailable(text, reason=trouble.reason)


def _failed(name: str, trouble: Trouble, found: Wrapper | None, *before: Finding) -> Report:
    finding = Finding(f"sandbox: {name}", False, trouble.text, trouble.remedy)
    return Report((*before, finding), found, trouble)


def _finding(check: checker.Checked) -> Finding:
    name = f"sandbox: {check.name}"
    if check.fault is None:
        return Finding(name, True, check.text)
    return Finding(name, False, check.fault.text, _REPORT)


class _Said(NamedTuple):
    """What the look inside wrote, and the names of the sandbox's namespaces by their kind."""

    output: str
    namespaces: dict[str, str]


def _run(found: Wrapper, attempt: Attempt, secrets: Sequence[bytes]) -> _Said | Trouble:
    """Run the look inside as a real start is run, but that it ends with this thread."""
    with ExitStack() as stack:
        args = stack.enter_context(_memfd(attempt.arguments + b"--die-with-parent\0"))
        program = stack.enter_context(_memfd(attempt.program))
        gate, release = map(stack.enter_context, _pipe())
        status, told = map(stack.enter_context, _pipe())
        options = {"--args": args, "--seccomp": program, "--json-status-fd": told, "--block-fd": gate}
        words = [word for name, file in options.items() for word in (name, str(file.fileno()))]
        child = subprocess.Popen(
            [found.path, *words, "--", *checker.command(secrets)],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[*(file.fileno() for file in options.values()), *attempt.descriptors],
            start_new_session=True,
        )
        stack.callback(_end, child)
        told.close()
        return _watch(child, status, release)


def _watch(child: subprocess.Popen[bytes], status: BinaryIO, release: BinaryIO) -> _Said | Trouble:
    """Let the look inside begin when its namespaces are known, and read what it says."""
    deadline = time.monotonic() + TIMEOUT
    try:
        documents, pid = _until_child(status, deadline)
        namespaces = _namespaces(pid) if pid else {}
        with suppress(BrokenPipeError):
            release.write(b"1")
        output, words = child.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        return _TOO_LONG
    if b'"exit-code"' not in documents + status.read():
        return explain(words.decode("utf-8", "backslashreplace"), _survey())
    return _Said(output.decode("utf-8", "backslashreplace"), namespaces)


def _until_child(status: BinaryIO, deadline: float) -> tuple[bytes, str]:
    """Return what was told of the state until the first process inside is known, and its id; empty at an end.

    Raises:
        TimeoutError: nothing was told in time.
    """
    poll = select.poll()
    poll.register(status, select.POLLIN)
    documents = b""
    while not (found := re.search(rb'"child-pid": *(\d+)', documents)):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        if not (data := os.read(status.fileno(), 4096)):
            return documents, ""
        documents += data
    return documents, found[1].decode()


def _end(child: subprocess.Popen[bytes]) -> None:
    """End bubblewrap, with which all inside ends; what not even that ends is left."""
    child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE / 2)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _memfd(data: bytes) -> BinaryIO:
    file = os.fdopen(os.memfd_create("execzmq", os.MFD_CLOEXEC), "r+b", 0)
    file.write(data)
    file.seek(0)
    return file


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reader, writer = os.pipe()
    return os.fdopen(reader, "rb", 0), os.fdopen(writer, "wb", 0)


def _namespaces(pid: str) -> dict[str, str]:
    """Return the names of a process's namespaces by their kind, leaving out what may not be seen."""
    found = {}
    for kind in checker.NAMESPACES:
        with suppress(OSError):
            found[kind] = os.readlink(f"/proc/{pid}/ns/{kind}")
    return found


def _survey() -> Machine:
    """Look at what else decides over namespaces here."""
    return Machine(
        is_root=os.geteuid() == 0,
        userns_clone=_setting("kernel/unprivileged_userns_clone"),
        apparmor=_setting("kernel/apparmor_restrict_unprivileged_userns"),
        namespaces=_setting("user/max_user_namespaces"),
        is_container=any(
            map(os.path.exists, ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"))
        ),
    )


def _setting(name: str) -> int | None:
    try:
        with open(f"/proc/sys/{name}") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
