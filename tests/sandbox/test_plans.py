"""Plans that are used again: whatever happens on the disk, the answer is that of a plan made now."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execzmq.errors import ExecZMQError
from execzmq.sandbox import disk, plans
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.planning import Plan, Wish, plan_of, wish_of
from execzmq.sandbox.plans import Plans
from tests.sandbox.bare import permissions


def b(path: Path) -> bytes:
    return os.fsencode(path)


class World:
    """A root `ws`, a server's folder, a folder of code, and a list of mounts that a test can write."""

    def __init__(self, top: Path) -> None:
        self.top, self.ws, self.state, self.mounts = top, top / "ws", top / "state", top / "mountinfo"
        self.placeholders: set[bytes] = set()
        for folder in (self.ws / "a/b", self.state, top / "code", top / "other/.git", self.ws / "venv"):
            folder.mkdir(parents=True)
        (self.state / "key").touch()
        self.mounts.write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n")

    def wish(self, **changes: object) -> Wish:
        """Return a wish for the root, in which something is denied and code of the server lies."""
        wanted = permissions(
            **{
                "writable": (b(self.ws),),
                "denied": (b(self.ws / "a/secret"), b(self.top / "h/.ssh")),
                **changes,
            }
        )
        return wish_of(wanted, (b(self.state),), (b(self.ws / "venv"), b(self.top / "code")))

    def disk(self) -> Disk:
        return Disk(self.placeholders)


def _swap_root(world: World) -> None:
    """Put a link to another folder in the root's place, or the folder back."""
    if world.ws.is_symlink():
        world.ws.unlink()
        (world.top / "moved").rename(world.ws)
    else:
        world.ws.rename(world.top / "moved")
        world.ws.symlink_to("other")


def _toggle(name: str, make: Callable[[Path], object]) -> Callable[[World], None]:
    def change(world: World) -> None:
        path = world.ws / name
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        elif path.parent.is_dir():
            make(path)

    return change


def _folder(name: str) -> Callable[[World], None]:
    return _toggle(name, lambda path: path.mkdir(parents=True))


def _file(name: str, text: str = "") -> Callable[[World], None]:
    return _toggle(name, lambda path: path.write_text(text))


def _link(name: str, target: str) -> Callable[[World], None]:
    return _toggle(name, lambda path: path.symlink_to(target))


def _mode(mode: int) -> Callable[[World], None]:
    return lambda world: world.ws.chmod(mode)


def _left(name: str) -> Callable[[World], None]:
    """Count a path as left by another sandbox, or not any more."""
    return lambda world: world.placeholders.symmetric_difference_update({b(world.ws / name)})


def _second_name(world: World) -> None:
    _toggle("mine", lambda path: os.link(world.state / "key", path))(world)


def _twin(world: World) -> None:
    """Give the secret a second name in the root."""
    if (world.ws / "a/secret").is_file():
        _toggle("twin", lambda path: os.link(world.ws / "a/secret", path))(world)


def _mount(world: World) -> None:
    """Mount the secret at its second name, or take that away."""
    lines = world.mounts.read_text().splitlines(keepends=True)
    extra = f"2 1 8:1 {world.ws}/a/secret {world.ws}/twin rw - ext4 /dev/sda rw\n"
    world.mounts.write_text("".join(lines[:1] if len(lines) > 1 else [*lines, extra]))


CHANGES: dict[str, Callable[[World], None]] = {
    "root swapped": _swap_root,
    "root closed": _mode(0o555),
    "root open": _mode(0o755),
    "git folder": _folder(".git"),
    "git in use": _file(".git/HEAD"),
    "git file": _file(".git", "gitdir: a/b\n"),
    "git file elsewhere": _file(".git", "gitdir: ../other/.git\n"),
    "common": _file(".git/commondir", "../a\n"),
    "common of a": _file("a/b/commondir", "..\n"),
    "config": _file(".git/config", "[extensions]\n\tworktreeConfig = true\n"),
    "module": _folder(".git/modules/m"),
    "worktree": _folder(".git/worktrees/w"),
    "git link": _link(".git", "a"),
    "protected": _folder(".codex"),
    "protected file": _file(".vscode"),
    "protected link": _link(".codex", "a"),
    "nested": _folder("a/b/.git"),
    "nested above": _folder("a/.git"),
    "nested link": _link("a/b/.git", "../../.git"),
    "new folder": _folder("c"),
    "secret": _file("a/secret"),
    "secret link": _link("a/secret", "b"),
    "way to the secret": _link("a", "other"),
    "code": _link("venv", "../code"),
    "left git": _left(".git"),
    "left codex": _left(".codex"),
    "second name": _second_name,
    "twin": _twin,
    "mount": _mount,
}


def change(world: World, name: str) -> None:
    """Change the disk, as far as this user can."""
    with contextlib.suppress(OSError):
        CHANGES[name](world)


def outcome(make: Callable[[Wish, Disk], Plan], wish: Wish, world: World) -> object:
    """Return a plan, or what it is refused with."""
    try:
        return make(wish, world.disk())
    except ExecZMQError as error:
        return type(error), str(error)


@pytest.fixture
def world(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return _world(short_tmp, monkeypatch)


def _world(top: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(top)
    monkeypatch.setattr(disk, "_MOUNTS", os.fspath(made.mounts))
    return made


def _wishes(world: World) -> Iterator[Wish]:
    yield world.wish()
    yield world.wish(protect_git="hooks-config")
    yield world.wish(protect_git="none", protected=())
    yield world.wish(read="minimal", readable=(b(world.ws / "a"),), write_within=(b(world.top),))


@pytest.mark.parametrize("first", CHANGES)
def test_any_change_that_makes_another_plan_is_seen(first: str, world: World) -> None:
    """Each change, and its undoing, from the plain state: the plan that is kept is never a wrong one."""
    kept = Plans()
    (world.ws / "a/secret").touch()
    for _ in range(3):
        for wish in _wishes(world):
            assert outcome(kept.get, wish, world) == outcome(plan_of, wish, world)
        change(world, first)


@pytest.mark.slow
@settings(max_examples=150)
@given(names=st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=16))
def test_any_course_of_changes(names: list[str]) -> None:
    """However the disk changes, a plan that is used again is the one that would be made now."""
    with tempfile.TemporaryDirectory(prefix="xz-", dir="/tmp") as top, pytest.MonkeyPatch.context() as patch:
        world = _world(Path(top).resolve(), patch)
        kept = Plans()
        for name in names:
            change(world, name)
            for wish in _wishes(world):
                assert outcome(kept.get, wish, world) == outcome(plan_of, wish, world)


def test_what_is_unchanged_is_planned_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where two states of the disk take turns, as with the folders that sandboxes leave."""
    made: list[Wish] = []

    def counted(wish: Wish, disk: Disk) -> Plan:
        made.append(wish)
        return plan_of(wish, disk)

    monkeypatch.setattr(plans, "plan_of", counted)
    kept = Plans()
    for _ in range(4):
        kept.get(world.wish(), world.disk())
        change(world, "protected")
        world.placeholders ^= {b(world.ws / ".codex")}
    assert len(made) == 2
    (world.ws / "a/b/file").touch()
    kept.get(world.wish(), world.disk())
    assert len(made) == 2


def test_number_of_plans_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither many wishes nor one that rests on very much fill the memory."""
    monkeypatch.setattr(plans, "MOST_WISHES", 2)
    kept = Plans()
    for name in (b"a", b"b", b"c"):
        kept.get(world.wish(protected=(name,)), world.disk())
    assert len(kept._of) == 1
    monkeypatch.setattr(plans, "MOST_ANSWERS", 3)
    kept.get(world.wish(protected=(b"d",)), world.disk())
    assert len(kept._of) == 1
