"""The most that commands of a share may do."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.errors import InvalidRequest, PermissionRefused
from execzmq.sandbox.access import Level, bounds_of
from execzmq.sandbox.ceilings import share_ceiling
from execzmq.sandbox.model import Network, Permissions
from execzmq.sandbox.narrowing import Place, permissions_for
from execzmq.sandbox.profiles import PermissionProfile, builtin_profiles
from execzmq.types.params import EnvPolicy, NetworkMode, SandboxIntent

HOME = b"/home/u"
PROFILES = builtin_profiles(HOME)
WORKSPACE, FULL = PROFILES["workspace-write"], PROFILES["full-access"]
LAB = PermissionProfile(
    "lab",
    readable=(b"/home/u/.ssh/known_hosts", b"/data"),
    writable=(b"/lab/cache", b"/home/u/.ssh/x"),
    workspaces=(b"/lab", b"/home/u"),
    network=Network("host"),
    allow_debug=True,
    env_policy=EnvPolicy("all"),
)


def ceiling(wish: SandboxIntent, profile: PermissionProfile = WORKSPACE) -> PermissionProfile:
    return share_ceiling(wish, profile, WORKSPACE)


def permissions(
    wish: SandboxIntent,
    intent: SandboxIntent | None,
    server: PermissionProfile = FULL,
    profile: PermissionProfile = WORKSPACE,
    cwd: bytes = b"/src/x",
) -> Permissions:
    """Return what a command of a share may do."""
    found = permissions_for(
        intent, ceilings=(ceiling(wish, profile), server), profiles=PROFILES, place=Place(cwd, HOME)
    )
    assert found is not None
    return found


def test_nothing_is_written_or_reached_that_is_not_named() -> None:
    """Neither by the profile that it has by default, nor by the folder that it starts in."""
    got = permissions(SandboxIntent("workspace-write"), None)
    assert (got.profile, got.writable, got.network.mode) == ("workspace-write", (), "none")
    assert got.write_within == ()
    assert got.base_env_policies == (WORKSPACE.env_policy,)


def test_what_is_named_is_written_and_reached() -> None:
    """By whoever asks for it, and the folder that it starts in where that lies within."""
    wish = SandboxIntent("workspace-write", (b"/src",), "proxy", ("a.example",))
    assert permissions(wish, None).writable == (b"/src/x",)
    got = permissions(wish, SandboxIntent("", (b"/src/y",), "proxy", ("a.example:443",)))
    assert (got.writable, got.network) == ((b"/src/y",), Network("proxy", ("a.example:443",)))
    with pytest.raises(PermissionRefused, match=r"b\.example"):
        permissions(wish, SandboxIntent("", (), "proxy", ("a.example", "b.example")))
    for root in (b"/srcx", b"/", b"/etc", b"/src/../etc"):
        with pytest.raises((PermissionRefused, InvalidRequest)):
            permissions(wish, SandboxIntent("", (root,)))


@pytest.mark.parametrize("mode", ["internet", "host"])
def test_no_more_of_the_network_than_named(mode: NetworkMode) -> None:
    """A wider wish is narrowed."""
    got = permissions(SandboxIntent("workspace-write"), SandboxIntent("", (), mode))
    assert got.network.mode == "none"


def test_full_access_is_out_of_reach() -> None:
    """Neither as the profile of a share nor as a wish of its holder."""
    with pytest.raises(InvalidRequest, match="needs a profile that confines"):
        ceiling(SandboxIntent("full-access"), FULL)
    with pytest.raises(PermissionRefused, match="confines every command"):
        permissions(SandboxIntent("workspace-write"), SandboxIntent("full-access"))


def test_a_profile_of_the_user_s_own_is_narrowed_too() -> None:
    """It lifts nothing that `workspace-write` denies, and brings no root or network of its own."""
    got = ceiling(SandboxIntent("lab", (b"/lab",)), LAB)
    assert (got.writable, got.workspaces, got.network) == ((b"/lab/cache",), (b"/lab",), Network("none"))
    assert (got.readable, got.allow_debug) == ((b"/data",), False)
    assert set(got.denied) == set(WORKSPACE.denied)
    assert bounds_of(got).at(b"/home/u/.ssh/known_hosts") is Level.DENY
    wide = ceiling(SandboxIntent("lab", (b"/home/u",)), LAB)
    assert bounds_of(wide).at(b"/home/u/.ssh/x") is Level.DENY


@pytest.mark.parametrize(
    ("root", "profile"),
    [
        (b"/etc", LAB),
        (b"/home/u/.ssh", WORKSPACE),
        (b"/home/u/.ssh/keys", WORKSPACE),
        (b"/w", PROFILES["read-only"]),
    ],
)
def test_a_root_that_could_not_be_written_is_refused(root: bytes, profile: PermissionProfile) -> None:
    """When the share is made, and not at each start."""
    with pytest.raises(InvalidRequest, match="cannot be written under"):
        ceiling(SandboxIntent(profile.name, (root,)), profile)


@pytest.mark.parametrize(
    "wish", [SandboxIntent("", (b"w",)), SandboxIntent("", (b"/",)), SandboxIntent("", (), "proxy", ("a b",))]
)
def test_what_is_no_root_or_host_is_refused(wish: SandboxIntent) -> None:
    """As anywhere."""
    with pytest.raises(InvalidRequest):
        ceiling(wish)


ROOTS = st.sampled_from([b"/a", b"/a/b", b"/a/b/c", b"/b", b"/ab"])


@given(st.lists(ROOTS, max_size=2), st.lists(ROOTS, max_size=2), st.lists(ROOTS, max_size=2))
def test_the_ceilings_of_share_and_server_both_hold(
    shared: list[bytes], served: list[bytes], asked: list[bytes]
) -> None:
    """Whatever a holder asks for, nothing is written that either forbids."""
    wish = SandboxIntent("workspace-write", tuple(shared))
    server = replace(WORKSPACE, name="server", workspaces=tuple(served))
    try:
        got = permissions(wish, SandboxIntent("", tuple(asked)), server, cwd=b"/a/b")
    except PermissionRefused:
        return
    for path in got.writable:
        for bounds in (bounds_of(ceiling(wish)), bounds_of(server)):
            assert bounds.at(path) is Level.WRITE
    assert got.base_env_policies == (WORKSPACE.env_policy, server.env_policy)


@pytest.mark.parametrize("profile", ["", "workspace-write", "read-only"])
@pytest.mark.parametrize("root", [b"/run", b"/tmp/x", b"/var/tmp", b"/dev/shm"])
def test_what_a_sandbox_has_for_itself_is_not_shown_unless_the_share_names_it(
    profile: str, root: bytes
) -> None:
    """There are sockets of the host, of which each is a way out for whoever sees it."""
    for roots in ((), (b"/src",)):
        with pytest.raises(PermissionRefused) as caught:
            permissions(SandboxIntent("workspace-write", roots), SandboxIntent(profile, (root,)))
        assert caught.value.reason == "root_not_permitted"
    named = SandboxIntent("workspace-write", (b"/src", b"/tmp/x"))
    got = permissions(named, SandboxIntent("read-only", (b"/tmp/x/y",)))
    assert got.readable == (b"/tmp/x", b"/tmp/x/y")
    assert got.read_within == (b"/src", b"/tmp/x")
