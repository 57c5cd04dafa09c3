"""Who uses which empty folder, and when it goes, on a real disk and without a sandbox."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execzmq.sandbox import placeholders
from execzmq.sandbox.model import Mount, View
from execzmq.sandbox.placeholders import Placeholders


@pytest.fixture
def ws(short_tmp: Path) -> Path:
    (short_tmp / "ws").mkdir()
    return short_tmp / "ws"


@pytest.fixture
def journal(short_tmp: Path) -> bytes:
    return os.fsencode(short_tmp / "journal")


@pytest.fixture
def begin(journal: bytes) -> Iterator[Callable[[], Placeholders]]:
    """Begin another life of the server; all of them are closed after the test."""
    lives: list[Placeholders] = []

    def begin() -> Placeholders:
        lives.append(Placeholders(journal, journal + b".lock"))
        return lives[-1]

    yield begin
    for one in lives:
        one.close()


@pytest.fixture
def kept(begin: Callable[[], Placeholders]) -> Placeholders:
    """The first life."""
    return begin()


def missing(path: Path, *, is_dir: bool = True) -> View:
    return View((Mount(os.fsencode(path), "read", is_dir, -1, is_missing=True),), ())


def test_last_one_removes(ws: Path, journal: bytes, kept: Placeholders) -> None:
    """A folder goes with the last sandbox that uses it; to release twice is to release once."""
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


def test_shown_folder_that_another_left(ws: Path, kept: Placeholders) -> None:
    """A view that shows a folder before it is known to be left by another counts as a user of it too."""
    kept.hold("a", missing(ws / ".git"))
    (ws / ".git").mkdir()
    kept.hold("b", View((Mount(os.fsencode(ws / ".git"), "read", True, 0),), ()))
    kept.release("a")
    kept.sweep()
    assert (ws / ".git").is_dir()
    kept.release("b")
    kept.sweep()
    assert not (ws / ".git").exists()


def test_nothing_left_nothing_written(ws: Path, journal: bytes, kept: Placeholders) -> None:
    """A view that leaves nothing costs nothing."""
    kept.hold("a", View((Mount(os.fsencode(ws), "write", True, 0),), ()))
    assert len(kept) == 0
    assert not os.path.exists(journal)


def hold(kept: Placeholders, key: str, path: Path, *, is_dir: bool = True) -> None:
    """Hold a missing name by a view that shows its folder."""
    fd = os.open(path.parent, os.O_PATH)
    shown = Mount(os.fsencode(path.parent), "write", True, fd)
    try:
        kept.hold(key, View((shown, *missing(path, is_dir=is_dir).mounts), ()))
    finally:
        os.close(fd)


@pytest.mark.parametrize("alive", [(), ("b",), ("a", "b")])
def test_next_life(ws: Path, alive: tuple[str, ...], begin: Callable[[], Placeholders]) -> None:
    """A server that was killed: its next life keeps what sandboxes still use and removes the rest."""
    first = begin()
    first.hold("a", missing(ws / ".git"))
    first.hold("b", missing(ws / ".idea"))
    for name in (".git", ".idea"):
        (ws / name).mkdir()
    second = begin()
    second.recover(alive)
    second.sweep()
    assert ((ws / ".git").exists(), (ws / ".idea").exists()) == ("a" in alive, "b" in alive)
    for key in alive:
        second.release(key)
        second.sweep()
    assert not list(ws.iterdir())
    third = begin()
    third.recover(())
    third.sweep()
    assert len(third) == 0


def test_what_somebody_filled_stays(ws: Path, kept: Placeholders) -> None:
    """A folder with something in it, a file, or a link in its place is somebody's."""
    for name in ("full", "file", "link", "gone"):
        kept.hold(name, missing(ws / name))
    (ws / "full").mkdir()
    (ws / "full/x").touch()
    (ws / "file").touch()
    (ws / "link").symlink_to("full")
    kept.recover(())
    kept.sweep()
    assert {path.name for path in ws.iterdir()} == {"full", "file", "link"}


def test_link_above_is_not_followed(ws: Path, kept: Placeholders) -> None:
    """A command put a link in place of a folder: what is behind it is another one's."""
    (ws / "a").mkdir()
    kept.hold("a", missing(ws / "a/.git"))
    (ws / "other/.git").mkdir(parents=True)
    (ws / "a").rmdir()
    (ws / "a").symlink_to("other")
    kept.release("a")
    kept.sweep()
    assert (ws / "other/.git").is_dir()


def test_file_instead_of_a_folder(ws: Path, begin: Callable[[], Placeholders], kept: Placeholders) -> None:
    """A file is made before the start and goes again, unless somebody wrote another into its place."""
    for name in ("one", "two"):
        kept.hold(name, missing(ws / name, is_dir=False))
        assert (ws / name).read_bytes() == b".\n"
    (ws / "two").write_bytes(b"../elsewhere\n")
    again = begin()
    again.recover(())
    again.sweep()
    assert [path.name for path in ws.iterdir()] == ["two"]


def test_file_that_cannot_be_made(ws: Path, journal: bytes, kept: Placeholders) -> None:
    """Where a start fails before it began, nothing is held."""
    with pytest.raises(OSError, match="none"):
        kept.hold("a", missing(ws / "none/commondir", is_dir=False))
    assert len(kept) == 0
    other = Placeholders(os.fsencode(ws / "none/journal"), journal + b".lock")
    with pytest.raises(OSError, match="none"):
        other.hold("a", missing(ws / ".git"))
    other.close()


def test_spoiled_journal(
    ws: Path, journal: bytes, begin: Callable[[], Placeholders], kept: Placeholders
) -> None:
    """Lines that were cut off or are none are left out; the next one is read."""
    kept.hold("a", missing(ws / ".g\xff"))
    with open(journal, "ab") as file:
        file.write(b'{"key": "b", "paths": ["/\n[]\n{"key":1}\n\xff\n')
    kept.hold("c", missing(ws / ".idea"))
    for name in (".g\xff", ".idea"):
        (ws / name).mkdir()
    again = begin()
    again.recover(())
    again.sweep()
    assert not list(ws.iterdir())


def test_long_life(ws: Path, journal: bytes, begin: Callable[[], Placeholders], kept: Placeholders) -> None:
    """A journal that is never empty does not grow for ever."""
    kept.hold("stays", missing(ws / ".git"))
    (ws / ".git").mkdir()
    for number in range(3000):
        kept.hold(str(number), missing(ws / ("n" * 200) / ("m" * 200)))
        kept.release(str(number))
        kept.sweep()
    assert os.path.getsize(journal) < 1_100_000
    again = begin()
    again.recover(("stays",))
    again.sweep()
    assert again.paths == {os.fsencode(ws / ".git")}


@pytest.mark.parametrize("moved", ["ws2", "other/deep"])
def test_root_that_is_moved(ws: Path, kept: Placeholders, moved: str) -> None:
    """What was left goes from where it is now, and not from what has taken its place."""
    (ws.parent / "other").mkdir()
    new = ws.parent / moved
    hold(kept, "a", ws / ".git")
    hold(kept, "b", ws / "commondir", is_dir=False)
    (ws / ".git").mkdir()
    ws.rename(new)
    (ws / ".git").mkdir(parents=True)
    kept.release("a")
    kept.release("b")
    kept.sweep()
    assert not list(new.iterdir())
    assert (ws / ".git").is_dir()


def test_folder_above_that_is_moved(ws: Path, kept: Placeholders) -> None:
    """It need not be the root itself."""
    (ws / "a/b").mkdir(parents=True)
    hold(kept, "a", ws / "a/b/.git")
    (ws / "a/b/.git").mkdir()
    ws.rename(ws.parent / "ws2")
    kept.release("a")
    kept.sweep()
    assert not list((ws.parent / "ws2/a/b").iterdir())


def test_root_that_is_moved_in_the_next_life(ws: Path, begin: Callable[[], Placeholders]) -> None:
    """Where it is known as soon as that life has looked for it."""
    hold(begin(), "a", ws / ".git")
    (ws / ".git").mkdir()
    again = begin()
    again.recover(("a",))
    again.find()
    new = ws.rename(ws.parent / "ws2")
    again.release("a")
    again.sweep()
    assert not list(new.iterdir())


def test_two_roots_that_were_at_one_path(ws: Path, kept: Placeholders) -> None:
    """One was moved away, and another made: what is left of both goes with the last of them."""
    for key, moved in (("a", "ws2"), ("b", "ws3")):
        hold(kept, key, ws / ".git")
        (ws / ".git").mkdir()
        ws.rename(ws.parent / moved)
        ws.mkdir()
    for key in ("a", "b"):
        kept.release(key)
        kept.sweep()
    assert not list((ws.parent / "ws2").iterdir())
    assert not list((ws.parent / "ws3").iterdir())


@pytest.mark.parametrize("seen_at", ["ws", "ws2"])
def test_moved_and_needed_by_another_server(
    ws: Path, kept: Placeholders, monkeypatch: pytest.MonkeyPatch, seen_at: str
) -> None:
    """Its sandbox has the cover at the place of before, or of now, depending on when it was started."""
    hold(kept, "a", ws / ".git")
    (ws / ".git").mkdir()
    new = ws.rename(ws.parent / "ws2")
    place = os.fsencode(ws.parent / seen_at / ".git")
    with monkeypatch.context() as patched:
        patched.setattr(placeholders, "mounted_elsewhere", lambda paths: {place} & {*paths})
        kept.release("a")
        kept.sweep()
        assert (new / ".git").is_dir()
    kept.sweep()
    assert not (new / ".git").exists()


def test_release_during_a_look(ws: Path, kept: Placeholders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last user may end while one looks for what an earlier one has left: it is for the next look."""

    def look(paths: set[bytes]) -> set[bytes]:
        kept.release("b")
        return set()

    hold(kept, "a", ws / ".git")
    hold(kept, "b", ws / ".git")
    (ws / ".git").mkdir()
    kept.release("a")
    with monkeypatch.context() as patched:
        patched.setattr(placeholders, "mounted_elsewhere", look)
        kept.sweep()
    assert kept.has_left
    kept.sweep()
    assert not list(ws.iterdir())


def test_closed_during_a_look(ws: Path, kept: Placeholders, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that a dead disk holds up has its descriptors to its end; there is no further one."""

    def look(paths: set[bytes]) -> set[bytes]:
        kept.close()
        return set()

    hold(kept, "a", ws / ".git")
    (ws / ".git").mkdir()
    kept.release("a")
    monkeypatch.setattr(placeholders, "mounted_elsewhere", look)
    assert kept.sweep()
    assert not list(ws.iterdir())
    assert not kept.sweep()


def test_file_on_a_full_disk(ws: Path, kept: Placeholders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git would take an empty one for damaged: it is whole, or not there."""
    write = os.write

    def refuse(fd: int, data: bytes) -> int:
        if data == b".\n":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            hold(kept, "a", ws / "commondir", is_dir=False)
    assert not list(ws.iterdir())


def test_file_of_one_that_was_killed(ws: Path, begin: Callable[[], Placeholders]) -> None:
    """It may have been made and not yet written."""
    hold(begin(), "a", ws / "commondir", is_dir=False)
    (ws / "commondir").write_bytes(b"")
    again = begin()
    again.recover(())
    again.sweep()
    assert not list(ws.iterdir())


def test_no_descriptor(ws: Path, kept: Placeholders, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that cannot find its folder again is none."""

    def refuse(fd: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "dup", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            hold(kept, "a", ws / ".git")
    assert len(kept) == 0


def test_no_descriptor_for_a_look(
    ws: Path, begin: Callable[[], Placeholders], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be opened now is not gone: what was left in it stays for the next look."""
    hold(begin(), "a", ws / ".git")
    (ws / ".git").mkdir()
    again = begin()
    again.recover(())

    def refuse(path: bytes) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(placeholders, "open_folder", refuse)
        again.sweep()
    assert again.has_left
    again.sweep()
    assert not list(ws.iterdir())
