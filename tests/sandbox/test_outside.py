"""What this host says of a path, an operation, a port and its network."""

import os
import socket
from pathlib import Path

import pytest

from execzmq.sandbox.outside import Host

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def place(short_tmp: Path) -> Path:
    """A folder with an open file, one of mode 000, and a folder of mode 555."""
    (short_tmp / "open").write_text("x")
    (short_tmp / "closed").write_text("x")
    (short_tmp / "closed").chmod(0)
    (short_tmp / "folder").mkdir(mode=0o555)
    (short_tmp / "link").symlink_to("open")
    return short_tmp


def test_open_file(place: Path) -> None:
    """What is one's own may be read, written, removed and owned; so may what is not there yet be made."""
    path = bytes(place / "open")
    assert all(Host().may(path, reach) for reach in ("read", "write", "remove", "own"))
    assert all(Host().may_plainly(path, reach) for reach in ("read", "write", "own"))
    assert Host().may(bytes(place / "new" / "er"), "write")
    assert Host().may(bytes(place / "new"), "own") is None


def test_closed_file(place: Path) -> None:
    """What a mode closes is open to a superuser's powers alone."""
    assert Host().may(bytes(place / "closed"), "read") is IS_ROOT
    assert Host().may_plainly(bytes(place / "closed"), "read") is False
    assert Host().may(bytes(place / "folder" / "x"), "write") is IS_ROOT
    assert Host().may_plainly(bytes(place / "folder" / "x"), "remove") is False


def test_names(place: Path) -> None:
    """Links are followed; what cannot be a name is nowhere."""
    assert Host().resolve(bytes(place / "link")) == os.path.realpath(bytes(place / "open"))
    assert Host().exists(bytes(place / "link"))
    assert not Host().exists(b"/nosuch")
    assert not Host().exists(b"a\0b")
    assert Host().resolve(b"/a\0b") == b"/a\0b"
    assert Host().may(b"/a\0b", "read") is None
    assert Host().may_plainly(b"/a\0b", "read") is None


def test_devices(place: Path) -> None:
    """Two files of one folder are on one file system, /proc is another; a missing name is of its folder's."""
    assert Host().is_one_device((bytes(place / "open"), bytes(place / "new")))
    assert Host().is_one_device((bytes(place / "open"), b"/proc/self")) is False
    assert Host().is_one_device((b"/a\0b",)) is None


def test_ports() -> None:
    """A port on which somebody listens is told from one that is only bound."""
    with socket.socket() as listening, socket.socket() as idle:
        for each in (listening, idle):
            each.bind(("127.0.0.1", 0))
        listening.listen()
        assert Host().listens(listening.getsockname()[1]) is True
        assert Host().listens(idle.getsockname()[1]) is False


def test_kernel_that_does_not_tell(tmp_path: Path) -> None:
    """Where /proc has no such files nothing is known."""
    host = Host(tmp_path)
    assert (host.has_capability(0), host.listens(1), host.is_online()) == (None, None, None)


@pytest.mark.parametrize(("route", "is_online"), [("00000000", True), ("0002000A", False)])
def test_routes(tmp_path: Path, route: str, is_online: bool) -> None:
    """A host is online when it has a way to all others."""
    (tmp_path / "net").mkdir()
    table = (
        f"Iface Destination Gateway Flags RefCnt Use Metric Mask\neth0 {route} 0102000A 0003 0 0 0 {route}\n"
    )
    (tmp_path / "net" / "route").write_text(table)
    assert Host(tmp_path).is_online() is is_online


def test_capabilities(tmp_path: Path) -> None:
    """A capability is a bit of what the kernel shows of this process."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text("Name:\tx\nCapEff:\t0000000000200001\n")
    assert [Host(tmp_path).has_capability(number) for number in (0, 1, 21)] == [True, False, True]
