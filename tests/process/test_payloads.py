"""What stands in a log for events that are no output, and what is read out of it."""

from execzmq.process import payloads
from execzmq.process.index import make
from execzmq.process.paging import Dropped, LogPage
from execzmq.types.events import Closed, Exited, Failed, Gap, Notice, Output, Started
from execzmq.types.results import ExitResult

RESULT = ExitResult(
    signal=9,
    cause="terminated",
    asked_by="client \udcff",
    started_at=1.5,
    ended_at=2.5,
    rusage={"user": 0.25},
    output_bytes={"stdout": 1, "stderr": 2},
    dropped_bytes={"stdout": 0, "stderr": 0},
    held_open_by=((7, "sleep 60"),),
    evidence=("a", "b"),
)


def test_result_survives() -> None:
    """A result is the same after a way through the log, names that are no text too."""
    encoded = payloads.encode(payloads.result_to_dict(RESULT))
    assert payloads.result_from_dict(payloads.decode(encoded)) == RESULT


def test_fields_of_a_later_version() -> None:
    """What a later version has added is left out."""
    fields = payloads.result_to_dict(RESULT) | {"new": 1}
    assert payloads.result_from_dict(fields) == RESULT


def test_payload_that_is_no_map() -> None:
    """Nothing, or something else than a map, is an empty payload."""
    assert payloads.decode(b"") == {}
    assert payloads.decode(b"\x91\x01") == {}


def test_each_kind() -> None:
    """Each kind of record makes its event."""
    result = payloads.result_to_dict(RESULT)

    def event(kind: str, payload: dict[str, object]) -> object:
        record = make(3, kind, "meta", 0, 0, 9.0, 0, 0)  # type: ignore[arg-type]  # a kind
        return payloads.event_of(record, payload, b"")

    assert event("started", {"pid": 5}) == Started(3, 5, 9.0)
    assert event("exited", result) == Exited(3, RESULT, 9.0)
    assert event("closed", result) == Closed(3, RESULT, 9.0)
    assert event("failed", {"ename": "X"}) == Failed(3, {"ename": "X"}, 9.0)
    assert event("notice", {"kind": "k", "data": {"a": 1}}) == Notice(3, "k", {"a": 1}, 9.0)


def test_page() -> None:
    """A page is its events in order: bytes out of its buffer, gaps where events are gone."""
    first = make(2, "output", "stdout", 3, 0, 1.0, 3, 0)
    second = make(6, "output", "stderr", 2, 4, 2.0, 3, 6)
    started = make(1, "started", "meta", 9, 0, 0.5, 0, 0)
    dropped = Dropped(from_seq=3, to_seq=5, bytes=4)
    page = LogPage(
        entries=[started, first, dropped, second],
        buffer=bytearray(b"abcde"),
        payloads={1: payloads.encode({"pid": 8})},
        next_seq=6,
    )
    assert payloads.events_of(page) == [
        Started(1, 8, 0.5),
        Output(2, "stdout", 0, b"abc", 1.0),
        Gap(3, 5, 4),
        Output(6, "stderr", 4, b"de", 2.0),
    ]
