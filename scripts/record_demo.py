"""Record the pictures of the README and of the documentation: run what they show for real, and draw it.

Run it after a change of what users see: `.venv/bin/python scripts/record_demo.py`. What is run has folders
and a server of its own, which are gone afterwards.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from execzmq.process.emulator import Emulator

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURE = DOCS / "images" / "demo.svg"
RECORDING = DOCS / "images" / "recording.cast"
MOMENT = RECORDING.with_suffix(".svg")
PART = 0.83
"""Part of the recording's events after which it is drawn."""
WIDTH = 92
SECONDS = 60.0

TRAIN = """\
import time
for epoch in range(1, 6):
    print(f"epoch {epoch}  loss {1.2 / epoch:.3f}", flush=True)
    time.sleep(1)
"""

SESSION = (
    "execzmq start --name train -- python3 train.py",
    "execzmq ps",
    "execzmq logs -f train    # in any number of terminals, now or afterwards",
    "execzmq wait train; echo $?",
    "execzmq run --timeout 1 -- sleep 60; echo $?",
    "execzmq ps --all",
)

DRAWING = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


STEPS = (
    f"execzmq start -t --name steps -- python3 {DOCS}/howto/steps.py",
    "execzmq wait steps",
    "execzmq logs --format asciicast steps",
)


def record(folder: Path, session: tuple[str, ...] = SESSION) -> list[tuple[str, str]]:
    """Run the session in `folder`, with a home there, and return each command with what it printed."""
    (folder / "train.py").write_text(TRAIN)
    home = {
        name: str(folder) for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR")
    }
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    variables = {**os.environ, **home, "PATH": path}
    try:
        return [(command, _printed(command, folder, variables)) for command in session]
    finally:
        _printed("execzmq shutdown --all", folder, variables)


def _printed(command: str, folder: Path, variables: dict[str, str]) -> str:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=True,
    ).stdout


def draw_moment(recording: str) -> str:
    """Return the picture of a recording's screen after a part of its events, as SVG like the other."""
    first, *rest = recording.splitlines()
    size = json.loads(first)["term"]
    emulator = Emulator(size["rows"], size["cols"])
    for _, code, data in map(json.loads, rest[: int(len(rest) * PART)]):
        if code == "o":
            emulator.feed(data.encode())
    shown = emulator.picture().decode().rpartition("\x1b[m")[0].rstrip("\r\n")
    return _drawn([Text.from_ansi(line) for line in shown.split("\r\n")], "steps.py", "recording")


def draw(session: list[tuple[str, str]]) -> str:
    """Return the picture of a session as SVG that loads nothing from elsewhere."""
    lines: list[Text] = []
    for command, printed in session:
        lines += [Text.assemble(("$ ", "green"), (command, "bold")), Text(printed.rstrip("\n"))]
    return _drawn(lines, "execzmq", "demo")


def _drawn(lines: list[Text], title: str, unique_id: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line)
    drawn = console.export_svg(title=title, code_format=DRAWING, unique_id=unique_id)
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Record, and write the pictures and the recording."""
    with tempfile.TemporaryDirectory(prefix="execzmq-record-", dir="/tmp") as folder:
        session = record(Path(folder))
        *_, (_, recording) = record(Path(folder), STEPS)
    PICTURE.write_text(draw(session))
    RECORDING.write_text(recording.replace(f"{DOCS}/howto/", ""))
    MOMENT.write_text(draw_moment(recording))


if __name__ == "__main__":
    main()
