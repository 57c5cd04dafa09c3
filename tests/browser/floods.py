"""Many lines in a terminal of a page, none of which may be lost."""

import time

import execzmq
from tests.browser.shown_terminal import ShownTerminal


async def flood(terminal: ShownTerminal, lines: int) -> float:
    """Let the shell of a terminal print lines; return the seconds until the page has rendered every byte."""
    await terminal.says("$")
    shown, written = await terminal.rendered(), await _output_bytes()
    begin = time.monotonic()
    await terminal.type(f"seq 1 {lines}; echo do''ne\n")
    await terminal.says(f"\n{lines - 1}\n{lines}\ndone\n", 60.0)
    seconds = time.monotonic() - begin
    await terminal.says(f"\n{lines}\ndone\n$")
    assert await terminal.rendered() - shown == await _output_bytes() - written
    return seconds


async def _output_bytes() -> int:
    async with execzmq.aconnect() as client:
        [process] = await client.processes()
        return process.output_bytes["stdout"]
