"""A server that answers as a test tells it, on the test's own loop; speaks the protocol and runs nothing."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import zmq

from execzmq.client.core import Connection
from execzmq.connection import SOCKET_PREFIX, ConnectionInfo, host_id
from execzmq.errors import ExecZMQError
from execzmq.protocol.records import EVENTS, EXIT_RESULT
from execzmq.protocol.values import error_content
from execzmq.protocol.wire import Codec, Message
from execzmq.settings import PROTOCOL_VERSION
from execzmq.types.events import Closed, Event, Exited, Output, Started
from execzmq.types.results import ExitResult
from execzmq.zmqloop import Frames, ZmqPort

Answer: TypeAlias = dict[str, Any] | tuple[dict[str, Any], list[bytes]] | ExecZMQError | None
"""Fields of an `ok` reply, with buffers or without; an error; or no reply at all."""
Handler: TypeAlias = Callable[[Message], Answer]

INSTANCE = 7
SUCCESS = ExitResult(exit_code=0)
_PORTS = {"shell": 1, "control": 2, "stdin": 3, "iopub": 4, "hb": 5}
_KIND = {Started: "started", Exited: "exited", Closed: "closed"}


class FakeServer:
    """One life of a server. A test sets `handlers` and reads `requests`.

    Attributes:
        handlers: by method; a method without one gets no reply.
        requests: every request that has come, oldest first.
        welcomes: whether subscriptions are welcomed.
        host, protocol: what the server says of itself.
    """

    def __init__(self, folder: Path, key: str = "key", epoch: str = "", *, heart: bool = True) -> None:
        self.epoch = epoch or secrets.token_hex(4)
        self.info = connection_info(folder, key)
        self.requests: list[Message] = []
        self._received: list[tuple[ZmqPort, bytes, Message]] = []
        self.welcomes = True
        self.host = host_id()
        self.protocol = PROTOCOL_VERSION
        self.handlers: dict[str, Handler] = {
            "kernel_info": lambda _: {**_KERNEL_INFO, "execzmq": self.about()},
            "lease": lambda _: {"epoch": self.epoch},
        }
        self._codec = Codec(key.encode(), "fake")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._ports: list[ZmqPort] = []
        self._news = asyncio.Event()
        self._routers = {channel: self._router(channel) for channel in ("shell", "control", "stdin")}
        self._iopub = self._bind("iopub", zmq.XPUB, self._on_subscription)
        if heart:
            self._bind("hb", zmq.ROUTER, self._echo)

    def about(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        return {"protocol": self.protocol, "epoch": self.epoch, "host": self.host, "name": "fake"}

    def asked(self, method: str) -> list[Message]:
        """Return the requests of one method."""
        return [message for message in self.requests if message.msg_type == f"{method}_request"]

    def broadcast(self, process_id: str, *events: Event, instance: int = INSTANCE) -> None:
        """Tell events to whoever watches."""
        for event in events:
            kind = _kind_of(event)
            content = {"process_id": process_id, "instance": instance, "seq": _seq_of(event), "time": 0.0}
            content |= {name: form.write(getattr(event, name)) for name, form in EVENTS[kind][1].items()}
            buffers = [event.data] if isinstance(event, Output) else []
            topic = event.stream if isinstance(event, Output) else kind
            self._publish(f"p.{process_id}.{topic}", f"process_{kind}", content, buffers)

    def tail(self, process_id: str, seq: int, instance: int = INSTANCE) -> None:
        """Tell how far the log goes."""
        content = {"process_id": process_id, "instance": instance, "seq": seq, "state": "running"}
        self._publish(f"p.{process_id}.tail", "process_tail", content, [])

    def answer_late(self, message: Message, answer: Answer) -> None:
        """Answer a request that had no reply when it came."""
        port, identity = next((port, identity) for port, identity, one in self._received if one is message)
        self._reply(port, identity, message, message.msg_type.removesuffix("_request"), answer)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds; it is looked at after each request."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def break_off(self, channel: str) -> None:
        """Lose all connections of one channel for requests, and take new ones."""
        self._routers[channel].close()
        self._routers[channel] = self._router(channel)

    def close(self) -> None:
        """Vanish, as a killed server does; idempotent."""
        for port in self._ports:
            port.close()

    def send_raw(self, frames: Sequence[bytes | memoryview]) -> None:
        """Broadcast frames as they are."""
        self._iopub.send(frames)

    def _publish(self, topic: str, msg_type: str, content: dict[str, Any], buffers: Sequence[bytes]) -> None:
        self._iopub.send([topic.encode(), *self._codec.encode(msg_type, content, buffers=buffers)])

    def _router(self, channel: str) -> ZmqPort:
        port = self._bind(channel, zmq.ROUTER, lambda frames: self._on_request(port, frames))
        return port

    def _bind(self, channel: str, kind: int, on_message: Callable[[Frames], None]) -> ZmqPort:
        socket = self._context.socket(kind)
        if kind == zmq.XPUB:
            socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        socket.bind(self.info.endpoint(channel))  # type: ignore[arg-type]  # one of the five
        port = ZmqPort(socket, on_message)
        self._ports.append(port)
        return port

    def _on_request(self, port: ZmqPort, frames: Frames) -> None:
        plain: list[Any] = [frame.bytes for frame in frames]
        try:
            message = self._codec.decode(plain[1:])
        except ExecZMQError:
            return
        self.requests.append(message)
        self._received.append((port, plain[0], message))
        method = message.msg_type.removesuffix("_request")
        handler = self.handlers.get(method)
        answer = handler(message) if handler is not None else None
        if answer is not None:
            self._reply(port, plain[0], message, method, answer)
        self._news.set()

    def _reply(self, port: ZmqPort, identity: bytes, message: Message, method: str, answer: Answer) -> None:
        buffers: list[bytes] = []
        if isinstance(answer, ExecZMQError):
            content = error_content(answer)
        else:
            assert answer is not None
            fields, buffers = answer if isinstance(answer, tuple) else (answer, [])
            content = {"status": "ok", **fields}
        reply = self._codec.encode(f"{method}_reply", content, parent=message.header, buffers=buffers)
        port.send([identity, *reply])

    def _echo(self, frames: Frames) -> None:
        self._ports[-1].send(frames)

    def _on_subscription(self, frames: Frames) -> None:
        word = frames[0].bytes
        if word[:1] == b"\x01" and self.welcomes:
            topic = word[1:].decode()
            self._publish(topic, "iopub_welcome", {"subscription": topic}, [])


class Log:
    """The events of one process, to be read page by page."""

    def __init__(self, process_id: str, *events: Event) -> None:
        self.process_id = process_id
        self.events = list(events)
        self.page_events = 100

    def read(self, message: Message) -> Answer:
        """Answer a `read`."""
        after = message.content["after_seq"]
        page = [event for event in self.events if _seq_of(event) > after][: self.page_events]
        last = _seq_of(self.events[-1]) if self.events else 0
        fields: dict[str, Any] = {
            "process_id": self.process_id,
            "instance": INSTANCE,
            "events": [_entry(event) for event in page],
            "next_seq": _seq_of(page[-1]) if page else after,
            "first_seq": 1,
            "last_seq": last,
            "exited": any(isinstance(event, Exited) for event in self.events),
            "closed": any(isinstance(event, Closed) for event in self.events),
            "dropped_bytes": {},
        }
        return fields, [b"".join(event.data for event in page if isinstance(event, Output))]


def whole(count: int) -> list[Event]:
    """Return the events of a command that writes `count` times."""
    outputs = [Output(seq, "stdout", 2 * (seq - 2), b"x\n") for seq in range(2, count + 2)]
    return [Started(1, 4711), *outputs, Exited(count + 2, SUCCESS), Closed(count + 3, SUCCESS)]


def connection_info(folder: Path, key: str = "key") -> ConnectionInfo:
    """Return how to reach a server whose sockets are in `folder`."""
    ports: dict[str, Any] = {f"{channel}_port": port for channel, port in _PORTS.items()}
    return ConnectionInfo("ipc", str(folder / SOCKET_PREFIX), key=key, **ports)


@contextlib.asynccontextmanager
async def connected(server: FakeServer) -> AsyncIterator[Connection]:
    """Open a client session of `server`; both are closed in the end."""
    connection = Connection(server.info)
    try:
        await connection.open(5.0)
        yield connection
    finally:
        await connection.aclose()
        server.close()


def _kind_of(event: Event) -> Literal["started", "output", "exited", "closed"]:
    return "output" if isinstance(event, Output) else _KIND[type(event)]  # type: ignore[return-value]  # those


def _seq_of(event: Event) -> int:
    assert isinstance(event, Started | Output | Exited | Closed)
    return event.seq


def _entry(event: Event) -> list[Any]:
    assert isinstance(event, Started | Output | Exited | Closed)
    if isinstance(event, Output):
        return ["output", event.seq, 0.0, event.stream, event.offset, len(event.data)]
    if isinstance(event, Started):
        return ["started", event.seq, 0.0, event.pid]
    return [_kind_of(event), event.seq, 0.0, EXIT_RESULT.write(event.result)]


_KERNEL_INFO = {
    "protocol_version": "5.4",
    "implementation": "fake",
    "implementation_version": "0",
    "language_info": {},
    "banner": "",
    "help_links": [],
}
