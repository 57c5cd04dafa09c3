"""The last screen of a terminal as it is kept: the same text and looks as HTML and as ANSI."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.notebook.painting import Run, Style, as_ansi, as_html, as_text, painting_of


def painted(picture: str, rows: int = 4, cols: int = 20):
    painting = painting_of(picture.encode(), rows, cols)
    assert painting is not None
    return painting


def test_blank_ends_are_left_out() -> None:
    """Neither what is blank at the end of a line is kept, nor blank lines at the end."""
    painting = painted("one  \r\n\r\n  two")
    assert as_text(painting) == as_html(painting) == as_ansi(painting) == "one\n\n  two"


def test_wide_characters_are_kept_once() -> None:
    """A character that takes two cells is one character."""
    assert as_text(painted("漢字x")) == "漢字x"


@pytest.mark.parametrize(
    ("codes", "css"),
    [
        ("31", "color:#e06c75"),
        ("1;92", "color:#b5e890;font-weight:bold"),
        ("44", "background:#61a5ee"),
        ("38;5;208", "color:#ff8700"),
        ("38;5;244", "color:#808080"),
        ("38;2;1;2;3", "color:#010203"),
        ("7", "color:#1e2227;background:#d7dae0"),
        ("7;31", "color:#1e2227;background:#e06c75"),
        ("2;3;4;9", "opacity:0.6;font-style:italic;text-decoration:underline line-through"),
    ],
)
def test_looks_are_in_the_html(codes: str, css: str) -> None:
    """Each look becomes a declaration of the span itself."""
    assert as_html(painted(f"a\x1b[{codes}mb\x1b[0mc")) == f'a<span style="{css}">b</span>c'


def test_text_is_no_markup() -> None:
    """What a program writes is text in the record, whatever it looks like."""
    assert as_html(painted("<b>&amp;</b>")) == "&lt;b&gt;&amp;amp;&lt;/b&gt;"


def test_coloured_blanks_are_kept() -> None:
    """A bar of blanks with a background is part of the picture."""
    assert painted("\x1b[42m   \x1b[0m") == [[Run("   ", Style(background=2))]]


@given(st.text(st.sampled_from("ab<&é漢\x1b[0123456789;m\r\n"), max_size=200))
def test_ansi_paints_the_same_again(picture: str) -> None:
    """The ANSI text shows on another terminal what it was made from; the HTML has the same text."""
    painting = painted(picture)
    assert painted(as_ansi(painting).replace("\n", "\r\n")) == painting
    assert html.unescape(re.sub(r"<[^>]*>", "", as_html(painting))) == as_text(painting)
