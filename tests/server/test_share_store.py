"""The file that keeps keys, places and shares: whole, private, and nobody is let in by a spoilt one."""

import logging
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from execzmq.errors import ConnectionFailed
from execzmq.server.share_store import ShareStore, new_pair
from tests.shares import share


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """Keys, address, ports and shares; only its owner reads it, and no repr shows the secret."""
    store, stored = ShareStore(tmp_path), replace(new_pair(), ip="192.0.2.7", ports=(1, 2, 3, 4, 5))
    assert store.load() is None
    assert not store.is_there()
    shares = [share("observer", "p"), share("operator")]
    store.save(stored, shares)
    assert store.load() == (stored, shares)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stored.secretkey not in repr(stored)
    assert stored.network().endpoint("iopub") == "tcp://192.0.2.7:4"
    store.save(stored, [])
    assert store.load() == (stored, [])
    assert os.listdir(tmp_path) == [store.path.name]


@pytest.mark.parametrize("spoilt", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1}', b"\xff"])
def test_a_spoilt_file_lets_nobody_in(
    tmp_path: Path, spoilt: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is put aside and the log says so."""
    store = ShareStore(tmp_path)
    store.path.write_bytes(spoilt)
    with caplog.at_level(logging.ERROR):
        assert store.load() is None
    assert "no share of it is in force" in caplog.text
    assert os.listdir(tmp_path) == ["network.bad.json"]


def test_a_spoilt_share_lets_nobody_in(tmp_path: Path) -> None:
    """Nor any of the others: what else was changed by hand is not known."""
    store = ShareStore(tmp_path)
    store.save(new_pair(), [share("observer", "p"), share("operator")])
    store.path.write_text(store.path.read_text().replace('"observer"', '"king"'))
    assert store.load() is None


def test_where_it_cannot_be_hidden_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without modes."""
    real = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda fd: os.stat_result((real(fd).st_mode | 0o044, *tuple(real(fd))[1:]))
    )
    with pytest.raises(ConnectionFailed, match="cannot hide"):
        ShareStore(tmp_path).save(new_pair(), [])
    assert os.listdir(tmp_path) == []
