"""A terminal as a page shows it: what a person sees of it and does with it."""

from __future__ import annotations

import contextlib
from typing import Any

from playwright.async_api import Page

from tests.support import TIMESCALE, deadline

_FIND = """(selector) => {
    const view = document.querySelector(selector)?.parentElement.execzmqTerminal;
    return view?.term ? view : null;
}"""
_CELLS = """({term}) => {
    const buffer = term.buffer.active, cells = [];
    for (let row = 0; row < term.rows; row++)
        for (let col = 0; col < term.cols; col++) {
            const cell = buffer.getLine(buffer.baseY + row).getCell(col);
            cells.push([cell.getChars() || " ", cell.getWidth(), cell.getFgColorMode(), cell.getFgColor(),
                cell.getBgColorMode(), cell.getBgColor(), cell.isBold(), cell.isInverse(),
                cell.isUnderline()]);
        }
    const {mouseTrackingMode, bracketedPasteMode} = term.modes;
    return {cells, type: buffer.type, row: buffer.cursorY, col: buffer.cursorX,
        rows: term.rows, cols: term.cols, mouseTrackingMode, bracketedPasteMode};
}"""
_TEXT = """({term}) => {
    const buffer = term.buffer.active, lines = [];
    for (let row = 0; row < buffer.length; row++) lines.push(buffer.getLine(row).translateToString(true));
    return lines.join("\\n").trimEnd();
}"""
_POLL = 50.0
"""Milliseconds: to look at each frame would cost the page more than what it shows."""


class ShownTerminal:
    """One terminal of a page.

    Args:
        within: selector of an element around it, of which the page has one.
    """

    def __init__(self, page: Page, within: str = "body") -> None:
        self.page = page
        self._selector = f"{within} .execzmq-terminal"
        self.root = page.locator(self._selector)

    async def held(self, hold: str, seconds: float = 30.0) -> None:
        """Wait until it says who types, or that the process has ended."""
        await self.page.locator(f"{self._selector}[data-keyboard={hold}]").wait_for(
            timeout=seconds * 1000 * TIMESCALE
        )

    async def says(self, text: str, seconds: float = 30.0) -> None:
        """Wait until it shows a text."""
        await self.holds(f"view => ({_TEXT})(view).includes({text!r})", seconds)

    async def holds(self, condition: str, seconds: float = 30.0) -> None:
        """Wait until a function of its view, in JavaScript, is true."""
        asked = f"selector => {{ const view = ({_FIND})(selector); return view && ({condition})(view); }}"
        await self.page.wait_for_function(
            asked, arg=self._selector, polling=_POLL, timeout=seconds * 1000 * TIMESCALE
        )

    async def text(self) -> str:
        """Return all that it shows, lines that have scrolled away too."""
        return str(await self._ask(_TEXT))

    async def cells(self) -> dict[str, Any]:
        """Return each cell of the screen, its cursor and modes."""
        found = await self._ask(_CELLS)
        assert isinstance(found, dict)
        return found

    async def rendered(self) -> int:
        """Return the bytes that it has rendered since it began."""
        return int(await self._ask("view => view.rendered"))

    async def looks_like(self, other: ShownTerminal) -> None:
        """Wait until two screens do not differ: what has come to one may be on its way to the other."""
        mine, theirs = await self.cells(), await other.cells()
        with contextlib.suppress(TimeoutError):
            async with deadline(5):
                while mine != theirs:
                    mine, theirs = await self.cells(), await other.cells()
        assert mine == theirs

    async def type(self, text: str) -> None:
        """Type into it."""
        await self.click()
        await self.page.keyboard.type(text)

    async def click(self, x: float = 20, y: float = 20) -> None:
        """Click into it."""
        await self.page.locator(f"{self._selector} .xterm-screen").click(position={"x": x, "y": y})

    async def press(self, button: str) -> None:
        """Press a button of its bar."""
        await self.root.get_by_role("button", name=button).click()

    async def _ask(self, function: str) -> Any:
        return await self.page.evaluate(f"selector => ({function})(({_FIND})(selector))", self._selector)
