"""The shares that there are, what they may say, and how they are written down."""

import json
from dataclasses import replace
from typing import Any

import pytest
import zmq

from execzmq.connection import share_id_of
from execzmq.errors import Conflict, InvalidRequest, LimitExceeded, ShareNotFound
from execzmq.server import shares
from execzmq.server.shares import ShareBook, checked_key, checked_terms, from_record, to_record
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import DAY, ShareTerms
from tests.shares import share


def test_a_share_is_in_force_until_its_end() -> None:
    """And no moment longer, whoever has looked."""
    book, one, later = ShareBook(), share(), share(expires_at=3000.0)
    book.add(one)
    book.add(later)
    assert book.get(one.share_id, 1999.9) is one
    assert book.get(one.share_id, 2000.0) is None
    assert book.next_end() == 2000.0
    assert book.expire(2000.0) == [one]
    assert [*book] == [later]
    assert book.next_end() == 3000.0


def test_a_share_that_is_taken_back_is_gone() -> None:
    """A second time there is none."""
    book, one = ShareBook(), share()
    book.add(one)
    assert book.remove(one.share_id) is one
    assert book.get(one.share_id, 1500.0) is None
    with pytest.raises(ShareNotFound, match="execzmq shares"):
        book.remove(one.share_id)
    assert book.next_end() is None


def test_a_key_has_one_share_and_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one key could not be told apart."""
    monkeypatch.setattr(shares, "MOST_SHARES", 1)
    book, one = ShareBook(), share()
    book.add(one)
    with pytest.raises(Conflict):
        book.add(replace(one, role="owner"))
    with pytest.raises(LimitExceeded):
        book.add(share())


def test_ids_are_reserved_and_processes_observed_by_the_shares_in_force() -> None:
    """Only ids that begin with all of a share's id and a dash are."""
    book, one, operator = ShareBook(), share("observer", "p"), share("operator", "q")
    book.restore([one, operator])
    assert book.reserves(operator.prefix + "1")
    assert not book.reserves(operator.share_id)
    assert not book.reserves(operator.share_id[:6] + "-1")
    assert book.is_observed("p")
    assert not book.is_observed("q")
    assert not book.is_observed("p2")


def test_the_id_is_made_from_the_key() -> None:
    """So a file names its share, and no id has a dash in it."""
    publickey = zmq.curve_keypair()[0].decode()
    assert share_id_of(publickey) == share_id_of(publickey)
    assert share_id_of(publickey).isalnum()


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        (ShareTerms(), "name a process"),
        (ShareTerms("owner", ("p",)), "leave them out"),
        (ShareTerms("observer", ("p",), sandbox=SandboxIntent("read-only")), "an observer has none"),
        (ShareTerms("owner", sandbox=SandboxIntent("read-only")), "an owner has none"),
        (ShareTerms("observer", ("p",), 0.0), "more than 0 s"),
        (ShareTerms("observer", ("p",), 367 * DAY), "at most 366 days"),
        (ShareTerms("observer", ("p",) * 257), "at most 256"),
        (ShareTerms("operator", sandbox=SandboxIntent("", (), "host", ("a.example",))), "need the network"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms: ShareTerms, problem: str) -> None:
    """The error says what to change."""
    with pytest.raises(InvalidRequest, match=problem):
        checked_terms(terms)


def test_an_operator_gets_a_sandbox_that_reaches_nothing() -> None:
    """No network and no root unless named; hosts alone mean the proxy."""
    assert checked_terms(ShareTerms("operator")).sandbox == SandboxIntent("workspace-write", (), "none", ())
    named = checked_terms(ShareTerms("operator", sandbox=SandboxIntent("", (b"/w",), None, ("a.example",))))
    assert named.sandbox == SandboxIntent("workspace-write", (b"/w",), "proxy", ("a.example",))
    assert checked_terms(named) == named
    assert checked_terms(ShareTerms("owner")).sandbox is None


@pytest.mark.parametrize("key", ["", "x" * 39, "x" * 41, "x" * 39 + "\n", "é" * 40])
def test_what_is_no_key_is_refused(key: str) -> None:
    """Before anything is asked of whoever decodes it."""
    with pytest.raises(InvalidRequest):
        checked_key(key)


@pytest.mark.parametrize(
    "one",
    [
        share("observer", "p", "q-1"),
        share("owner"),
        share("operator", sandbox=SandboxIntent("lab", (b"/w/\xff",), "proxy", ("a.example:443",))),
    ],
)
def test_what_is_written_down_is_read(one: Any) -> None:
    """Through JSON, whatever bytes a path has."""
    assert from_record(json.loads(json.dumps(to_record(one)))) == one


@pytest.mark.parametrize(
    "change",
    [
        {"role": "king"},
        {"processes": ["p."]},
        {"publickey": "short"},
        {"sandbox": {"profile": "x", "workspace_roots": [], "network": "none", "allowed_hosts": []}},
        {"expires_at": "never"},
        {"role": "operator"},
    ],
    ids=str,
)
def test_nothing_is_guessed_at(change: dict[str, Any]) -> None:
    """A record that was changed by hand lets nobody in."""
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_record({**to_record(share("observer", "p")), **change})
    with pytest.raises(KeyError):
        from_record({})
