"""The TOML file of a user's own profiles: what its fields mean, and what is told of a wrong one."""

import re
import time

import pytest

from execzmq.errors import InvalidRequest
from execzmq.sandbox.model import Network
from execzmq.sandbox.profile_file import ProfileTable, parse_profiles
from execzmq.sandbox.profiles import PROTECTED_NAMES, TEMPORARY, PermissionProfile, builtin_profiles
from execzmq.settings import GIB, MIB
from execzmq.types.params import Limits
from execzmq.types.sizes import parse_count, parse_size
from tests.examples import blocks
from tests.sources import ROOT
from tests.support import ms

WHOLE = """
[lab]
extends = "workspace-write"
description = "trainings"
readable = ["minimal", "~/data", "/opt/cuda"]
writable = ["/scratch//lab"]
workspaces = ["~/src"]
denied = ["~/private"]
lift_denied = ["~/.npmrc"]
protected = [".github"]
lift_protected = [".idea"]
protect_git = "hooks-config"
allowed_hosts = ["Index.Example:443", "*.pythonhosted.example"]
tmp = "512M"
require_limits = true
allow_debug = true

[lab.limits]
memory = "8G"
cpu = 3600
output = "1M"

[lab.env]
inherit = "all"
exclude = ["AWS_*"]
set = { OMP_NUM_THREADS = "4" }
"""


def read(text: str) -> dict[str, PermissionProfile]:
    return parse_profiles(text, builtin_profiles(b"/home/u"), b"/home/u", "profiles.toml")


def test_fields_of_a_profile() -> None:
    """Each field says what it says; lists of what is forbidden add to the inherited ones."""
    lab = read(WHOLE)["lab"]
    assert (lab.description, lab.read) == ("trainings", "minimal")
    assert lab.readable == (b"/home/u/data", b"/opt/cuda")
    assert (lab.writable, lab.workspaces) == ((b"/scratch/lab",), (b"/home/u/src",))
    assert b"/home/u/private" in lab.denied
    assert b"/home/u/.ssh" in lab.denied
    assert b"/home/u/.npmrc" not in lab.denied
    assert {*lab.protected} == {*PROTECTED_NAMES, ".github"} - {".idea"}
    assert (lab.protect_git, lab.require_limits, lab.allow_debug) == ("hooks-config", True, True)
    assert lab.network == Network("proxy", ("index.example:443", "*.pythonhosted.example"))
    assert (lab.tmp_bytes, lab.output_bytes) == (512 * MIB, MIB)
    assert lab.limits == Limits(memory=8 * GIB, cpu=3600)
    assert lab.env_policy.inherit == "all"
    assert {"AWS_*", "*TOKEN*"} <= {*lab.env_policy.exclude}
    assert dict(lab.env_policy.set) == {**TEMPORARY, b"OMP_NUM_THREADS": b"4"}


def test_key_of_many_parts_is_refused_before_it_is_read() -> None:
    """Reading it would take the square of its parts: the server would stand still for twenty seconds."""
    begun = time.perf_counter()
    with pytest.raises(InvalidRequest, match=r"more than 8 parts, no field is nested so deep: a\.a\.a"):
        read("a." * 32_000 + "a = 1")
    assert time.perf_counter() - begun < ms(1000)
    assert read("[a]\ndescription = 'a.b.c.d.e.f.g.h.i.j'\nenv.set.A = '1'\n")["a"].name == "a"


def test_without_a_word_a_profile_is_read_only() -> None:
    """What a table does not say is inherited, of read-only unless it says of which."""
    profiles = read("[a]\n[b]\nextends = 'c'\n[c]\nextends = 'workspace-write'\nnetwork = 'internet'\n")
    assert [*profiles] == ["read-only", "workspace-write", "full-access", "a", "b", "c"]
    assert (profiles["a"].workspaces, profiles["a"].network.mode) == ((), "none")
    assert (profiles["b"].workspaces, profiles["b"].network.mode) == ("any", "internet")
    assert profiles["b"].description == ""


@pytest.mark.parametrize(
    ("value", "read_mode", "readable"),
    [
        ('"host"', "host", ()),
        ('"minimal"', "minimal", ()),
        ('["/data"]', "minimal", (b"/data",)),
        ('["host", "~/src/vendor"]', "host", (b"/home/u/src/vendor",)),
    ],
)
def test_readable(value: str, read_mode: str, readable: tuple[bytes, ...]) -> None:
    """A list of folders is read besides the system, or besides the host where it says so."""
    profile = read(f"[a]\nreadable = {value}")["a"]
    assert (profile.read, profile.readable) == (read_mode, readable)


def test_another_network_has_no_hosts() -> None:
    """Hosts that are inherited go with the network that they belong to."""
    text = "[a]\nallowed_hosts = ['a.com']\n[b]\nextends = 'a'\nnetwork = 'none'\n[c]\nextends = 'a'\n"
    profiles = read(text)
    assert (profiles["b"].network, profiles["c"].network) == (Network(), Network("proxy", ("a.com",)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a]\nnetwrk = 'none'", r"\[a\] has no field 'netwrk': did you mean network\?"),
        ("[a]\nzzz = 1", r"\[a\] has no field 'zzz': there are extends, "),
        ("[a.limits]\nmemry = 1", r"\[a\] has no field 'limits.memry': did you mean memory\?"),
        ("[a.limits]\nmemory = '1X'", r"\[a\] limits.memory: '1X' is no size: write bytes"),
        (
            "[a.limits]\nprocesses = 0",
            r"\[a\] limits.processes: with processes=0 no command can run: ask for",
        ),
        ("[a.limits]\ncpu = -1", r"\[a\] limits.cpu: "),
        ("[a]\ntmp = 1.5", r"\[a\] tmp: '1.5' is no size: write bytes"),
        ("[a.limits]\nmemory = '1.5G'", r"\[a\] limits.memory: '1.5G' is no size: write 1536M"),
        ("[a]\nallowed_hosts = 'x.example'", r"\[a\] allowed_hosts: it is a list: write \[\"x.example\"\]"),
        ("[a]\nlimits = '1G'", r"\[a\] limits: it is a table, of names and values"),
        ("[a.env]\nset = 'A=1'", r"\[a\] env.set: it is a table, of names and values"),
        ("[a]\nnetwork = 'lan'", r"\[a\] network: Input should be 'none', 'proxy', 'internet' or 'host'"),
        ("[a]\nnetwork = 'host'\nallowed_hosts = []", r"\[a\] allowed_hosts: they need network = \"proxy\""),
        (
            "[a]\nallowed_hosts = ['https://me:pw@x.example:8443/y']",
            r"\[a\] allowed_hosts: .*: a URL is no host, write its host alone: x.example:8443\Z",
        ),
        ("[a]\nallowed_hosts = ['a b']", r"\[a\] allowed_hosts: no pattern of hosts: 'a b' is not a host"),
        ("[a]\nreadable = 'all'", r"\[a\] readable: 'all' is none of \"host\", \"minimal\", and no absolute"),
        ("[a]\nworkspaces = ['all']", r"\[a\] workspaces: 'all' is none of \"any\", and no absolute path"),
        ("[a]\nwritable = ['src']", r"\[a\] writable: 'src' is relative: give an absolute path"),
        ("[a]\nwritable = ['/']", r"\[a\] writable: must be a folder below /"),
        ("[a]\ndenied = ['/a\\u0000b']".replace("'", '"'), r"\[a\] denied: .* has a NUL in it"),
        ("[a]\nreadable = ['~other']", r"\[a\] readable: '~other' is relative"),
        ("[a]\nprotected = ['x/y']", r"\[a\] protected: 'x/y' is no name of a file"),
        ("[a]\nprotected = ['.git']", r"\[a\] protected: .git has a field of its own: set protect_git"),
        ("[a]\nlift_denied = ['~/x']", r"\[a\] lift_denied: nothing that it extends has '/home/u/x'"),
        ("[a]\nlift_protected = ['x']", r"\[a\] lift_protected: nothing that it extends has 'x'"),
        ("[a.env]\nset = { 'A=B' = 'x' }", r"\[a\] env.set: 'A=B' cannot be a variable"),
        ("[a.env.set]\nA = 1", r"\[a\] env.set.A: Input should be a valid string"),
        (
            "[a]\nextends = 'b'\n[c]",
            r"\[a\] extends 'b', and there are only read-only, workspace-write, c\Z",
        ),
        ("[a]\nextends = 'full-access'", r"\[a\] cannot extend full-access, which confines nothing"),
        ("[a]\nextends = 'b'\n[b]\nextends = 'a'", r"\[a\] extends itself: a extends b extends a"),
        ("[read-only]\n", r"\[read-only\] is built in: take another name"),
        ("['a b']\n", r"\[a b\]: a profile's name is 1 to 64 of"),
        ("extends = 'read-only'", r"'extends' stands outside of a table: write it below \[NAME\]"),
        ("[a", "it is not TOML: "),
    ],
)
def test_wrong_file_is_told(text: str, told: str) -> None:
    """What is wrong is told with the file, the profile, the field and what helps, in one line."""
    with pytest.raises(InvalidRequest, match=rf"\Aprofiles.toml(, line \d+)?: {told}") as caught:
        read(text)
    assert (caught.value.reason, caught.value.file) == ("bad_profile_file", "profiles.toml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[a]\n\nnetwrk = 'none'", 3),
        ("[b]\nnetwork = 'none'\n[a]\nnetwork = 'lan'", 4),
        ("[a]\n[a.limits]\nmemory = '1X'", 3),
        ("[a]\nlimits = { memory = '1X' }", 2),
        ("[a]\nlimits.memory = '1X'", 2),
        ("[a]\nwritable = [\n  '/x',\n  'src',\n]", 2),
        ("[a]\n[b]\ndescription = 'x'\nextends = 'c'", 4),
        ("[a]\n# extends\n['full-access']", 3),
        ("x = 1", 1),
        ("[a]\nnetwork = none", 2),
        ("[a", 1),
        ("[a]\n" * 2, 2),
    ],
)
def test_line_of_what_is_wrong_is_told(text: str, line: int | None) -> None:
    """Who has to mend the file is told where."""
    with pytest.raises(InvalidRequest, match=rf"\Aprofiles.toml, line {line}: ") as caught:
        read(text)
    assert caught.value.line == line


def test_example_of_the_how_to_is_read() -> None:
    """The file that the page on profiles shows is one, and means what the page says."""
    page = (ROOT / "docs/howto/choose-a-profile.md").read_text()
    (block,) = (block for block in blocks(page) if block.language == "toml")
    profiles = read(block.text)
    assert [*profiles][3:] == ["commits", "python", "stranger", "lab"]
    assert all(profile.description for profile in profiles.values())
    assert profiles["python"].protect_git == "hooks-config"
    assert (profiles["stranger"].read, profiles["stranger"].workspaces) == ("minimal", (b"/home/u/sandbox",))
    assert b"/home/u/.config/gcloud" not in profiles["lab"].denied


def test_every_field_is_in_the_how_to() -> None:
    """The table of fields has each, and no other."""
    page = (ROOT / "docs/howto/choose-a-profile.md").read_text()
    table = page.partition("## The fields")[2].partition("\nSizes are")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*ProfileTable.model_fields]


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1024", 1024), ("1k", 1024), ("512M", 512 * MIB), ("2G", 2 * GIB), ("1T", 1 << 40)],
)
def test_size(text: str, size: int) -> None:
    """Units are powers of 1,024."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1.5G", "write 1536M"),
        ("2 GB", "write 2G"),
        ("64KiB", "write 64K"),
        ("1e3", "write bytes, or a whole number"),
        ("1.5", "write bytes, or a whole number"),
        ("9" * 18 + "T", "more than any machine has"),
    ],
)
def test_how_a_size_is_written_is_told(text: str, told: str) -> None:
    """What is meant is told where that is plain."""
    with pytest.raises(ValueError, match=f"is no size: .*{told}"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "1GB", "1 G", "1_0", "²", "9" * 19])
def test_what_is_no_size_or_count(text: str) -> None:
    """Anything else is refused rather than guessed at."""
    for parse in (parse_size, parse_count):
        with pytest.raises(ValueError, match="is no "):
            parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "[a]\nwritable = " + "[" * 5000,
        "[a]\ntmp = " + "1" * 5000,
        "\n".join(f'[p{number}]\nextends = "p{number + 1}"' for number in range(300)) + "\n[p300]",
    ],
    ids=["depth", "digits", "number"],
)
def test_what_is_too_much_is_refused_as_any_other_fault(text: str) -> None:
    """A file that no reader can take is the file's fault, and told so."""
    with pytest.raises(InvalidRequest) as caught:
        read(text)
    assert caught.value.details["reason"] == "bad_profile_file"
