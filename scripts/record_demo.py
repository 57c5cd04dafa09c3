"""Record the terminal picture of the README: run its session for real and draw what it printed.

Run it after a change of what users see: `.venv/bin/python scripts/record_demo.py`. The session has folders
and a server of its own, which are gone afterwards.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.svg"
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


def record(folder: Path) -> list[tuple[str, str]]:
    """Run the session in `folder`, with a home there, and return each command with what it printed."""
    (folder / "train.py").write_text(TRAIN)
    home = {
        name: str(folder) for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR")
    }
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    variables = {**os.environ, **home, "PATH": path}
    try:
        return [(command, _printed(command, folder, variables)) for command in SESSION]
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


def draw(session: list[tuple[str, str]]) -> str:
    """Return the picture of a session as SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, printed in session:
        console.print(Text.assemble(("$ ", "green"), (command, "bold")))
        console.print(Text(printed.rstrip("\n")))
    drawn = console.export_svg(title="execzmq", code_format=DRAWING, unique_id="demo")
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Record the session and write the picture."""
    with tempfile.TemporaryDirectory(prefix="execzmq-record-", dir="/tmp") as folder:
        session = record(Path(folder))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(session))


if __name__ == "__main__":
    main()
