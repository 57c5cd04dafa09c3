"""The progress bar of `map`: how many wait, run, have failed and are lost."""

import pytest

from execzmq.cluster.progress import Bar
from execzmq.cluster.results import MapResult
from execzmq.types.results import ExitResult

DONE = MapResult("x", "one", ExitResult(exit_code=0))
WRONG = MapResult("x", "one", ExitResult(exit_code=1))
LOST = MapResult("x", "one", ExitResult(cause="server_lost"))


def test_what_it_says_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts of all kinds, on stderr; stdout is not touched."""
    with Bar(6, shown=True) as bar:
        for result in (DONE, WRONG, LOST):
            bar.started()
            bar.ended(result, had_place=True)
        bar.ended(WRONG, had_place=False)
        bar.started()
    said = capsys.readouterr()
    assert said.out == ""
    for words in ("4/6", "1 waiting, 1 running, 2 failed, 1 lost"):
        assert words in " ".join(said.err.split())


def test_one_that_is_not_shown_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """And costs nothing."""
    with Bar(1, shown=False) as bar:
        bar.started()
        bar.ended(DONE, had_place=True)
    assert capsys.readouterr() == ("", "")
