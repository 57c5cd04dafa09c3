"""A terminal in a page, without a notebook round it: what is seen, typed, pasted and shared."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect

from execzmq.client.sync import Client, Process
from execzmq.types.params import TtySize
from tests.browser.chromium import Calls
from tests.browser.notebook import PICTURES
from tests.browser.shown_terminal import ShownTerminal
from tests.browser.terminal_site import Site, serving_terminals
from tests.servers import ServerProcess, serving
from tests.support import child, wait_until

pytestmark = pytest.mark.slow

SHELL = ["bash", "--norc", "--noprofile"]
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PS1": "$ ", "TERM": "xterm-256color", "LANG": "C.UTF-8"}


class Terminals:
    """A page with terminals, each named by a key."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site

    async def show(self, key: str, process: Process, begins_with: TtySize | None = None) -> ShownTerminal:
        """Show a process's terminal below the others."""
        self.site.terminals[key] = (process, begins_with)
        await self.page.evaluate("key => show(key)", key)
        return ShownTerminal(self.page, f"#{key}")

    async def picture(self, name: str) -> None:
        """Keep a picture of the page."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.png").write_bytes(await self.page.screenshot())


@pytest.fixture
def host(no_leaks: None) -> Iterator[ServerProcess]:
    """A server for the clients of several notebooks."""
    with serving() as server:
        yield server


@pytest.fixture
def client(host: ServerProcess) -> Iterator[Client]:
    """The client of one notebook."""
    with host.client() as client:
        yield client


@pytest.fixture
def other(host: ServerProcess) -> Iterator[Client]:
    """The client of another notebook."""
    with host.client() as client:
        yield client


@contextlib.asynccontextmanager
async def page_of(context: BrowserContext, calls: Calls) -> AsyncIterator[Terminals]:
    """Show an empty page of terminals meanwhile; its scripts must not fail."""
    errors: list[str] = []
    with serving_terminals() as site:
        page = await context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.goto(site.url)
        await page.wait_for_function("globalThis.isReady")
        yield Terminals(page, site)
        await page.close()
    assert not errors


async def test_type_colours_and_size(context: BrowserContext, calls: Calls, client: Client) -> None:
    """Keys reach the shell, its colours are in the cells, and it has the size of the room in the page."""
    shell = client.start(SHELL, tty=True, env=ENV)
    async with page_of(context, calls) as page:
        one = await page.show("one", shell, TtySize())
        await one.held("yours")
        await one.type("printf '\\e[31mred\\e[1;38;2;1;2;3mtrue\\e[0m\\n'; echo si''ze $(stty size)\n")
        await one.says("size ")
        screen = await one.cells()
        assert f"size {screen['rows']} {screen['cols']}" in await one.text()
        at = next(
            n
            for n, cell in enumerate(screen["cells"])
            if [c[0] for c in screen["cells"][n : n + 7]] == [*"redtrue"]
        )
        red, true = screen["cells"][at], screen["cells"][at + 3]
        assert red[2:4] == [16777216, 1]
        assert true[2:4] == [50331648, 0x010203]
        await page.page.set_viewport_size({"width": 800, "height": 900})
        await one.holds(f"view => view.term.cols < {screen['cols']}")
        await one.type("clear; echo ag''ain $(stty size)\n")
        smaller = await one.cells()
        await one.says(f"again {smaller['rows']} {smaller['cols']}")
        await page.picture("terminal-typed")
    shell.kill()


async def test_all_columns_can_be_read(context: BrowserContext, calls: Calls, client: Client) -> None:
    """Inverse text has the colour of the ground, and the scroll bar stands beside the last column."""
    process = client.start(["printf", "%0500d\\n\\033[7minverse\\033[0m", "1"], tty=True)
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.says("inverse")
        inverse = page.page.locator("#one .xterm-rows span", has_text="inverse")
        await expect(inverse).to_have_css("color", "rgb(255, 255, 255)")
        await expect(inverse).to_have_css("background-color", "rgb(0, 0, 0)")
        bar = await page.page.locator("#one .scrollbar.vertical").bounding_box()
        screen = await page.page.locator("#one .xterm-screen").bounding_box()
        assert bar is not None
        assert screen is not None
        assert bar["x"] >= screen["x"] + screen["width"]


async def test_paste_is_bracketed_and_a_title_is_text(
    context: BrowserContext, calls: Calls, client: Client
) -> None:
    """A program that asks for it learns what was pasted; its title is text, and no markup."""
    code = (
        "import sys, termios, tty; tty.setraw(0)\n"
        "sys.stdout.write('\\x1b[?2004h\\x1b]0;<b>title</b>\\x07ready'); sys.stdout.flush()\n"
        "seen = b''\n"
        "while not seen.endswith(b'201~'): seen += sys.stdin.buffer.raw.read(100)\n"
        "print(seen)"
    )
    process = client.start(child(code), tty=True)
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.says("ready")
        await one.held("yours")
        await one.click()
        await page.page.evaluate(
            """() => {
                const clipboardData = new DataTransfer();
                clipboardData.setData("text/plain", "line one\\nline two");
                const paste = new ClipboardEvent("paste", {clipboardData, bubbles: true});
                document.activeElement.dispatchEvent(paste);
            }"""
        )
        await one.says(r"b'\x1b[200~line one\rline two\x1b[201~'")
        assert await page.page.locator(".execzmq-terminal-title").inner_html() == "&lt;b&gt;title&lt;/b&gt;"


async def test_selection_is_copied(context: BrowserContext, calls: Calls, client: Client) -> None:
    """What is selected is copied by keys; a program that sets the clipboard changes nothing."""
    process = client.start(["printf", "some words\\n\\033]52;c;aGF4\\007ready"], tty=True)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.held("ended")
        await page.page.locator("#one .xterm-screen").dblclick(position={"x": 50, "y": 5})
        await page.page.keyboard.press("Control+Shift+C")
        assert await page.page.evaluate("navigator.clipboard.readText()") == "words"
    await context.clear_permissions()


async def test_mouse_reaches_the_program(context: BrowserContext, calls: Calls, client: Client) -> None:
    """A program that asks for the mouse gets its clicks."""
    code = (
        "import sys, tty; tty.setraw(0)\n"
        "sys.stdout.write('\\x1b[?1000h\\x1b[?1006hready'); sys.stdout.flush()\n"
        "print(sys.stdin.buffer.raw.read(100))"
    )
    process = client.start(child(code), tty=True)
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.says("ready")
        await one.held("yours")
        await one.click(2, 2)
        await one.says(r"b'\x1b[<0;1;1M")


async def test_keyboard_alone(context: BrowserContext, calls: Calls, client: Client) -> None:
    """Without a mouse one gets into the terminal, out of it, and through what one only watches."""
    process = client.start(["cat"], tty=True)
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.held("yours")
        two = await page.show("two", process)
        await two.held("elsewhere")
        await page.page.keyboard.press("Tab")
        await page.page.keyboard.press("Tab")
        await page.page.keyboard.type("typed\tby keys\n")
        await two.says("typed   by keys\ntyped   by keys")
        await page.page.keyboard.press("Control+Shift+Enter")
        focused = "document.activeElement.textContent"
        assert await page.page.evaluate(focused) == "Hand over keyboard"
        await page.page.keyboard.press("Enter")
        await two.held("free")
        await page.page.keyboard.type("mine again\n")
        await one.held("yours")
        await two.says("mine again")
        await two.held("elsewhere")
        await page.page.locator("#two .execzmq-terminal-button:visible").focus()
        await page.page.keyboard.press("Tab")
        await page.page.keyboard.press("Tab")
        assert not await page.page.evaluate("two.contains(document.activeElement)")
    process.kill()


async def test_two_notebooks_share_a_terminal(
    context: BrowserContext, calls: Calls, client: Client, other: Client
) -> None:
    """One types, the other sees the same and can take over; the size goes with the keyboard."""
    shell = client.start(SHELL, tty=True, process_id="shared", env=ENV)
    async with page_of(context, calls) as page:
        one = await page.show("one", shell, TtySize())
        await one.held("yours")
        await one.type("echo fr''om one\n")
        await one.says("from one")
        two = await page.show("two", other.attach("shared"))
        await two.held("elsewhere")
        await two.says("from one")
        await two.type("echo never\n")
        await page.page.evaluate("two.style.width = '400px'")
        await two.press("Take keyboard")
        await two.held("yours")
        await two.type("echo fr''om two\n")
        await one.says("from two")
        await one.held("elsewhere")
        await one.holds("view => view.term.cols < 60")
        assert "never" not in await one.text()
        await page.picture("terminal-shared")
        await one.looks_like(two)
    shell.kill()


async def test_late_joiner_sees_what_the_owner_sees(
    context: BrowserContext, calls: Calls, client: Client, other: Client, tmp_path: Path
) -> None:
    """An editor that is joined late looks the same, cell by cell, then and later."""
    if shutil.which("vim") is None:
        pytest.skip("no vim to join late")
    file = tmp_path / "file.py"
    file.write_text(
        "".join(f"def grüße_{n}(n: int) -> str:\n    return 'wörld' * {n}\n\n" for n in range(40))
    )
    argv = ["vim", "-u", "NONE", "-c", "syntax on | set number hlsearch mouse=a", "-c", "/return", file.name]
    process = client.start(argv, tty=True, process_id="editor", env=ENV, cwd=tmp_path)
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.held("yours")
        await one.says("grüße_1")
        await one.type(":split\nia longer line\x1b")
        await one.says("a longer line")
        two = await page.show("two", other.attach("editor"))
        await two.says("a longer line")
        await one.looks_like(two)
        await one.type("GO the end\x1b")
        await one.says("the end")
        await two.says("the end")
        await one.looks_like(two)
        await page.picture("terminal-joined-late")
        await one.type(":qa!\n")
        await two.held("ended")


async def test_flood_is_shown_to_its_last_line(context: BrowserContext, calls: Calls, client: Client) -> None:
    """Every byte of a flood is rendered and acknowledged."""
    process = client.start(["seq", "1", "300000"], tty=True)
    async with page_of(context, calls) as page:
        one = await page.show("one", process, TtySize())
        await one.held("ended")
        assert (await one.text()).endswith("\n299999\n300000")
        end, size = page.site.ends["one"], process.info().output_bytes["stdout"]
        await asyncio.to_thread(wait_until, lambda: end.rendered == size)
