"""What macOS is told of a sandbox, judged as text: it cannot be run here."""

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.sandbox import seatbelt
from execzmq.sandbox.model import Access, Mount, Network, Permissions, Readable, View
from execzmq.types.params import Limits, NetworkMode

GOLDEN = Path(__file__).parent / "golden"
TMP = b"/private/tmp/execzmq-1"

Rule = list["Rule | str"]


def permissions(read: Readable = "host", mode: NetworkMode = "none") -> Permissions:
    """Return permissions of which only these matter here."""
    network = Network(mode)
    return Permissions("workspace-write", read, (), (), (), (), "all", network, 1 << 30, Limits())


def view(*mounts: tuple[bytes, Access], missing: tuple[bytes, ...] = ()) -> View:
    """Return a view of places, outer before inner."""
    places = [Mount(path, access, True, is_missing=path in missing) for path, access in mounts]
    return View(tuple(places), tuple(place.path for place in places if place.access == "write"))


WORK = view(
    *((b"/Homes/me", "deny"), (b"/Homes/me/data", "read"), (b"/src", "write"), (b"/src/.git", "read")),
    *((b"/src/deep/in/.codex", "read"), (b"/src/inner", "read"), (b"/src/inner/out", "write")),
    *((b"/src/inner/out/.git", "read"), (b"/src/run", "deny")),
    missing=(b"/src/deep/in/.codex",),
)


def parsed(text: str) -> list[Rule]:
    """Return the rules of a profile as nested lists; fails where it is not whole."""
    stack: list[Rule] = [[]]
    for token in re.findall(
        r'#"[^"]*"|"[^"]*"|[()]|[^\s()"]+', re.sub(r"^;.*$", "", text, flags=re.MULTILINE)
    ):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    (rules,) = stack
    assert all(isinstance(rule, list) for rule in rules)
    return rules  # type: ignore[return-value]  # as the line above says


def allows(profile: seatbelt.Profile, operation: str, path: bytes) -> bool:
    """Tell whether a profile allows an operation on a path: what the last rule that matches says."""
    answer = False
    for action, *rest in parsed(profile.text):
        operations = [one for one in rest if isinstance(one, str)]
        filters = [one for one in rest if isinstance(one, list)]
        is_named = any(fnmatch(operation, one) for one in operations)
        is_met = not filters or any(_matches(one, path, profile.parameters) for one in filters)
        if is_named and is_met and action in ("allow", "deny"):
            answer = action == "allow"
    return answer


def _matches(rule: "Rule | str", path: bytes, parameters: dict[str, bytes]) -> bool:
    assert isinstance(rule, list)
    kind, *rest = rule
    if kind == "require-all":
        return all(_matches(one, path, parameters) for one in rest)
    if kind == "require-not":
        return not _matches(rest[0], path, parameters)
    value = rest[0]
    if isinstance(value, list):
        assert value[0] == "param"
        place = parameters[str(value[1]).strip('"')]
    else:
        place = value.strip('#"').encode()
    if kind == "literal":
        return path == place
    if kind == "subpath":  # below it only: the worse of what is said of it
        return path.startswith(place.rstrip(b"/") + b"/")
    return kind == "regex" and bool(re.search(place, path))


@pytest.mark.parametrize("read", get_args(Readable))
@pytest.mark.parametrize("mode", get_args(NetworkMode))
def test_text(read: Readable, mode: NetworkMode) -> None:
    """The text is the one that was judged: section by section in this order."""
    found = seatbelt.profile(permissions(read, mode), WORK, tmp=TMP, proxy_port=3128)
    given = "".join(f"; {name}={path.decode()}\n" for name, path in found.parameters.items())
    golden = GOLDEN / f"{read}-{mode}.sb"
    assert f"{found.text}\n{given}" == golden.read_text()


def test_command() -> None:
    """Paths are handed over beside the text, and the command's words after `--`."""
    found = seatbelt.profile(permissions(), view((b"/src", "write")), tmp=TMP)
    assert seatbelt.command(found, [b"-p", b"x"]) == [
        *(b"/usr/bin/sandbox-exec", b"-p", found.text.encode()),
        *(b"-DTMP_0=/private/tmp/execzmq-1", b"-DWRITABLE_ROOT_0=/src", b"--", b"-p", b"x"),
    ]


NAME = st.binary(min_size=1, max_size=6).filter(lambda name: b"/" not in name and b"\0" not in name)
PATH = st.lists(NAME, min_size=1, max_size=4).map(lambda names: b"/" + b"/".join(names))
PLACES = st.dictionaries(PATH, st.sampled_from(get_args(Access)), max_size=6)


@given(PLACES, st.sampled_from(get_args(Readable)), st.sampled_from(get_args(NetworkMode)))
def test_no_path_is_part_of_the_text(places: dict[bytes, Access], read: Readable, mode: NetworkMode) -> None:
    """The text depends on how places lie to each other alone: what they are called never reaches it."""
    mounts = sorted(places.items(), key=lambda place: (place[0].count(b"/"), place[0]))
    found = seatbelt.profile(permissions(read, mode), view(*mounts), tmp=TMP, proxy_port=1)
    assert found.text.isascii()
    parsed(found.text)
    unnamed = {path for path, access in mounts if access == "read"}  # it may need no rule
    assert {*places, TMP} <= {*found.parameters.values()} | unnamed
    assert set(re.findall(r'param "(\w+)"', found.text)) == set(found.parameters)


@pytest.mark.parametrize("name", [b'")(allow default)("', b"a\nb", b"(param)", b"\xff", b";", b'#"x"'])
def test_names_that_would_be_rules(name: bytes) -> None:
    """A name that looks like a rule changes nothing."""
    plain = seatbelt.profile(permissions(), view((b"/src", "write"), (b"/src/a", "deny")), tmp=TMP)
    odd = seatbelt.profile(permissions(), view((b"/src", "write"), (b"/src/" + name, "deny")), tmp=TMP)
    assert odd.text == plain.text
    assert b"/src/" + name in odd.parameters.values()


WRITING = ("file-write-create", "file-write-data", "file-write-unlink")


@pytest.mark.parametrize("read", get_args(Readable))
@pytest.mark.parametrize(
    ("path", "readable", "writable"),
    [
        *((b"/src/file", True, True), (b"/src/inner/out/file", True, True), (TMP + b"/x", True, True)),
        *((b"/src/.git", True, False), (b"/src/.git/hooks/pre-commit", True, False)),
        *((b"/src/deep/in/.codex", True, False), (b"/src/deep/in/.codex/x", True, False)),
        *((b"/src/inner/file", True, False), (b"/src/inner/out/.git/config", True, False)),
        *((b"/src/run", False, False), (b"/src/run/connection.json", False, False)),
        *((b"/Homes/me/.ssh/id", False, False), (b"/Homes/me/data/file", True, False)),
        *((b"/usr/bin/true", True, False), (b"/src.other/file", None, False)),
    ],
)
def test_what_is_allowed(path: bytes, readable: bool | None, writable: bool, read: Readable) -> None:
    """Roots are written, kept and denied places are not; the inner place wins (escapes 1, 7, 10, 25, 26)."""
    found = seatbelt.profile(permissions(read), WORK, tmp=TMP)
    expected = readable if readable is not None else read == "host"
    assert allows(found, "file-read-data", path) is expected
    assert {allows(found, operation, path) for operation in WRITING} == {writable}


@pytest.mark.parametrize("path", [b"/src/deep", b"/src/deep/in", b"/src/inner", b"/src", b"/src/inner/out"])
def test_nothing_kept_is_moved_away(path: bytes) -> None:
    """No folder above a kept name can be renamed, for another to take its place (escape 8)."""
    found = seatbelt.profile(permissions(), WORK, tmp=TMP)
    assert not allows(found, "file-write-unlink", path)


@pytest.mark.parametrize(
    ("mode", "remotes"),
    [
        *(("none", []), ("proxy", ['allow "localhost:3128"'])),
        *(("internet", ['allow "*:*"', 'deny "localhost:*"']), ("host", ['allow "*:*"'])),
    ],
)
def test_network(mode: NetworkMode, remotes: list[str]) -> None:
    """Nothing, the proxy alone, all but this host, or all: never a unix socket but the resolver's."""
    text = seatbelt.profile(permissions(mode=mode), WORK, tmp=TMP, proxy_port=3128).text
    found = [f"{a} {p}" for a, p in re.findall(r'\((\w+) network-outbound \(remote ip ("[^"]*")', text)]
    assert found == remotes
    assert "network*" not in text
    assert "unix" not in text


def test_a_proxy_that_listens_nowhere() -> None:
    """Without its port nothing is reached."""
    assert "network" not in seatbelt.profile(permissions(mode="proxy"), WORK, tmp=TMP).text
