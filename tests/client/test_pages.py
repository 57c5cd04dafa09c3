"""The answer to a read whose output stands in a file."""

import os
from pathlib import Path
from typing import Any

import pytest

from execzmq.client.pages import PageGone, page_of
from execzmq.errors import RemoteProtocolError
from execzmq.protocol.wire import Codec, Message
from execzmq.types.events import Output

BEFORE = b"what another page had"
FIRST, SECOND = b"to stdout", b"to stderr"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with the output of a page, and more around it."""
    path = tmp_path / "out.0"
    path.write_bytes(BEFORE + FIRST + SECOND + b"and what came later")
    return path


def answer(path: Path, **changes: Any) -> Message:
    """Return a reply whose two outputs stand in a file."""
    content = {
        "status": "ok",
        "process_id": "p",
        "instance": 1,
        "events": [
            ["output", 1, 1.0, "stdout", 0, len(FIRST)],
            ["output", 2, 2.0, "stderr", 0, len(SECOND)],
        ],
        "next_seq": 2,
        "first_seq": 1,
        "last_seq": 2,
        "exited": False,
        "closed": False,
        "dropped_bytes": {},
        "file": bytes(path),
        "device": path.parent.stat().st_dev,
        "inode": path.stat().st_ino if path.exists() else 1,
        "position": len(BEFORE),
        "length": len(FIRST) + len(SECOND),
    }
    codec = Codec(b"", "s")
    return codec.decode(codec.encode("read_reply", {**content, **changes}))


def test_output_is_read_from_the_file(stored: Path) -> None:
    """Each event has its own bytes."""
    assert page_of(answer(stored)).chunks == (
        Output(1, "stdout", 0, FIRST, 1.0),
        Output(2, "stderr", 0, SECOND, 2.0),
    )


def test_file_that_is_gone_is_told(stored: Path) -> None:
    """Also one that is shorter than it was, and one that may not be opened."""
    reply = answer(stored)
    stored.write_bytes(BEFORE + FIRST)
    with pytest.raises(PageGone):
        page_of(reply)
    stored.unlink()
    with pytest.raises(PageGone):
        page_of(reply)
    with pytest.raises(PageGone):
        page_of(answer(stored.parent))


def test_another_file_of_that_path_is_not_read(stored: Path, tmp_path: Path) -> None:
    """Nor a link to the very file, and one that would make the reader wait is not waited for."""
    reply = answer(stored)
    moved = stored.rename(tmp_path / "moved")
    stored.symlink_to(moved)
    with pytest.raises(PageGone):
        page_of(reply)
    stored.unlink()
    stored.write_bytes(moved.read_bytes())
    with pytest.raises(PageGone):
        page_of(reply)
    stored.unlink()
    os.mkfifo(stored)
    with pytest.raises(PageGone):
        page_of(answer(stored))


@pytest.mark.parametrize(
    "changes",
    [
        {"inode": None},
        {"position": None},
        {"length": None},
        {"position": -1},
        {"length": -1},
        {"length": len(FIRST)},
        {"length": len(FIRST) + len(SECOND) + 1},
        {"file": b"/a\0b"},
    ],
)
def test_place_of_a_wrong_form_is_refused(stored: Path, changes: dict[str, Any]) -> None:
    """A place that does not fit the events is a fault of the server."""
    with pytest.raises(RemoteProtocolError):
        page_of(answer(stored, **changes))
