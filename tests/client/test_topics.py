"""To whom a broadcast goes."""

from collections.abc import Sequence
from typing import Any

import zmq

from execzmq.client.topics import Heard, Topics
from execzmq.protocol.wire import Codec
from execzmq.zmqloop import Frames


class Ear:
    """Follows one process and keeps how far it was told that its log goes."""

    def __init__(self) -> None:
        self.told: list[tuple[bytes, int]] = []

    def hear(self, heard: Heard) -> None:
        """Keep a broadcast."""
        announcement = heard.announcement()
        assert announcement is not None
        self.told.append((heard.word, announcement.seq))

    def resume(self) -> None:
        """Nothing was missed."""

    def fail(self, error: Exception) -> None:
        """Nothing ends."""


def _frames(topic: bytes, frames: Sequence[Any]) -> Frames:
    return [zmq.Frame(bytes(frame)) for frame in (topic, *frames)]


def _topics(codec: Codec) -> Topics:
    return Topics(codec, "own", lambda _: None, lambda _: None, lambda *_: None)


def test_tails_together_reach_those_who_follow() -> None:
    """Each listener is told of its process; nobody is told of another's."""
    codec = Codec(b"k", "server")
    topics = _topics(codec)
    one, two, other = Ear(), Ear(), Ear()
    for process_id, ear in (("own-1", one), ("own-2", two), ("train", other)):
        topics.listen(process_id, ear)
    tails = [["own-1", 7, 3, "running"], ["own-2", 7, 4, "closed"], ["own-9", 7, 4, "closed"]]
    topics.handle(_frames(b"p.own-*", codec.encode("process_tails", {"tails": tails})))
    assert (one.told, two.told, other.told) == ([(b"tail", 3)], [(b"tail", 4)], [])


def test_tails_of_another_family_are_not_believed() -> None:
    """Nor are those that nobody has signed."""
    codec = Codec(b"k", "server")
    topics = _topics(codec)
    mine, other = Ear(), Ear()
    topics.listen("own-1", mine)
    topics.listen("train", other)
    topics.handle(_frames(b"p.own-*", codec.encode("process_tails", {"tails": [["train", 7, 3, "running"]]})))
    forged = Codec(b"other", "server").encode("process_tails", {"tails": [["own-1", 7, 3, "running"]]})
    topics.handle(_frames(b"p.own-*", forged))
    assert (mine.told, other.told) == ([], [])
    assert topics.statistics()["refused_broadcasts"] == 2
