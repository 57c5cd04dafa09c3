"""A program that follows processes of a server to their ends: `witness.py CONNECTION-FILE PROCESS…`.

It prints `ready` when it follows all of them, and at the end one line of JSON: of each process what came, as
`Sight` has it.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field

from execzmq.api import aconnect
from execzmq.client.aio import AsyncClient
from execzmq.types.events import Closed, Event, Exited, Gap, Output, last_seq_of
from tests.chaos.commands import Record


@dataclass
class Sight:
    """What one witness has seen of one process.

    Attributes:
        kinds: of the events but output, in their order.
        last_seq: of the last event.
        faults: what must never be, in words: holes, repeats, wrong offsets.
        lost: bytes that a `Gap` or the result told as gone.
        exit_code: as the last event told it.
        streams: size and digest of each.
    """

    kinds: list[str] = field(default_factory=list)
    last_seq: int = 0
    faults: list[str] = field(default_factory=list)
    lost: int = 0
    exit_code: int | None = None
    cause: str = ""
    streams: dict[str, tuple[int, str]] = field(default_factory=dict)


class Watch:
    """Checks the events of one process as they come."""

    def __init__(self) -> None:
        self.sight = Sight()
        self._record = Record("stdout", "stderr")
        self._ends = {"stdout": 0, "stderr": 0}

    def see(self, event: Event) -> None:
        """Take an event."""
        sight = self.sight
        begin = event.from_seq if isinstance(event, Gap) else event.seq
        if begin != sight.last_seq + 1:
            sight.faults.append(f"event {begin} came after {sight.last_seq}")
        sight.last_seq = last_seq_of(event)
        if isinstance(event, Output):
            self._see_output(event)
        elif isinstance(event, Gap):
            sight.lost += event.bytes
        else:
            sight.kinds.append(type(event).__name__.lower())
        if isinstance(event, Exited | Closed):
            sight.exit_code, sight.cause = event.result.exit_code, event.result.cause

    def _see_output(self, event: Output) -> None:
        if event.offset != self._ends[event.stream] and not self.sight.lost:
            self.sight.faults.append(
                f"{event.stream} goes on at {event.offset}, not {self._ends[event.stream]}"
            )
        self._ends[event.stream] = event.offset + len(event.data)
        self._record.add(event.stream, event.data)

    def end(self) -> Sight:
        """Return all that came."""
        self.sight.streams = self._record.told()
        return self.sight


async def follow(client: AsyncClient, process_id: str) -> Sight:
    """Follow one process to its end."""
    watch = Watch()
    process = await client.attach(process_id)
    async for event in process.events():
        watch.see(event)
    return watch.end()


async def main(connection_file: str, process_ids: list[str]) -> None:
    """Follow all of them."""
    async with aconnect(connection_file) as client:
        follows = [asyncio.ensure_future(follow(client, process_id)) for process_id in process_ids]
        print("ready", flush=True)
        sights = dict(zip(process_ids, await asyncio.gather(*follows), strict=True))
    print(json.dumps({name: asdict(sight) for name, sight in sights.items()}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
