"""The record of a process: reads well by itself, and is text whatever the process is called or writes."""

import html.parser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.notebook.record import MOST_WORDS, Kind, Record, duration, to_html, to_text
from execzmq.notebook.script import script_command
from execzmq.types.results import ExitResult

ENDED = ExitResult(exit_code=3, started_at=100.0, ended_at=102.5)
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\n\r\u202e'


class Elements(html.parser.HTMLParser):
    """What elements and attributes a text has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.classes = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.classes = self.classes or dict(attrs).get("class") or ""


def record(**fields: Any) -> Record:
    return Record(
        **{"process_id": "p-1", "instance": 2**63, "kind": "view", "argv": (b"make", b"-j 4"), **fields}
    )


def test_running() -> None:
    """Who reads it later is told of when it was so, and how to come to the process."""
    running = record(at=86400.0, name="build", seq=7, hub="abc")
    text = to_text(running)
    assert text.startswith("[make '-j 4' (build): running at 1970-01-0")
    assert text.endswith("execzmq attach p-1]")
    assert running.classes.split() == [
        "execzmq",
        "execzmq-id-p-1",
        "execzmq-instance-9223372036854775808",
        "execzmq-seq-7",
        "execzmq-kind-view",
        "execzmq-state-running",
        "execzmq-hub-abc",
    ]


def test_ended() -> None:
    """How it ended, after how long, and how to read its output."""
    assert to_text(record(result=ENDED)) == "[make '-j 4': exit code 3 after 2.5 s; execzmq logs p-1]"
    assert "execzmq-state-ended" in to_html(record(result=ENDED))
    assert record(result=ExitResult(cause="server_lost")).status == "no exit status (server_lost)"


def test_other_environments() -> None:
    """A page may attach where the name of the environment can be told, and nowhere else."""
    assert "execzmq-on-gpu-box" in record(on="gpu-box").classes
    assert record(on="gpu-box").attach == "execzmq attach --on gpu-box p-1"
    assert "execzmq-elsewhere" in record(on="./some file.json").classes
    assert record(on="./some file.json").attach == "execzmq attach --on './some file.json' p-1"


def test_what_the_user_wrote_is_shown() -> None:
    """A line as it was typed, a cell by its number."""
    assert record(argv=(b"/bin/sh", b"-c", b"make | tail")).command == "make | tail"
    argv, _ = script_command("echo hello", "In [3]")
    assert record(argv=tuple(word.encode() for word in argv)).command == "In [3]"
    assert len(record(argv=(b"x" * 5000,)).command) == MOST_WORDS
    assert record(argv=(b"caf\xe9",)).command == r"'caf\xe9'"


def test_screen() -> None:
    """A terminal's last screen keeps its colours in both."""
    ended = record(kind="terminal", result=ENDED, screen="\x1b[31mred\x1b[m\n<b>")
    assert '<span style="color:#d22f2f">red</span>\n&lt;b&gt;</pre>' in to_html(ended)
    assert to_text(ended).startswith("\x1b[31mred\x1b[m\n<b>\n[make")


@pytest.mark.parametrize("kind", ["view", "terminal"])
def test_no_script(kind: Kind) -> None:
    """Nothing that a process or its server says becomes an element, an attribute or a control character."""
    hostile = record(
        kind=kind,
        argv=(HOSTILE.encode(),),
        name=HOSTILE,
        on=HOSTILE,
        hub=HOSTILE,
        result=ExitResult(cause="terminated", asked_by=HOSTILE),
        screen=HOSTILE,
    )
    elements = Elements(to_html(hostile))
    assert elements.tags <= {"div", "code", "pre", "span"}
    assert elements.attributes <= {"class", "style"}
    assert "script" not in elements.classes
    line = to_text(hostile).removeprefix(HOSTILE).strip("\n")
    assert line.isprintable()


@given(st.binary(max_size=60), st.text(max_size=30))
def test_any_words(word: bytes, screen: str) -> None:
    """Any bytes are words, any text is a screen."""
    elements = Elements(to_html(record(argv=(word,), screen=screen)))
    assert elements.tags <= {"div", "code", "pre", "span"}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (65, "1:05"), (3725.9, "1:02:05")]
)
def test_durations(seconds: float, text: str) -> None:
    """People read them."""
    assert duration(seconds) == text
