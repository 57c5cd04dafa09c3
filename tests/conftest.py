"""What holds for every test: `async def` works, a home of its own, nothing left behind, skips are said."""

import asyncio
import inspect
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import leaks
from tests.homes import FOLDERS, move_into, private_folder
from tests.support import Deadline

FAILED = pytest.StashKey[bool]()

# How long one example takes says more about the machine than about the code.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each `async def` test the loop it runs on."""
    for item in items:
        if _is_async(item) and "runner" not in item.fixturenames:  # type: ignore[attr-defined]  # a Function
            item.fixturenames.append("runner")  # type: ignore[attr-defined]  # a Function


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on its loop, within its deadline."""
    if not _is_async(pyfuncitem):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    seconds = _deadline_of(pyfuncitem)

    async def within_deadline() -> None:
        async with Deadline(seconds):
            await pyfuncitem.obj(**arguments)

    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(within_deadline())
    return True


def _deadline_of(item: pytest.Item) -> float:
    """Return the seconds of one test: less than the net's, so that it ends with a traceback of what waits."""
    marker = item.get_closest_marker("timeout")
    net = marker.args[0] if marker and marker.args else item.config.getini("timeout")
    return float(net) * 0.8


def _is_async(item: pytest.Item) -> bool:
    return inspect.iscoroutinefunction(getattr(item, "obj", None))


@pytest.fixture
def runner(request: pytest.FixtureRequest, no_leaks: None) -> Iterator[asyncio.Runner]:
    """The loop of one `async def` test; it fails the test that leaves a task behind.

    Debug mode is off where speed is the point: it makes each callback several times as slow.
    """
    hurried = any(request.node.get_closest_marker(name) for name in ("slow", "soak", "bench"))
    with asyncio.Runner(debug=not hurried) as runner:
        yield runner
        left = [task for task in asyncio.all_tasks(runner.get_loop()) if not task.done()]
    if left and not request.node.stash.get(FAILED, False):
        pytest.fail(f"test left tasks behind: {left}", pytrace=False)


@pytest.fixture
def home_root() -> Iterator[Path]:
    """A private folder with a short name."""
    with private_folder() as root:
        yield root


@pytest.fixture(autouse=True)
def state_home(home_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a home of its own, and return where its state is."""
    move_into(home_root, monkeypatch)
    return home_root / FOLDERS["XDG_STATE_HOME"]


@pytest.fixture
def short_tmp(home_root: Path) -> Path:
    """A folder of the test's own, 0700, with a name short enough for sockets."""
    folder = home_root / "t"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def apart() -> frozenset[int]:
    """The processes whose children are no test's own: none, but for a folder that says so."""
    return frozenset()


@pytest.fixture(autouse=True)
def no_leaks(
    request: pytest.FixtureRequest, home_root: Path, state_home: Path, apart: frozenset[int]
) -> Iterator[None]:
    """Fail the test that leaves a process, descriptor, thread or ZeroMQ socket behind.

    A failed test is not blamed twice: its traceback keeps things alive. What it left running is ended.
    """
    before = leaks.take(apart)
    yield
    failed = request.node.stash.get(FAILED, False)
    left = [] if failed else leaks.find(before, home_root)
    leaks.kill_left(before, home_root)
    if left:
        pytest.fail("test left behind:\n" + "\n".join(left), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test has failed, for the fixtures that end after it."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Say in the last lines what was not run, and why."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reporter.write_line(f"not run: {report.nodeid}: {reason.removeprefix('Skipped: ')}")
    deselected = len(reporter.stats.get("deselected", []))
    if deselected and not session.config.option.keyword and "not soak" in session.config.option.markexpr:
        reporter.write_line(
            f"not run: {deselected} tests that `make bench`, `make chaos` and `make soak` run"
        )
