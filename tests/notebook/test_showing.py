"""How a cell follows a process: page by page, on a thread, with what is special told in its place."""

import queue
from typing import Any, cast

from execzmq.client.sync import Process
from execzmq.errors import CommandNotFound, ServerLost, to_wire
from execzmq.notebook.showing import Showing
from execzmq.types.events import Closed, Event, Failed, Gap, Notice, Output
from execzmq.types.results import ExitResult, ReadResponse
from tests.support import deadline

RESULT = ExitResult(exit_code=0)
Log = list[tuple[Any, ...]]


class FakeProcess:
    """Answers reads with the pages that it was made of; past them the server is lost."""

    process_id = "p"

    def __init__(self, *pages: ReadResponse) -> None:
        self.pages = list(pages)
        self.asked: list[int] = []

    def read(self, after_seq: int, max_bytes: int | None, wait: float) -> ReadResponse:
        """Return the next page."""
        self.asked.append(after_seq)
        if not self.pages:
            raise ServerLost("lost")
        return self.pages.pop(0)

    def wait(self, *, closed: bool) -> ExitResult:
        """Return how it ended."""
        return RESULT


class FakeScreen:
    """Writes down what it is told; all is to be shown at once."""

    def __init__(self, log: Log, *, can_skip: bool = False) -> None:
        self.can_skip = can_skip
        self._log = log
        self._is_waiting = False

    def feed(self, event: Output) -> None:
        self._log.append(("output", event.data))
        self._is_waiting = True

    def say(self, text: str) -> None:
        self._log.append(("say", text))

    def left(self, now: float) -> float | None:
        return 0.0 if self._is_waiting else None

    def show(self, now: float) -> None:
        self._is_waiting = False

    def finish(self, now: float) -> None:
        self._log.append(("finish",))

    def skip(self) -> None:
        self._log.append(("skip",))


class FakeView:
    """Writes down what it is told."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def begin(self) -> None:
        self._log.append(("begin",))

    def shown(self, seq: int) -> None:
        self._log.append(("shown", seq))

    def end(self, result: ExitResult | None) -> None:
        self._log.append(("end", result))


def _page(*events: Event, next_seq: int, last_seq: int, closed: bool = False) -> ReadResponse:
    return ReadResponse("p", 1, events, next_seq, 1, last_seq, exited=closed, closed=closed)


def _follow(
    process: FakeProcess, screen: FakeScreen, view: FakeView | None = None, **options: Any
) -> Showing:
    news: queue.SimpleQueue[str] = queue.SimpleQueue()
    showing = Showing(cast(Process, process), screen, view, news.put, **options)
    showing.begin()
    while news.get(timeout=deadline(10).left()) != "over":
        pass
    return showing


def test_events_stand_in_their_order() -> None:
    """Output, losses and notices are told as they come; what is not for people is not."""
    log: Log = []
    process = FakeProcess(
        _page(Output(2, "stdout", 0, b"a"), Gap(3, 9, 1234), next_seq=9, last_seq=12),
        _page(
            Notice(10, "resized", {}),
            Notice(11, "network_denied", {"host": "h", "port": 1, "reason": "not listed"}),
            Closed(12, RESULT),
            next_seq=12,
            last_seq=12,
            closed=True,
        ),
    )
    showing = _follow(process, FakeScreen(log))
    assert log == [
        ("output", b"a"),
        ("say", "[... 1,234 bytes lost ...]"),
        ("say", "execzmq: p: its sandbox may not reach h:1 (not listed); its profile can allow it"),
        ("finish",),
    ]
    assert (showing.result, showing.error) == (RESULT, None)


def test_what_is_far_behind_is_left_out() -> None:
    """Where that may be, it goes on near the end of the log; where somebody wants all of it, it does not."""
    for captured, asked in (((), [0, 92]), (("stderr",), [0, 2])):
        log: Log = []
        process = FakeProcess(
            _page(Output(2, "stdout", 0, b"a"), next_seq=2, last_seq=100),
            _page(Closed(100, RESULT), next_seq=100, last_seq=100, closed=True),
        )
        showing = _follow(process, FakeScreen(log, can_skip=True), captured=captured)
        assert process.asked == asked
        assert (("skip",) in log) == (not captured)
        assert showing.result == RESULT


def test_view_stands_above_the_output_and_ends_with_it() -> None:
    """One that is due at once begins before anything is read; it hears how far the output is shown."""
    log: Log = []
    process = FakeProcess(
        _page(Output(2, "stdout", 0, b"a"), next_seq=2, last_seq=3),
        _page(Closed(3, RESULT), next_seq=3, last_seq=3, closed=True),
    )
    _follow(process, FakeScreen(log), FakeView(log), is_view_due=True)
    expected = [("begin",), ("output", b"a"), ("shown", 2), ("finish",), ("shown", 3), ("end", RESULT)]
    assert log == expected


def test_quick_command_has_no_view() -> None:
    """What ends with its output shows that alone."""
    log: Log = []
    events = (Output(2, "stdout", 0, b"a"), Closed(3, RESULT))
    _follow(FakeProcess(_page(*events, next_seq=3, last_seq=3, closed=True)), FakeScreen(log), FakeView(log))
    assert log == [("output", b"a"), ("finish",)]


def test_end_before_the_beginning_is_asked_for() -> None:
    """Where nothing follows `after_seq`, the result is the process's."""
    process = FakeProcess(_page(next_seq=7, last_seq=7, closed=True))
    assert _follow(process, FakeScreen([]), after_seq=7).result == RESULT


def test_failures_are_kept_for_the_cell() -> None:
    """A start that failed, and a server that is lost, end it with their error; what came is shown."""
    log: Log = []
    failed = Failed(1, to_wire(CommandNotFound("no such program")))
    showing = _follow(FakeProcess(_page(failed, next_seq=1, last_seq=1, closed=True)), FakeScreen(log))
    assert isinstance(showing.error, CommandNotFound)
    lost = _follow(
        FakeProcess(_page(Output(2, "stdout", 0, b"a"), next_seq=2, last_seq=2)),
        FakeScreen(log),
        FakeView(log),
        is_view_due=True,
    )
    assert isinstance(lost.error, ServerLost)
    assert log[-2:] == [("finish",), ("end", None)]
