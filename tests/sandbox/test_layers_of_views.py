"""Which layer decides about a path, which are needed, and what must be pinned: pure."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.errors import InvalidRequest
from execzmq.sandbox import layers
from execzmq.sandbox.layers import Layers
from execzmq.sandbox.model import Access

NAMES = st.sampled_from([b"a", b"b", b"\xff"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: b"/s/" + b"/".join(names))
ACCESS = st.sampled_from(["deny", "read", "write"])


def made(read: str, *added: tuple[bytes, Access]) -> Layers:
    result = Layers(read)  # type: ignore[arg-type]  # a literal
    for path, level in added:
        result.add(path, level)
    return result


def test_deepest_wins() -> None:
    """The deepest layer that holds a path decides."""
    found = made("host", (b"/s", "write"), (b"/s/a", "read"), (b"/s/a/b", "write"), (b"/s/a/b/c", "deny"))
    assert [found.at(p) for p in (b"/", b"/s/x", b"/s/a/x", b"/s/a/b/x", b"/s/a/b/c/x", b"/sx")] == [
        "read",
        "write",
        "read",
        "write",
        "deny",
        "read",
    ]


@given(st.permutations(["deny", "read", "write"]))
def test_strictest_wins_at_one_path(levels: list[Access]) -> None:
    """At one path deny beats read beats write, in whatever order they come; duplicates are one."""
    found = made("host", *((b"/s", level) for level in levels), (b"/s", levels[0]))
    assert found.needed() == {b"/s": "deny"}
    assert made("host", (b"/s", "write"), (b"/s", "read"), (b"/r", "write")).needed() == {b"/r": "write"}


def test_outer_before_inner() -> None:
    """Escape 70: an inner layer comes after the one that it changes."""
    found = made("host", (b"/s/a/b", "read"), (b"/s", "write"), (b"/r/x/y/z", "write"))
    assert list(found.needed()) == [b"/s", b"/s/a/b", b"/r/x/y/z"]


@pytest.mark.parametrize(
    ("read", "path", "level", "is_needed"),
    [
        ("host", b"/srv", "read", False),
        ("minimal", b"/srv", "read", True),
        ("minimal", b"/usr/share", "read", False),
        ("host", b"/tmp/x", "read", True),
        ("host", b"/tmp/x", "deny", False),
        ("host", b"/tmp", "deny", False),
        ("host", b"/home/u/.ssh", "deny", True),
        ("minimal", b"/home/u/.ssh", "deny", False),
        ("minimal", b"/usr/local/etc", "deny", True),
        ("minimal", b"/usr", "deny", True),
        ("host", b"/run/user/1", "read", True),
    ],
)
def test_only_what_changes_something_is_needed(
    read: str, path: bytes, level: Access, is_needed: bool
) -> None:
    """A mount that would show or hide nothing more is left out: each costs time."""
    assert (path in made(read, (path, level)).needed()) == is_needed


def test_pins() -> None:
    """C68: every folder between a root and a mount in it is pinned, and none that cannot be renamed."""
    found = made(
        "host", (b"/s", "write"), (b"/s/a/b/.git", "read"), (b"/s/ro", "read"), (b"/s/ro/x/key", "deny")
    )
    assert set(found.pins()) == {b"/s/a", b"/s/a/b"}
    assert set(made("host", (b"/s", "write"), (b"/s/a/r", "write"), (b"/s/a/r/.git", "read")).pins()) == {
        b"/s/a",
        b"/s/a/r",
    }


@given(st.lists(st.tuples(PATHS, ACCESS), max_size=6), PATHS)
def test_needed_layers_say_the_same(added: list[tuple[bytes, Access]], path: bytes) -> None:
    """What is left out changes nothing but at what is hidden anyway."""
    full = made("host", *added)
    kept = made("host", *full.needed().items())
    assert kept.at(path) == full.at(path)


@given(st.lists(st.tuples(PATHS, ACCESS), max_size=6))
def test_every_mount_in_writable_space_is_pinned(added: list[tuple[bytes, Access]]) -> None:
    """No folder above a mount can be renamed: it is a mount, or its parent is not writable."""
    found = made("host", *added)
    mounts = {*found.needed(), *found.pins()}
    for folder in {folder for path in found.needed() for folder in layers.above(path)} - {b"/"}:
        assert folder in mounts or found.at(os.path.dirname(folder)) != "write"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"a/b", "path_relative"),
        (b"", "path_relative"),
        (b"/a/../b", "path_relative"),
        (b"/a\0--bind", "path_with_nul"),
    ],
)
def test_paths_that_are_none(path: bytes, reason: str) -> None:
    """Escape 68: a NUL would add options; a relative path is nobody's."""
    with pytest.raises(InvalidRequest) as error:
        layers.clean(path)
    assert error.value.reason == reason


def test_clean_paths() -> None:
    """Doubled slashes and dots are taken out; `...` is a name."""
    assert layers.clean(b"//a/./b//") == b"/a/b"
    assert layers.clean(b"/a/...") == b"/a/..."
    assert layers.clean(b"/") == b"/"
