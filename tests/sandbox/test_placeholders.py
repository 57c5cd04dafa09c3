"""Who uses which empty folder, and when it goes, on a real disk and without a sandbox."""

import os
from pathlib import Path

import pytest

from execzmq.sandbox.model import Mount, View
from execzmq.sandbox.placeholders import Placeholders


@pytest.fixture
def ws(short_tmp: Path) -> Path:
    (short_tmp / "ws").mkdir()
    return short_tmp / "ws"


@pytest.fixture
def journal(short_tmp: Path) -> bytes:
    return os.fsencode(short_tmp / "journal")


def missing(path: Path, *, is_dir: bool = True) -> View:
    return View((Mount(os.fsencode(path), "read", is_dir, -1, is_missing=True),), ())


def test_last_one_removes(ws: Path, journal: bytes) -> None:
    """A folder goes with the last sandbox that uses it; to release twice is to release once."""
    kept = Placeholders(journal, journal + b".lock")
    kept.hold("a", missing(ws / ".git"))
    kept.hold("b", missing(ws / ".git"))
    (ws / ".git").mkdir()
    kept.release("a")
    kept.sweep()
    kept.release("a")
    kept.sweep()
    assert kept.paths == {os.fsencode(ws / ".git")}
    assert (ws / ".git").is_dir()
    kept.release("b")
    kept.sweep()
    assert not (ws / ".git").exists()
    assert (len(kept), os.path.getsize(journal)) == (0, 0)


def test_shown_folder_that_another_left(ws: Path, journal: bytes) -> None:
    """A view that shows a folder before it is known to be left by another counts as a user of it too."""
    kept = Placeholders(journal, journal + b".lock")
    kept.hold("a", missing(ws / ".git"))
    (ws / ".git").mkdir()
    kept.hold("b", View((Mount(os.fsencode(ws / ".git"), "read", True, 0),), ()))
    kept.release("a")
    kept.sweep()
    assert (ws / ".git").is_dir()
    kept.release("b")
    kept.sweep()
    assert not (ws / ".git").exists()


def test_nothing_left_nothing_written(ws: Path, journal: bytes) -> None:
    """A view that leaves nothing costs nothing."""
    kept = Placeholders(journal, journal + b".lock")
    kept.hold("a", View((Mount(os.fsencode(ws), "write", True, 0),), ()))
    assert len(kept) == 0
    assert not os.path.exists(journal)


@pytest.mark.parametrize("alive", [(), ("b",), ("a", "b")])
def test_next_life(ws: Path, journal: bytes, alive: tuple[str, ...]) -> None:
    """A server that was killed: its next life keeps what sandboxes still use and removes the rest."""
    first = Placeholders(journal, journal + b".lock")
    first.hold("a", missing(ws / ".git"))
    first.hold("b", missing(ws / ".idea"))
    for name in (".git", ".idea"):
        (ws / name).mkdir()
    second = Placeholders(journal, journal + b".lock")
    second.recover(alive)
    second.sweep()
    assert ((ws / ".git").exists(), (ws / ".idea").exists()) == ("a" in alive, "b" in alive)
    for key in alive:
        second.release(key)
        second.sweep()
    assert not list(ws.iterdir())
    third = Placeholders(journal, journal + b".lock")
    third.recover(())
    third.sweep()
    assert len(third) == 0


def test_what_somebody_filled_stays(ws: Path, journal: bytes) -> None:
    """A folder with something in it, a file, or a link in its place is somebody's."""
    kept = Placeholders(journal, journal + b".lock")
    for name in ("full", "file", "link", "gone"):
        kept.hold(name, missing(ws / name))
    (ws / "full").mkdir()
    (ws / "full/x").touch()
    (ws / "file").touch()
    (ws / "link").symlink_to("full")
    kept.recover(())
    kept.sweep()
    assert {path.name for path in ws.iterdir()} == {"full", "file", "link"}


def test_link_above_is_not_followed(ws: Path, journal: bytes) -> None:
    """A command put a link in place of a folder: what is behind it is another one's."""
    kept = Placeholders(journal, journal + b".lock")
    (ws / "a").mkdir()
    kept.hold("a", missing(ws / "a/.git"))
    (ws / "other/.git").mkdir(parents=True)
    (ws / "a").rmdir()
    (ws / "a").symlink_to("other")
    kept.release("a")
    kept.sweep()
    assert (ws / "other/.git").is_dir()


def test_file_instead_of_a_folder(ws: Path, journal: bytes) -> None:
    """A file is made before the start and goes again, unless somebody wrote another into its place."""
    kept = Placeholders(journal, journal + b".lock")
    for name in ("one", "two"):
        kept.hold(name, missing(ws / name, is_dir=False))
        assert (ws / name).read_bytes() == b".\n"
    (ws / "two").write_bytes(b"../elsewhere\n")
    again = Placeholders(journal, journal + b".lock")
    again.recover(())
    again.sweep()
    assert [path.name for path in ws.iterdir()] == ["two"]


def test_file_that_cannot_be_made(ws: Path, journal: bytes) -> None:
    """Where a start fails before it began, nothing is held."""
    kept = Placeholders(journal, journal + b".lock")
    with pytest.raises(OSError, match="none"):
        kept.hold("a", missing(ws / "none/commondir", is_dir=False))
    assert len(kept) == 0
    with pytest.raises(OSError, match="none"):
        Placeholders(os.fsencode(ws / "none/journal"), journal + b".lock").hold("a", missing(ws / ".git"))


def test_spoiled_journal(ws: Path, journal: bytes) -> None:
    """Lines that were cut off or are none are left out; the next one is read."""
    kept = Placeholders(journal, journal + b".lock")
    kept.hold("a", missing(ws / ".g\xff"))
    with open(journal, "ab") as file:
        file.write(b'{"key": "b", "paths": ["/\n[]\n{"key":1}\n\xff\n')
    kept.hold("c", missing(ws / ".idea"))
    for name in (".g\xff", ".idea"):
        (ws / name).mkdir()
    again = Placeholders(journal, journal + b".lock")
    again.recover(())
    again.sweep()
    assert not list(ws.iterdir())


def test_long_life(ws: Path, journal: bytes) -> None:
    """A journal that is never empty does not grow for ever."""
    kept = Placeholders(journal, journal + b".lock")
    kept.hold("stays", missing(ws / ".git"))
    (ws / ".git").mkdir()
    for number in range(3000):
        kept.hold(str(number), missing(ws / ("n" * 200) / ("m" * 200)))
        kept.release(str(number))
        kept.sweep()
    assert os.path.getsize(journal) < 1_100_000
    again = Placeholders(journal, journal + b".lock")
    again.recover(("stays",))
    again.sweep()
    assert again.paths == {os.fsencode(ws / ".git")}
