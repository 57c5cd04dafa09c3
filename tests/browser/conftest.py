"""What the tests in a browser share: one Jupyter server, one Chromium, one loop.

They end with the last of these tests, before those of another folder begin: no other test ever meets them.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Browser, BrowserContext

import execzmq
from execzmq.client import launch
from tests.browser import chromium, jupyter
from tests.browser.chromium import Calls
from tests.browser.jupyter import JupyterServer
from tests.browser.notebook import PICTURES, SCRIPT, Notebooks
from tests.conftest import FAILED
from tests.homes import FOLDERS

SHOWN = pytest.StashKey[bool]()
"""Whether a page was shown in this run."""


@pytest.fixture(scope="package")
def runner() -> Iterator[asyncio.Runner]:
    """The loop of all these tests, as Playwright's objects live on one."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="package")
def browser(runner: asyncio.Runner) -> Iterator[Browser]:
    """A Chromium; where there is none, what to do about it."""
    stack = contextlib.AsyncExitStack()
    found = runner.run(stack.enter_async_context(chromium.running()))
    if found is None:
        runner.run(stack.aclose())
        (pytest.fail if chromium.must_be_there() else pytest.skip)(chromium.NONE)
    yield found
    runner.run(stack.aclose())


@pytest.fixture(scope="package")
def server(browser: Browser) -> Iterator[JupyterServer]:
    """A Jupyter server with folders of its own; none where nothing would show its pages."""
    home = Path(tempfile.mkdtemp(prefix="xz-", dir="/tmp"))
    with jupyter.running(home) as server:
        yield server
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="package")
def context(
    request: pytest.FixtureRequest, runner: asyncio.Runner, browser: Browser
) -> Iterator[BrowserContext]:
    """One person's browser: what a page has loaded, the next has at hand."""
    request.config.stash[SHOWN] = True
    for path in PICTURES.glob("failed-*.png"):
        path.unlink()
    context = runner.run(browser.new_context(viewport={"width": 1280, "height": 900}))
    runner.run(context.add_init_script(path=SCRIPT))
    yield context
    runner.run(context.close())


@pytest.fixture(scope="package")
def browser_processes(browser: Browser) -> frozenset[int]:
    """What runs Chromium, which starts and ends its processes as it pleases."""
    return frozenset(child.pid for child in psutil.Process().children())


@pytest.fixture
def apart(browser_processes: frozenset[int]) -> frozenset[int]:
    """The browser is no test's own."""
    return browser_processes


@pytest.fixture
def calls(runner: asyncio.Runner, context: BrowserContext) -> Iterator[Calls]:
    """What the pages ask for beyond this machine, which fails the test where it does not expect it."""
    calls = Calls(context)
    yield calls
    calls.close()
    assert not calls.outside


@pytest.fixture
def notebooks(
    request: pytest.FixtureRequest,
    runner: asyncio.Runner,
    server: JupyterServer,
    context: BrowserContext,
    calls: Calls,
    no_leaks: None,
) -> Iterator[Notebooks]:
    """What opens notebooks; their kernels have the folders of the test, as has the server that they start."""
    server.let_kernels_have({name: os.environ[name] for name in (*FOLDERS, "PATH", "JUPYTER_PLATFORM_DIRS")})
    before = asyncio.all_tasks(runner.get_loop())
    notebooks = Notebooks(server, context)
    yield notebooks
    if request.node.stash.get(FAILED, False):
        runner.run(notebooks.explain())
    runner.run(notebooks.close())
    if launch.running():
        with execzmq.connect() as client:
            client.shutdown()
    left = [task for task in asyncio.all_tasks(runner.get_loop()) - before if not task.done()]
    if left and not request.node.stash.get(FAILED, False):
        pytest.fail(f"test left tasks behind: {left}", pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Say in the last lines where the pictures are."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.config.stash.get(SHOWN, False):
        where = PICTURES.relative_to(session.config.rootpath)
        reporter.write_line(f"pictures of the pages that were shown: {where}")
