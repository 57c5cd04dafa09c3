"""The record of who did what."""

import json
import logging
import stat
from pathlib import Path

import pytest

from execzmq.server import audit
from execzmq.server.access import OWNER
from execzmq.server.audit import AuditLog, Recorder
from tests.shares import peer

AT = "1970-01-01T00:00:01Z"


def lines(folder: Path) -> list[dict[str, object]]:
    """Return what stands in the record."""
    return [json.loads(line) for line in (folder / audit.NAME).read_text().splitlines()]


def test_each_line_says_when_who_and_what(tmp_path: Path) -> None:
    """In a file that is the owner's alone; what is empty is left out, and nothing breaks the line."""
    log = AuditLog(tmp_path, lambda: 1.5)
    log.note("a\nb", "share", role="observer", processes=("p",), nothing=None)
    assert lines(tmp_path) == [
        {
            "time": "1970-01-01T00:00:01Z",
            "who": "a\nb",
            "did": "share",
            "role": "observer",
            "processes": ["p"],
        }
    ]
    assert stat.S_IMODE((tmp_path / audit.NAME).stat().st_mode) == 0o600


def test_the_record_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older part is kept beside it, once."""
    monkeypatch.setattr(audit, "LARGEST", 300)
    log = AuditLog(tmp_path)
    for number in range(50):
        log.note("a", "start", process_id=str(number))
    assert (tmp_path / "audit.old.log").stat().st_size < 500
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["audit.log", "audit.old.log"],
        ["audit.old.log"],
    )


def test_where_nothing_can_be_written_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the work goes on."""
    (tmp_path / audit.NAME).mkdir()
    log = AuditLog(tmp_path)
    with caplog.at_level(logging.ERROR):
        log.note("a", "start")
        log.note("a", "start")
    assert len(caplog.records) == 1


def test_what_holders_of_shares_do_is_recorded(tmp_path: Path) -> None:
    """Of input the first piece, of what was refused ever less; of the server's own user what ends it."""
    recorder, guest = Recorder(AuditLog(tmp_path)), peer("operator")
    recorder.begun(guest, "s1")
    recorder.begun(OWNER, "s0")
    recorder.done(guest, "start", "p", "s1", "")
    for _ in range(5):
        recorder.done(guest, "write", "p", "s1", "")
    recorder.done(guest, "write", "q", "s1", "")
    for _ in range(9):
        recorder.done(guest, "shutdown", "", "s1", "PermissionRefused")
    recorder.done(OWNER, "start", "p", "s0", "")
    recorder.done(OWNER, "shutdown", "", "s0", "")
    did = [(line["did"], line.get("process_id"), line.get("refused_so_far")) for line in lines(tmp_path)]
    refused = [("shutdown", None, count) for count in (1, 2, 4, 8)]
    assert did == [
        ("connect", None, None),
        ("start", "p", None),
        ("write", "p", None),
        ("write", "q", None),
        *refused,
        ("shutdown", None, None),
    ]
    assert {line["who"] for line in lines(tmp_path)} == {guest.user_id, "owner"}


def test_what_a_holder_repeats_does_not_push_out_what_it_did(tmp_path: Path) -> None:
    """Ever less of it is noted; each process, and each start, is noted all the same."""
    recorder, guest = Recorder(AuditLog(tmp_path)), peer("operator")
    for session in ("s1", "s2", "s3"):
        for name in ("signal", "resize", "terminate"):
            for _ in range(3):
                recorder.done(guest, name, "p", session, "")
    recorder.done(guest, "signal", "q", "s1", "")
    for _ in range(3):
        recorder.done(guest, "start", "p", "s1", "")
    did = [(line["did"], line.get("process_id"), line.get("so_far")) for line in lines(tmp_path)]
    for name in ("signal", "resize", "terminate"):
        assert [one for one in did if one[:2] == (name, "p")] == [(name, "p", n) for n in (None, 2, 4, 8)]
    assert did[-4:] == [("signal", "q", None), *[("start", "p", None)] * 3]
