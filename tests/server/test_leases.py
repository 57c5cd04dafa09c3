"""What follows from the silence of clients."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from execzmq.backends.local import LocalBackend
from execzmq.backends.local_process import LocalProcess
from execzmq.protocol.peers import Sessions
from execzmq.server.leases import LeaseKeeper
from execzmq.server.pages import PagesInFlight
from execzmq.settings import LEASE, MIB, PAGES_PER_CLIENT, SESSION_KEPT, STARTER_GONE
from execzmq.types.params import ExecParams
from tests.commands import python, words
from tests.factories import open_local
from tests.support import deadline


class Rig:
    """A backend whose sessions speak when the test says so."""

    def __init__(self, backend: LocalBackend) -> None:
        self.now = 1000.0
        self.backend = backend
        self.sessions = Sessions()
        self.pages = PagesInFlight()
        self.leases = LeaseKeeper(backend, self.sessions, self.pages, lambda: self.now)

    def hear(self, *sessions: str) -> None:
        """Let sessions say something."""
        for session in sessions:
            self.sessions.hear(session, "owner", self.now)

    async def start(self, params: ExecParams, session: str) -> LocalProcess:
        """Start a command for a session."""
        return await self.backend.start(params, session)


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Rig]:
    """Open a backend."""
    async with open_local() as backend:
        assert isinstance(backend, LocalBackend)
        yield Rig(backend)


async def test_a_lease_that_runs_out_ends_what_it_holds_c65() -> None:
    """Processes with the lifetime of their client end, others live on, and no other session prolongs them."""
    async with opened() as rig:
        rig.hear("a", "b")
        held = await rig.start(words("sleep", "1000", lifetime="client"), "a")
        free = await rig.start(words("sleep", "1000"), "a")
        others = await rig.start(words("sleep", "1000", lifetime="client"), "b")
        rig.now += LEASE - 1
        rig.hear("b")
        rig.sessions.lease("b", LEASE, rig.now)
        rig.leases.look()
        rig.now += 2
        rig.leases.look()
        async with deadline(10):
            info = await held.wait("exited", 10.0)
        assert info.result is not None
        assert (info.result.cause, info.result.asked_by) == ("terminated", "lease")
        assert not (await free.info()).exited
        assert not (await others.info()).exited


async def test_a_renewed_lease_holds() -> None:
    """For its seconds from then on."""
    async with opened() as rig:
        rig.hear("a")
        held = await rig.start(words("sleep", "1000", lifetime="client"), "a")
        for _ in range(5):
            rig.now += LEASE - 1
            rig.hear("a")
            rig.sessions.lease("a", LEASE, rig.now)
            rig.leases.look()
        assert not (await held.info()).exited


async def test_a_keyboard_lapses_with_its_holder() -> None:
    """Others may type again; the keyboards of the living stay."""
    async with opened() as rig:
        rig.hear("a", "b")
        first = await rig.start(words("cat", tty=True), "x")
        second = await rig.start(words("cat", tty=True), "x")
        await LocalProcess(rig.backend, rig.backend.table.require(first.process_id), "a").claim_keyboard()
        await LocalProcess(rig.backend, rig.backend.table.require(second.process_id), "b").claim_keyboard()
        rig.now += LEASE - 1
        rig.hear("b")
        rig.sessions.lease("b", LEASE, rig.now)
        rig.now += 2
        rig.leases.look()
        assert (await first.info()).keyboard is None
        assert (await second.info()).keyboard == "b"


async def test_pages_of_the_gone_are_forgotten() -> None:
    """So that they do not count against others for ever."""
    async with opened() as rig:
        rig.hear("a")
        rig.pages.sent("a", b"c", "m", memoryview(bytes(20 * MIB)))
        rig.now += LEASE
        rig.leases.look()
        await asyncio.sleep(0)
        assert rig.pages.room_for("a", b"c", MIB) == MIB


@pytest.mark.slow
async def test_a_starter_of_whom_nothing_is_heard_holds_nobody_up() -> None:
    """After 10 s of silence its command is read on; when it is back, the command waits for it again."""
    async with opened() as rig:
        rig.hear("a")
        code = "import os\nwhile True: os.write(1, b'x' * 65536)"
        process = await rig.start(python(code, backpressure="pause", log_budget=MIB), "a")
        managed = rig.backend.table.require(process.process_id)
        await _until_paused(process)
        rig.now += STARTER_GONE - 1
        rig.leases.look()
        before = managed.log.last_seq
        await managed.wait_change(0.2)
        assert managed.log.last_seq == before
        rig.now += 2
        rig.leases.look()
        async with deadline(10):
            while managed.log.ends["stdout"] < 8 * MIB:
                await managed.wait_change(1.0)
        rig.hear("a")
        rig.leases.look()
        await _until_paused(process)


async def _until_paused(process: LocalProcess) -> None:
    async with deadline(10):
        last = -1
        while (info := await process.wait("exited", 0.2)).last_seq != last:
            last = info.last_seq


async def test_what_a_session_took_after_its_lease_ends_with_it() -> None:
    """It may speak on without one; its pages and processes do not stay for ever."""
    async with opened() as rig:
        rig.hear("s")
        rig.now += LEASE
        rig.leases.look()
        rig.hear("s")
        rig.pages.sent("s", b"c", "m", memoryview(bytes(PAGES_PER_CLIENT)))
        process = await rig.start(words("sleep", "1000", lifetime="client"), "s")
        rig.leases.look()
        assert not rig.pages.room_for("s", b"d", PAGES_PER_CLIENT)
        rig.now += SESSION_KEPT
        rig.leases.look()
        assert rig.pages.room_for("s", b"d", 1)
        async with deadline(10.0):
            assert (await process.wait("exited", 10.0)).result is not None
