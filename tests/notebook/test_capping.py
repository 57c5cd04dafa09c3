"""How much a cell shows, and how often; the clock is the test's."""

import pytest

from execzmq.notebook.capping import INTERVAL, MOST_PIECES, SLOW_INTERVAL, Capped, Caps, Pace, Tail

CAPS = Caps(head=40, head_lines=5, tail=60, tail_lines=3)


def _feed(capped: Capped, text: str, stream: str = "stdout") -> str:
    capped.feed(stream, 0, text.encode())  # type: ignore[arg-type]  # one of the two
    return "".join(piece for _, piece in capped.take())


def _tail(capped: Capped) -> str:
    assert capped.tail is not None
    return capped.tail.text("note")


def test_what_fits_is_shown_as_it_is() -> None:
    """Up to the cap nothing is left out, and there is no tail."""
    capped = Capped(CAPS)
    assert _feed(capped, "1\n2\n3\n4\n5\n") == "1\n2\n3\n4\n5\n"
    assert capped.tail is None
    assert not capped.is_waiting


def test_lines_beyond_the_cap_go_into_the_tail() -> None:
    """The head ends after its last line; the tail has the newest, and says where some are missing."""
    capped = Capped(CAPS)
    assert _feed(capped, "".join(f"{n}\n" for n in range(7))) == "0\n1\n2\n3\n4\n"
    assert _tail(capped) == "5\n6\nnote"
    assert not _feed(capped, "7\n8\n")
    assert _tail(capped) == "[...]\n6\n7\n8\nnote"
    assert not capped.is_waiting


def test_one_long_line_is_cut() -> None:
    """Characters count too: the rest of a line is the tail's, whose own end is shown."""
    capped = Capped(CAPS)
    assert _feed(capped, "x" * 200 + "end") == "x" * 40
    assert _tail(capped) == f"[...]\n{'x' * 57}end\nnote"


def test_bar_never_fills_the_head() -> None:
    """A line that is overwritten counts once; when very much was written for it, writes come slowly."""
    capped = Capped(CAPS)
    states = [_feed(capped, f"\r{n:03d} of 500") for n in range(500)]
    assert states[-1] == "\r499 of 500"
    assert capped.tail is None
    assert capped.is_slow


@pytest.mark.parametrize("piece", ["\x1b[31m", "\x1b]0;title\a", "\r\x1b[1m", "\r\r", "\x1b[1m\n"])
def test_what_is_not_seen_fills_the_head_too(piece: str) -> None:
    """However little is seen of an output, what the page is given of it has an end."""
    capped = Capped(CAPS)
    written = sum(len(_feed(capped, piece * 10)) for _ in range(1000))
    assert written <= 10 * CAPS.head
    assert capped.tail is not None


def test_colours_of_a_bar_fill_nothing() -> None:
    """What is overwritten counts no more, whatever belonged to it."""
    capped = Capped(CAPS)
    for n in range(500):
        _feed(capped, f"\r\x1b[1;32m{n:03d}\x1b[m of 500")
    assert capped.tail is None


def test_bar_in_the_tail_is_one_line() -> None:
    """There, too, a line shows its last state, whatever pieces it came in."""
    capped = Capped(CAPS)
    _feed(capped, "1\n2\n3\n4\n5\nbegin\n")
    for piece in ("10%\r", "20%", "\r30", "%\r"):
        _feed(capped, piece)
    assert _tail(capped) == "begin\n30%\nnote"


def test_characters_are_whole() -> None:
    """A character may come in two events; half of one at the end is replaced."""
    capped = Capped(CAPS)
    for byte in "ü".encode():
        capped.feed("stdout", 0, bytes((byte,)))
    capped.feed("stderr", 0, b"\xc3")
    assert capped.take() == [("stdout", "ü")]
    capped.finish()
    assert capped.take() == [("stderr", "\N{REPLACEMENT CHARACTER}")]


def test_streams_keep_their_order() -> None:
    """Pieces come as they were written, unless the streams take turns too often."""
    capped = Capped(Caps())
    for n in range(3):
        capped.feed("stdout", n, b"o")
        capped.feed("stderr", n, b"e")
    assert capped.take() == [("stdout", "o"), ("stderr", "e")] * 3
    for n in range(MOST_PIECES):
        capped.feed("stdout", n, b"o")
        capped.feed("stderr", n, b"e")
    assert capped.take() == [("stdout", "o" * MOST_PIECES), ("stderr", "e" * MOST_PIECES)]


def test_streams_share_the_head_and_the_tail() -> None:
    """Both count, and in the tail another stream begins a line of its own."""
    capped = Capped(CAPS)
    _feed(capped, "1\n2\n3\n")
    assert _feed(capped, "4\n5\n6", "stderr") == "4\n5\n"
    _feed(capped, "7")
    assert _tail(capped) == "6\n7\nnote"


def test_what_is_left_out_is_told() -> None:
    """After a part that was skipped the tail begins anew; all bytes are counted by where they stand."""
    capped = Capped(CAPS)
    _feed(capped, "1\n2\n3\n4\n5\n6\n")
    capped.skip()
    capped.feed("stdout", 1000, b"later\n")
    assert _tail(capped) == "[...]\nlater\nnote"
    assert capped.total == 1006


def test_colours_end_with_the_tail() -> None:
    """What the note says has no colour of the command's."""
    tail = Tail(CAPS)
    tail.feed("stdout", "\x1b[31mred\n")
    assert tail.text("note") == "\x1b[31mred\x1b[0m\nnote"


def test_words_of_ours_stand_where_the_output_is() -> None:
    """A line of ours goes to stderr, between what came before and after it."""
    capped = Capped(CAPS)
    capped.feed("stdout", 0, b"a\n")
    capped.say("lost")
    capped.feed("stdout", 2, b"b\n")
    assert capped.take() == [("stdout", "a\n"), ("stderr", "lost\n"), ("stdout", "b\n")]


@pytest.mark.parametrize(("slowly", "interval"), [(False, INTERVAL), (True, SLOW_INTERVAL)])
def test_pace(slowly: bool, interval: float) -> None:
    """The first write is due at once, the next one after the interval."""
    pace = Pace()
    assert pace.left(100.0) == 0.0
    pace.wrote(100.0, slowly=slowly)
    assert pace.left(100.0) == pytest.approx(interval)
    assert pace.left(100.0 + interval) == 0.0
