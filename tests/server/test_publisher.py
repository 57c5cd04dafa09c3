"""What is broadcast, and what is only announced."""

import asyncio
from pathlib import Path
from typing import Any

from execzmq.process.log import OutputLog
from execzmq.process.managed import ManagedProcess
from execzmq.process.spec import spec_of
from execzmq.protocol.wire import Codec, Message, split
from execzmq.server.interest import Interest
from execzmq.server.publisher import Pace, Publisher
from execzmq.settings import LIVE_EVENT, LIVE_INTERVAL, LIVE_RATE
from execzmq.types.params import ExecParams


class Bench:
    """A publisher whose messages are kept, on a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.sent: list[tuple[bytes, Message]] = []
        self.interest: Interest[int] = Interest()
        self.codec = Codec(b"k", "server")
        self.publisher = Publisher(self.codec, self._keep, self.interest, lambda: self.now)
        self._folder = folder
        self._kin: list[ManagedProcess] = []
        self.process = self.kin("p1")

    def _keep(self, frames: list[Any]) -> None:
        prefix, rest = split(frames)
        self.sent.append((bytes(prefix[0]), self.codec.decode(rest)))

    def kin(self, process_id: str) -> ManagedProcess:
        """Return one more process."""
        spec = spec_of(ExecParams(argv=(b"x",)), process_id, 7, b"/", 1 << 20, "s", "d", 0.0)
        log = OutputLog(self._folder / f"log-{process_id}", 7, 1 << 20)
        self._kin.append(ManagedProcess(spec, log, self, lambda: self.now))
        return self._kin[-1]

    def write(self, size: int) -> None:
        """Let the process write so much, as one event."""
        self.process.log.feed("stdout", b"x" * size)
        self.process.commit("stdout")

    def event_recorded(self, process: ManagedProcess, record: Any, payload: dict[str, Any]) -> None:
        """Pass on what a backend would."""
        self.publisher.event_recorded(process, record, payload)

    def ended(self, process: ManagedProcess) -> None:
        """Pass on what a backend would."""
        self.publisher.ended(process)

    def released(self, process: ManagedProcess) -> None:
        """Needed by the protocol of observers only."""

    def time_is_over(self, process: ManagedProcess) -> None:
        """Needed by the protocol of observers only."""

    def paused(self, process: ManagedProcess) -> None:
        """Needed by the protocol of observers only."""

    def degraded(self, process: ManagedProcess, error: OSError) -> None:
        """Needed by the protocol of observers only."""

    def recovered(self, process: ManagedProcess) -> None:
        """Needed by the protocol of observers only."""

    def close(self) -> None:
        """Leave nothing."""
        self.publisher.close()
        for process in self._kin:
            process.release()
            process.log.close()


def test_a_slow_process_is_broadcast_whole() -> None:
    """Small events far apart are carried."""
    pace = Pace()
    assert all(pace.carries(1000, 1.0 + number / 100) for number in range(100))


def test_a_large_event_is_only_announced() -> None:
    """So that what is queued for a stopped watcher is bounded in bytes."""
    assert not Pace().carries(LIVE_EVENT + 1, 1.0)


def test_a_fast_process_is_only_announced_until_it_is_slow_again() -> None:
    """Above the rate, judged over its interval."""
    pace, size, now = Pace(), 32 * 1024, 1.0
    carried = []
    for _ in range(100):
        carried.append(pace.carries(size, now))
        now += size / (3 * LIVE_RATE)
    assert carried[0]
    assert not any(carried[20:])
    assert pace.carries(100, now + 5 * LIVE_INTERVAL)


async def test_nothing_is_packed_for_nobody(short_tmp: Path) -> None:
    """Not even the tails."""
    bench = Bench(short_tmp)
    bench.write(10)
    assert bench.sent == []
    bench.close()


async def test_an_event_goes_out_under_its_topic(short_tmp: Path) -> None:
    """With place, stream, offset and one raw buffer."""
    bench = Bench(short_tmp)
    bench.interest.add(b"p.p1.", 3)
    bench.write(10)
    bench.now += 1
    bench.write(5)
    (topic, first), (_, second) = bench.sent
    assert topic == b"p.p1.stdout"
    assert first.msg_type == "process_output"
    assert [m.content["seq"] for m in (first, second)] == [1, 2]
    assert [m.content["offset"] for m in (first, second)] == [0, 10]
    assert first.content["instance"] == 7
    assert bytes(second.buffers[0]) == b"xxxxx"
    bench.close()


async def test_the_end_of_a_burst_is_announced(short_tmp: Path) -> None:
    """At most one `behind` per interval, and one more for the last event."""
    bench = Bench(short_tmp)
    bench.interest.add(b"p.", 3)
    for _ in range(10):
        bench.write(LIVE_EVENT + 1)
    assert [m.content.get("behind") for _, m in bench.sent] == [True]
    assert not bench.sent[0][1].buffers
    announced = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(3 * LIVE_INTERVAL, announced.set_result, None)
    await announced
    assert [m.content["seq"] for _, m in bench.sent] == [1, 10]
    bench.close()


async def test_tails_repeat_where_the_log_ends(short_tmp: Path) -> None:
    """After each of the delays once, and then no more."""
    bench = Bench(short_tmp)
    bench.interest.add(b"p.p1.tail", 3)
    bench.write(10)
    bench.sent.clear()
    for seconds in (0.1, 0.25, 0.9, 1.1, 4.0, 5.5, 60.0):
        bench.now = 1000.0 + seconds
        bench.publisher._tails._tick()
    tails = [m.content for _, m in bench.sent]
    assert tails == [{"process_id": "p1", "instance": 7, "seq": 1, "state": "starting"}] * 3
    assert bench.publisher._tails._ticker is None
    bench.close()


async def test_tails_that_are_due_at_once_go_together(short_tmp: Path) -> None:
    """To those who watch all of these processes; whoever watches one of them alone is told of that one."""
    bench = Bench(short_tmp)
    kin = [bench.kin(f"p-{number}") for number in range(3)]
    bench.interest.add(b"p.p-", 3)
    bench.interest.add(b"p.p-2.", 4)
    for process in (*kin, bench.process):
        bench.publisher._tails.expect(process, bench.now)
    bench.now += 0.25
    bench.publisher._tails._tick()
    alone, together = sorted(bench.sent, key=lambda sent: sent[1].msg_type)
    assert (alone[0], alone[1].content["process_id"]) == (b"p.p-2.tail", "p-2")
    assert (together[0], together[1].msg_type) == (b"p.p-*", "process_tails")
    assert together[1].content["tails"] == [["p-0", 7, 0, "starting"], ["p-1", 7, 0, "starting"]]
    bench.close()


async def test_tails_of_others_reach_nobody_by_the_beginning_of_their_ids(short_tmp: Path) -> None:
    """Who watches the process `p-` alone has a topic of which that of its kin's tails is no continuation."""
    bench = Bench(short_tmp)
    bench.interest.add(b"p.p-", 3)
    bench.interest.add(b"p.p-.", 4)
    for number in range(2):
        bench.publisher._tails.expect(bench.kin(f"p-{number}"), bench.now)
    bench.now += 0.25
    bench.publisher._tails._tick()
    ((topic, message),) = bench.sent
    assert message.msg_type == "process_tails"
    assert topic.startswith(b"p.p-")
    assert not topic.startswith(b"p.p-.")
    bench.close()


async def test_a_starter_is_told_that_its_command_waits(short_tmp: Path) -> None:
    """By one `behind` of the last output, however slowly it was written."""
    bench = Bench(short_tmp)
    bench.interest.add(b"p.", 3)
    bench.publisher.paused(bench.process)
    assert bench.sent == []
    bench.write(10)
    bench.publisher.paused(bench.process)
    (_, whole), (topic, behind) = bench.sent
    assert topic == b"p.p1.stdout"
    assert (behind.content["seq"], behind.content["behind"]) == (whole.content["seq"], True)
    bench.close()
