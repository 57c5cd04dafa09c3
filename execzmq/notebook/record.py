"""Own what a notebook keeps of a process: HTML and text that read well wherever they are opened; pure.

Words and output of a process are nobody's to trust: all are escaped. What a page must know to bring a record
to life stands in its classes, since front ends take other attributes away from what they do not trust.
"""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from execzmq.notebook import ansi
from execzmq.notebook.script import written
from execzmq.types.results import ExitResult

Kind: TypeAlias = Literal["view", "terminal"]

MOST_WORDS = 300
"""Characters of a command that a record shows."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

_BOX = "border-left:3px solid {edge};padding:2px 10px;margin:2px 0;font-size:0.9em"
_SCREEN = (
    "margin:4px 0 0;padding:6px 8px;background-color:#8881;line-height:1.2;white-space:pre;overflow-x:auto"
)
_RUNNING, _WELL, _ILL = "#1668c4", "#00803f", "#d22f2f"


@dataclass(slots=True, frozen=True)
class Record:
    """What is known of a process when its record is written.

    Args:
        on: environment where it runs; `None` = the default server.
        hub: token of the kernel's hub; empty = there is none.
        seq: the last event that the cell has shown.
        at: Unix seconds at which this was so.
        result: how it ended; `None` = it ran.
        screen: its terminal's last screen, with ANSI colours.
    """

    process_id: str
    instance: int
    kind: Kind
    argv: Sequence[bytes] = ()
    name: str | None = None
    on: str | None = None
    hub: str = ""
    seq: int = 0
    at: float = 0.0
    result: ExitResult | None = None
    screen: str = ""

    @property
    def classes(self) -> str:
        """The classes of the record's element."""
        facts = {
            "id": self.process_id,
            "instance": str(self.instance),
            "seq": str(self.seq),
            "kind": self.kind,
            "state": "running" if self.result is None else "ended",
            "on": self.on or "",
            "hub": self.hub,
        }
        told = (f"execzmq-{name}-{fact}" for name, fact in facts.items() if _TOKEN.fullmatch(fact))
        # Where this cannot be told a page must not look on the default server.
        elsewhere = () if self.on is None or _TOKEN.fullmatch(self.on) else ("execzmq-elsewhere",)
        return " ".join(("execzmq", *told, *elsewhere))

    @property
    def command(self) -> str:
        """The command as its user wrote it, on one line, shortened."""
        line = _on_one_line(written([word.decode("utf-8", "backslashreplace") for word in self.argv]))
        return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 1]}…"

    @property
    def status(self) -> str:
        """How the process was, in a few words."""
        if self.result is None:
            return f"running at {time_of_day(self.at)}"
        seconds = self.result.ended_at - self.result.started_at
        ended = _on_one_line(str(self.result))
        return f"{ended} after {duration(seconds)}" if seconds > 0 else ended

    @property
    def attach(self) -> str:
        """The command that shows the process in a shell."""
        where = f" --on {shlex.quote(_on_one_line(self.on))}" if self.on else ""
        return f"execzmq {'attach' if self.result is None else 'logs'}{where} {self.process_id}"


def to_html(record: Record) -> str:
    """Return the record as HTML: static, styled in the elements themselves."""
    edge = _RUNNING if record.result is None else _WELL if record.result.returncode == 0 else _ILL
    name = f" ({html.escape(record.name)})" if record.name else ""
    lines = [
        f'<div class="{record.classes}" style="{_BOX.format(edge=edge)}">',
        f"<div><code>{html.escape(record.command)}</code>{name}</div>",
        f"<div>{html.escape(record.status)} · <code>{html.escape(record.attach)}</code></div>",
    ]
    if record.screen:
        lines.append(f'<pre style="{_SCREEN}">{ansi.to_html(record.screen)}</pre>')
    return "\n".join([*lines, "</div>"])


def to_text(record: Record) -> str:
    """Return the record as text; a terminal's screen keeps its ANSI colours."""
    name = f" ({_on_one_line(record.name)})" if record.name else ""
    line = f"[{record.command}{name}: {record.status}; {record.attach}]"
    return f"{record.screen}\n{line}" if record.screen else line


def duration(seconds: float) -> str:
    """Return a duration for people: `0.4 s`, `2:05`, `1:02:05`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _on_one_line(text: str) -> str:
    """Return text that moves no cursor: what cannot be printed is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def time_of_day(at: float) -> str:
    """Return a time of the day as people here write it."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
