"""Own the measuring of what a command uses: its whole tree, and the control group of its sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from execzmq.aside import aside
from execzmq.process.managed import ManagedProcess
from execzmq.types.results import ProcessInfo, ProcessUsage

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend

_SECONDS = 1.0
"""Time that the kernel may take to tell what a control group uses."""


async def measured(backend: LocalBackend, process: ManagedProcess) -> ProcessInfo:
    """Describe a process, and what it uses; cancelling it changes nothing."""
    usage = await _usage_of(backend, process)
    return replace(process.info(), usage=None if process.life.is_over else usage)


async def all_measured(backend: LocalBackend, processes: Sequence[ManagedProcess]) -> list[ProcessInfo]:
    """Describe processes, and what each uses: one or two looks at the machine for all."""
    return await asyncio.gather(*(measured(backend, process) for process in processes))


async def _usage_of(backend: LocalBackend, process: ManagedProcess) -> ProcessUsage | None:
    """Measure a process; `None` where there is nothing to, or no descriptor or thread is free for it."""
    if process.life.is_over or not process.has_begun:
        return None
    cgroup = backend.confiner.cells.cgroup_of(process)
    try:
        family = await backend.scanner.family(process.scope)
        usage = process.meter.take((member.entry for member in family.members), process.scope.wrappers)
        counted = None if cgroup is None else await aside(cgroup.usage, _SECONDS)
    except OSError:
        return None
    if counted is None:
        return usage
    cpu = usage.cpu_seconds if counted.cpu_seconds is None else counted.cpu_seconds
    memory = usage.memory_bytes if counted.memory_bytes is None else counted.memory_bytes
    return ProcessUsage(cpu, memory, usage.processes)
