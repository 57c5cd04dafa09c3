"""The way from frames to a handler and back."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from execzmq.errors import ProcessNotFound
from execzmq.protocol.methods import METHODS
from execzmq.protocol.wire import DELIMITER, Codec
from execzmq.server import dispatch
from execzmq.server.access import Peer
from execzmq.server.dispatch import Caller, Reply
from execzmq.server.guard import Guard
from execzmq.settings import MAX_CONTENT, MAX_NESTING, REPLIES_PER_SESSION, REPLY_KEPT
from tests.server.desk import EPOCH, KEY, ROUTING, Desk
from tests.shares import share

FORGET = {"process_id": "p"}


class Counting:
    """A handler that counts its calls and may be told to wait, or to fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate: asyncio.Event | None = None
        self.error: Exception | None = None

    def __call__(self, caller: Caller, request: Any, buffers: Any) -> Any:
        self.calls += 1
        if self.gate is not None:
            return self._later(self.gate)
        return self._now()

    async def _later(self, gate: asyncio.Event) -> Reply:
        await gate.wait()
        return self._now()

    def _now(self) -> Reply:
        if self.error is not None:
            raise self.error
        return Reply({"n": self.calls}, [b"buffer"])


@pytest.fixture
def handler() -> Counting:
    """The handler of every method in these tests."""
    return Counting()


@pytest.fixture
def desk(handler: Counting) -> Desk:
    """A dispatcher whose every method is that handler."""
    return Desk(dict.fromkeys(METHODS, handler))


async def test_a_request_is_answered(desk: Desk) -> None:
    """On its socket, to its sender, with its header as parent, and with the buffers."""
    msg_id = desk.ask("forget", FORGET)
    ((socket, _, _),) = desk.sent
    answer = desk.answer()
    assert socket == "shell"
    assert answer.msg_type == "forget_reply"
    assert answer.parent["msg_id"] == msg_id
    assert answer.content == {"status": "ok", "n": 1}
    assert answer.buffers == [b"buffer"]


async def test_a_repeat_is_answered_and_not_done_c64(desk: Desk, handler: Counting) -> None:
    """The answer of a changing method is sent once more, as a new message."""
    msg_id = desk.ask("forget", FORGET)
    first = desk.answer()
    desk.ask("forget", FORGET, msg_id=msg_id)
    second = desk.answer()
    assert handler.calls == 1
    assert second.content == first.content
    assert second.msg_id != first.msg_id


async def test_a_refusal_is_repeated_too_c64(desk: Desk, handler: Counting) -> None:
    """What failed once is not tried again under the same id."""
    handler.error = ProcessNotFound("no")
    msg_id = desk.ask("forget", FORGET)
    assert desk.error() == "ProcessNotFound"
    handler.error = None
    desk.ask("forget", FORGET, msg_id=msg_id)
    assert desk.error() == "ProcessNotFound"
    assert handler.calls == 1


async def test_a_repeat_in_parallel_waits_for_the_first_c64(desk: Desk, handler: Counting) -> None:
    """While the work is being done a repeat starts nothing; one answer comes, and after it repeats again."""
    handler.gate = asyncio.Event()
    msg_id = desk.ask("forget", FORGET)
    desk.ask("forget", FORGET, msg_id=msg_id)
    assert desk.sent == []
    handler.gate.set()
    await desk.settled()
    assert desk.answer().content["status"] == "ok"
    desk.ask("forget", FORGET, msg_id=msg_id)
    assert desk.answer().content["n"] == 1


async def test_a_repeat_is_answered_where_the_client_is_now_c64(desk: Desk, handler: Counting) -> None:
    """A client that has connected anew has another address; the answer to its repeat goes there."""
    handler.gate = asyncio.Event()
    msg_id = desk.ask("forget", FORGET)
    desk.ask("forget", FORGET, msg_id=msg_id, routing=b"elsewhere")
    handler.gate.set()
    await desk.settled()
    assert [routing for _, routing, _ in desk.sent] == [[b"elsewhere"]]
    assert handler.calls == 1
    assert desk.dispatcher._pending._routes == {}


async def test_the_same_id_of_another_session_is_another_request(desk: Desk, handler: Counting) -> None:
    """Sessions do not answer for each other."""
    desk.ask("forget", FORGET, msg_id="m")
    desk.ask("forget", FORGET, msg_id="m", session="client-2")
    assert [message.content["n"] for _, _, message in desk.sent] == [1, 2]


async def test_an_answer_is_kept_for_its_time(desk: Desk, handler: Counting) -> None:
    """And no longer, so that memory does not grow."""
    msg_id = desk.ask("forget", FORGET)
    desk.now += REPLY_KEPT
    desk.ask("forget", FORGET, msg_id=msg_id)
    assert handler.calls == 2


async def test_questions_are_not_kept(desk: Desk, handler: Counting) -> None:
    """A method that changes nothing is simply asked again."""
    msg_id = desk.ask("list")
    desk.ask("list", msg_id=msg_id)
    assert handler.calls == 2
    assert len(desk.answers) == 0


async def test_too_many_in_progress_are_refused_by_name(desk: Desk, handler: Counting) -> None:
    """A session that waits for very many changes gets an error, and its earlier ones their answers."""
    handler.gate = asyncio.Event()
    for _ in range(REPLIES_PER_SESSION):
        desk.ask("forget", FORGET)
    desk.ask("forget", FORGET)
    assert desk.error() == "LimitExceeded"
    desk.ask("forget", FORGET, session="another")
    assert desk.sent == []
    handler.gate.set()
    await desk.settled()
    assert len(desk.sent) == REPLIES_PER_SESSION + 1


async def test_another_life_is_named(desk: Desk, handler: Counting) -> None:
    """A change that was meant for an earlier life of the server is refused, and the present one told."""
    desk.ask("terminate", {"epoch": "e0", "process_id": "p", "grace": 0.0})
    answer = desk.answer()
    assert (answer.content["ename"], answer.content["details"]) == ("WrongEpoch", {"epoch": EPOCH})
    assert handler.calls == 0


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.epoch])
async def test_without_an_epoch_nothing_is_changed(desk: Desk, handler: Counting, method: str) -> None:
    """As a stock client asks for a shutdown."""
    desk.ask(method, {"restart": False})
    assert desk.error() == "InvalidRequest"
    assert handler.calls == 0


@pytest.mark.parametrize(
    "msg_type", ["nonsense_request", "list", "list_reply", "execute_request", "_request"]
)
async def test_an_unknown_method_is_named(desk: Desk, msg_type: str) -> None:
    """Also what only looks like one."""
    desk.ask("list", msg_type=msg_type)
    assert desk.error() == "UnknownMethod"


async def test_a_method_belongs_to_one_socket(desk: Desk, handler: Counting) -> None:
    """On another one it is not known, so that nothing passes the others."""
    desk.ask("forget", FORGET, socket="control")
    assert desk.error() == "UnknownMethod"
    assert handler.calls == 0


async def test_a_role_may_not_more(desk: Desk, handler: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's role decides, before anything is looked at or remembered."""
    monkeypatch.setattr(Guard, "peer_of", lambda guard, user: Peer(str(user), "observer"))
    desk.ask("forget", FORGET, user="share")
    assert desk.error() == "PermissionRefused"
    assert handler.calls == 0
    assert len(desk.sessions) == 0
    desk.ask("list", user="share")
    assert desk.answer().content["status"] == "ok"


async def test_a_session_belongs_to_who_made_it(
    desk: Desk, handler: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another identity cannot speak in its name, nor take its answers."""
    monkeypatch.setattr(Guard, "peer_of", lambda guard, user: Peer(str(user), "owner"))
    msg_id = desk.ask("forget", FORGET, user="a")
    desk.answer()
    desk.ask("forget", FORGET, user="b", msg_id=msg_id)
    assert desk.error() == "PermissionRefused"
    assert handler.calls == 1


async def test_whom_zap_did_not_name_is_not_served(desk: Desk, handler: Counting) -> None:
    """A message without an identity is counted and dropped."""
    desk.ask("list", user=None)
    assert desk.sent == []
    assert handler.calls == 0
    assert desk.dispatcher.statistics["unreadable"] == 1


def _cut(frames: list[Any]) -> list[Any]:
    return frames[:4]


def _no_delimiter(frames: list[Any]) -> list[Any]:
    return [frame for frame in frames if frame != DELIMITER]


def _unsigned(frames: list[Any]) -> list[Any]:
    return [*frames[:2], b"", *frames[3:]]


def _changed(frames: list[Any]) -> list[Any]:
    return [*frames[:-1], frames[-1] + b"\x80"]


def _other_key(_frames: list[Any]) -> list[Any]:
    return [ROUTING, *Codec(b"another", "client-1").encode("list_request", {})]


def _empty(_frames: list[Any]) -> list[Any]:
    return [b""]


@pytest.mark.parametrize("spoil", [_cut, _no_delimiter, _unsigned, _changed, _other_key, _empty])
async def test_what_is_not_signed_is_dropped_and_counted_c56(
    desk: Desk, handler: Counting, spoil: Callable[[list[Any]], list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is told anything, the loop lives on, and the log tells it without the key."""
    desk.give(spoil([ROUTING, *desk.codec.encode("list_request", {})]))
    assert desk.sent == []
    assert handler.calls == 0
    counts = desk.dispatcher.statistics
    assert counts["unreadable"] + counts["refused"] == 1
    assert KEY.decode() not in caplog.text
    desk.ask("list")
    assert desk.answer().content["status"] == "ok"


def _signed(desk: Desk, content: bytes) -> list[Any]:
    """Return the frames of a request whose content is these bytes, rightly signed."""
    _, _, header, parent, metadata, _ = desk.codec.encode("list_request", {})
    parts = [header, parent, metadata, content]
    return [ROUTING, DELIMITER, desk.codec._sign(parts), *parts]


@pytest.mark.parametrize(
    ("content", "ename"),
    [
        (b"\xc1", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
        (b"\x93\x01\x02\x03", "RemoteProtocolError"),
        (b"\x81\xa1a" + b"\x91" * (MAX_NESTING + 1) + b"\x01", "LimitExceeded"),
        (b"\x81\xa1a\xc6" + (MAX_CONTENT).to_bytes(4) + bytes(MAX_CONTENT), "LimitExceeded"),
    ],
    ids=["junk", "empty", "no-map", "deep", "large"],
)
async def test_a_bad_request_of_a_known_sender_is_answered(desk: Desk, content: bytes, ename: str) -> None:
    """Its header can be read and is signed, so that its sender need not wait in vain."""
    frames = _signed(desk, content)
    desk.give(frames)
    assert desk.error() == ename


async def test_junk_does_not_fill_the_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The log tells of it ever more seldom."""
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            desk.give(_other_key([]))
    assert len(caplog.records) == 10
    assert desk.dispatcher.statistics["refused"] == 1000


async def test_wrong_fields_are_named(desk: Desk, handler: Counting) -> None:
    """And nothing is done."""
    desk.ask("forget", {"process_id": "a b"})
    answer = desk.answer()
    assert answer.content["ename"] == "InvalidRequest"
    assert "process_id" in answer.content["details"]["fields"]
    assert handler.calls == 0


async def test_buffers_that_nobody_asked_for_are_refused(desk: Desk, handler: Counting) -> None:
    """A request never means less than it says."""
    desk.ask("list", buffers=[b"x"])
    assert desk.error() == "InvalidRequest"
    assert handler.calls == 0


@pytest.mark.parametrize("waits", [False, True])
async def test_a_fault_is_told_by_an_incident_only(
    desk: Desk, handler: Counting, caplog: pytest.LogCaptureFixture, waits: bool
) -> None:
    """The client learns a number, the log the rest; the next request is served."""
    handler.error = RuntimeError("inner secret")
    if waits:
        handler.gate = asyncio.Event()
        handler.gate.set()
    desk.ask("list")
    await desk.settled()
    answer = desk.answer()
    assert answer.content["ename"] == "ServerError"
    assert "inner secret" not in str(answer.content)
    assert answer.content["details"]["incident"] in caplog.text
    assert "inner secret" in caplog.text
    handler.error = None
    desk.ask("list")
    await desk.settled()
    assert desk.answer().content["status"] == "ok"


async def test_a_reply_that_cannot_be_packed_is_an_error(desk: Desk, handler: Counting) -> None:
    """Whoever asked gets an answer all the same."""
    handler.calls = 1 << 70
    desk.ask("list")
    assert desk.error() == "LocalProtocolError"


async def test_close_leaves_nobody_waiting(desk: Desk, handler: Counting) -> None:
    """Handlers that still wait are cancelled without a reply: their clients ask the next server."""
    handler.gate = asyncio.Event()
    desk.ask("forget", FORGET)
    await desk.dispatcher.close()
    await desk.dispatcher.close()
    assert desk.sent == []


# Shares


async def test_the_holder_of_a_share_is_answered_without_a_signature(desk: Desk, handler: Counting) -> None:
    """Over CURVE none is made or looked at; what it does not see does not exist for it."""
    made = share("operator", "p")
    desk.book.add(made)
    desk.ask("forget", FORGET, user=made.share_id)
    assert desk.answer().content["status"] == "ok"
    desk.ask("forget", {"process_id": "other"}, user=made.share_id)
    assert desk.error() == "ProcessNotFound"
    desk.ask("shutdown", {"epoch": EPOCH}, user=made.share_id)
    assert desk.error() == "PermissionRefused"
    assert handler.calls == 1
    user = made.share_id
    assert desk.recorded.sessions == [(user, f"{user}/client-1")]
    assert desk.recorded.requests == [
        (user, "forget", "p", ""),
        (user, "forget", "other", "ProcessNotFound"),
        (user, "shutdown", "", "PermissionRefused"),
    ]


async def test_a_share_that_has_ended_is_told_so(desk: Desk, handler: Counting) -> None:
    """At once, whatever it asks, and also where it has been waiting for an answer."""
    made = share("operator", "p", expires_at=2000.0)
    desk.book.add(made)
    handler.gate = asyncio.Event()
    desk.ask("forget", FORGET, user=made.share_id)
    desk.now = 2000.0
    handler.gate.set()
    await desk.settled()
    assert desk.error() == "PermissionRefused"
    desk.ask("list", user=made.share_id)
    assert desk.error() == "PermissionRefused"
    desk.give([ROUTING, b"junk"], user=made.share_id)
    assert desk.sent == []


async def test_what_a_guest_holds_up_is_its_own(
    desk: Desk, handler: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for so much, has so many sessions, and its answers take no room of others'."""
    monkeypatch.setattr(dispatch, "SHARE_PENDING", 3)
    monkeypatch.setattr(dispatch, "SHARE_SESSIONS", 2)
    made = share("operator", "p")
    desk.book.add(made)
    handler.gate = asyncio.Event()
    for _ in range(3):
        desk.ask("forget", FORGET, user=made.share_id)
    desk.ask("forget", FORGET, user=made.share_id)
    assert desk.error() == "LimitExceeded"
    desk.ask("forget", FORGET, session="own")
    handler.gate.set()
    await desk.settled()
    assert [message.content["status"] for _, _, message in desk.sent] == ["ok"] * 4
    assert len(desk.answers) == 1
    desk.sent.clear()
    handler.gate = None
    for session, expected in (("2", "ok"), ("3", "error"), ("client-1", "ok")):
        desk.ask("list", user=made.share_id, session=session)
        assert desk.answer().content["status"] == expected
    desk.dispatcher.forget(made.share_id)
    assert desk.dispatcher._pending._guests == {}


async def test_a_repeat_is_recorded_once(desk: Desk, handler: Counting) -> None:
    """It is done once."""
    made = share("operator", "p")
    desk.book.add(made)
    for _ in range(3):
        desk.ask("forget", FORGET, user=made.share_id, msg_id="m")
    assert handler.calls == 1
    assert desk.recorded.requests == [(made.share_id, "forget", "p", "")]


async def test_what_ends_after_its_share_leaves_nothing(desk: Desk, handler: Counting) -> None:
    """It has been done, which is recorded; its answer is kept for nobody."""
    made = share("operator", "p")
    desk.book.add(made)
    handler.gate = asyncio.Event()
    desk.ask("forget", FORGET, user=made.share_id)
    desk.book.remove(made.share_id)
    desk.dispatcher.forget(made.share_id)
    handler.gate.set()
    await desk.settled()
    assert desk.error() == "PermissionRefused"
    assert desk.recorded.requests == [(made.share_id, "forget", "p", "")]
    assert (desk.dispatcher._pending._guests, desk.dispatcher._pending._routes) == ({}, {})
