"""Text with ANSI colours as HTML: colours in the elements, all else text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.notebook import ansi

HOSTILE = "<script>alert(1)</script>&\"'"


@pytest.mark.parametrize(
    ("text", "css"),
    [
        ("\x1b[31mx", "color:#d22f2f"),
        ("\x1b[1;44mx", "background-color:#1668c4;font-weight:bold"),
        ("\x1b[38;5;196mx", "color:#ff0000"),
        ("\x1b[38;5;244mx", "color:#808080"),
        ("\x1b[38;2;1;2;3mx", "color:#010203"),
        ("\x1b[38:2:1:2:3mx", "color:#010203"),
        ("\x1b[91;103mx", "color:#e05252;background-color:#b58105"),
        ("\x1b[2;3;4mx", "opacity:0.65;font-style:italic;text-decoration:underline"),
        ("\x1b[7mx", "color:#ffffff;background-color:#3e424d"),
    ],
)
def test_styles(text: str, css: str) -> None:
    """What a terminal would show, the elements say."""
    assert ansi.to_html(text) == f'<span style="{css}">x</span>'


def test_styles_end() -> None:
    """A reset, and each code that takes one back, is obeyed."""
    assert ansi.to_html("\x1b[31ma\x1b[mb") == '<span style="color:#d22f2f">a</span>b'
    assert ansi.to_html("\x1b[1;3;4;7;31;41m\x1b[22;23;24;27;39;49mx") == "x"


@pytest.mark.parametrize(
    "codes", ["38", "38;5", "38;5;999", "38;2;1", "38;2;1;2;999", "12345", ";;", "150", "58;5;1", "9" * 5000]
)
def test_senseless_codes(codes: str) -> None:
    """Codes that mean nothing cost no letter and no error."""
    assert ansi.to_plain(f"\x1b[{codes}mx") == "x"
    assert "x" in ansi.to_html(f"\x1b[{codes}mx")


def test_other_sequences_are_left_out() -> None:
    """What moves a cursor, sets a title or makes a link is not shown; lines and tabs stay."""
    sequences = "\x1b[2Ja\x1b]0;title\x07b\x1b]8;;https://x\x1b\\c\x1b(B\n\td\x00"
    assert ansi.to_html(sequences) == "abcB\n\td"
    assert ansi.to_plain("\x1b]8;;javascript:alert(1)\x1b\\c") == "c"


def test_text_is_escaped() -> None:
    """A program's output is text, with colours and without."""
    assert "<script" not in ansi.to_html(HOSTILE)
    assert "<script" not in ansi.to_html(f"\x1b[31m{HOSTILE}\x1b[0m")


@given(
    st.text(
        alphabet=st.sampled_from(
            ["\x1b", "[", "]", "m", ";", "3", "8", "5", "<", ">", '"', "a", "\n", "\x07"]
        )
    )
)
def test_nothing_but_our_own_elements(text: str) -> None:
    """Whatever is written, the only elements are ours, and they close."""
    html = ansi.to_html(text)
    rest = html.replace("</span>", "")
    assert html.count("</span>") == rest.count('<span style="') == rest.count("<")
