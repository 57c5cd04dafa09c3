"""The kernel's end of a live view: how the process is, buttons, stdin, and its output at the page's pace."""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator

import pytest

import execzmq
from execzmq.client.sync import Client
from execzmq.notebook import follower
from execzmq.notebook import view_requests as requests
from execzmq.notebook.view import MOST_WAITING
from execzmq.notebook.view_requests import MOST_TYPED, parse
from tests.notebook.viewpages import ViewPage
from tests.servers import ServerProcess
from tests.support import child

WAITS = "import signal, sys; print('ready', flush=True); signal.pause()"


@pytest.fixture
def other(server: ServerProcess) -> Iterator[Client]:
    """A client of a server."""
    with server.client() as client:
        yield client


def test_nothing_is_sent_before_the_page_is_open(client: Client) -> None:
    """A page that has not said that it listens misses nothing; what it is told at the end stands."""
    process = client.start(["sh", "-c", "exit 3"], name="short")
    process.wait(closed=True)
    page = ViewPage(process)
    assert page.messages == []
    page.say("opened")
    page.wait(lambda: page.text == "exit code 3")
    status = page.last("status")
    assert (status["is_running"], status["is_closed"], status["returncode"]) == (False, True, 3)
    assert (status["name"], status["command"]) == ("short", "sh -c 'exit 3'")


def test_status_of_a_running_process(client: Client) -> None:
    """What it is, since when, and what it uses."""
    process = client.start(child(WAITS))
    page = ViewPage(process)
    page.say("opened")
    page.wait(lambda: page.last("status").get("usage") is not None)
    status = page.last("status")
    assert status["is_running"]
    assert status["pid"] == process.info().pid
    assert status["usage"]["memory"] > 0
    assert status["usage"]["processes"] >= 1
    assert 0 <= status["elapsed"] < 60
    process.kill()
    page.wait(lambda: not page.last("status")["is_running"])
    assert page.text.startswith("signal 9 (KILL)")


@pytest.mark.parametrize(
    ("button", "words", "end"),
    [
        ("interrupt", "sent SIGINT", "signal 2 (INT)"),
        ("stop", "sent SIGTERM; what is left after 5 s is killed", "signal 15 (TERM)"),
        ("kill", "killed it and all that it started", "signal 9 (KILL)"),
    ],
)
def test_buttons(client: Client, button: str, words: str, end: str) -> None:
    """Each does what it says, and says what it did."""
    process = client.start(["sh", "-c", "echo ready; exec sleep 60"])
    next(process.output())
    page = ViewPage(process)
    page.say("opened")
    page.say(button)
    page.wait(lambda: page.text.startswith(end) and words in page.said)


def test_button_of_what_has_ended(client: Client) -> None:
    """It is said, and nothing else happens."""
    process = client.start(["true"])
    process.wait(closed=True)
    page = ViewPage(process)
    page.say("interrupt")
    page.wait(lambda: page.said == ["it has ended"])


def test_stdin(client: Client) -> None:
    """The page hears that there is a stdin; lines reach it in order, and its end does."""
    process = client.start(["cat"], stdin=True)
    page = ViewPage(process)
    page.say("opened")
    page.wait(lambda: page.last("stdin") == {"type": "stdin", "is_open": True})
    for line in range(50):
        page.say("typed", b"%d\n" % line)
    page.say("ended_stdin")
    assert process.wait(10.0, closed=True).exit_code == 0
    assert b"".join(
        event.data for event in process.output() if not isinstance(event, execzmq.Gap)
    ) == b"".join(b"%d\n" % line for line in range(50))
    page.wait(lambda: page.last("stdin") == {"type": "stdin", "is_open": False})


def test_no_stdin(client: Client) -> None:
    """A process without one is not offered a line; who writes anyway is told what to do."""
    process = client.start(child(WAITS))
    page = ViewPage(process)
    page.say("opened")
    page.say("typed", b"x\n")
    page.wait(lambda: page.last("stdin") == {"type": "stdin", "is_open": False})
    page.wait(lambda: any("-i" in said for said in page.said))
    assert {"type": "stdin", "is_open": True} not in page.all("stdin")
    process.kill()


def test_stdin_that_nobody_reads(client: Client) -> None:
    """What would not fit is refused, said, and nothing is held up."""
    process = client.start(child(WAITS), stdin=True)
    page = ViewPage(process)
    page.say("opened")
    for _ in range(20 * (1 << 20) // MOST_TYPED + MOST_WAITING // MOST_TYPED):
        page.say("typed", b"x" * MOST_TYPED)
    page.wait(lambda: "the program does not read its stdin: what you sent was dropped" in page.said)
    page.say("kill")
    page.wait(lambda: page.text.startswith("signal 9"))


def test_output_after_an_event(client: Client) -> None:
    """What the notebook has is not shown again; both streams come, each byte once, to the end."""
    process = client.start(["sh", "-c", "echo one; read x; echo two; echo bad >&2"], stdin=True)
    first = next(process.output())
    assert not isinstance(first, execzmq.Gap)
    process.write(b"\n")
    process.wait(closed=True)
    page = ViewPage(process)
    page.say("attached", seq=first.seq)
    page.wait(lambda: page.output == {"stdout": b"two\n", "stderr": b"bad\n"})
    again = ViewPage(process)
    again.say("attached", seq=0)
    again.wait(lambda: again.output["stdout"] == b"one\ntwo\n")


@pytest.mark.slow
def test_flood(client: Client) -> None:
    """A page sees beginning and present of a flood, is told what was left out, and is never flooded."""
    process = client.start(["sh", "-c", "seq 1 2000000; echo; echo the end"])
    page = ViewPage(process)
    began = time.monotonic()
    page.say("attached", seq=0)
    page.wait(lambda: page.output["stdout"].endswith(b"the end\n"), 20.0)
    took = time.monotonic() - began
    assert page.output["stdout"].startswith(b"1\n2\n3\n")
    left_out = sum(size for kind, size in page.pieces if kind == "left_out")
    assert left_out + len(page.output["stdout"]) == process.info().output_bytes["stdout"]
    assert left_out > 0
    assert len(page.all("output")) <= took / follower.PAUSE + 2


def test_page_that_shows_nothing(client: Client) -> None:
    """A stuck page gets two messages and holds up nobody; when it wakes up it goes on."""
    process = client.start(["sh", "-c", "for i in 1 2 3 4 5 6; do seq $i 100000; done"])
    page = ViewPage(process, renders=False)
    page.say("attached", seq=0)
    assert process.wait(20.0, closed=True).exit_code == 0
    page.wait(lambda: len(page.all("output")) == follower.MOST_UNSEEN)
    page.renders = True
    page.say("rendered", number=follower.MOST_UNSEEN)
    page.wait(lambda: page.output["stdout"].endswith(b"\n100000\n"), 20.0)


def test_detach_and_attach(client: Client) -> None:
    """Output ends when it is not wanted any more, and begins anew."""
    process = client.start(["cat"], stdin=True)
    page = ViewPage(process)
    page.say("attached", seq=0)
    process.write(b"a\n")
    page.wait(lambda: page.output["stdout"] == b"a\n")
    page.say("detached")
    process.write(b"b\n")
    page.say("attached", seq=0)
    page.wait(lambda: page.output["stdout"] == b"a\na\nb\n" or page.output["stdout"] == b"a\na\n")
    process.close_stdin()
    process.wait(10.0)


def test_detach_at_once(client: Client) -> None:
    """What was asked for and taken back in one turn of the loop never begins, and leaves nothing."""
    process = client.start(["true"])
    page = ViewPage(process)

    async def take() -> None:
        for request in (requests.Opened(), requests.Attached(0), requests.Detached()):
            page.end._take(request)
        page.end._stop()

    client.portal.call(take())
    client.portal.call(asyncio.sleep(0))
    gc.collect()
    assert page.messages == []


def test_closed_end(client: Client) -> None:
    """It does and says nothing any more."""
    process = client.start(["cat"], stdin=True)
    page = ViewPage(process)
    page.say("opened")
    page.wait(lambda: page.text == "running")
    page.end.close()
    page.end.close()
    page.say("kill")
    process.write(b"still here\n")
    assert not isinstance(first := next(process.output()), execzmq.Gap)
    assert first.data == b"still here\n"
    assert page.said == []


def test_broken_way_to_the_page(client: Client) -> None:
    """A page that cannot be told anything is told nothing more; the process does not notice."""
    process = client.start(["cat"], stdin=True)
    page = ViewPage(process)

    def fail(content: object, buffers: object) -> None:
        page.hear({"type": "tried"}, [])
        raise OSError("closed")

    page.end._send = fail
    page.say("opened")
    page.wait(lambda: bool(page.all("tried")))
    process.close_stdin()
    assert process.wait(10.0).exit_code == 0


def test_forgotten_process(client: Client) -> None:
    """The page is told that it is gone."""
    process = client.start(["true"])
    process.wait(closed=True)
    process.forget()
    page = ViewPage(process)
    page.say("opened")
    page.wait(lambda: page.last("gone") != {})


def test_server(other: Client) -> None:
    """Over a server it is the same."""
    process = other.start([sys.executable, "-c", "print(input())"], stdin=True)
    page = ViewPage(process)
    page.say("opened")
    page.wait(lambda: page.last("stdin").get("is_open") is True)
    page.say("typed", b"over the wire\n")
    page.say("attached", seq=0)
    page.wait(lambda: page.output["stdout"] == b"over the wire\n" and page.text == "exit code 0")


@pytest.mark.parametrize(
    ("content", "buffers"),
    [
        (None, []),
        ([], []),
        ({}, []),
        ({"type": "kill all"}, []),
        ({"type": ["stop"]}, []),
        ({"type": "typed"}, []),
        ({"type": "typed"}, [b"a", b"b"]),
        ({"type": "typed"}, [b"x" * (MOST_TYPED + 1)]),
        ({"type": "attached"}, []),
        ({"type": "attached", "seq": -1}, []),
        ({"type": "attached", "seq": 1.5}, []),
        ({"type": "attached", "seq": True}, []),
        ({"type": "rendered", "number": "1"}, []),
    ],
)
def test_senseless_requests(content: object, buffers: list[bytes]) -> None:
    """What a page must not say has no effect."""
    assert parse(content, buffers) is None
