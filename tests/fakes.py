"""A backend that plays a script: its processes say what a test wants and note what they are told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from execzmq.errors import ProcessNotFound
from execzmq.types.events import Closed, Event, Exited, Failed, Output, Started
from execzmq.types.params import ExecParams
from execzmq.types.results import (
    ExitResult,
    ProcessInfo,
    ProfileInfo,
    ReadResponse,
    Screen,
    ServerInfo,
    TerminateReport,
)
from execzmq.types.sharing import ShareInfo, ShareTerms

Step: TypeAlias = Event | BaseException | asyncio.Event
"""An event to yield, an error to raise, something to wait for."""

SUCCESS = ExitResult(exit_code=0)


def script(*outputs: tuple[Literal["stdout", "stderr"], bytes], result: ExitResult = SUCCESS) -> list[Step]:
    """Return the events of a command that writes `outputs` and ends."""
    events: list[Step] = [Started(1, 4711)]
    events += [Output(seq, stream, 0, data) for seq, (stream, data) in enumerate(outputs, 2)]
    return [*events, Exited(len(events) + 1, result), Closed(len(events) + 2, result)]


class FakeProcess:
    """Yields the steps of its script; its `calls` are the names and arguments of what it was asked to do."""

    def __init__(self, process_id: str, steps: Sequence[Step]) -> None:
        self.process_id = process_id
        self.instance = 1
        self.is_repeat = False
        self.calls: list[tuple[Any, ...]] = []
        self.steps = list(steps)
        self.open_iterators = 0
        self.shown = Screen(instance=1, seq=0, rows=24, cols=80, data=b"")
        self.information = ProcessInfo(
            process_id=process_id,
            name=None,
            instance=1,
            argv=(b"fake",),
            cwd=b"/",
            state="running",
            pid=4711,
            started_at=0.0,
            exited=False,
            closed=False,
            result=None,
            last_seq=0,
        )

    def end(self, result: ExitResult, *, closed: bool = True) -> None:
        """Be ended from now on."""
        state: Literal["closed", "exited"] = "closed" if closed else "exited"
        self.information = replace(self.information, state=state, exited=True, closed=closed, result=result)

    async def subscribe_events(self, after_seq: int = 0) -> AsyncIterator[Event]:
        self.calls.append(("subscribe_events", after_seq))
        self.open_iterators += 1
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    yield step
                    if isinstance(step, Closed | Failed):
                        return
        finally:
            self.open_iterators -= 1

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        self.calls.append(("read", after_seq, max_bytes, wait))
        return ReadResponse(self.process_id, 1, (), after_seq, 1, 0)

    async def write(self, data: bytes, end: bool = False) -> int:
        self.calls.append(("write", data, end))
        return len(data)

    async def signal(self, signal: str | int) -> None:
        self.calls.append(("signal", signal))

    async def resize(self, rows: int, cols: int) -> None:
        self.calls.append(("resize", rows, cols))

    async def screen(self) -> Screen:
        self.calls.append(("screen",))
        return self.shown

    async def terminate(self, grace: float = 5.0) -> TerminateReport:
        self.calls.append(("terminate", grace))
        return TerminateReport()

    async def claim_keyboard(self, take_over: bool = False) -> None:
        self.calls.append(("claim_keyboard", take_over))

    async def release_keyboard(self) -> None:
        self.calls.append(("release_keyboard",))

    async def wait(
        self,
        until: Literal["exited", "closed"],
        timeout: float,  # noqa: ASYNC109  # the seam has it
    ) -> ProcessInfo:
        self.calls.append(("wait", until, timeout))
        return self.information

    async def ended(
        self,
        until: Literal["exited", "closed"],
        timeout: float,  # noqa: ASYNC109  # the seam has it
    ) -> ExitResult | None:
        self.calls.append(("ended", until, timeout))
        return self.information.ending(until)

    async def info(self, usage: bool = False) -> ProcessInfo:
        self.calls.append(("info",))
        return self.information

    async def forget(self) -> None:
        self.calls.append(("forget",))


class FakeBackend:
    """Starts `FakeProcess`es, all with one script.

    Args:
        steps: the script.
        on_start: awaited before a start is answered.
    """

    def __init__(
        self, steps: Sequence[Step] = (), on_start: Callable[[], Any] | None = None, *, is_local: bool = True
    ) -> None:
        self.is_local = is_local
        self.is_up = True
        self.steps = steps
        self.started: list[ExecParams] = []
        self.explained: list[ExecParams] = []
        self.processes: dict[str, FakeProcess] = {}
        self.calls: list[str] = []
        self.shared: list[tuple[ShareTerms, Path]] = []
        self._on_start = on_start

    def watch(self, changed: Callable[[], object]) -> None:
        self.changed = changed

    def new_process_id(self) -> str:
        return f"fake-{len(self.processes)}"

    async def start(self, params: ExecParams) -> FakeProcess:
        self.started.append(params)
        process = FakeProcess(params.process_id or self.new_process_id(), self.steps)
        self.processes[process.process_id] = process
        if self._on_start is not None:
            await self._on_start()
        return process

    async def explain(self, params: ExecParams) -> dict[str, Any]:
        self.explained.append(params)
        plain: dict[str, Any] = dict.fromkeys(("arguments", "env_changes", "sandbox"))
        return {"argv": list(params.argv), "cwd": b"/", "env": [], **plain}

    async def profiles(self) -> list[ProfileInfo]:
        return [ProfileInfo("full-access", "all", True, {})]

    async def attach(self, id_or_name: str) -> FakeProcess:
        try:
            return self.processes[id_or_name]
        except KeyError:
            raise ProcessNotFound(f"no process {id_or_name}") from None

    async def list_processes(self, usage: bool = False) -> list[ProcessInfo]:
        return [process.information for process in self.processes.values()]

    async def server_info(self) -> ServerInfo:
        return ServerInfo(1, "e", "0", "fake", "here", "owner", 0.0)

    async def share(self, terms: ShareTerms, output: Path) -> ShareInfo:
        self.shared.append((terms, output))
        return ShareInfo("5hare", terms.role, terms.processes, 0.0, terms.expires)

    async def shares(self) -> list[ShareInfo]:
        return [ShareInfo("5hare", "observer", ("p",), 0.0, 1.0)]

    async def revoke(self, share_id: str) -> None:
        self.calls.append(f"revoke {share_id}")

    async def shutdown(self) -> None:
        self.calls.append("shutdown")

    async def aclose(self) -> None:
        self.calls.append("aclose")
