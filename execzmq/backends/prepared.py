"""Own a command that can be confined, up to its start: what it may do, see and be told; and its descriptors."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from execzmq.backends.entering import NotExecuted, words_in
from execzmq.backends.launching import launch_of, memory_file
from execzmq.backends.wrapper_status import WrapperStatus
from execzmq.errors import ExecZMQError
from execzmq.keeper.client import SpawnedProcess
from execzmq.keeper.launch import Launch
from execzmq.process.environ import MARK_NAME
from execzmq.process.spec import ProcessSpec
from execzmq.sandbox import bwrap, seccomp
from execzmq.sandbox.model import Permissions, View
from execzmq.types.params import ExecParams

_ARGUMENTS, _STATUS, _GATE, _FILTER, _FIRST_SOURCE = 3, 4, 5, 6, 7
"""Numbers of the descriptors in the wrapper."""
_SETSID = (b"setsid", b"--ctty", b"--")
"""Makes the terminal that of the command, in a session of its own: keys then reach no wrapper."""


@dataclass(slots=True, eq=False)
class Prepared:
    """A command that can be confined. Owns the view, and what `launch_of` leaves here.

    Attributes:
        applied: what is told of the sandbox.
        command_lines: of the command's process before the command is executed.
    """

    permissions: Permissions
    view: View
    wrapper: bytes
    applied: dict[str, Any]
    command_lines: tuple[bytes, ...] = ()
    _status: int = -1

    def launch_of(
        self, params: ExecParams, spec: ProcessSpec, base_env: Mapping[bytes, bytes], folder: str
    ) -> tuple[Launch, dict[str, int]]:
        """Return what the keeper is asked for, and descriptors to pass, which the caller must close.

        Raises:
            InvalidRequest: a variable cannot be one. SpawnFailed: there is no descriptor or memory.
        """
        if params.env is None and params.env_policy is None:
            params = dataclasses.replace(params, env_policy=self.permissions.env_policy)
        plain, files = launch_of(params, spec, base_env, folder)
        try:
            passed = self._pass(plain, files)
        except BaseException:
            _close_all(files.values())
            raise
        return self._wrapped(plain, passed), files

    def _pass(self, plain: Launch, files: dict[str, int]) -> dict[str, int]:
        """Add the descriptors of the wrapper to `files`; return their numbers there by name."""
        passed = {"arguments": _ARGUMENTS, "status": _STATUS, "gate": _GATE, "filter": _FILTER}
        numbers: list[int] = []
        for mount in self.view.mounts:
            numbers.append(_FIRST_SOURCE + len(numbers) if mount.fd >= 0 else -1)
        ...
        return passed
