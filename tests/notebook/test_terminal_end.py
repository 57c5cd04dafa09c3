"""The kernel's end of a terminal: all of the output to each page at its pace, the keys of one, one size."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from execzmq.client.aio import AsyncProcess
from execzmq.client.sync import Client, Process
from execzmq.errors import PermissionRefused
from execzmq.notebook.flow import CHUNK, WINDOW
from execzmq.notebook.terminal import MOST_WAITING
from execzmq.types.events import Closed, Event, Gap, Output, Started, last_seq_of
from execzmq.types.params import TtySize
from execzmq.types.results import Screen
from tests.client.clients import open_on
from tests.fakes import SUCCESS, FakeBackend, FakeProcess, Step
from tests.notebook.pages import FakePage
from tests.servers import ServerProcess
from tests.support import child, wait_until

SIZE = TtySize(24, 80)
ASKS = "import sys; print('ready'); print('got', sys.stdin.readline())"


def test_nothing_is_sent_before_the_page_is_open(client: Client) -> None:
    """A page that has not said that it listens misses nothing."""
    process = client.start(["echo", "hello"], tty=True)
    process.wait(closed=True)
    page = FakePage(process, SIZE)
    page.type(b"x")
    assert page.messages == []
    page.open()
    page.wait(lambda: page.last("ended"))
    assert page.output == b"hello\r\n"
    assert page.last("picture") == {"type": "picture", "picture": 1, "rows": 24, "cols": 80}
    assert page.last("ended") == {"type": "ended", "text": "exit code 0"}


def test_first_page_types_and_sizes(client: Client) -> None:
    """Whoever comes first has the keyboard, and the terminal has the size of that page."""
    process = client.start(child("import os\n" + ASKS + "\nprint(os.get_terminal_size())"), tty=True)
    page = FakePage(process, SIZE)
    page.open(31, 101)
    page.wait(lambda: page.keyboard == "yours" and b"ready" in page.output)
    page.type("grüß\r".encode())
    page.wait(lambda: page.last("ended"))
    assert "got grüß".encode() in page.output
    assert b"columns=101, lines=31" in page.output


@pytest.mark.slow
def test_every_byte_reaches_a_page_that_renders(client: Client) -> None:
    """Of a flood nothing is lost, no message passes the chunk, and all that was sent is acknowledged."""
    process = client.start(["seq", "1", "300000"], tty=True)
    page = FakePage(process, SIZE)
    page.open()
    page.wait(lambda: page.last("ended"), 30.0)
    assert page.output == b"".join(b"%d\r\n" % number for number in range(1, 300001))
    assert page.biggest <= CHUNK
    page.end.close()
    assert page.end.rendered == len(page.output) == process.info().output_bytes["stdout"]


def test_a_dead_page_holds_up_nobody(client: Client) -> None:
    """A page that renders nothing gets one window; the process ends, and another page sees all."""
    process = client.start(["seq", "1", "150000"], tty=True)
    dead, living = FakePage(process, SIZE, renders=False), FakePage(process, SIZE)
    dead.open()
    living.open()
    assert process.wait(20.0, closed=True).exit_code == 0
    living.wait(lambda: living.last("ended"), 20.0)
    assert living.output.endswith(b"150000\r\n")
    assert len(dead.output) <= WINDOW
    dead.wait(lambda: len(dead.output) > WINDOW - CHUNK)
    dead.renders = True  # it was only asleep
    dead.acknowledge()
    dead.wait(lambda: dead.last("ended"), 20.0)
    assert dead.output == living.output


def test_messages_are_at_most_fifty_a_second(client: Client) -> None:
    """A program that writes in drops is gathered: a Jupyter server would cut off the page."""
    process = client.start(child("for n in range(3000): print(n, flush=True)"), tty=True)
    page = FakePage(process, SIZE)
    times: list[float] = []
    hear = page._hear

    def count(content, buffers):
        times.append(time.monotonic())
        hear(content, buffers)

    page.end._send = count
    page.open()
    page.wait(lambda: page.last("ended"))
    within = [sum(begin <= other < begin + 0.5 for other in times) for begin in times]
    assert max(within) <= 25 + 6  # the picture, states and the end come between


def test_second_page_of_a_notebook_watches_until_it_takes_over(client: Client) -> None:
    """Of the pages of one client one types; another may take the keyboard, and its size comes with it."""
    process = client.start(child(ASKS), tty=True)
    one, two = FakePage(process, SIZE), FakePage(process, SIZE)
    one.open(20, 90)
    one.wait(lambda: one.keyboard == "yours" and b"ready" in one.output)
    two.open(30, 100)
    two.wait(lambda: two.keyboard == "elsewhere")
    two.type(b"not mine\r")
    two.say("took")
    two.wait(lambda: two.keyboard == "yours")
    one.wait(lambda: one.keyboard == "elsewhere")
    one.type(b"nor mine\r")
    two.type(b"now I\r")
    two.wait(lambda: two.last("ended"))
    assert b"got now I" in two.output


@pytest.mark.slow
def test_two_notebooks_hand_the_keyboard_over(server: ServerProcess) -> None:
    """Two kernels are two clients: handed over, the next who types has it; taken over, the loser is told."""
    with server.client() as mine, server.client() as yours:
        process = mine.start(["cat"], tty=True, process_id="shared")
        one, two = FakePage(process, SIZE), FakePage(yours.attach("shared"), SIZE)
        one.open()
        one.wait(lambda: one.keyboard == "yours")
        two.open()
        two.wait(lambda: two.keyboard == "elsewhere")
        one.say("handed_over")
        two.wait(lambda: two.keyboard == "free")
        two.type(b"\x1b[?1;2c", is_user=False)
        two.type(b"two\r")
        two.wait(lambda: two.keyboard == "yours" and b"two\r\ntwo" in two.output)
        assert b"1;2c" not in two.output
        one.wait(lambda: one.keyboard == "elsewhere")
        one.say("took")
        one.wait(lambda: one.keyboard == "yours")
        two.wait(lambda: two.keyboard == "elsewhere")
        one.end.close()
        two.wait(lambda: two.keyboard == "free")
        process.kill()
        two.wait(lambda: two.last("ended"))


def test_unmounted_page_gives_the_keyboard_back(client: Client) -> None:
    """A page that is gone does not keep the keyboard."""
    process = client.start(["cat"], tty=True)
    one, two = FakePage(process, SIZE), FakePage(process, SIZE)
    one.open()
    one.wait(lambda: one.keyboard == "yours")
    two.open()
    two.wait(lambda: two.keyboard == "elsewhere")
    one.end.close()
    one.end.close()
    two.wait(lambda: two.keyboard == "free")
    process.kill()


def test_page_that_was_loaded_anew_types_again(client: Client) -> None:
    """A page that went without a word has the keyboard until the next page comes, and no longer."""
    process = client.start(["cat"], tty=True)
    gone = FakePage(process, SIZE)
    gone.open()
    gone.wait(lambda: gone.keyboard == "yours")
    gone.is_gone = True
    gone.renders = False
    page = FakePage(process, SIZE)
    page.open()
    page.wait(lambda: page.keyboard == "yours")
    page.type(b"again\r")
    page.wait(lambda: b"again\r\nagain" in page.output)
    process.kill()


def test_keys_that_nobody_reads_are_bounded(client: Client) -> None:
    """A page that sends keys without end is told that they were dropped; the terminal goes on."""
    process = client.start(child("import time; print('ready'); time.sleep(60)"), tty=True)
    page = FakePage(process, SIZE)
    page.open()
    page.wait(lambda: page.keyboard == "yours")
    piece = b"x" * (128 * 1024)
    for _ in range(3 * MOST_WAITING // len(piece)):
        page.type(piece)
    page.wait(lambda: page.last("refused"))
    process.kill()
    page.wait(lambda: page.last("ended"))


def test_nonsense_has_no_effect(client: Client) -> None:
    """Whatever a page says, the end lives on."""
    process = client.start(["cat"], tty=True)
    page = FakePage(process, SIZE)
    content: Any
    for content in (None, [], "x", {}, {"type": 3}, {"type": "typed"}, {"type": "rendered", "total": "x"}):
        page.end.receive(content)
    page.say("fitted", rows=-1, cols=1e400)
    page.open(10**9, 10**9)
    page.wait(lambda: page.keyboard == "yours")
    page.type(b"hello\r")
    page.wait(lambda: b"hello\r\nhello" in page.output)
    process.kill()


def test_broken_way_to_the_page_ends_its_end_alone(client: Client) -> None:
    """Where `send` raises, nothing more is sent, and the keyboard is free for others."""
    process = client.start(["cat"], tty=True)
    one, two = FakePage(process, SIZE), FakePage(process, SIZE)
    one.open()
    one.wait(lambda: one.keyboard == "yours")
    one.error = RuntimeError("no comm")
    one.type(b"x\r")
    two.open()
    two.wait(lambda: two.keyboard in ("free", "yours"))
    process.kill()


def test_forgotten_process_is_told(client: Client) -> None:
    """A page that opens what is gone is told so in words."""
    process = client.start(["true"], tty=True)
    process.wait(closed=True)
    process.forget()
    page = FakePage(process, SIZE)
    page.open()
    page.wait(lambda: page.last("gone"))
    assert process.process_id in page.last("gone")["text"]


def test_late_page_begins_with_the_screen(client: Client) -> None:
    """A page without a beginning gets the screen as it is, in its size, and then all that follows, once."""
    code = "print('\\x1b[2J\\x1b[Hfirst'); input(); print('second'); input(); print('third')"
    process = client.start(child(code), tty=True)
    one = FakePage(process, SIZE)
    one.open(20, 70)
    one.wait(lambda: one.keyboard == "yours" and b"first" in one.output and one.last("size"))
    one.type(b"a\r")
    one.wait(lambda: b"second" in one.output)
    late = FakePage(process)
    late.open()
    late.wait(lambda: late.last("picture"))
    assert late.last("picture") == {"type": "picture", "picture": 1, "rows": 20, "cols": 70}
    assert b"first" in late.output
    assert b"second" in late.output
    one.type(b"b\r")
    late.wait(lambda: late.last("ended"))
    assert late.output.count(b"second") == late.output.count(b"third") == 1


def test_page_that_is_far_behind_may_skip(client: Client) -> None:
    """The user is told how far behind the page is, and what is left out then is the past, not the end."""
    process = client.start([*child("import os; os.system('seq 1 600000'); print('done'); input()")], tty=True)
    page = FakePage(process, SIZE, renders=False)
    page.open()
    page.wait(lambda: page.last("state").get("behind", 0) > WINDOW, 20.0)
    wait_until(lambda: b"done" in process.screen().data)
    page.renders = True
    page.say("skipped")
    page.wait(lambda: b"done" in page.output)
    assert page.last("picture")["picture"] == 2
    assert len(page.output) < 10_000
    process.kill()
    page.wait(lambda: page.last("ended"))


class Shortened(FakeProcess):
    """A process whose log begins after an event that a client wants."""

    async def subscribe_events(self, after_seq: int = 0) -> AsyncIterator[Event]:
        async for event in super().subscribe_events():
            if last_seq_of(event) > after_seq:
                yield event


class Watched(FakeProcess):
    """A process that its client may only watch."""

    async def claim_keyboard(self, take_over: bool = False) -> None:
        raise PermissionRefused("an observer does not type")


def test_observer_watches(no_leaks: None) -> None:
    """Whose connection file is for watching sees all, and is not offered the keyboard."""
    fake = Watched("p", [Started(1, 1), Output(2, "stdout", 0, b"hello\r\n"), asyncio.Event()])
    with open_on(FakeBackend()) as client:
        page = FakePage(Process(AsyncProcess(fake), client), SIZE)
        page.open()
        page.type(b"x")
        page.wait(lambda: page.keyboard == "refused" and page.output == b"hello\r\n")
    assert ("write", b"x", False) not in fake.calls


def test_lost_output_is_told(no_leaks: None) -> None:
    """Where the log has dropped what the page has not seen, it is told how much, and sees the screen."""
    steps: list[Step] = [
        Started(1, 1),
        Gap(2, 8, 4711),
        Output(9, "stdout", 5000, b"end\r\n"),
        Closed(10, SUCCESS),
    ]
    fake = Shortened("p", steps)
    fake.shown = Screen(instance=1, seq=8, rows=30, cols=90, data=b"the screen\r\n")
    with open_on(FakeBackend()) as client:
        page = FakePage(Process(AsyncProcess(fake), client), SIZE)
        page.open()
        page.wait(lambda: page.last("ended"))
    assert page.last("lost") == {"type": "lost", "bytes": 4711}
    assert page.last("picture") == {"type": "picture", "picture": 2, "rows": 30, "cols": 90}
    assert page.output == b"the screen\r\nend\r\n"
