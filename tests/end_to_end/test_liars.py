"""Clients that say what is not so, against a server in a process of its own."""

import pytest

from tests.commands import words
from tests.raw import RawClient, raw
from tests.servers import MOST_MEMORY, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

READS = 300


def lie(liar: RawClient, number: int) -> None:
    """Ask for a page, and say that no page is waited for."""
    content = {"process_id": "p", "after_seq": 0, "wait": 0.0, "open": []}
    liar.codec.session = f"liar-{number % 2}"
    liar.send(liar.codec.encode("read_request", content))


async def test_pages_that_nobody_takes_cost_the_server_little() -> None:
    """However many are asked for by one who says to have taken them all, and takes none."""
    with serving() as server, raw(server.info, most_received=1) as liar:
        async with server.backend() as backend:
            process = await backend.start(words("head", "-c", str(32 << 20), "/dev/zero", process_id="p"))
            await process.wait("closed", 10.0)
            for number in range(READS):
                lie(liar, number)
            while (await backend.server_info()).statistics["requests"] < READS:
                pass
            assert (await process.read(0)).chunks
        assert server.peak_memory() < MOST_MEMORY
