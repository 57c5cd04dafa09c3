"""Own what a backend does for its commands when their keeper has died: another one gets them.

They go on meanwhile, since all that the keeper held is here too. Of starts under way their outcome tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable

from execzmq.keeper.client import KeeperClient
from execzmq.keeper.handover import Orphan, ProcessExit
from execzmq.process import tree
from execzmq.process.census import Scope
from execzmq.process.managed import ManagedProcess
from execzmq.process.scan import TreeScanner
from execzmq.process.segments import segment_size
from execzmq.process.spec import ProcessSpec

_WRAPPER = "bwrap"
_LOOKS = (0.0, 0.2, 1.0, 3.0)
"""Seconds before each look for what a dead keeper had just forked: it has its mark from its execution on."""
_AT_ONCE = 16
"""Logs that are written without looking at the loop in between."""


async def prepare(processes: Iterable[ManagedProcess]) -> None:
    """Write down what of logs is in memory only, should this process be killed before the handover."""
    for number, process in enumerate(processes):
        if process.has_begun and not process.life.is_over and not process.log.is_on_disk:
            with contextlib.suppress(OSError):  # the next server then sees that the keeper was killed
                process.log.persist()
            process.log.close()
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)


async def hand_over(keeper: KeeperClient, processes: Iterable[ManagedProcess]) -> int:
    """Give a keeper commands that it has not started, but for those that are not running yet or any more.

    Returns how many it got.

    One after the other, as there is room: what must wait would double the descriptors of this process.
    """
    count = 0
    for process in processes:
        await keeper.wait_room()
        if process.scope.pidfd is not None:
            keeper.adopt(orphan_of(process))
            count += 1
    return count


async def end_unreachable(spec: ProcessSpec, scanner: TreeScanner) -> None:
    """End what may wait at its gate, or have passed it, without a keeper: the mark in its env tells it."""
    scope = Scope(0, mark=spec.key.encode(), session_over=True)
    for pause in _LOOKS:
        await asyncio.sleep(pause)
        await tree.kill(scope, scanner)


async def end_waiting(spec: ProcessSpec, scanner: TreeScanner) -> None:
    """End what waits at its gate still, where nobody is left to let it go; what has passed it goes on."""
    scope = Scope(0, mark=spec.key.encode(), session_over=True)
    for pause in _LOOKS:
        await asyncio.sleep(pause)
        family = await scanner.family(scope)
        if all(_is_wrapper(member.command) for member in family.members):
            await tree.kill(scope, scanner)


def _is_wrapper(command: str) -> bool:
    """Tell by its words whether a process builds a sandbox: in one that was passed there is another."""
    return os.path.basename(command.split(" ", 1)[0]) == _WRAPPER


def orphan_of(process: ManagedProcess) -> Orphan:
    """Describe a command with all of its descriptors, which stay this process's."""
    spec, ending = process.spec, process.ending
    pid, pidfd = process.pid, process.scope.pidfd
    assert pid is not None
    assert pidfd is not None
    end = None
    if process.life.has_exited:
        end = ProcessExit(spec.key, ending.status, ending.rusage, ending.ended_at)
    fds = process.streams.descriptors()
    if process.feeder is not None:
        fds.update(process.feeder.descriptors())
    if process.confinement is not None:
        fds.update(process.confinement.descriptors())
    if spec.tty:
        fds.pop("stdin", None)  # a terminal is read and written at one end
    return Orphan(
        spec.key,
        pid,
        {"pidfd": pidfd, **fds},
        ending.started_at,
        os.fsencode(process.log.folder),
        spec.log_budget,
        segment_size(spec.log_budget),
        marks_of(process),
        end,
    )


def marks_of(process: ManagedProcess) -> frozenset[str]:
    """Return the flags that a keeper should have of a process."""
    flags = {
        "discard": process.is_discarding,
        "degraded": process.log.store.trouble is not None,
        "stored": process.log.is_on_disk,
        "renewed": process.spec.log_instance != 0,
    }
    return frozenset(flag for flag, is_set in flags.items() if is_set)
