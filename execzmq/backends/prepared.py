"""Own a command that can be confined, up to its start: what it may do and see, and the wrapper's descriptors.

Knows nothing of the keeper's socket, or of what is set up at the gate.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from execzmq.backends.launching import Home, env_of, launch_with, memory_file
from execzmq.backends.looking import Looked
from execzmq.backends.telling import Telling
from execzmq.backends.wrapper_status import WrapperStatus
from execzmq.errors import InvalidRequest
from execzmq.keeper import landlock
from execzmq.keeper.launch import Launch, Tty
from execzmq.process.environ import MARK_NAME, build_env
from execzmq.sandbox import bwrap, seccomp, slirp
from execzmq.sandbox.cgroups import Cgroup
from execzmq.sandbox.host import Host
from execzmq.sandbox.model import Permissions, View
from execzmq.sandbox.profiles import MINIMAL_HOME, TEMPORARY
from execzmq.sandbox.sight import Sight
from execzmq.sandbox.variables import BY_WRAPPER, Changes, changed, changes_of
from execzmq.types.params import ExecParams

_ARGUMENTS, _STATUS, _GATE, _FILTER, _FIRST_SOURCE = range(600, 605)
"""Numbers of the descriptors in the wrapper. High ones are free in most keepers, where a start that takes no
other numbers there is the cheaper; with all that a view can have they stay below 1024."""
_OF_PROFILES = {**TEMPORARY, b"HOME": MINIMAL_HOME}
"""What the built-in profiles make of variables."""
_FOLDER = b"/"
"""Working directory of the wrapper: it must hold no file system of the client's."""


@dataclass(slots=True, eq=False)
class Prepared:
    """A command that can be confined. Owns what was looked at, and what `launch_of` leaves here.

    Attributes:
        applied: what is told of the sandbox.
        looked: what it will see; to be checked before the wrapper is told of it.
        cgroup: which the wrapper joins, `None` where there is none.
        sight: what the command sees where.
        launched: the command without the sandbox, from `launch_of` on.
        command_lines: of the command's process before the command is executed.
    """

    permissions: Permissions
    looked: Looked
    wrapper: bytes
    host: Host
    applied: dict[str, Any]
    cgroup: Cgroup | None = None
    sight: Sight = field(init=False)
    launched: Launch = field(init=False)
    command_lines: tuple[bytes, ...] = ()
    _status: int = -1
    _telling: Telling | None = None

    def __post_init__(self) -> None:
        """Note what the command will see, which outlives the view's descriptors."""
        places = tuple((mount.path, mount.access) for mount in self.view.mounts)
        self.sight = Sight(self.permissions.read, places)

    @property
    def view(self) -> View:
        """Return what the command will see."""
        return self.looked.view

    def launch_of(self, params: ExecParams, home: Home) -> tuple[Launch, dict[str, int]]:
        """Return what the keeper is asked for, and descriptors to pass, which the caller must close.

        The wrapper then waits for what it is told by `tell`.

        Raises:
            SpawnFailed, OSError: there is no descriptor or memory.
        """
        launch, files = launch_with(params, {MARK_NAME: home.key.encode()}, home)
        try:
            numbers = self._pass_sources(files)
            self._telling = Telling()
            files["arguments"] = self._telling.take_reader()
            program = seccomp.program(allow_debug=self.permissions.allow_debug)
            files["filter"] = memory_file("execzmq-filter", program)
            files["gate"] = _gate()
            if self._resolver is not None:
                files["resolver"] = memory_file("execzmq-resolver", slirp.RESOLV_CONF)
            self._status, files["status"] = _pipe()
        except BaseException:
            _close_all(files.values())
            raise
        self.launched = launch
        return self._wrapped(launch, numbers), files

    def with_variables(self, params: ExecParams, mark: bytes | None, base_env: Mapping[bytes, bytes]) -> None:
        """Note the variables of the command that was launched.

        Raises:
            InvalidRequest: one cannot be one.
        """
        shaped = self._shaped(params, base_env)
        env = env_of(shaped, base_env, mark, self.permissions.env_policy)
        self.launched = self.launched._replace(env=changed(env, self._changes(params, env)))

    def tell(self, arguments: Sequence[bytes]) -> None:
        """Tell the wrapper that was launched its arguments, for which it waits."""
        assert self._telling is not None
        self._telling.tell(bwrap.encoded(arguments))

    def arguments(self, launch: Launch, numbers: Sequence[int]) -> list[bytes]:
        """Return what the wrapper reads from a descriptor: it holds values of variables."""
        return bwrap.arguments(
            self.permissions,
            self.view,
            numbers,
            host=self.host,
            env=launch.env,
            cwd=launch.cwd or _FOLDER,
            tty=launch.tty is not None,
            resolver_fd=self._resolver,
            words=len(launch.argv),
        )

    def command(self, launch: Launch) -> list[bytes]:
        """Return the visible command line of the wrapper around a command."""
        return bwrap.command(
            self.wrapper,
            launch.argv,
            args_fd=_ARGUMENTS,
            status_fd=_STATUS,
            block_fd=_GATE,
            seccomp_fd=_FILTER,
            tty=launch.tty is not None,
        )

    def watch(self) -> WrapperStatus:
        """Return who reads what the wrapper tells."""
        fd, self._status = self._status, -1
        return WrapperStatus(fd)

    def close(self) -> None:
        """Close what is still here; idempotent."""
        self.looked.close()
        if self._telling is not None:
            self._telling.close()
        if self._status >= 0:
            os.close(self._status)
            self._status = -1

    def explained(self, params: ExecParams, base_env: Mapping[bytes, bytes], cwd: bytes) -> dict[str, Any]:
        """Return what the command would become; of variables that are not set by execzmq the names alone."""
        shaped, policy = self._shaped(params, base_env), self.permissions.env_policy
        env = env_of(shaped, base_env, b"", policy)
        changes = self._changes(params, env)
        told = {**dict(_OF_PROFILES.items() & env.items()), **changes}
        tty = Tty(params.tty_size.rows, params.tty_size.cols) if params.tty else None
        launch = Launch("", params.argv, cwd=cwd, tty=tty, env=changed({}, changes))
        return {
            "argv": self.command(launch),
            "arguments": self.arguments(launch, self.numbers),
            "cwd": cwd,
            "env": sorted({BY_WRAPPER, *changed(env, changes)}),
            "env_changes": told,
            "sandbox": self.applied,
        }

    def _changes(self, params: ExecParams, env: Mapping[bytes, bytes]) -> Changes:
        """Return what the sandbox makes of variables, but for those that were set on purpose."""
        policy, profile = params.env_policy, self.permissions.env_policy
        kept = set() if policy is None else set(map(os.fsencode, policy.set))
        if profile is not None and (policy is None or policy.inherit == "profile"):
            kept |= set(map(os.fsencode, profile.set))
        return changes_of(env, kept, self.permissions.network.mode)

    def _shaped(self, params: ExecParams, base_env: Mapping[bytes, bytes]) -> ExecParams:
        """Return the request with the server's own variables, as far as its profile lets them go."""
        if params.env is not None:
            return params
        env = dict(base_env)
        for policy in self.permissions.base_env_policies:
            env = build_env(env, policy, None)
        return dataclasses.replace(params, env=env)

    @property
    def numbers(self) -> range:
        """Return the numbers of the view's descriptors in the wrapper, in the order of the view."""
        return range(_FIRST_SOURCE, _FIRST_SOURCE + sum(mount.fd >= 0 for mount in self.view.mounts))

    @property
    def _resolver(self) -> int | None:
        """Return the number of the file that says who resolves names, in the wrapper."""
        return self.numbers.stop if self.permissions.network.mode == "internet" else None

    def _pass_sources(self, files: dict[str, int]) -> Sequence[int]:
        """Give away a copy of each of the view's descriptors; return their numbers in the wrapper."""
        for number, mount in zip(self.numbers, (one for one in self.view.mounts if one.fd >= 0), strict=True):
            files[f"source{number}"] = os.dup(mount.fd)
        return self.numbers

    def _wrapped(self, plain: Launch, numbers: Sequence[int]) -> Launch:
        argv = tuple(self.command(plain))
        inside = argv[argv.index(b"--") + 1 :]
        self.command_lines = tuple(bwrap.encoded(line) for line in {argv, inside} - {plain.argv})
        passed = {"arguments": _ARGUMENTS, "status": _STATUS, "gate": _GATE, "filter": _FILTER}
        passed |= {f"source{number}": number for number in numbers}
        if self._resolver is not None:
            passed["resolver"] = self._resolver
        return plain._replace(
            argv=argv,
            arg0=None,
            cwd=_FOLDER,
            limits={},
            tty=plain.tty._replace(controls=False) if plain.tty is not None else None,
            passed=passed,
            gate="gate",
            joins=() if self.cgroup is None else self.cgroup.joins,
            detached=self.view.is_shared,
            scoped=self.permissions.network.mode == "host" and landlock.can_scope(),
        )


def check_confinable(params: ExecParams) -> None:
    """Refuse what cannot be had in a sandbox.

    Raises:
        InvalidRequest: another name than the program's own, which not every wrapper can give.
    """
    if params.arg0 is not None and params.arg0 != params.argv[0]:
        message = "arg0 cannot be chosen in a sandbox: leave it out, or use a shell's `exec -a`"
        raise InvalidRequest(message, fields={"arg0": "not in a sandbox"})


def _gate() -> int:
    """Return a pipe that is open for reading and writing: whatever ends, its end is never seen there."""
    reader, gate = _pipe()
    os.close(reader)
    return gate


def _pipe() -> tuple[int, int]:
    """Return a pipe whose writing end is one for reading too: who tells something there never dies of it.

    A wrapper that dies before its sandbox is made leaves a process that waits for ever.
    """
    reader, writer = os.pipe()
    try:
        return reader, os.open(f"/proc/self/fd/{reader}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
