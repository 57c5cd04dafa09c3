"""The window of one page: what is rendered makes room, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.notebook.flow import CHUNK, INTERVAL, WINDOW, AckWindow


def test_a_page_that_renders_nothing_gets_one_window() -> None:
    """A dead page is sent no more than the window, ever."""
    window = AckWindow()
    while window.room:
        window.add(window.room, 0.0)
    assert window.sent == WINDOW
    window.acknowledge(0)
    assert window.room == 0


def test_rendered_bytes_make_room_for_whole_chunks() -> None:
    """A page is not sent scraps: the next message goes when a whole chunk has room."""
    window = AckWindow(window=100, chunk=40)
    window.add(40, 0.0)
    window.add(40, 0.0)
    assert window.room == 0
    window.acknowledge(19)
    assert window.room == 0
    window.acknowledge(20)
    assert window.room == 40


def test_messages_are_apart() -> None:
    """At most fifty a second go to one page; the first goes at once."""
    window = AckWindow()
    assert window.wait(10.0) == 0.0
    window.add(1, 10.0)
    assert window.wait(10.0) == pytest.approx(INTERVAL)
    assert 1 / INTERVAL <= 50
    assert window.wait(10.5) == 0.0


def test_the_pace_outlives_a_restart() -> None:
    """A page that asks for the screen again and again is not answered faster."""
    window = AckWindow()
    window.add(5, 1.0)
    window.restart()
    assert (window.sent, window.rendered) == (0, 0)
    assert window.wait(1.0) == pytest.approx(INTERVAL)


@given(st.lists(st.tuples(st.booleans(), st.integers(-(2**70), 2**70)), max_size=50))
def test_no_acknowledgement_breaks_the_bounds(steps: list[tuple[bool, int]]) -> None:
    """Whatever a page says, what it has not rendered stays within the window, and counts go up alone."""
    window = AckWindow()
    for is_sent, number in steps:
        before = window.rendered
        if is_sent and window.room:
            window.add(abs(number) % (CHUNK + 1), 0.0)
        elif not is_sent:
            window.acknowledge(number)
        assert before <= window.rendered <= window.sent
        assert window.sent - window.rendered <= WINDOW
