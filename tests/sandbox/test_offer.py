"""What a server offers: its ceiling, which is its default, and the profiles to be named."""

from pathlib import Path

import pytest

from execzmq.errors import InvalidRequest, PermissionRefused
from execzmq.sandbox.offer import Offer
from execzmq.sandbox.profile_store import ProfileStore
from execzmq.types.params import ExecParams, Limits, SandboxIntent

HOME = b"/home/u"


def params(intent: SandboxIntent | None = None, limits: Limits | None = None) -> ExecParams:
    return ExecParams(argv=(b"true",), sandbox=intent, limits=limits)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text("[lab]\nworkspaces = ['/lab']\n[lab.env]\nset = { A = 'hush' }\n")
    path.chmod(0o600)
    return path


def test_unknown_default_is_refused_when_the_server_begins(path: Path) -> None:
    """A server does not begin with less confinement than it was told."""
    with pytest.raises(InvalidRequest, match="there are read-only, workspace-write, full-access, lab"):
        Offer("lob", ProfileStore(path, HOME))


def test_ceiling_stays_as_it_was(path: Path) -> None:
    """What becomes of the file later widens nothing."""
    offer = Offer("lab", ProfileStore(path, HOME))
    path.write_text("[lab]\nworkspaces = 'any'\nnetwork = 'host'\n[wide]\nextends = 'lab'\n")
    named = offer.permissions(params(SandboxIntent("wide", (b"/lab/x",))), b"/")
    for permissions in (offer.permissions(params(), b"/lab/x"), named):
        assert permissions is not None
        assert (permissions.network.mode, permissions.writable) == ("none", (b"/lab/x",))
    with pytest.raises(PermissionRefused):
        offer.permissions(params(SandboxIntent("wide", (b"/etc",))), b"/")
    assert [one.fields["network"] for one in offer.describe() if one.is_default] == ["none"]


def test_broken_file_stops_no_start_that_needs_none(path: Path) -> None:
    """Plain starts and built-in profiles go on while the user edits the file."""
    offer = Offer("full-access", ProfileStore(path, HOME))
    path.write_text("[lab")
    assert offer.permissions(params(limits=Limits(cpu=1)), b"/") is None
    assert offer.permissions(params(SandboxIntent("read-only")), b"/") is not None
    with pytest.raises(InvalidRequest, match="it is not TOML"):
        offer.permissions(params(SandboxIntent("lab")), b"/")


def test_profiles_are_described_without_values_of_variables(path: Path) -> None:
    """Fields have the names of the file; what a variable is set to is shown to nobody."""
    (lab,) = (one for one in Offer("full-access", ProfileStore(path, HOME)).describe() if one.name == "lab")
    assert (lab.is_default, lab.fields["workspaces"]) == (False, [b"/lab"])
    assert b"A" in lab.fields["env"]["set"]
    assert "hush" not in repr(lab)
