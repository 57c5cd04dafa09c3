"""What an observer sees of a process."""

from typing import Any

import pytest

from execzmq.process.index import KINDS
from execzmq.server.views import hides_something, seen_entry, seen_failure, seen_info
from execzmq.types.results import ExitResult, ProcessInfo, ProcessUsage

SECRETS = ("hush-word", "/hush/folder", "hush.example")
RESULT = ExitResult(
    exit_code=3,
    cause="sandbox_denied",
    asked_by="time limit",
    started_at=1.0,
    ended_at=2.0,
    output_bytes={"stdout": 4},
    held_open_by=((7, "hush-word --now"),),
    confidence="high",
    evidence=("/hush/folder is not writable",),
)
FAILURE = {"ename": "CommandNotFound", "evalue": "hush-word: not found", "details": {"cwd": b"/hush/folder"}}
INFO = ProcessInfo(
    process_id="p",
    name="train",
    instance=5,
    argv=(b"hush-word",),
    cwd=b"/hush/folder",
    state="closed",
    pid=7,
    started_at=1.0,
    exited=True,
    closed=True,
    result=RESULT,
    last_seq=9,
    output_bytes={"stdout": 4},
    keyboard="session",
    failure=FAILURE,
    sandbox={"writable": [b"/hush/folder"]},
    usage=ProcessUsage(1.5, 4096, 2),
)


def _says_nothing(value: Any) -> bool:
    return not any(secret in repr(value) for secret in SECRETS)


def test_a_description_has_name_state_and_result() -> None:
    """And neither words nor folder nor sandbox, nor what names them elsewhere."""
    seen = seen_info(INFO)
    assert _says_nothing(seen)
    assert (seen.name, seen.state, seen.last_seq, seen.output_bytes) == ("train", "closed", 9, {"stdout": 4})
    assert seen.usage == ProcessUsage(1.5, 4096, 2)
    assert seen.result is not None
    assert (seen.result.exit_code, seen.result.cause, seen.result.ended_at) == (3, "sandbox_denied", 2.0)
    assert seen.failure is not None
    assert seen.failure["ename"] == "CommandNotFound"


def test_a_process_without_an_end_is_seen_as_it_is() -> None:
    """There is nothing to leave out."""
    assert seen_failure(None) is None


ENTRIES: dict[str, list[Any]] = {
    "started": ["started", 1, 1.0, 7],
    "output": ["output", 2, 1.0, "stdout", 0, 4],
    "exited": [
        "exited",
        3,
        1.0,
        {"exit_code": 3, "held_open_by": [[7, "hush-word"]], "evidence": ["/hush/folder"]},
    ],
    "closed": ["closed", 4, 1.0, {"exit_code": 3, "evidence": ["/hush/folder"]}],
    "failed": ["failed", 3, 1.0, FAILURE],
    "notice": ["notice", 3, 1.0, "network_denied", {"host": "hush.example"}],
    "gap": ["gap", 2, 1.0, 3, 4],
}


@pytest.mark.parametrize("kind", [*KINDS, "gap"])
def test_an_event_of_a_page_says_no_more(kind: str) -> None:
    """Each kind keeps its form, which clients check."""
    seen = seen_entry(ENTRIES[kind])
    assert _says_nothing(seen)
    assert seen[:3] == ENTRIES[kind][:3]
    assert len(seen) == len(ENTRIES[kind])
    assert kind not in ("exited", "closed") or seen[3]["exit_code"] == 3


def test_a_notice_of_the_log_is_told_whole() -> None:
    """It names nothing of the command."""
    entry = ["notice", 3, 1.0, "degraded", {"error": "ENOSPC"}]
    assert seen_entry(entry) == entry


@pytest.mark.parametrize(
    ("kind", "payload", "hides"),
    [
        ("started", {"pid": 7}, False),
        ("exited", {"exit_code": 3, "held_open_by": [], "evidence": []}, False),
        ("exited", {"held_open_by": [[7, "hush-word"]]}, True),
        ("closed", {"evidence": ["/hush/folder"]}, True),
        ("failed", FAILURE, True),
        ("notice", {"kind": "network_denied", "data": {}}, True),
        ("notice", {"kind": "degraded", "data": {}}, False),
    ],
)
def test_what_is_broadcast_to_all_says_no_more(kind: str, payload: dict[str, Any], hides: bool) -> None:
    """An event that would is read by each for itself."""
    assert hides_something(kind, payload) is hides
