"""Find the examples of a page and run them as its reader would, from top to bottom.

Run as a program with the path of one page. Its `python` blocks share one name space and may `await`; its
`ipython` blocks are the cells of one notebook; a line of a `console` block that begins with `$ ` is given to
bash, in the current folder. What a block says it prints is compared: the lines after a `$` line, or an
`output` block after one of the others. `...` in them stands for anything. Words after the language change
this: `status=3` is the exit status to expect instead of 0, a cell that `fails` is one that has to, and
`not-run: REASON` leaves a block out.

Owns no set-up: home, PATH and folder are the caller's.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND_SECONDS = 60.0
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after it, its first line in the page, its text."""

    language: str
    options: str
    line: int
    text: str

    @property
    def is_run(self) -> bool:
        """Whether the reader can do what it shows."""
        return self.language in ("python", "ipython", "console") and not self.options.startswith("not-run:")


class ExampleFailed(Exception):
    """An example does not do what its page says."""


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found = []
    for match in FENCE.finditer(page):
        language, _, options = match["info"].strip().partition(" ")
        line = page.count("\n", 0, match.start()) + 2
        found.append(Block(language, options.strip(), line, match["body"]))
    return found


def matches(expected: str, actual: str) -> bool:
    """Tell whether `actual` is `expected`; `...` is anything, blanks at ends of lines do not count."""
    pieces = (re.escape(piece) for piece in _trimmed(expected).split("..."))
    return re.fullmatch(".*".join(pieces), _trimmed(actual), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def commands(block: Block) -> list[tuple[str, str]]:
    """Return each command of a console block with what it is said to print; `> ` goes on with a command."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def run_page(path: Path) -> None:
    """Run the examples of a page in their order.

    Raises:
        ExampleFailed: One of them failed or printed something else; it names the page and line.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    page = blocks(path.read_text())
    for block, following in zip(page, [*page[1:], None], strict=True):
        where = f"{path.name}:{block.line}"
        if not block.is_run:
            continue
        if block.language == "console":
            _run_console(block, where)
            continue
        run = _run_python if block.language == "python" else _run_cell
        printed = run(block, names, where)
        if following is not None and following.language == "output":
            _compare(where, following.text, printed)


def _run_python(block: Block, names: dict[str, Any], where: str) -> str:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile("\n" * (block.line - 1) + block.text, where.partition(":")[0], "exec", flags)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        pending = eval(code, names)
        if inspect.iscoroutine(pending):
            asyncio.run(pending)
    return printed.getvalue()


def _run_cell(block: Block, names: dict[str, Any], where: str) -> str:
    """Run a cell of the page's notebook, whose values are shown by `print` alone."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = names.get("notebook")
    if shell is None:
        config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
        shell = names["notebook"] = InteractiveShell(config=config)
        shell.displayhook.quiet = lambda: True  # type: ignore[method-assign]  # what a page shows, prints it
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        done = shell.run_cell(block.text, store_history=True)
    if done.success == (block.options == "fails"):
        raise ExampleFailed(f"{where}: it {'succeeds' if done.success else 'fails'}\n{printed.getvalue()}")
    return printed.getvalue()


def _run_console(block: Block, where: str) -> None:
    wanted = re.search(r"status=(\d+)", block.options)
    for command, expected in commands(block):
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
        )
        status = int(wanted[1]) if wanted else 0
        if done.returncode != status:
            raise ExampleFailed(f"{where}: {command}: status {done.returncode}, not {status}\n{done.stdout}")
        if expected:
            _compare(f"{where}: {command}", expected, done.stdout)


def _compare(where: str, expected: str, actual: str) -> None:
    if not matches(expected, actual):
        raise ExampleFailed(f"{where}\n--- the page says\n{expected}\n--- it printed\n{actual}")


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
