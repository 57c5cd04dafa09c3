"""Whatever comes in, nothing breaks: each readable request has one answer, and honest clients are served."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from execzmq.backends.local import LocalBackend
from execzmq.errors import ExecZMQError
from execzmq.protocol.methods import METHODS
from execzmq.protocol.peers import Sessions
from execzmq.protocol.wire import DELIMITER, Codec, split
from execzmq.server import handlers
from execzmq.server.context import Context, Identity
from tests.commands import words
from tests.server.desk import EPOCH, KEY, ROUTING, Desk, FakeSharing
from tests.support import deadline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SHORT = 0.001
START = {
    "epoch": EPOCH,
    "argv": [b"true"],
    "stdin": "null",
    "merge_stderr": False,
    "timeout_grace": 0.0,
    "lifetime": "server",
    "backpressure": "spill",
}
RIGHT: dict[str, dict[str, Any]] = {
    "kernel_info": {},
    "info": {},
    "doctor": {},
    "list": {},
    "start": START,
    "explain": {name: value for name, value in START.items() if name != "epoch"},
    "profiles": {},
    "describe": {"id_or_name": "p"},
    "read": {"process_id": "p", "after_seq": 0, "wait": SHORT, "open": []},
    "wait": {"process_id": "p", "until": "closed", "timeout": SHORT},
    "screen": {"process_id": "p"},
    "forget": {"process_id": "p"},
    "signal": {"epoch": EPOCH, "process_id": "p", "signal": 18},
    "terminate": {"epoch": EPOCH, "process_id": "none", "grace": 0.0},
    "resize": {"epoch": EPOCH, "process_id": "p", "rows": 24, "cols": 80},
    "claim_keyboard": {"process_id": "p", "take_over": True},
    "release_keyboard": {"process_id": "p"},
    "lease": {"seconds": 30.0, "cursors": {}, "open": []},
    "share": {"publickey": "k" * 40, "role": "observer", "processes": ["p"], "expires": 60.0},
    "shares": {},
    "revoke": {"share_id": "none"},
    "shutdown": {"epoch": EPOCH},
    "write": {"epoch": EPOCH, "process_id": "p", "offset": 0, "end": False},
}
"""A right request of each method; `p` is a terminal that lives."""

SIMPLE: tuple[Any, ...] = (
    *(None, True, False, [], {}, b"", ""),
    *(0, 1, -1, 255, 65535, 65536, 1 << 31, 1 << 63, (1 << 64) - 1, -(1 << 63)),
    *(0.0, SHORT, -1.0, 1e308, float("nan"), float("inf"), float("-inf")),
    *("p", "none", "p.", "a b", "\0", "..", "x" * 65, "\u2028", "data", "pipe", "exited", EPOCH),
    *(b"p", b"\0", b"\xff", b"=", b"/none"),
)
FIELDS = sorted({f.partition(":")[0].rstrip("?") for m in METHODS.values() for f in m.request} | {"restart"})

Request = tuple[str, dict[str, Any], list[bytes]]


def value_from(chance: Random, depth: int = 2) -> Any:
    """Return any value that msgpack can pack."""
    kind = chance.randrange(8) if depth else 0
    if kind == 6:
        return [value_from(chance, depth - 1) for _ in range(chance.randrange(5))]
    if kind == 7:
        return {chance.choice(FIELDS): value_from(chance, depth - 1) for _ in range(chance.randrange(4))}
    return chance.choice(SIMPLE)


def request_from(chance: Random) -> Request:
    """Return a method, a content of it of which up to three fields are spoilt, and buffers."""
    method = chance.choice(sorted(METHODS))
    content = dict(RIGHT[method])
    for _ in range(chance.randrange(4)):
        name = chance.choice(FIELDS if not content or chance.random() < 0.3 else sorted(content))
        if chance.random() < 0.8:
            content[name] = value_from(chance)
        else:
            content.pop(name, None)
    return (
        method,
        content,
        [chance.randbytes(chance.randrange(16)) for _ in range(chance.choice((0, 0, 1, 2)))],
    )


def frames_from(chance: Random) -> list[bytes]:
    """Return the frames of a message, some of them cut, changed, doubled or gone; or any frames."""
    if chance.random() < 0.2:
        return [chance.choice((DELIMITER, chance.randbytes(chance.randrange(40)))) for _ in range(1, 9)]
    method = chance.choice(("kernel_info", "describe", "lease"))
    frames = [bytes(frame) for frame in Codec(KEY, "junk").encode(f"{method}_request", RIGHT[method])]
    for _ in range(chance.randrange(1, 4)):
        _spoil(chance, frames, chance.randrange(len(frames)))
    return frames


def _spoil(chance: Random, frames: list[bytes], at: int) -> None:
    how = chance.randrange(5)
    if how == 0 and len(frames) > 1:
        del frames[at]
    elif how == 1:
        frames.insert(at, chance.choice(frames))
    elif how == 2:
        frames[at] = frames[at][: chance.randint(0, len(frames[at]))]
    elif how == 3:
        frames[at] = chance.randbytes(chance.randrange(64))
    else:
        position = chance.randint(0, len(frames[at]))
        frames[at] = frames[at][:position] + chance.randbytes(2) + frames[at][position + 1 :]


class Rig:
    """The dispatcher with the handlers of a server, a backend behind them, and an honest client."""

    def __init__(self, backend: LocalBackend) -> None:
        sessions = Sessions()
        context = Context(
            identity=Identity("t", EPOCH, "host", 1, 0.0),
            backend=backend,
            sessions=sessions,
            request_shutdown=lambda: None,
            statistics=dict,
            clock=time.monotonic,
            sharing=FakeSharing(),  # type: ignore[arg-type]  # all of it that handlers use
        )
        self.backend = backend
        self.desk = Desk(handlers.bind(context), sessions, context.sharing.book)
        self.turns = 0
        self.expected: Counter[str] = Counter()
        self.replies: Counter[str] = Counter()

    def take(self) -> None:
        """Count what was answered."""
        for _, routing, message in self.desk.sent:
            assert routing[0] == ROUTING
            assert message.content.get("ename") != "ServerError", message.content
            self.replies[message.parent["msg_id"]] += 1
        self.desk.sent.clear()

    async def turn(self) -> None:
        """Let the loop do what is due, and sometimes ask as an honest client does."""
        await asyncio.sleep(0)
        self.take()
        self.turns += 1
        if self.turns % 10:
            return
        self.desk.ask("kernel_info", session="honest")
        (honest,) = self.desk.sent
        assert honest[2].content["status"] == "ok"
        self.desk.sent.clear()
        for process in list(self.backend.table):
            if process.life.is_over:
                self.backend.forget(process)

    async def end(self) -> None:
        """Wait for the last answers; each request must have had one."""
        async with deadline(30):
            await self.backend.end_all("test", 0.0)
            await self.desk.settled()
            self.take()
            while self.replies != self.expected:  # a start that is still on its way
                await self.desk.replied()
                self.take()
        await self.desk.dispatcher.close()
        await self.backend.aclose()
        assert self.replies == self.expected


@pytest.fixture
def loop(no_leaks: None) -> Iterator[tuple[asyncio.Runner, Rig]]:
    """A loop for all examples of a test; at its end every request must have had its one answer."""
    with asyncio.Runner() as runner:
        backend = runner.run(LocalBackend.open_private())
        runner.run(backend.start(words("cat", process_id="p", tty=True)))
        rig = _in_loop(runner, lambda: Rig(backend))
        yield runner, rig
        runner.run(rig.end())


def _in_loop(runner: asyncio.Runner, function: Any) -> Any:
    async def call() -> Any:
        return function()

    return runner.run(call())


Loop = tuple[asyncio.Runner, Rig]
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def ask(loop: Loop, request: Request) -> None:
    """Send one request, and note that it needs an answer."""
    runner, rig = loop
    method, content, buffers = request

    async def example() -> None:
        rig.expected[rig.desk.ask(method, content, buffers=buffers)] += 1
        await rig.turn()

    runner.run(example())


def throw(loop: Loop, frames: list[bytes], is_signed: bool) -> None:
    """Send any frames, signed rightly where that is asked for; what can be read must be answered."""
    runner, rig = loop
    codec = Codec(KEY, "junk")

    async def example() -> None:
        given = list(frames)
        if is_signed and len(given) >= 6:
            given[1] = codec._sign(given[2:6])
        given.insert(0, ROUTING)  # a ROUTER puts it before whatever comes
        try:
            header = codec.header_of(split(given)[1])
        except ExecZMQError:
            header = None
        rig.desk.give(given)
        if header is not None:
            rig.expected[header["msg_id"]] += 1
        await rig.turn()

    runner.run(example())


AT_ONCE = 10
"""Requests of one example: hypothesis takes as long for an example as the server for several requests."""
# Drawn by a seed: to let hypothesis draw each field takes ten times as long as to serve it.
SEEDS = st.integers(0, (1 << 64) - 1)


@settings(max_examples=6000 // AT_ONCE, suppress_health_check=UNHURRIED, database=None)
@given(seed=SEEDS)
def test_spoilt_requests(loop: Loop, seed: int) -> None:
    """Any content of any method: one answer, never a fault of the server, and others are served."""
    chance = Random(seed)
    for _ in range(AT_ONCE):
        request = request_from(chance)
        note(repr(request))
        ask(loop, request)


@settings(max_examples=4000 // AT_ONCE, suppress_health_check=UNHURRIED, database=None)
@given(seed=SEEDS)
def test_spoilt_frames_c56(loop: Loop, seed: int) -> None:
    """Any frames, rightly signed or not: an answer where somebody can be answered, else silence."""
    chance = Random(seed)
    for _ in range(AT_ONCE):
        frames = frames_from(chance)
        note(repr(frames))
        throw(loop, frames, chance.random() < 0.5)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=300_000, suppress_health_check=UNHURRIED, database=None)
@given(seed=SEEDS)
def test_spoilt_requests_at_length(loop: Loop, seed: int) -> None:
    """The same for minutes."""
    ask(loop, request_from(Random(seed)))
    throw(loop, frames_from(Random(seed)), bool(seed % 2))
