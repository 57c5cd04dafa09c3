"""What of the page's own code needs no page: the lines of a pane, and words for people."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from execzmq.notebook import assets

NODE = shutil.which("node")
FOLDER = Path(assets.__file__).parent / "static"
MOST_BYTES = 16_000
"""Of what the page is given with the widget, which a notebook may keep."""

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")


def node(program: str) -> str:
    """Run a module; return what it writes."""
    command = [str(NODE), "--input-type=module", "-"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(*fed: str | tuple[str, str], most: int = 100) -> list[dict[str, Any]]:
    """Return the lines that `pane.js` makes of pieces of text."""
    program = f"""
        import {{ Lines }} from {json.dumps((FOLDER / "pane.js").as_uri())};
        const lines = new Lines({most});
        for (const piece of {json.dumps(fed)}) {{
          if (typeof piece === "string") lines.feed(piece); else lines[piece[0]](piece[1]);
        }}
        console.log(JSON.stringify(lines.lines));
    """
    return list(json.loads(node(_as_module(program))))


def texts(*fed: str | tuple[str, str], most: int = 100) -> list[str]:
    """Return the text of the lines alone."""
    return ["".join(line["letters"]) for line in lines(*fed, most=most)]


def _as_module(program: str) -> str:
    # Node takes a .js file outside a package for CommonJS: a module is given to it as data.
    for path in FOLDER.glob("*.js"):
        data = "data:text/javascript," + "".join(f"%{byte:02x}" for byte in path.read_bytes())
        program = program.replace(path.as_uri(), data)
    return program


def test_what_a_notebook_may_keep_is_small() -> None:
    """The widget's own code comes with its state; all else is asked for."""
    assert len(assets.assets()[assets.HUB]) < MOST_BYTES


@pytest.mark.parametrize(
    ("fed", "shown"),
    [
        (["a\nb\r\nc"], ["a", "b", "c"]),
        (["10%\r100%\r\n"], ["100%", ""]),
        (["abc\rx"], ["xbc"]),
        (["abc\r\x1b[Kx"], ["x"]),
        (["abc\x1b[2K\rx"], ["x"]),
        (["abc\b\bX"], ["aXc"]),
        (["a\tb"], ["a       b"]),
        (["\x1b[31mr", "ed\x1b[", "0m plain"], ["red plain"]),
        (["a\x1b]0;title\x07b\x1b]8;;https://x\x1b\\c\x07"], ["abc"]),
        (["a\x1b[5Gb\x1b[2Dc"], ["a  cb"]),
        (["\x1b[999999999Cx"], [""]),
        (["日本😀"], ["日本😀"]),
    ],
)
def test_lines(fed: list[str], shown: list[str]) -> None:
    """Overwritten text is gone, colours and titles are no text, and pieces may be cut anywhere."""
    assert texts(*fed) == shown


def test_colours() -> None:
    """Each letter has its style; what is no colour is none, so nothing else gets into a style."""
    (line,) = lines("\x1b[31;1ma\x1b[38;5;196mb\x1b[38;2;1;2;300mc\x1b[mde")
    assert line["styles"][:2] == ["color:#d22f2f;font-weight:bold", "color:rgb(255,0,0);font-weight:bold"]
    assert line["styles"][2:] == ["font-weight:bold", "", ""]


def test_oldest_lines_go() -> None:
    """A pane is bounded, in lines and in columns."""
    assert texts("".join(f"{number}\n" for number in range(10)), most=3) == ["8", "9", ""]
    assert len(texts("x" * 10_000)[0]) == 4096


def test_notes_stand_alone() -> None:
    """A line of our own does not run into what a program writes."""
    assert texts("half", ("note", "… lost"), "rest") == ["half", "… lost", "rest"]


def test_words_for_people() -> None:
    """Sizes, durations and usage are short."""
    program = f"""
        import {{ amount, duration, usageText }} from {json.dumps((FOLDER / "view.js").as_uri())};
        console.log(JSON.stringify([
          amount(999), amount(1500), amount(2.5e9), duration(59.9), duration(125), duration(3725),
          usageText({{ cpu: 1.234, memory: 5e6, processes: 3 }}),
          usageText({{ cpu: null, memory: 1, processes: 1 }}),
        ]));
    """
    assert json.loads(node(_as_module(program))) == [
        "999 bytes",
        "1.5 kB",
        "2.5 GB",
        "59 s",
        "2:05",
        "1:02:05",
        "CPU 123 % · 5.0 MB · 3 processes",
        "1 bytes",
    ]
