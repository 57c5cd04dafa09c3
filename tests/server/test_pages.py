"""Pages on their way: their form and their bounds."""

import asyncio

from execzmq.process import payloads
from execzmq.process.index import Record
from execzmq.process.log import Dropped, LogPage
from execzmq.server.pages import PagesInFlight, entries_of
from execzmq.settings import MIB, PAGE, PAGES_PER_CLIENT, PAGES_TOTAL, SMALL_PAGE


def test_entries_have_the_form_of_the_protocol() -> None:
    """Each kind of event, in order, with what the table of the protocol says."""
    page = LogPage(
        entries=[
            Record(1, "started", "meta", 10, 0, 1.0, 0, 0),
            Record(2, "output", "stdout", 3, 0, 2.0, 3, 0),
            Dropped(3, 5, 100),
            Record(6, "notice", "meta", 9, 10, 3.0, 103, 0),
            Record(7, "exited", "meta", 9, 19, 4.0, 103, 0),
        ],
        payloads={
            1: payloads.encode({"pid": 9}),
            6: payloads.encode({"kind": "k", "data": {"a": 1}}),
            7: payloads.encode({"exit_code": 0}),
        },
        buffer=bytearray(b"abc"),
        next_seq=7,
    )
    assert entries_of(page) == [
        ["started", 1, 1.0, 9],
        ["output", 2, 2.0, "stdout", 0, 3],
        ["gap", 3, 0.0, 5, 100],
        ["notice", 6, 3.0, "k", {"a": 1}],
        ["exited", 7, 4.0, {"exit_code": 0}],
    ]


def test_a_page_alone_always_goes_out() -> None:
    """However large it is."""
    assert PagesInFlight().has_room("s", 10 * PAGES_PER_CLIENT)


def test_a_client_holds_up_no_more_than_its_bound() -> None:
    """Pages whose reads it still waits for count; those that it does not name have arrived."""
    pages = PagesInFlight()
    for number in range(PAGES_PER_CLIENT // PAGE):
        assert pages.has_room("s", PAGE)
        pages.sent("s", f"m{number}", PAGE)
    assert not pages.has_room("s", 1)
    assert pages.has_room("other", PAGE)
    pages.open_reads("s", ["m1", "unknown"])
    assert pages.has_room("s", PAGES_PER_CLIENT - PAGE)
    assert not pages.has_room("s", PAGES_PER_CLIENT - PAGE + 1)


def test_many_readers_together_get_small_pages() -> None:
    """The memory of the server is bounded for all of them."""
    pages = PagesInFlight()
    sizes = []
    for number in range(50):
        size = pages.size_for(PAGE)
        sizes.append(size)
        pages.sent(f"s{number}", "m", size)
    assert sizes[0] == PAGE
    assert sizes[-1] == SMALL_PAGE
    assert sum(sizes) <= PAGES_TOTAL + 50 * SMALL_PAGE
    for number in range(50):
        pages.forget(f"s{number}")
    assert pages.size_for(PAGE) == PAGE


async def test_who_waits_for_room_goes_on_when_a_page_is_taken() -> None:
    """Without a poll in between."""
    pages = PagesInFlight()
    pages.sent("s", "m", 20 * MIB)
    waiting = asyncio.ensure_future(pages.wait_room("s", 30.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    pages.open_reads("s", [])
    await asyncio.wait_for(waiting, 1.0)
