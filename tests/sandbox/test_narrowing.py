"""What a command may do is what its profile, the client and the server's ceiling all allow."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execzmq.errors import InvalidRequest, PermissionRefused
from execzmq.sandbox.access import Level, Reach, bounds_of
from execzmq.sandbox.hosts import Target, first_match, parse_pattern
from execzmq.sandbox.model import Network, Permissions, ProtectGit, Readable
from execzmq.sandbox.narrowing import MOST_ROOTS, Place, narrower_network, permissions_for
from execzmq.sandbox.profiles import PermissionProfile, builtin_profiles, is_within
from execzmq.types.params import EnvPolicy, Limits, NetworkMode, SandboxIntent

HOME = b"/home/u"
PROFILES = builtin_profiles(HOME)
READ_ONLY, WORKSPACE, FULL = PROFILES["read-only"], PROFILES["workspace-write"], PROFILES["full-access"]
PLACE = Place(b"/src/x", HOME)
NETWORKS = get_args(NetworkMode)

PATHS = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=3).map(
    lambda names: b"/" + b"/".join(names)
)
PATH_LISTS = st.lists(PATHS, max_size=3).map(tuple)
HOSTS = st.lists(st.sampled_from(["a.com", "a.com:80", "*.com", "x.a.com", "*.a.com"]), max_size=3).map(tuple)
BOUNDS = st.one_of(st.none(), st.integers(0, 5))
LIMITS = st.builds(Limits, memory=BOUNDS, processes=BOUNDS)
NAMES = st.lists(st.sampled_from(["x", "y", "z"]), max_size=2).map(tuple)
INTENTS = st.builds(
    SandboxIntent,
    profile=st.just("asked"),
    workspace_roots=PATH_LISTS,
    network=st.one_of(st.none(), st.sampled_from(NETWORKS)),
)
PROXY_INTENTS = st.builds(
    SandboxIntent,
    profile=st.just("asked"),
    network=st.sampled_from([None, "proxy"]),
    allowed_hosts=HOSTS,
)


def profiles(name: str) -> st.SearchStrategy[PermissionProfile]:
    return st.builds(
        PermissionProfile,
        name=st.just(name),
        read=st.sampled_from(get_args(Readable)),
        readable=PATH_LISTS,
        writable=PATH_LISTS,
        workspaces=st.one_of(st.just("any"), PATH_LISTS),
        denied=PATH_LISTS,
        protected=NAMES,
        protect_git=st.sampled_from(get_args(ProtectGit)),
        network=st.builds(Network, st.sampled_from(NETWORKS), HOSTS).map(
            lambda net: net if net.mode == "proxy" else Network(net.mode)
        ),
        tmp_bytes=st.integers(0, 5),
        limits=LIMITS,
        output_bytes=BOUNDS,
        require_limits=st.booleans(),
        allow_debug=st.booleans(),
    )


def asked(
    intent: SandboxIntent | None,
    ceiling: PermissionProfile = FULL,
    *own: PermissionProfile,
    place: Place = PLACE,
    **more: Any,
) -> Permissions | None:
    known = {**PROFILES, **{one.name: one for one in own}}
    return permissions_for(intent, ceilings=(ceiling,), profiles=known, place=place, **more)


def confined(*words: Any, **more: Any) -> Permissions:
    permissions = asked(*words, **more)
    assert permissions is not None
    return permissions


def level_of(permissions: Permissions, path: bytes) -> Level:
    """Return what a command can do at a path, read off its permissions as whoever mounts them does."""
    lists = (
        (permissions.denied, Level.DENY),
        (permissions.readable, Level.READ),
        (permissions.writable, Level.WRITE),
    )
    found = [(len(one), -level, level) for paths, level in lists for one in paths if is_within(path, (one,))]
    default = Level.READ if permissions.read == "host" else Level.UNSEEN
    return max(found)[2] if found else default


def most_of(profile: PermissionProfile, path: bytes) -> Level:
    """Return the most that a profile grants at a path to whatever client, by the same reading."""
    writes: tuple[bytes, ...] = () if profile.workspaces == "any" else profile.workspaces
    permissions = Permissions(
        "", profile.read, profile.readable, (*profile.writable, *writes), profile.denied,
        (), "all", Network(), 0, Limits(),
    )  # fmt: skip
    named = (*permissions.readable, *permissions.writable, *permissions.denied)
    if profile.workspaces == "any" and not is_within(path, named):
        return Level.WRITE
    return level_of(permissions, path)


@settings(max_examples=400)
@given(INTENTS | PROXY_INTENTS, profiles("asked"), profiles("most"), LIMITS, BOUNDS, PATHS, PATHS)
def test_no_wish_widens_what_the_server_allows(
    intent: SandboxIntent,
    own: PermissionProfile,
    ceiling: PermissionProfile,
    limits: Limits,
    budget: int | None,
    cwd: bytes,
    path: bytes,
) -> None:
    """Whatever a client says, each permission is within the ceiling's, or the request is refused."""
    place = Place(cwd, HOME)
    try:
        got = confined(intent, ceiling, own, place=place, limits=limits, log_budget=budget)
    except (InvalidRequest, PermissionRefused):
        return
    assert level_of(got, path) <= most_of(ceiling, path)
    assert set(got.denied) >= {*own.denied, *ceiling.denied}
    assert {name.decode() for name in got.protected} == {*own.protected, *ceiling.protected}
    git = get_args(ProtectGit)
    assert git.index(got.protect_git) == min(git.index(own.protect_git), git.index(ceiling.protect_git))
    assert reaches_no_more(got.network, ceiling.network)
    assert got.tmp_bytes <= ceiling.tmp_bytes
    for one in fields(Limits):
        for most in (own.limits, ceiling.limits, limits):
            assert is_no_more(getattr(got.limits, one.name), getattr(most, one.name))
    for most_bytes in (own.output_bytes, ceiling.output_bytes, budget):
        assert is_no_more(got.output_bytes, most_bytes)
    assert got.require_limits >= ceiling.require_limits
    assert got.allow_debug <= ceiling.allow_debug
    assert got.base_env_policies == (ceiling.env_policy,)


def is_no_more(value: int | None, most: int | None) -> bool:
    return most is None or (value is not None and value <= most)


def is_allowed(hosts: Iterable[str], host: str, port: int) -> bool:
    return first_match(map(parse_pattern, hosts), Target(host, port)) is not None


def reaches_no_more(network: Network, most: Network) -> bool:
    if NETWORKS.index(network.mode) > NETWORKS.index(most.mode):
        return False
    targets = [(host, port) for host in ("a.com", "x.a.com", "b.com", "com") for port in (80, 443)]
    return most.mode != "proxy" or all(
        is_allowed(most.hosts, *target) for target in targets if is_allowed(network.hosts, *target)
    )


@given(profiles("asked"), profiles("most"), PATHS)
def test_profile_is_narrowed_at_every_path(
    own: PermissionProfile, ceiling: PermissionProfile, path: bytes
) -> None:
    """Without roots, at every path the lower level of profile and ceiling holds, no lower one."""
    got = confined(SandboxIntent("asked"), ceiling, own, place=Place(b"/", HOME))
    alone = confined(SandboxIntent("asked"), FULL, own, place=Place(b"/", HOME))
    expected = min(level_of(alone, path), most_of(ceiling, path))
    if got.read == "minimal" and not is_within(path, (*got.readable, *got.writable, *got.denied)):
        expected = min(expected, Level.UNSEEN)
    assert level_of(got, path) == expected or {level_of(got, path), expected} == {Level.DENY, Level.UNSEEN}


@given(profiles("asked"), PATHS, PATHS)
def test_symlinks_are_bounded_by_the_ceiling(own: PermissionProfile, root: bytes, path: bytes) -> None:
    """What is writable by name lies within the bounds that hold again once links are resolved."""
    ceiling = replace(READ_ONLY, name="most", workspaces=(b"/a", b"/b/c"), denied=())
    try:
        got = confined(SandboxIntent("asked", (root,)), ceiling, own)
    except (InvalidRequest, PermissionRefused):
        return
    assert got.write_within is not None
    assert all(is_within(one, got.write_within) for one in got.writable)
    assert all(is_within(one, (b"/a", b"/b/c")) for one in got.write_within)


def test_minimal_ceiling_bounds_what_is_read() -> None:
    """Where a server shows little, a folder that a client names is read only within what it shows."""
    ceiling = replace(READ_ONLY, name="most", read="minimal", readable=(b"/data",), denied=())
    got = confined(SandboxIntent("read-only", (b"/data/sets",)), ceiling)
    assert got.read == "minimal"
    assert (got.readable, got.read_within) == ((b"/data", b"/data/sets"), (b"/data",))
    with pytest.raises(PermissionRefused) as caught:
        asked(SandboxIntent("read-only", (b"/srv",)), ceiling)
    assert caught.value.reason == "root_not_permitted"


def test_full_access_is_not_confined() -> None:
    """On a user's own server nothing is confined that nobody asked to confine."""
    assert asked(None) is None
    assert asked(SandboxIntent("full-access", (b"/src",), "host")) is None


@pytest.mark.parametrize(
    "intent",
    [
        SandboxIntent("full-access", network="none"),
        SandboxIntent("full-access", allowed_hosts=()),
        SandboxIntent("", (b"/src",)),
    ],
)
def test_full_access_cannot_be_confined_a_little(intent: SandboxIntent) -> None:
    """What full access cannot keep it does not promise, also where it is what nobody has named."""
    with pytest.raises(InvalidRequest, match=r"confines nothing|need a sandbox") as caught:
        asked(intent)
    assert caught.value.reason == "not_confined"


def test_full_access_under_a_ceiling_is_refused() -> None:
    """Who asks for no confinement is told that there is one, rather than confined by surprise."""
    with pytest.raises(PermissionRefused, match="confines every command") as caught:
        asked(SandboxIntent("full-access"), WORKSPACE)
    assert caught.value.reason == "profile_not_permitted"


def test_default_is_the_ceiling() -> None:
    """A request that names no profile gets the server's."""
    got = confined(None, READ_ONLY)
    assert (got.profile, got.writable, got.network.mode) == ("read-only", (), "none")


def test_wider_profile_is_narrowed() -> None:
    """A profile that a server does not allow whole is given as far as it does."""
    wide = replace(WORKSPACE, name="wide", network=Network("internet"), protect_git="none")
    got = confined(SandboxIntent("wide"), replace(WORKSPACE, network=Network("proxy", ("a.com",))), wide)
    assert (got.profile, got.network, got.protect_git) == ("wide", Network("proxy", ("a.com",)), "all")


def test_working_directory_is_the_root_by_default() -> None:
    """Without roots a command may write to where it runs."""
    assert confined(SandboxIntent("workspace-write")).writable == (b"/src/x",)


@pytest.mark.parametrize("cwd", [b"/", b"/home", HOME, b"/home/u/", b"relative", b"/a\0b", b"/home/u/.ssh"])
def test_wide_working_directory_is_no_root(cwd: bytes) -> None:
    """Nobody who stands in / or in the home means to lend all of it; nor is what is denied lent."""
    assert confined(SandboxIntent("workspace-write"), place=Place(cwd, HOME)).writable == ()


def test_working_directory_outside_the_ceiling_is_no_root() -> None:
    """A working directory that may not be written to is no error: the client named no root."""
    assert confined(None, replace(WORKSPACE, workspaces=(b"/lab",))).writable == ()


def test_what_lies_in_a_temporary_folder_is_shown_where_it_is_named() -> None:
    """All of the host is read, but for folders of which a command has its own."""
    assert confined(SandboxIntent("read-only", (b"/tmp/w", b"/srv/w"))).readable == (b"/tmp/w",)


def test_read_only_shows_roots_without_writing() -> None:
    """The same roots can be named to a profile that writes nothing."""
    minimal = replace(READ_ONLY, name="few", read="minimal", denied=())
    got = confined(SandboxIntent("few", (b"/src/x",)), FULL, minimal)
    assert (got.readable, got.writable) == ((b"/src/x",), ())


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        (b"src", "bad_path"),
        (b"", "bad_path"),
        (b"/src\0--bind", "bad_path"),
        (b"/", "bad_path"),
        (b"//", "bad_path"),
        (b"/src/..", "bad_path"),
        (b"/home/u/.ssh", "root_denied"),
        (b"/home/u/x/../.ssh/deeper", "root_denied"),
    ],
)
def test_bad_root_is_refused(root: bytes, reason: str) -> None:
    """A root that is no folder of its own, or is denied, is refused by name."""
    with pytest.raises(InvalidRequest) as caught:
        asked(SandboxIntent("workspace-write", (root,)))
    assert caught.value.reason == reason


def test_too_many_roots_are_refused() -> None:
    """Each root is a mount, and they are bounded."""
    roots = tuple(b"/r/%d" % number for number in range(MOST_ROOTS + 1))
    with pytest.raises(InvalidRequest) as caught:
        asked(SandboxIntent("workspace-write", roots))
    assert caught.value.reason == "too_many_roots"


def test_root_beyond_the_ceiling_is_refused() -> None:
    """A root that a client names is given or refused, never dropped."""
    ceiling = replace(WORKSPACE, workspaces=(b"/lab",))
    assert confined(SandboxIntent("workspace-write", (b"/lab/x/",)), ceiling).writable == (b"/lab/x",)
    for outside in (b"/labs", b"/lab/../etc"):
        with pytest.raises(PermissionRefused) as caught:
            asked(SandboxIntent("workspace-write", (outside,)), ceiling)
        assert caught.value.reason == "root_not_permitted"


def test_unknown_profile_names_those_there_are() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(InvalidRequest, match="there are read-only, workspace-write, full-access") as caught:
        asked(SandboxIntent("workspace"))
    assert caught.value.reason == "unknown_profile"


def test_hosts_alone_mean_the_proxy() -> None:
    """Who names hosts wants the proxy, and no other network has them."""
    assert confined(SandboxIntent("read-only", allowed_hosts=("Index.Example",))).network == Network(
        "proxy", ("index.example",)
    )
    with pytest.raises(InvalidRequest) as caught:
        asked(SandboxIntent("read-only", network="host", allowed_hosts=("index.example",)))
    assert caught.value.reason == "bad_network"
    with pytest.raises(InvalidRequest) as caught:
        asked(SandboxIntent("read-only", allowed_hosts=("http://index.example",)))
    assert caught.value.reason == "bad_host"


def test_hosts_choose_from_a_list() -> None:
    """Of the hosts that a profile lists a client takes some; one that is not listed is refused by name."""
    listed = replace(WORKSPACE, name="lab", network=Network("proxy", ("a.com", "*.b.com")))
    for network in (None, "proxy"):
        wish = SandboxIntent("lab", network=network, allowed_hosts=("x.b.com:443", "A.com"))
        assert confined(wish, FULL, listed).network == Network("proxy", ("x.b.com:443", "a.com"))
        assert confined(SandboxIntent("lab", network=network), FULL, listed).network == listed.network
    for host in ("c.com", "b.com", "a.com:8080"):
        with pytest.raises(
            PermissionRefused, match=r"lab allows \(a\.com, \*\.b\.com\): .* of a share"
        ) as caught:
            asked(SandboxIntent("lab", allowed_hosts=("a.com", host)), FULL, listed)
        assert (caught.value.reason, caught.value.details["host"]) == ("host_not_permitted", host)
        with pytest.raises(PermissionRefused):
            asked(SandboxIntent("workspace-write", allowed_hosts=(host,)), listed)
    assert confined(SandboxIntent("lab", allowed_hosts=()), FULL, listed).network == Network("proxy")


@given(st.sampled_from(NETWORKS), st.sampled_from(NETWORKS), HOSTS, HOSTS)
def test_narrower_network_commutes(
    left: NetworkMode, right: NetworkMode, ours: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    """It does not matter which of the two is the server's."""
    one = Network(left, ours if left == "proxy" else ())
    other = Network(right, theirs if right == "proxy" else ())
    first, second = narrower_network(one, other), narrower_network(other, one)
    assert (first.mode, {*first.hosts}) == (second.mode, {*second.hosts})


def test_home_that_cannot_be_seen_is_elsewhere() -> None:
    """Programs get a HOME that exists: the real one where it is shown, else the sandbox's own /tmp."""
    minimal = replace(READ_ONLY, name="few", read="minimal", denied=())
    shown = replace(minimal, name="shown", readable=(HOME,))
    own = replace(minimal, name="own", env_policy=EnvPolicy(set={b"HOME": b"/x"}))
    homes = []
    for profile in (READ_ONLY, minimal, shown, own):
        policy = confined(SandboxIntent(profile.name), FULL, profile).env_policy
        assert policy is not None
        homes.append(policy.set.get(b"HOME"))
    assert homes == [None, b"/tmp", None, b"/x"]


def test_variables_of_the_server_itself_are_shaped_by_the_ceiling() -> None:
    """The variables of a server that confines are not a client's to take; of one that does not, they are."""
    assert confined(SandboxIntent("read-only"), WORKSPACE).base_env_policies == (WORKSPACE.env_policy,)
    assert confined(SandboxIntent("read-only"), FULL).base_env_policies == ()


def test_deepest_place_decides() -> None:
    """A place inside of another has its own level, and what is strictest holds where two are the same."""
    reach = Reach(Level.READ).adding((b"/a", b"/a/b/c"), Level.WRITE).adding((b"/a/b", b"/a"), Level.DENY)
    assert [reach.at(path) for path in (b"/", b"/a", b"/a/x", b"/a/b/x", b"/a/b/c/d")] == [
        *(Level.READ, Level.DENY, Level.DENY, Level.DENY, Level.WRITE)
    ]


def test_nothing_bounds_full_access() -> None:
    """Under a ceiling that does not confine a client may name whatever it can name."""
    assert bounds_of(FULL).at(b"/etc") is Level.WRITE
