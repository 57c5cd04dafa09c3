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
    assert PagesInFlight().room_for("s", b"c", PAGES_TOTAL) == PAGES_TOTAL


async def test_a_client_holds_up_no_more_than_its_bound() -> None:
    """Pages whose reads it still waits for count; those that it does not name have arrived."""
    pages = PagesInFlight()
    for number in range(PAGES_PER_CLIENT // PAGE):
        assert pages.room_for("s", b"c", PAGE) == PAGE
        pages.sent("s", b"c", f"m{number}", memoryview(bytes(PAGE)))
    await asyncio.sleep(0)
    assert pages.room_for("other", b"d", PAGE) == PAGE
    assert not pages.room_for("s", b"c", 1)
    pages.open_reads("s", ["m1", "unknown"])
    assert pages.room_for("s", b"c", PAGES_PER_CLIENT - PAGE)
    assert not pages.room_for("s", b"c", PAGES_PER_CLIENT - PAGE + 1)


async def test_pages_that_are_kept_count_whatever_the_client_says() -> None:
    """Under any session of its connection, until they are gone."""
    pages = PagesInFlight()
    kept = [memoryview(bytes(PAGE)) for _ in range(PAGES_TOTAL // PAGE)]
    for number, page in enumerate(kept):
        assert pages.room_for(f"s{number}", b"c", PAGE) == PAGE
        pages.sent(f"s{number}", b"c", "m", page)
        pages.open_reads(f"s{number}", [])
    assert not pages.room_for("s", b"c", 1)
    waiting = asyncio.ensure_future(pages.wait_room("s0", 30.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    del page, kept[0]
    await asyncio.wait_for(waiting, 1.0)
    assert pages.room_for("s", b"c", PAGE) == PAGE


async def test_many_readers_together_get_small_pages() -> None:
    """The memory of the server is bounded for all of them: beyond the bound each has one."""
    pages = PagesInFlight()
    kept = []
    for number in range(50):
        size = pages.room_for(f"s{number}", b"%d" % number, PAGE)
        kept.append(memoryview(bytes(size)))
        pages.sent(f"s{number}", b"%d" % number, "m", kept[-1])
    assert len(kept[0]) == PAGE
    assert len(kept[-1]) == SMALL_PAGE
    assert not pages.room_for("s49", b"49", PAGE)
    assert sum(map(len, kept)) <= PAGES_TOTAL + 50 * SMALL_PAGE
    kept.clear()
    await asyncio.sleep(0)
    assert pages.room_for("s", b"c", PAGE) == PAGE


async def test_who_waits_for_room_goes_on_when_a_page_is_taken() -> None:
    """Without a poll in between."""
    pages = PagesInFlight()
    pages.sent("s", b"c", "m", memoryview(bytes(20 * MIB)))
    waiting = asyncio.ensure_future(pages.wait_room("s", 30.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    pages.open_reads("s", [])
    await asyncio.wait_for(waiting, 1.0)


async def test_who_has_waited_in_vain_leaves_nothing() -> None:
    """However often it waits, and also where it is broken off."""
    pages = PagesInFlight()
    await pages.wait_room("s", 0.0)
    waiting = asyncio.ensure_future(pages.wait_room("s", 30.0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert pages._waiters == {}
