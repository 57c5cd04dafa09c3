"""What a caller says of a share, and how one is named."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execzmq import connection
from execzmq.client.aio import AsyncClient
from execzmq.client.arguments import Caller
from execzmq.client.sharing import id_of
from execzmq.client.terms import share_terms
from execzmq.connection import ConnectionInfo
from execzmq.errors import ConnectionFailed, InvalidRequest
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import DAY, ShareTerms
from tests.client.clients import open_on
from tests.fakes import FakeBackend
from tests.shares import share

HERE = Caller(b"/here", {})
FILE = ConnectionInfo("ipc", "/run/s", 1, 2, 3, 4, 5, key="k", epoch="e1", pid=77)


def test_by_default_somebody_watches_for_a_day() -> None:
    """What it is, the caller says."""
    assert share_terms({"processes": ["p"]}, HERE) == ShareTerms("observer", ("p",), DAY, None)


def test_folders_are_those_of_the_server_s_machine() -> None:
    """Which may be the caller's own."""
    options: Any = {"role": "operator", "workspace_roots": ["w", b"/x"], "allowed_hosts": ["a.example"]}
    wish = SandboxIntent("", (b"/here/w", b"/x"), None, ("a.example",))
    assert share_terms(options, HERE) == ShareTerms("operator", (), DAY, wish)
    assert share_terms(options, None).sandbox == replace(wish, workspace_roots=(b"w", b"/x"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"who": "x"}, TypeError),
        ({"processes": "p"}, TypeError),
        ({"processes": [5]}, TypeError),
        ({"processes": ["a b"]}, InvalidRequest),
        ({"role": "king"}, InvalidRequest),
        ({"expires": None}, InvalidRequest),
        ({"expires": float("inf")}, InvalidRequest),
        ({"expires": "8h"}, TypeError),
        ({"workspace_roots": "w"}, TypeError),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(options: Any, error: type[Exception]) -> None:
    """Before the server is asked."""
    with pytest.raises(error):
        share_terms(options, HERE)


def test_a_share_is_named_by_its_id_or_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path, or the name of a file that is here; the file of no share names none."""
    made = share("observer", "p")
    keys: Any = {"curve_serverkey": "s" * 40, "curve_publickey": made.publickey, "curve_secretkey": "k" * 40}
    path = tmp_path / "watch.json"
    connection.write_connection_file(path, replace(FILE, transport="tcp", ip="192.0.2.7", key="", **keys))
    monkeypatch.chdir(tmp_path)
    assert {id_of(one) for one in (path, str(path), "watch.json", "./watch.json")} == {made.share_id}
    assert id_of("0a1b2c3d4e5f") == "0a1b2c3d4e5f"
    with pytest.raises(ConnectionFailed):
        id_of("./none.json")
    connection.write_connection_file(path, FILE)
    with pytest.raises(InvalidRequest, match="execzmq shares"):
        id_of(path)


async def test_a_client_passes_on_what_it_is_told() -> None:
    """The three methods of the public face."""
    backend = FakeBackend(is_local=False)
    client = AsyncClient(backend)
    made = await client.share("f.json", processes=["p"], expires=60.0)
    assert (made.role, made.processes) == ("observer", ("p",))
    assert backend.shared == [(ShareTerms("observer", ("p",), 60.0, None), Path("f.json"))]
    assert [one.share_id for one in await client.shares()] == ["5hare"]
    await client.revoke("5hare")
    assert backend.calls == ["revoke 5hare"]


def test_a_blocking_client_does_too() -> None:
    """One line each."""
    backend = FakeBackend(is_local=False)
    with open_on(backend) as client:
        assert client.share(Path("f.json"), role="owner").role == "owner"
        assert len(client.shares()) == 1
        client.revoke("5hare")
    assert backend.calls == ["revoke 5hare", "aclose"]
    assert os.fspath(backend.shared[0][1]) == "f.json"
