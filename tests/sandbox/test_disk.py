"""Questions to the disk: each is asked once, and what links lead to is what the system says."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execzmq.sandbox.disk import Disk

NAMES = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.lists(st.sampled_from(["a", "b", "c", "d", "..", "."]), min_size=1, max_size=4).map("/".join)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    made=st.lists(st.tuples(NAMES, NAMES, st.none() | PATHS, st.booleans()), max_size=8),
    asked=st.lists(PATHS, min_size=1, max_size=8),
)
def test_links_are_followed_as_the_system_does(
    made: list[tuple[str, str, str | None, bool]], asked: list[str]
) -> None:
    """Whatever links there are, through missing places too; only in a loop there is no answer to compare."""
    with tempfile.TemporaryDirectory(prefix="xz-", dir="/tmp") as top:
        for folder, name, target, is_absolute in made:
            path = Path(top, folder, name)
            if target is None or path.is_symlink():
                path.parent.mkdir(exist_ok=True)
            elif path.parent.is_dir() and not os.path.lexists(path):
                path.symlink_to(f"{top}/{target}" if is_absolute else target)
        looked = Disk()
        for words in asked:
            path = Path(top, words)
            try:
                os.stat(path)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    continue
            assert looked.real(os.fsencode(path)) == os.fsencode(os.path.realpath(path))


def test_a_loop_is_left_as_a_link(short_tmp: Path) -> None:
    """What is returned for a loop is none of the places that it goes through."""
    (short_tmp / "a").symlink_to("b")
    (short_tmp / "b").symlink_to("a")
    looked = Disk()
    found = looked.real(os.fsencode(short_tmp / "a/x"))
    assert looked.is_link(os.path.dirname(found))
    assert looked.is_link(looked.real(os.fsencode(short_tmp / "a")))


def test_each_question_is_asked_once(short_tmp: Path) -> None:
    """A plan rests on one answer, and another disk tells whether it is still the same."""
    path = os.fsencode(short_tmp / "x")
    looked = Disk()
    assert not looked.exists(path)
    (short_tmp / "x").mkdir()
    assert not looked.exists(path)
    answers = looked.begin()
    assert not answers
    assert not looked.exists(path)
    assert [about for _, *about in answers] == [[path]]
    assert not Disk().still_answers(answers)
    (short_tmp / "x").rmdir()
    assert Disk().still_answers(answers)
