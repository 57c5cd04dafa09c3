"""Own the backend behind a connection: `ExecBackend` and `ExecProcess` as requests to a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from execzmq.client import sharing
from execzmq.client.core import Connection
from execzmq.client.follow import Early, Follower
from execzmq.client.launch import listens
from execzmq.client.pages import PageGone, page_of
from execzmq.client.route import Route
from execzmq.client.silence import stuck
from execzmq.client.writer import Writer
from execzmq.connection import ConnectionInfo, folder_is_ours, host_id
from execzmq.errors import ConnectionFailed, ServerLost, VersionMismatch, WrongEpoch
from execzmq.protocol.values import (
    explanation_from_wire,
    params_to_wire,
    process_info_from_wire,
    profile_from_wire,
    report_from_wire,
    screen_from_wire,
    server_info_from_wire,
    share_from_wire,
)
from execzmq.protocol.wire import Frame, Message
from execzmq.settings import LONG_POLL, PROTOCOL_VERSION, REPLIES_PER_SESSION, Settings
from execzmq.types.events import Event
from execzmq.types.params import ExecParams
from execzmq.types.results import (
    ExitResult,
    ProcessInfo,
    ProfileInfo,
    ReadResponse,
    Screen,
    ServerInfo,
    TerminateReport,
    signal_number,
)
from execzmq.types.sharing import ShareInfo, ShareTerms

OPEN_TIMEOUT = 5.0
"""Seconds in which a server that listens must answer a new client."""

_LOG_BUDGET = Settings().log_budget
"""Bytes that a server keeps of a process where nothing else is asked for."""
_AT_ONCE = REPLIES_PER_SESSION // 3
"""Starts, and ends, that are under way; more wait here, as the server refuses what passes its bound."""

_UNASKED = 0.05
"""Seconds for which the end of a process just started is listened for before the server is asked for it."""


_FILES = "page-by-file"
"""Feature of a server that tells where a page stands on disk."""
_USAGE = "usage"
"""Feature of a server that measures what a process uses."""


class _Session:
    """What a backend and the handles that it has given out share."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.host = ""
        self.measures = False
        self.starting = asyncio.Semaphore(_AT_ONCE)
        self.ending = asyncio.Semaphore(_AT_ONCE)
        self._writers: WeakValueDictionary[tuple[str, int], Writer] = WeakValueDictionary()

    def describe(self, value: object) -> ProcessInfo:
        """Return the description that a server has sent, with the name of its host if it goes by one."""
        info = process_info_from_wire(value)
        return replace(info, host=self.host) if self.host else info

    def asked(self, usage: bool) -> dict[str, bool]:
        """Return the field that asks for what a process uses, where the server knows it."""
        return {"usage": True} if usage and self.measures else {}

    def writer(self, process_id: str, instance: int, *, is_first: bool) -> Writer:
        """Return the one writer of this session to a process: all handles of it share its offset."""
        key = (process_id, instance)
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = Writer(self.connection, process_id, is_first=is_first)
        return writer


class RemoteBackend:
    """A server, reached through its connection file; see `ExecBackend`. Made by `open`."""

    def __init__(self, connection: Connection, host: str, name: str, route: Route | None) -> None:
        self._connection = connection
        self._name = name
        self._route = route
        self._is_local = route is None and _is_local(connection.info, host)
        self._shared = _Session(connection)

    @classmethod
    async def open(
        cls, info: ConnectionInfo, seconds: float = OPEN_TIMEOUT, route: Route | None = None
    ) -> RemoteBackend:
        """Connect to the server that `info` describes. Cancelling leaves nothing.

        Args:
            route: by which the server is reached, so that it is on another machine; once this has returned,
                it is closed with the backend.

        Raises:
            ConnectionFailed: nobody listens there, which shows at once, or answers within `seconds`.
            AuthenticationFailed: it refused this client, or its heart beats and it does not answer, as with
                a wrong key.
            RequestTimeout: somebody listens, and nothing in it moves.
            VersionMismatch: it speaks another version of the protocol.
        """
        if not listens(info):
            raise ConnectionFailed(
                f"no server listens at {info.endpoint('shell')}: its connection file is old"
            )
        connection = Connection(info)
        if route is not None:
            connection.why_down = lambda: route.problem
        try:
            about = _about(await connection.open(seconds))
        except BaseException as error:
            await connection.aclose()
            if isinstance(error, ConnectionFailed) and info.transport == "ipc" and listens(info):
                raise stuck(info, seconds) from None
            raise
        backend = cls(connection, str(about.get("host", "")), str(about.get("name", "")), route)
        features = about.get("features", ())
        connection.opens_files = backend.is_local and _FILES in features
        backend._shared.measures = _USAGE in features
        return backend

    @property
    def is_local(self) -> bool:
        """Tell whether the server is on this machine and surely this user's own."""
        return self._is_local

    @property
    def name(self) -> str:
        """Return the server's name."""
        return self._name

    @property
    def is_up(self) -> bool:
        """Tell whether the server answers at the moment, as far as this client has noticed."""
        return self._connection.is_up

    def watch(self, changed: Callable[[], object]) -> None:
        """Have `changed` called when `is_up` may have changed."""
        self._connection.standing.on_change = changed

    @property
    def session(self) -> str:
        """Return the random id under which the server knows this client."""
        return self._connection.session

    def name_host(self, name: str) -> None:
        """Have descriptions of processes name their host so: this is one of several."""
        self._shared.host = name

    def new_process_id(self) -> str:
        """Return an id whose broadcasts this client hears from the first on."""
        return self._connection.new_process_id()

    async def start(self, params: ExecParams) -> RemoteProcess:
        """Start a command; see `ExecBackend`. Cancelled, it may have been started all the same."""
        content, buffers = params_to_wire(params)
        early = None
        if params.backpressure == "pause":
            self._connection.cursors.hurry()
        process_id = self.new_process_id() if params.process_id is None else params.process_id
        if self._connection.topics.is_own(process_id):
            # Its broadcasts are subscribed already, and kept from the first on.
            content["process_id"] = process_id
            early = Early(self._connection, process_id)
        try:
            async with self._shared.starting:
                answer = await self._begin(content, buffers)
        except BaseException:
            if early is not None:
                early.close()
            raise
        process_id, instance = answer.content["process_id"], answer.content["instance"]
        process = RemoteProcess(self._shared, process_id, instance, early, _tell_every(params))
        process.is_repeat = answer.content["repeated"]
        if params.stdin == "pipe" or params.tty:
            process.begin_writing(is_first=not process.is_repeat)
        return process

    async def explain(self, params: ExecParams) -> dict[str, Any]:
        """Tell what a start would become; see `ExecBackend`."""
        content, buffers = params_to_wire(params)
        return explanation_from_wire((await self._connection.call("explain", content, buffers)).content)

    async def profiles(self) -> list[ProfileInfo]:
        """Describe the permission profiles; see `ExecBackend`."""
        answer = await self._connection.call("profiles", {})
        return [profile_from_wire(value) for value in answer.content["profiles"]]

    async def attach(self, id_or_name: str) -> RemoteProcess:
        """Find a process; see `ExecBackend`."""
        answer = await self._connection.call("describe", {"id_or_name": id_or_name})
        info = process_info_from_wire(answer.content["process"])
        return RemoteProcess(self._shared, info.process_id, info.instance)

    async def list_processes(self, usage: bool = False) -> list[ProcessInfo]:
        """Describe every process that is not forgotten, oldest first; see `ExecBackend`."""
        found: dict[str, ProcessInfo] = {}
        more, last = True, None
        asked = self._shared.asked(usage)
        while more:
            answer = await self._connection.call("list", asked if last is None else {**asked, "after": last})
            infos = [self._shared.describe(value) for value in answer.content["processes"]]
            found.update((info.process_id, info) for info in infos)
            more = bool(answer.content.get("more")) and bool(infos) and infos[-1].process_id != last
            last = infos[-1].process_id if infos else None
        return list(found.values())

    async def server_info(self) -> ServerInfo:
        """Describe the server."""
        return server_info_from_wire((await self._connection.call("info", {})).content)

    async def doctor(self) -> list[dict[str, object]]:
        """Return the server's findings about its folders, modes and limits."""
        return list((await self._connection.call("doctor", {})).content["findings"])

    async def share(self, terms: ShareTerms, output: Path) -> ShareInfo:
        """Let somebody in over the network; see `ExecBackend`."""
        return await sharing.share(self._connection, terms, output)

    async def admit(self, terms: ShareTerms, publickey: str) -> tuple[ShareInfo, ConnectionInfo]:
        """Let the holder of a key in; return the share, and the way in but for the secret key."""
        return await sharing.admit(self._connection, terms, publickey)

    async def shares(self) -> list[ShareInfo]:
        """Describe the shares in force, the oldest first."""
        answer = await self._connection.call("shares", {})
        return [share_from_wire(value) for value in answer.content["shares"]]

    async def revoke(self, share_id: str) -> None:
        """Take a share back; see `ExecBackend`."""
        await self._connection.call("revoke", {"share_id": share_id})

    async def shutdown(self) -> None:
        """End every process by the ladder, then the server; returns when it has begun.

        Raises:
            ServerLost: there is no connection, and the server is still there.
        """
        try:
            await self._connection.call("shutdown", {})
        except ServerLost:
            if listens(self._connection.info):
                raise  # else its answer was overtaken by its end

    async def aclose(self) -> None:
        """Close the connection; idempotent. The server and its processes live on."""
        try:
            await self._connection.aclose()
        finally:
            if self._route is not None:
                await self._route.aclose()

    def statistics(self) -> dict[str, int]:
        """Return how much this client holds at the moment, and what it refused."""
        return self._connection.statistics()

    async def _begin(self, content: dict[str, Any], buffers: list[Frame]) -> Message:
        """Ask for a start; a server that is newer than this client knows is asked again, by the same id."""
        try:
            return await self._connection.call("start", content, buffers)
        except WrongEpoch:
            await self._connection.learn_epoch()
            return await self._connection.call("start", content, buffers)


class RemoteProcess:
    """A process of a server; see `ExecProcess` for each method.

    Args:
        early: what was heard of it since.
        tell_every: bytes of output after which a follower tells how far it is; `None` = nobody waits for it.
    """

    def __init__(
        self,
        session: _Session,
        process_id: str,
        instance: int,
        early: Early | None = None,
        tell_every: int | None = None,
    ) -> None:
        self.is_repeat = False
        self._session = session
        self._connection = session.connection
        self._process_id = process_id
        self._instance = instance
        self._writer: Writer | None = None
        self._early = early
        self._tell_every = tell_every

    @property
    def process_id(self) -> str:
        """Name the process."""
        return self._process_id

    @property
    def instance(self) -> int:
        """Name the life of the process_id that this handle speaks of."""
        return self._instance

    async def subscribe_events(self, after_seq: int = 0) -> AsyncGenerator[Event, None]:
        """Yield every event after `after_seq` once and in order."""
        follower = self.follow(after_seq)
        try:
            while batch := await follower.next_batch():
                for event in batch:
                    yield event
        finally:
            await follower.aclose()

    def follow(self, after_seq: int = 0) -> Follower:
        """Do as `subscribe_events`, for a caller that takes all that is there at a time and closes it."""
        early, self._early = self._early, None
        return Follower(
            self._connection,
            self._process_id,
            self._instance,
            after_seq,
            early=early,
            tell_every=self._tell_every,
        )

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        """Return one page of the log."""
        wait = min(wait, LONG_POLL)
        content = {
            "process_id": self._process_id,
            "instance": self._instance,
            "after_seq": after_seq,
            "max_bytes": max_bytes,
            "wait": wait,
            "open": self._connection.open_reads(),
        }
        if self._connection.opens_files:
            with contextlib.suppress(PageGone):
                return page_of(await self._connection.call("read", {**content, "by_file": True}, wait=wait))
        return page_of(await self._connection.call("read", content, wait=wait))

    async def write(self, data: bytes, end: bool = False) -> int:
        """Append to stdin; cancelled, a part may have been accepted, in order."""
        writer = self._writer or self.begin_writing(is_first=False)
        return await writer.write(data, end)

    def begin_writing(self, *, is_first: bool) -> Writer:
        """Get the writer of this session to the process; from then on this handle keeps it alive.

        Args:
            is_first: this session cannot have written to it before.
        """
        self._writer = self._session.writer(self._process_id, self._instance, is_first=is_first)
        return self._writer

    async def signal(self, signal: str | int) -> None:
        """Send a signal to the command's process group."""
        await self._ask("signal", signal=signal_number(signal))

    async def resize(self, rows: int, cols: int) -> None:
        """Set the terminal's size."""
        await self._ask("resize", rows=rows, cols=cols)

    async def screen(self) -> Screen:
        """Return what the terminal shows now."""
        answer = await self._ask("screen", instance=self._instance)
        return screen_from_wire(answer.content, answer.buffers)

    async def terminate(self, grace: float = 5.0) -> TerminateReport:
        """End the whole tree and return what became of it."""
        async with self._session.ending:
            return report_from_wire((await self._ask("terminate", wait=grace, grace=grace)).content)

    async def claim_keyboard(self, take_over: bool = False) -> None:
        """Make this session the only one that may write and resize the terminal."""
        await self._ask("claim_keyboard", take_over=take_over)

    async def release_keyboard(self) -> None:
        """Give the keyboard back."""
        await self._ask("release_keyboard")

    async def wait(self, until: Literal["exited", "closed"], timeout: float) -> ProcessInfo:  # noqa: ASYNC109  # the server waits
        """Wait at most `timeout` seconds (at most 30) and return the description as it is then."""
        seconds = min(timeout, LONG_POLL)
        answer = await self._ask("wait", wait=seconds, instance=self._instance, until=until, timeout=seconds)
        return self._session.describe(answer.content["process"])

    async def ended(self, until: Literal["exited", "closed"], timeout: float) -> ExitResult | None:  # noqa: ASYNC109  # as above
        """Wait for the end and return its result, which of a process just started is mostly on its way."""
        if self._early is not None:
            result = await self._early.ended(until, self._instance, min(timeout, _UNASKED))
            if result is not None:
                return result
            timeout = max(0.0, timeout - _UNASKED)
        return (await self.wait(until, timeout)).ending(until)

    async def info(self, usage: bool = False) -> ProcessInfo:
        """Describe the process; see `ExecProcess`."""
        asked = self._session.asked(usage)
        answer = await self._connection.call("describe", {"id_or_name": self._process_id, **asked})
        return self._session.describe(answer.content["process"])

    async def forget(self) -> None:
        """Remove the ended process and its log."""
        await self._ask("forget", instance=self._instance)

    async def _ask(self, method: str, *, wait: float = 0.0, **fields: Any) -> Message:
        return await self._connection.call(method, {"process_id": self._process_id, **fields}, wait=wait)


def _about(answer: Message) -> dict[str, Any]:
    """Return what a server says of itself, if this client can speak to it."""
    about: dict[str, Any] = answer.content["execzmq"]
    if about.get("protocol") != PROTOCOL_VERSION:
        raise VersionMismatch(
            f"the server speaks protocol {about.get('protocol')}, this client {PROTOCOL_VERSION}:"
            " upgrade the older one",
            server=about.get("protocol"),
            client=PROTOCOL_VERSION,
        )
    return about


def _is_local(info: ConnectionInfo, host: str) -> bool:
    path = info.socket_path("shell")
    return path is not None and folder_is_ours(os.path.dirname(path)) and host == host_id()


def _tell_every(params: ExecParams) -> int | None:
    budget = params.log_budget or _LOG_BUDGET
    return budget // 4 if params.backpressure == "pause" else None
