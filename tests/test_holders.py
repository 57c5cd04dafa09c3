"""The pipe that is held: the last one knows it, and whoever dies holds it no more."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from execzmq.errors import ConnectionFailed
from execzmq.holders import Hold, Watch
from tests.support import REPOSITORY, deadline, ms

HOLDING = """\
import sys
from pathlib import Path
from execzmq.holders import Hold
hold = Hold(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""


def is_readable(watch: Watch, seconds: float = 0.0) -> bool:
    """Tell whether the watch is told of something within that time."""
    return bool(select.select([watch], [], [], seconds)[0])


def test_the_last_one_knows_it(tmp_path: Path) -> None:
    """Of two that let go the second is the last; the watch is told at its end, not before."""
    path = tmp_path / "pipe"
    first, second = Hold(path), Hold(path)
    watch = Watch(path)
    assert watch.is_held()
    assert not first.let_go()
    assert not is_readable(watch)
    assert second.let_go()
    assert is_readable(watch, ms(1000))
    assert not watch.is_held()
    assert not second.let_go()
    watch.close()
    watch.close()


def test_one_that_is_killed_holds_it_no_more(tmp_path: Path) -> None:
    """The kernel counts: no word of goodbye is needed."""
    path = tmp_path / "pipe"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        watch = Watch(path)
        assert not is_readable(watch)
        holder.kill()
        assert is_readable(watch, deadline(5).left())
        assert not watch.is_held()
        watch.close()


def test_a_pipe_that_was_removed_is_another(tmp_path: Path) -> None:
    """Whoever holds what is no longer at the path is told so."""
    path = tmp_path / "pipe"
    hold = Hold(path)
    assert hold.is_whole(path)
    path.unlink()
    assert not hold.is_whole(path)
    os.mkfifo(path)
    assert not hold.is_whole(path)
    hold.close()


@pytest.mark.parametrize("kind", [Hold, Watch])
def test_what_is_no_pipe_is_refused(tmp_path: Path, kind: type[Hold | Watch]) -> None:
    """A file in its place is left alone."""
    path = tmp_path / "pipe"
    path.write_text("text")
    with pytest.raises(ConnectionFailed, match="no pipe"):
        kind(path)
    assert path.read_text() == "text"
