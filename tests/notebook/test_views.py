"""What a cell keeps of a process: a record that is written anew, not too often, and at last with its end."""

import time
from collections.abc import Iterator

import pytest

from execzmq import notebook
from execzmq.client.sync import Client
from execzmq.notebook import displayed, hubs, places, views
from tests.notebook.viewpages import HubPage
from tests.support import wait_until


class Display:
    """Stands for IPython's `display`: keeps what was displayed, and when."""

    def __init__(self) -> None:
        self.shown: list[tuple[dict[str, str], bool]] = []
        self.times: list[float] = []

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: str, update: bool = False) -> None:
        assert raw
        assert display_id
        self.shown.append((data, update))
        self.times.append(time.monotonic())

    @property
    def last(self) -> str:
        """The text that was displayed last."""
        return self.shown[-1][0]["text/plain"]


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """What is displayed."""
    display = Display()
    monkeypatch.setattr(places, "display", display)
    return display


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubPage]:
    """A hub with pages that are none."""

    def connect(on: str | None) -> Client:
        raise AssertionError("nobody asked to connect")

    page = HubPage(connect)
    monkeypatch.setattr(hubs, "current", lambda: page.hub)
    yield page
    page.hub.close()


def test_record(client: Client, display: Display) -> None:
    """Without a hub there is a record all the same."""
    process = client.start("read x; exit 3", stdin=True)
    view = views.view_of(process, kind="view")
    assert display.shown == []
    view.begin()
    assert "[read x; exit 3: running at" in display.last
    process.close_stdin()
    view.end(process.wait(10.0, closed=True))
    assert "[read x; exit 3: exit code 3" in display.last
    assert [update for _, update in display.shown] == [False, True]
    assert "execzmq-hub" not in display.shown[0][0]["text/html"]


@pytest.mark.slow
def test_record_while_it_runs(client: Client, display: Display, hub: HubPage) -> None:
    """It is written at intervals, the last state for certain; pages are told at once."""
    process = client.start(["cat"], stdin=True)
    view = views.view_of(process, kind="view")
    view.begin()
    hub.mount("m1", process)
    hub.hub.receive({"type": "unmount", "mount": "m1"})
    for seq in range(1, 50):
        view.shown(seq)
    view.shown(3)
    wait_until(lambda: len(display.shown) == 2, 10.0)
    assert display.times[1] - display.times[0] > 0.9 * views.WRITE_EVERY
    assert "execzmq-seq-49 " in display.shown[1][0]["text/html"]
    assert f"execzmq-hub-{hub.hub.token}" in display.shown[1][0]["text/html"]
    process.close_stdin()
    view.end(process.wait(10.0, closed=True))


def test_page_is_told_what_was_shown(client: Client, display: Display, hub: HubPage) -> None:
    """A page knows more than the record that it has."""
    process = client.start(["cat"], stdin=True)
    view = views.view_of(process, kind="view")
    view.begin()
    hub.mount("m1", process)
    view.shown(5)
    assert hub.all("shown") == [{"type": "shown", "mount": "m1", "seq": 5}]
    process.close_stdin()
    view.end(process.wait(10.0, closed=True))
    view.shown(6)
    assert "execzmq-state-ended" in display.shown[-1][0]["text/html"]
    assert hub.all("ended") == [
        {
            "type": "ended",
            "id": process.process_id,
            "instance": str(process.instance),
            "data": display.shown[-1][0],
        }
    ]


def test_left_running(client: Client, display: Display) -> None:
    """What runs on is not said to have ended."""
    process = client.start(["sleep", "60"], tty=True)
    view = views.view_of(process, kind="terminal", on="gpu-box")
    view.begin()
    view.end(None)
    assert "running at" in display.last
    assert display.last.endswith(f"execzmq attach --on gpu-box {process.process_id}]")
    process.kill()


def test_process_that_is_gone(client: Client, display: Display) -> None:
    """A record of what the server has forgotten says what is known."""
    process = client.start(["true"])
    result = process.wait(10.0, closed=True)
    process.forget()
    view = views.view_of(process, kind="view")
    view.begin()
    view.end(result)
    assert "exit code 0" in display.last


def test_show(client: Client, display: Display) -> None:
    """Without a magic a process displays itself, and says how it ended."""
    process = client.start("read x; exit 3", stdin=True)
    shown = notebook.show(process)
    assert isinstance(shown, displayed.Displayed)
    assert process.process_id in repr(shown)
    shown._ipython_display_()
    process.close_stdin()
    wait_until(lambda: "exit code 3" in display.last, 10.0)


def test_widget(client: Client) -> None:
    """Where widgets alone are displayed it is one, with the record in it."""
    process = client.start(["true"])
    process.wait(10.0, closed=True)
    widget = notebook.show(process).widget
    assert f"execzmq-id-{process.process_id} " in widget.record
    assert f"execzmq-hub-{widget.token}" in widget.record
    widget.close()
