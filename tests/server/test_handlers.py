"""What handlers do beyond what a backend does: instances, leases, pages, repeats."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from execzmq.backends.local import LocalBackend
from execzmq.backends.prepared import Prepared
from execzmq.errors import InstanceChanged, ProcessNotFound
from execzmq.process import screen as screens
from execzmq.protocol.peers import Sessions
from execzmq.sandbox.model import Permissions
from execzmq.server import handlers
from execzmq.server.context import Context, Identity
from execzmq.settings import MIB, PAGES_PER_CLIENT, WRITE_PIECE
from tests.commands import all_events, python, words
from tests.factories import open_local
from tests.raw import start_content
from tests.server.desk import EPOCH, Desk, FakeSharing
from tests.shares import share
from tests.support import deadline


class Rig:
    """The dispatcher with a server's own handlers and a backend behind them."""

    def __init__(self, backend: LocalBackend) -> None:
        self.backend = backend
        self.shut_down = 0
        sessions = Sessions()
        self.context = Context(
            identity=Identity("t", EPOCH, "host", 7, 1.5),
            backend=backend,
            sessions=sessions,
            request_shutdown=self._shut_down,
            statistics=lambda: {"n": 1},
            clock=time.monotonic,
            sharing=FakeSharing(),  # type: ignore[arg-type]  # all of it that handlers use
        )
        self.desk = Desk(handlers.bind(self.context), sessions, self.context.sharing.book)

    def _shut_down(self) -> None:
        self.shut_down += 1

    async def ask(self, method: str, **content: Any) -> dict[str, Any]:
        """Return the content of the one answer to a request."""
        self.desk.ask(method, content)
        await self.desk.replied()
        return self.desk.answer().content


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Rig]:
    """Open a backend."""
    async with open_local() as backend:
        assert isinstance(backend, LocalBackend)
        yield Rig(backend)


def start(*argv: str, **more: Any) -> dict[str, Any]:
    """Return the content of a start."""
    return {**start_content(_Info, *argv, **more)}  # type: ignore[arg-type]  # all that is asked of it


class _Info:
    epoch = EPOCH


async def test_a_server_says_who_it_is() -> None:
    """To a Jupyter client and to ours."""
    async with opened() as rig:
        info = await rig.ask("info")
        assert (info["name"], info["epoch"], info["pid"], info["role"]) == ("t", EPOCH, 7, "owner")
        assert info["statistics"] == {"n": 1}
        kernel = await rig.ask("kernel_info")
        assert kernel["execzmq"]["epoch"] == EPOCH
        assert kernel["language_info"]["name"] == "sh"
        assert [f["name"] for f in (await rig.ask("doctor"))["findings"]]


async def test_the_same_start_is_the_same_process_c64() -> None:
    """By its id, from any request and after its end; another command under that id is refused."""
    async with opened() as rig:
        first = await rig.ask("start", **start("true", process_id="p"))
        again = await rig.ask("start", **start("true", process_id="p"))
        assert (first["repeated"], again["repeated"]) == (False, True)
        assert first["instance"] == again["instance"]
        await rig.ask("wait", process_id="p", until="closed", timeout=10.0)
        assert (await rig.ask("start", **start("true", process_id="p")))["repeated"]
        assert (await rig.ask("start", **start("false", process_id="p")))["ename"] == "Conflict"
        await rig.ask("forget", process_id="p")
        assert not (await rig.ask("start", **start("false", process_id="p")))["repeated"]
        await rig.ask("wait", process_id="p", until="closed", timeout=10.0)


async def test_given_input_and_its_buffer_belong_together() -> None:
    """One without the other is refused, and nothing starts."""
    async with opened() as rig:
        assert (await rig.ask("start", **start("cat") | {"stdin": "data"}))["ename"] == "InvalidRequest"
        rig.desk.ask("start", start("cat"), buffers=[b"x"])
        assert rig.desk.error() == "InvalidRequest"
        assert len(rig.backend.table) == 0


async def test_a_start_is_explained() -> None:
    """What it would become is told, of variables the names alone, and nothing is started."""
    async with opened() as rig:
        content = start("printf", "x", env={b"A": b"hush", b"B": b"hush"}, cwd=b"/tmp")
        del content["epoch"]
        explained = await rig.ask("explain", **content)
        assert explained == {
            "status": "ok",
            "argv": [b"printf", b"x"],
            "arguments": None,
            "cwd": b"/tmp",
            "env": [b"A", b"B", b"EXECZMQ_PROCESS"],
            "env_changes": None,
            "sandbox": None,
        }
        assert (await rig.ask("explain", **content | {"stdin": "data"}))["ename"] == "InvalidRequest"
        refused = await rig.ask("explain", **content | {"sandbox": {"profile": "nope"}})
        assert (refused["ename"], refused["details"]["reason"]) == ("InvalidRequest", "unknown_profile")
        assert len(rig.backend.table) == 0


async def test_what_a_start_would_be_refused_for_explains_it_too() -> None:
    """An id and a name that are taken are told; the same start again is none to refuse."""
    async with opened() as rig:
        content = start("true", process_id="p")
        await rig.ask("start", **content)
        del content["epoch"]
        assert (await rig.ask("explain", **content))["status"] == "ok"
        assert (await rig.ask("explain", **content | {"argv": [b"false"]}))["ename"] == "Conflict"
        await rig.ask("wait", process_id="p", until="closed", timeout=10.0)


async def test_profiles_are_described() -> None:
    """Each with its fields; the default one is marked."""
    async with opened() as rig:
        found = {one["name"]: one for one in (await rig.ask("profiles"))["profiles"]}
        assert [name for name, one in found.items() if one["is_default"]] == ["full-access"]
        assert found["workspace-write"]["fields"]["workspaces"] == ["any"]


async def test_another_instance_is_told() -> None:
    """A read, a wait and a forget of an instance that is not there any more name the present one."""
    async with opened() as rig:
        process = await rig.backend.start(words("true", process_id="p"))
        await all_events(process)
        place = {"process_id": "p", "instance": process.instance ^ 1}
        for method, content in (
            ("read", {"after_seq": 0, "wait": 0.0, "open": []}),
            ("wait", {"until": "closed", "timeout": 0.0}),
            ("forget", {}),
        ):
            answer = await rig.ask(method, **place, **content)
            assert (answer["ename"], answer["details"]["instance"]) == ("InstanceChanged", process.instance)
        with pytest.raises(InstanceChanged):
            rig.context.process("p", "s", process.instance ^ 1)
        with pytest.raises(ProcessNotFound):
            rig.context.process("q", "s")


async def test_pages_wait_for_a_client_that_takes_none() -> None:
    """Beyond its bound, until it names fewer reads as open."""
    async with opened() as rig:
        process = await rig.backend.start(python(f"import os\nos.write(1, bytes({MIB}))", process_id="p"))
        await all_events(process)
        read = {"process_id": "p", "after_seq": 0, "wait": 0.0}
        rig.context.pages.sent("client-1", b"client", "other", memoryview(bytes(PAGES_PER_CLIENT)))
        rig.desk.ask("read", {**read, "open": ["other"]})
        assert rig.desk.sent == []
        rig.desk.ask("lease", {"seconds": 30.0, "cursors": {}, "open": []})
        assert rig.desk.answer().msg_type == "lease_reply"
        await rig.desk.replied()
        page = rig.desk.answer()
        assert page.content["next_seq"] > 1
        assert sum(map(len, page.buffers)) > 0


async def test_a_screen_is_shown_to_whoever_may_read() -> None:
    """An observer sees it too; it waits for room as pages do, and is told what it is of."""
    async with opened() as rig:
        made = share("observer", "p")
        rig.desk.book.add(made)
        process = await rig.backend.start(words("sleep", "1000", process_id="p", tty=True))
        await rig.backend.start(words("sleep", "1000", process_id="q"))
        screen = {"process_id": "p", "instance": process.instance}
        rig.context.pages.sent("client-1", b"client", "other", memoryview(bytes(PAGES_PER_CLIENT)))
        rig.desk.ask("screen", screen)
        await asyncio.sleep(0)
        assert rig.desk.sent == []
        rig.desk.ask("lease", {"seconds": 30.0, "cursors": {}, "open": []})
        rig.desk.answer()
        await rig.desk.replied()
        own = rig.desk.answer()
        assert (own.content["seq"], own.content["rows"], own.content["cols"]) == (1, 24, 80)
        rig.desk.ask("screen", screen, user=made.share_id)
        await rig.desk.replied()
        seen = rig.desk.answer()
        assert (seen.content["status"], seen.buffers) == ("ok", own.buffers)
        rig.desk.ask("screen", {"process_id": "q"})
        await rig.desk.replied()
        assert rig.desk.error() == "NotATerminal"
        rig.desk.ask("screen", {"process_id": "p", "instance": 1})
        assert rig.desk.error() == "InstanceChanged"


async def test_an_empty_screen_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no emulator follows a terminal that has said nothing, there is nothing to be seen."""
    monkeypatch.setattr(screens.ProcessScreen, "_catch_up", _no_emulator)
    async with opened() as rig:
        await rig.backend.start(words("sleep", "1000", process_id="p", tty=True))
        rig.desk.ask("screen", {"process_id": "p"})
        async with asyncio.timeout(10):
            await rig.desk.replied()
        assert rig.desk.answer().buffers == [b""]


async def _no_emulator(screen: screens.ProcessScreen, last_seq: int) -> None:
    raise ImportError("avt")


def stored_of(page: dict[str, Any]) -> bytes:
    """Return what stands where a page says."""
    stored = Path(os.fsdecode(page["file"])).read_bytes()
    return stored[page["position"] :][: page["length"]]


async def test_much_output_is_shown_where_it_stands() -> None:
    """A reader that may open the log's files is told of one; others, and little output, get the bytes."""
    async with opened() as rig:
        process = await rig.backend.start(python(f"import os\nos.write(1, bytes({MIB}))", process_id="p"))
        await all_events(process)
        read = {"process_id": "p", "after_seq": 0, "wait": 0.0, "open": []}
        sent = await rig.ask("read", **read)
        told = await rig.ask("read", **read, by_file=True)
        assert "file" not in sent
        assert told["events"] == sent["events"]
        size = sum(entry[5] for entry in told["events"] if entry[0] == "output")
        assert stored_of(told) == bytes(size)
        little = await rig.ask("read", **read, by_file=True, max_bytes=1)
        assert "file" not in little or little["length"] >= 65536


async def test_a_lease_tells_the_starters_cursor_only() -> None:
    """A cursor of another session, or of another instance, lets nobody go on."""
    async with opened() as rig:
        params = words("sleep", "1000", process_id="p", backpressure="pause")
        process = await rig.backend.start(params, "client-1")
        await process.read(0, None, 10.0)
        backlog = rig.backend.table.require("p").streams.backlog
        assert backlog is not None
        before = backlog.seq
        lease = {"seconds": 30.0, "open": []}
        rig.desk.ask("lease", {**lease, "cursors": {"p": [process.instance, 99]}}, session="client-2")
        rig.desk.ask("lease", {**lease, "cursors": {"p": [process.instance ^ 1, 99]}})
        assert backlog.seq == before
        rig.desk.ask("lease", {**lease, "cursors": {"p": [process.instance, 99], "none": [1, 1]}})
        assert backlog.seq == 99
        assert [message.content["status"] for _, _, message in rig.desk.sent] == ["ok"] * 3


async def test_a_shutdown_is_answered_before_it_happens() -> None:
    """The server's owner decides what it means; the answer goes out."""
    async with opened() as rig:
        assert (await rig.ask("shutdown", epoch=EPOCH))["status"] == "ok"
        assert rig.shut_down == 1


@pytest.mark.slow
async def test_a_root_whose_name_is_no_utf_8(home_root: Path) -> None:
    """Its start and its explanation are answered, the name written readably: else it ran and nobody knew."""
    root = os.path.join(os.fsencode(home_root), b"\xff")
    os.mkdir(root)
    sandbox = {"profile": "workspace-write", "workspace_roots": [root]}
    content = start("true", process_id="p", cwd=root, sandbox=sandbox)
    async with opened() as rig:
        answer = await rig.ask("start", **content)
        assert answer["status"] == "ok", answer
        assert answer["sandbox"]["roots"] == [f"{home_root}/\\udcff"]
        await rig.ask("wait", process_id="p", until="closed", timeout=10.0)
        del content["epoch"], content["process_id"]
        assert (await rig.ask("explain", **content))["sandbox"] == answer["sandbox"]


@pytest.mark.slow
async def test_more_arguments_than_a_sandbox_takes() -> None:
    """They are refused by their number, those of the command itself included."""
    async with opened() as rig:
        content = start("true", *["x"] * 8900, sandbox={"profile": "read-only"}, cwd=b"/")
        answer = await rig.ask("start", **content)
        assert (answer["ename"], answer["details"]["reason"]) == ("LimitExceeded", "too_many_arguments")


# Shares


async def test_what_is_prepared_when_its_share_ends_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, home_root: Path
) -> None:
    """Whoever is refused starts nothing any more, however long its folders have been looked for."""
    async with opened() as rig:
        made = share("operator")
        rig.desk.book.add(made)
        looking, gate = asyncio.Event(), asyncio.Event()
        prepare = rig.backend.confiner.prepare

        async def slow(permissions: Permissions) -> Prepared:
            prepared = await prepare(permissions)
            looking.set()
            await gate.wait()
            return prepared

        monkeypatch.setattr(rig.backend.confiner, "prepare", slow)
        rig.desk.ask("start", start("true"), user=made.share_id)
        await looking.wait()
        rig.desk.book.remove(made.share_id)
        rig.desk.dispatcher.forget(made.share_id)
        gate.set()
        await rig.desk.settled()
        assert rig.desk.error() == "PermissionRefused"
        assert len(rig.backend.table) == 0
        assert rig.desk.recorded.requests == [(made.share_id, "start", "", "PermissionRefused")]


async def test_input_that_waits_when_its_share_ends_is_not_taken() -> None:
    """Nor does anything else that has changed nothing wait on."""
    async with opened() as rig:
        made = share("operator", "p")
        rig.desk.book.add(made)
        process = await rig.backend.start(words("sleep", "1000", process_id="p", stdin="pipe"))
        feeder = rig.backend.table.require("p").feeder
        assert feeder is not None
        while feeder.queue.has_room(WRITE_PIECE):
            await process.write(bytes(WRITE_PIECE))
        write = {"epoch": EPOCH, "process_id": "p", "offset": 0, "end": False}
        rig.desk.ask("write", write, user=made.share_id, buffers=[bytes(WRITE_PIECE)])
        read = {"process_id": "p", "after_seq": 9, "wait": 30.0, "open": []}
        rig.desk.ask("read", read, user=made.share_id)
        await asyncio.sleep(0)
        assert rig.desk.sent == []
        rig.desk.book.remove(made.share_id)
        rig.desk.dispatcher.forget(made.share_id)
        async with deadline(10.0):
            await rig.desk.settled()
        assert [message.content["ename"] for _, _, message in rig.desk.sent] == ["PermissionRefused"] * 2
        assert rig.desk.recorded.requests == [(made.share_id, "write", "p", "PermissionRefused")]
        assert feeder.queue.offset_of(f"{made.share_id}/client-1") == 0


async def test_an_operator_takes_no_keyboard_but_its_own() -> None:
    """That of the server's user, or of another share, it leaves alone; from a client of its share it may."""
    async with opened() as rig:
        made = share("operator", "p")
        rig.desk.book.add(made)
        await rig.backend.start(words("sleep", "1000", process_id="p", tty=True))
        claim = {"process_id": "p", "take_over": True}
        rig.desk.ask("claim_keyboard", claim)
        await rig.desk.replied()
        assert rig.desk.answer().content["status"] == "ok"
        rig.desk.ask("claim_keyboard", claim, user=made.share_id)
        await rig.desk.replied()
        assert rig.desk.error() == "PermissionRefused"
        rig.desk.ask("release_keyboard", {"process_id": "p"})
        await rig.desk.replied()
        rig.desk.answer()
        for session in ("a", "b"):
            rig.desk.ask("claim_keyboard", claim, user=made.share_id, session=session)
            await rig.desk.replied()
            assert rig.desk.answer().content["status"] == "ok"
        assert rig.backend.table.require("p").keyboard == f"{made.share_id}/b"


@pytest.mark.parametrize(("name", "is_told"), [("train", False), ("hidden", False), ("mine", True)])
async def test_a_name_that_is_taken_does_not_tell_an_operator_by_whom(name: str, is_told: bool) -> None:
    """Of processes that its share does not name it learns no id, by a start or by an explanation."""
    async with opened() as rig:
        made = share("operator", "own")
        rig.desk.book.add(made)
        await rig.backend.start(words("sleep", "1000", process_id="hidden", name="train"))
        await rig.backend.start(words("sleep", "1000", process_id="own", name="mine"))
        content = start("true", name=name)
        for method in ("start", "explain"):
            asked = {**content} if method == "start" else {k: v for k, v in content.items() if k != "epoch"}
            rig.desk.ask(method, asked, user=made.share_id)
            await rig.desk.replied()
            answer = rig.desk.answer().content
            assert answer["ename"] == "Conflict"
            assert ("process_id" in answer["details"]) == is_told
            assert "hidden" not in str(answer).replace(f"'{name}'", "")
