"""Find a Chromium, run it, and see that no page of it speaks to another machine. Knows nothing of notebooks.

The system's own comes first, then the one that Playwright has downloaded. `make setup` installs the system's
where neither is there, and root and apt-get are.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    Request,
    WebSocket,
    async_playwright,
)

from tests.support import ms

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NONE = (
    "no Chromium, so no notebook was shown in a browser: install the system's (apt-get install chromium), "
    "or Playwright's (python -m playwright install chromium), and run again"
)
HERE = "127.0.0.1"
_FLAGS = (
    "--no-sandbox",  # root's starts in no other way, nor does that of many a container; all pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HERE}",
)


def installed(playwright: Playwright) -> str | None:
    """Return the path of the Chromium to use, None where there is none."""
    found = [shutil.which(name) for name in NAMES] + [playwright.chromium.executable_path]
    return next((path for path in found if path and _runs(path)), None)


def _runs(path: str) -> bool:
    """Tell whether it is a browser: some systems put a word in its place, on where to get one."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=ms(20_000)).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Browser | None]:
    """Run Chromium meanwhile; None where there is none."""
    async with async_playwright() as playwright:
        path = installed(playwright)
        if path is None:
            yield None
            return
        async with await playwright.chromium.launch(executable_path=path, args=[*_FLAGS]) as browser:
            yield browser


class Calls:
    """What the pages of a context have asked for beyond this machine: `outside`, as addresses.

    The browser refuses them itself, as no other host has an address: Playwright's own way of refusing turns
    the cache off, and each page would then load all of JupyterLab anew.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.outside: list[str] = []
        self._context = context
        context.on("request", self._see_request)
        context.on("page", self._see_page)

    def close(self) -> None:
        """Look no more."""
        self._context.remove_listener("request", self._see_request)
        self._context.remove_listener("page", self._see_page)

    def _see_page(self, page: Page) -> None:
        page.on("websocket", self._see_websocket)

    def _see_request(self, request: Request) -> None:
        self._see(request.url)

    def _see_websocket(self, websocket: WebSocket) -> None:
        self._see(websocket.url)

    def _see(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != HERE:
            self.outside.append(url)


def must_be_there() -> bool:
    """Tell whether tests fail without Chromium: where nobody would read that they were left out."""
    return bool(os.environ.get("CI"))
