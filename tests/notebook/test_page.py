"""The hub of a kernel: which records are live, who hears what, and what a page cannot do."""

import threading
from functools import partial

import pytest

import execzmq
from execzmq.client.sync import Client
from execzmq.errors import ConnectionFailed
from execzmq.notebook import assets, page
from execzmq.types.params import TtySize
from tests.notebook.viewpages import HubPage
from tests.support import wait_until


def _never(on: str | None) -> Client:
    raise AssertionError("nobody asked to connect")


def test_hello_and_files() -> None:
    """A page gets the files that are there, and no other."""
    hub = HubPage(_never)
    hub.say("hello")
    assert hub.last("welcome") == {"type": "welcome", "is_aside": False}
    aside = threading.Thread(target=hub.say, args=("hello",))
    aside.start()
    aside.join()
    assert hub.last("welcome")["is_aside"]
    for name in ("view.js", "view.css", "terminal.js", "xterm/xterm.mjs"):
        hub.say("asset", name=name)
        assert hub.messages[-1] == ({"type": "asset", "name": name}, [assets.assets()[name]])
    for name in ("../page.py", "/etc/passwd", "xterm", "", "view"):
        hub.say("asset", name=name)
        assert hub.messages[-1] == ({"type": "asset", "name": name}, [])


def test_known_process(client: Client) -> None:
    """What the kernel has shown is live at once, in as many places as there are; each hears its own."""
    process = client.start(["cat"], stdin=True)
    hub = HubPage(_never)
    hub.hub.begun(process)
    told = {"type": "begun", "id": process.process_id, "instance": str(process.instance)}
    assert hub.messages == [(told, [])]
    for mount in ("m1", "m2"):
        hub.mount(mount, process)
        hub.say("to", mount=mount, content={"type": "opened"})
    hub.wait(lambda: all(hub.heard(mount, "status") for mount in ("m1", "m2")))
    assert hub.all("mounted") == [
        {"type": "mounted", "mount": mount, "kind": "view"} for mount in ("m1", "m2")
    ]
    assert hub.hub.is_watched(process)
    hub.say("to", b"hello\n", mount="m2", content={"type": "typed"})
    hub.say("to", mount="m1", content={"type": "attached", "seq": 0})
    hub.wait(lambda: bool(hub.heard("m1", "output")))
    assert hub.heard("m2", "output") == []
    hub.hub.shown(process, 7)
    assert hub.all("shown") == [{"type": "shown", "mount": mount, "seq": 7} for mount in ("m1", "m2")]
    hub.say("unmount", mount="m1")
    hub.say("unmount", mount="m2")
    assert not hub.hub.is_watched(process)
    hub.say("to", mount="m2", content={"type": "ended_stdin"})
    assert hub.messages[-1] == ({"type": "lost", "mount": "m2"}, [])
    process.close_stdin()
    process.wait(10.0)


def test_process_of_an_earlier_kernel(client: Client) -> None:
    """It is found where the record says, by its id and its life."""
    process = client.start(["sleep", "60"])
    asked: list[str | None] = []

    def connect(on: str | None) -> Client:
        asked.append(on)
        return client

    hub = HubPage(connect)
    hub.mount("m1", process, on="gpu-box")
    hub.wait(lambda: bool(hub.all("mounted")))
    assert asked == ["gpu-box"]
    hub.mount("m2", process, instance=str(process.instance - 1))
    hub.wait(lambda: bool(hub.all("refused")))
    assert hub.last("refused")["text"] == f"{process.process_id} is another process by now"
    hub.mount("m3", process, process_id="nobody")
    hub.wait(lambda: len(hub.all("refused")) == 2)
    process.kill()


def test_no_server() -> None:
    """The page is told why; the kernel does not notice."""

    def connect(on: str | None) -> Client:
        raise ConnectionFailed("there is no server")

    hub = HubPage(connect)
    hub.say("mount", mount="m1", process_id="p", instance="1", kind="view", on=None)
    hub.wait(lambda: hub.last("refused") == {"type": "refused", "mount": "m1", "text": "there is no server"})


@pytest.mark.parametrize(
    "fields",
    [
        {"on": "/tmp/evil.json"},
        {"on": "../evil"},
        {"on": 3},
        {"kind": "shell"},
        {"instance": "x"},
        {"instance": None},
        {"instance": float("inf")},
        {"process_id": "../x"},
        {"mount": "<b>"},
        {"mount": 3},
    ],
)
def test_forged_records(fields: dict[str, object]) -> None:
    """A record that somebody has put into a notebook leads nowhere by a path, nor with senseless facts."""
    hub = HubPage(_never)
    hub.say(
        "mount", **{"mount": "m1", "process_id": "p", "instance": "1", "kind": "view", "on": None, **fields}
    )
    assert hub.messages == []


@pytest.mark.parametrize("content", [None, 3, [], {}, {"type": "to"}, {"type": "asset"}, {"type": "unmount"}])
def test_senseless_messages(content: object) -> None:
    """They have no effect."""
    hub = HubPage(_never)
    hub.hub.receive(content)
    assert hub.messages == []


def test_oldest_makes_room(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that never say goodbye do not fill the kernel."""
    monkeypatch.setattr(page, "MOST_MOUNTS", 2)
    process = client.start(["true"])
    hub = HubPage(_never)
    hub.hub.know(process)
    for mount in ("m1", "m2", "m3"):
        hub.mount(mount, process)
    hub.say("to", mount="m1", content={"type": "opened"})
    assert hub.last("lost") == {"type": "lost", "mount": "m1"}
    hub.hub.close()
    hub.hub.close()
    hub.say("to", mount="m3", content={"type": "opened"})
    assert hub.last("lost") == {"type": "lost", "mount": "m3"}
    process.wait(10.0, closed=True)


def test_terminal(client: Client) -> None:
    """A terminal's record has a terminal's end."""
    process = client.start(["true"], tty=True)
    hub = HubPage(_never)
    hub.hub.know(process)
    hub.mount("m1", process, kind="terminal")
    assert hub.last("mounted") == {"type": "mounted", "mount": "m1", "kind": "terminal"}
    process.wait(10.0, closed=True)


def test_hub_forgets_the_oldest(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many processes cost no more than so many."""
    monkeypatch.setattr(page, "MOST_PROCESSES", 2)
    processes = [client.start(["true"]) for _ in range(3)]
    hub = HubPage(lambda on: client)
    for process in processes:
        hub.hub.know(process)
    for number, process in enumerate(processes):
        process.wait(10.0, closed=True)
        hub.mount(f"m{number}", process)
    hub.wait(lambda: len(hub.all("mounted")) == 3)
    assert isinstance(processes[0], execzmq.Process)


def test_first_page_of_a_terminal_sees_it_from_its_beginning(client: Client) -> None:
    """The page that is there when a cell starts a terminal gets all of the output, later ones the screen."""
    process = client.start(["sh", "-c", "seq 100; cat"], tty=True)
    hub = HubPage(_never)
    hub.hub.begun(process, TtySize(24, 80))
    wait_until(lambda: b"100" in process.screen().data)
    for mount in ("first", "second"):
        hub.mount(mount, process, kind="terminal")
        hub.say("to", mount=mount, content={"type": "opened"})
        hub.wait(partial(lambda mount: bool(hub.heard(mount, "picture")), mount))
    first, second = (
        buffers[0] for content, buffers in hub.messages if content.get("content", {}).get("type") == "picture"
    )
    assert first == b""
    assert b"100" in second
    process.kill()
