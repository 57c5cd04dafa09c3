"""When a start looks at the disk at once, and when aside: never where something may hang, or take long."""

import contextlib
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from execzmq.backends import looking
from execzmq.backends.looking import Looked, Looker, Outdated
from execzmq.backends.sweeping import Sweeper
from execzmq.errors import InvalidRequest, SandboxUnavailable, SpawnFailed
from execzmq.sandbox import disk
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.planning import Wish
from execzmq.sandbox.wrapper import Wrapper
from tests.sandbox.bare import permissions

WRAPPER = Wrapper("/usr/bin/bwrap", ())


class Watched(Looker):
    """Counts the looks that were taken aside."""

    aside = 0

    async def _aside(self, wish: Wish) -> Looked:
        self.aside += 1
        return await super()._aside(wish)


@pytest.fixture
def mounts(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is mounted, for a test to write."""
    path = short_tmp / "mountinfo"
    path.write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n")
    monkeypatch.setattr(disk, "_MOUNTS", os.fspath(path))
    return path


def mount_at(place: Path, mounts: Path) -> None:
    """Have a network file system there, and nowhere else."""
    first = mounts.read_text().splitlines(keepends=True)[0]
    mounts.write_text(first + f"2 1 0:9 / {place} rw shared:1 - nfs4 server:/ rw\n")


@asynccontextmanager
async def looker(folder: Path) -> AsyncIterator[tuple[Watched, Path]]:
    root = folder / "ws"
    root.mkdir(exist_ok=True)
    sweeper = Sweeper(folder, lambda work: work.close())
    yield Watched([os.fsencode(folder / "state")], lambda: sweeper), root
    await sweeper.aclose()


async def look(looker: Looker, root: Path, wrapper: Wrapper = WRAPPER) -> list[tuple[bytes, bool]]:
    """Look as often as a start does, and return what is found."""
    while True:
        found = await looker.look(permissions(writable=(os.fsencode(root),)), wrapper)
        with contextlib.suppress(Outdated), contextlib.closing(found):
            found.check()
            return [(mount.path, mount.fd >= 0) for mount in found.view.mounts]


async def test_the_same_again_is_looked_at_at_once(short_tmp: Path, mounts: Path) -> None:
    """The first look is taken aside, and each that finds something else; both find the same."""
    async with looker(short_tmp) as (watched, root):
        first = await look(watched, root)
        assert (await look(watched, root), watched.aside) == (first, 1)
        (root / ".git").mkdir()
        assert dict(await look(watched, root))[os.fsencode(root / ".git")]
        assert watched.aside == 2
        (root / ".git").rmdir()
        for _ in range(2):
            assert (await look(watched, root), watched.aside) == (first, 3)


async def test_what_is_refused_is_refused_again(short_tmp: Path, mounts: Path) -> None:
    """What was allowed before makes no difference, nor that it is looked at at once."""
    async with looker(short_tmp) as (watched, root):
        await look(watched, root)
        with pytest.raises(SandboxUnavailable):
            await look(watched, root, Wrapper(os.fspath(root / "bwrap"), ()))
        (root / ".codex").symlink_to("x")
        with pytest.raises(InvalidRequest):
            await look(watched, root)
        root.rename(root.with_name("gone"))
        with pytest.raises(InvalidRequest):
            await look(watched, root)


async def test_a_file_system_that_may_hang(short_tmp: Path, mounts: Path) -> None:
    """A network below any path that is asked for, or anything newly mounted, is looked at aside."""
    async with looker(short_tmp) as (watched, root):
        await look(watched, root)
        mount_at(root, mounts)
        for count in (2, 3):
            await look(watched, root)
            assert watched.aside == count
        mount_at(Path("/elsewhere"), mounts)
        for _ in range(2):
            await look(watched, root)
            assert watched.aside == 4


async def test_a_look_that_takes_long(short_tmp: Path, mounts: Path) -> None:
    """Many folders or entries are looked at aside however often."""
    async with looker(short_tmp) as (watched, root):
        for number in range(600):
            (root / f"f{number}").touch()
        for count in (1, 2):
            await look(watched, root)
            assert watched.aside == count


@contextmanager
def swept(lock: bytes) -> Iterator[None]:
    with open(lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def test_a_sweep_is_waited_for_aside(
    short_tmp: Path, mounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits in the loop for another server that removes what its sandboxes have left."""
    async with looker(short_tmp) as (watched, root):
        await look(watched, root)
        monkeypatch.setattr(looking, "_SECONDS", 0.2)
        with swept(watched._sweeper()._placeholders._lock), pytest.raises(SandboxUnavailable) as caught:
            await look(watched, root)
        assert (caught.value.reason, watched.aside) == ("slow_folders", 2)


async def test_what_is_replaced_after_it_was_opened(short_tmp: Path, mounts: Path) -> None:
    """Another folder of the same look is not the one that was opened: nothing of it is mounted."""
    async with looker(short_tmp) as (watched, root):
        await look(watched, root)
        found = await watched.look(permissions(writable=(os.fsencode(root),)), WRAPPER)
        root.rename(root.with_name("old"))
        root.with_name("ws").mkdir()
        with contextlib.closing(found), pytest.raises(InvalidRequest) as caught:
            found.check()
        assert (caught.value.reason, watched.aside) == ("root_changed", 1)


async def test_no_descriptor_is_left_to_check_with(
    short_tmp: Path, mounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be looked at is not taken for what was there."""

    def refuse(path: bytes) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with looker(short_tmp) as (watched, root):
        await look(watched, root)
        found = await watched.look(permissions(writable=(os.fsencode(root),)), WRAPPER)
        with monkeypatch.context() as patch, contextlib.closing(found):
            patch.setattr("execzmq.sandbox.disk.os.scandir", refuse)
            with pytest.raises(SpawnFailed) as caught:
                found.check()
        assert caught.value.details["reason"] == "too_many_descriptors"


async def test_what_was_expected_and_is_not(short_tmp: Path, mounts: Path) -> None:
    """Whoever prepares a start anew is told what is there; two states in turn are both known."""
    async with looker(short_tmp) as (watched, root):
        await look(watched, root)
        found = await watched.look(permissions(writable=(os.fsencode(root),)), WRAPPER)
        (root / ".git").mkdir()
        with contextlib.closing(found), pytest.raises(Outdated):
            found.check()
        await look(watched, root)
        assert watched.aside == 2
        watched._plans.get(*_as_without(watched, root))
        for _ in range(2):
            await look(watched, root)
            assert watched.aside == 2


def _as_without(watched: Watched, root: Path) -> tuple[Wish, Disk]:
    """Return the wish that is known, and a disk on which there is no repository."""
    (wish,) = watched._plans._of
    absent = Disk()
    absent.known[Disk._kind.__wrapped__, os.fsencode(root / ".git")] = 0  # type: ignore[attr-defined]
    return wish, absent
