"""What must agree when a share is made and when it ends: book, file, keys, endpoints, connections, record."""

import contextlib
import errno
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from execzmq.errors import ConnectionFailed, InvalidState, ShareNotFound
from execzmq.server.access import OWNER
from execzmq.server.app import Server
from execzmq.server.sharing import Sharing
from execzmq.server.sockets import Sockets
from execzmq.settings import Settings
from execzmq.types.sharing import ShareInfo, ShareTerms
from tests.factories import open_server
from tests.server.test_sockets import endpoints


class Rig:
    """The shares of a server without one, on a clock that the test moves."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.now = 1000.0
        self.ended: list[str] = []
        self.folder = folder
        self.sockets = Sockets(endpoints(folder), lambda name, frames: None, lambda frame: None)
        self.sharing = Sharing(folder, settings, self.sockets, self.ended.append, lambda: self.now)

    def create(self, seconds: float = 100.0) -> ShareInfo:
        """Make an owner's share."""
        publickey = zmq.curve_keypair()[0].decode()
        made, network, serverkey = self.sharing.create(ShareTerms("owner", (), seconds), publickey, OWNER)
        assert network == self.sharing.network
        assert json.loads((self.folder / "network.json").read_text())["publickey"] == serverkey
        return made

    def close(self) -> None:
        """End it."""
        self.sharing.close()
        self.sockets.close()


@contextlib.contextmanager
def opened(folder: Path, settings: Settings | None = None) -> Iterator[Rig]:
    """Have one meanwhile."""
    rig = Rig(folder, settings or Settings(ip="127.0.0.1"))
    try:
        yield rig
    finally:
        rig.close()


async def test_the_first_share_opens_the_network_and_the_last_one_s_end_closes_it(short_tmp: Path) -> None:
    """Its key comes in from then on, and no longer."""
    with opened(short_tmp) as rig:
        rig.sharing.open()
        assert rig.sharing.network is None
        assert rig.sharing.seconds_to_next_end() is None
        made = rig.create()
        assert list(rig.sockets.admission.keys.values()) == [made.share_id]
        assert rig.sharing.seconds_to_next_end() == 100.0
        rig.now = 1100.0
        rig.sharing.look()
        assert (rig.ended, len(rig.sharing.book)) == ([made.share_id], 0)
        assert not rig.sockets.admission.keys
        assert rig.sharing.network is None


async def test_the_next_life_has_the_same_shares(short_tmp: Path) -> None:
    """At the same ports, with the same key; what has ended meanwhile has ended."""
    with opened(short_tmp) as rig:
        rig.sharing.open()
        short, long = rig.create(10.0), rig.create()
        network = rig.sharing.network
    with opened(short_tmp) as again:
        again.now = 1050.0
        again.sharing.open()
        again.sharing.look()
        assert [*again.sharing.book] == [long]
        assert again.sharing.network == network
        assert again.ended == [short.share_id]


async def test_what_cannot_be_written_down_is_not_shared(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And one that is taken back is taken back all the same, as long as this server lives; that is said."""
    with opened(short_tmp) as rig:
        rig.sharing.open()
        made = rig.create()
        with monkeypatch.context() as patch:
            patch.setattr(rig.sharing._store, "save", _full)
            with pytest.raises(InvalidState, match="cannot be written down"):
                rig.create()
            assert [*rig.sharing.book] == [made]
            assert list(rig.sockets.admission.keys.values()) == [made.share_id]
            with pytest.raises(InvalidState, match="cannot be written down"):
                rig.sharing.revoke(made.share_id, OWNER)
            assert not rig.sockets.admission.keys
            (short_tmp / "network.json").unlink()
            with caplog.at_level(logging.ERROR):
                rig.sharing.look()
                rig.sharing.look()
            assert len(caplog.records) == 1
        rig.sharing.look()
        assert json.loads((short_tmp / "network.json").read_text())["shares"] == []
        with pytest.raises(ShareNotFound):
            rig.sharing.revoke(made.share_id, OWNER)


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_where_one_cannot_be_cut_all_are(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no descriptor to do it with; those who are allowed come back."""
    with opened(short_tmp) as rig:
        rig.sharing.open()
        made, other = rig.create(), rig.create()
        monkeypatch.setattr(rig.sharing.lines, "cut", _full)
        rig.sharing.revoke(made.share_id, OWNER)
        assert rig.sharing.network is None
        assert rig.sharing.book.get(other.share_id, rig.now) == other


async def test_without_curve_nothing_is_shared(short_tmp: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nor does a server begin so that has shares; the log says what it means."""
    plain = Settings(transport="tcp", ip="127.0.0.1", insecure=True)
    with opened(short_tmp, plain) as rig:
        with caplog.at_level(logging.WARNING):
            rig.sharing.open()
        assert "can read all output" in caplog.text
        assert rig.sharing.network is not None
        assert rig.sharing.network.secretkey == ""
        with pytest.raises(InvalidState, match="without CURVE"):
            rig.create()
    with opened(short_tmp) as curve:
        curve.sharing.open()
        curve.create()
    with opened(short_tmp, plain) as refused, pytest.raises(InvalidState, match="revoke them"):
        refused.sharing.open()


async def test_a_server_that_cannot_listen_as_told_does_not_begin() -> None:
    """It leaves nothing: the next one of its name does."""
    with pytest.raises(ConnectionFailed, match="cannot listen on tcp"):
        await Server.open("t", Settings(transport="tcp", ip="192.0.2.77"))
    async with open_server(Settings(shutdown_grace=0.0, transport="tcp", ip="127.0.0.1")) as server:
        assert server._sharing.network is not None


async def test_a_share_keeps_the_server_from_ending_for_want_of_work() -> None:
    """As long as it is in force."""
    async with open_server(Settings(shutdown_grace=0.0, idle_timeout=600.0, ip="127.0.0.1")) as server:
        now = server._clock()
        server._clock = lambda: now
        publickey = zmq.curve_keypair()[0].decode()
        made, _, _ = server._sharing.create(ShareTerms("owner"), publickey, OWNER)
        now += 10_000
        assert not server._is_idle()
        server._sharing.revoke(made.share_id, OWNER)
        now += 599
        assert not server._is_idle()
        now += 2
        assert server._is_idle()
