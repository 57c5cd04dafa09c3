"""The form of `environments.toml`: what a table means, and what is said of a wrong one."""

import json

import pytest

from execzmq.environments.file import FILE_BYTES, MOST_ENVIRONMENTS, parse_environments
from execzmq.environments.model import ConnectionFile, Dask, Environment, InPython, OwnServer, Ssh
from execzmq.errors import InvalidRequest

FILE = "/p/.execzmq/environments.toml"

GOOD = """
[here]
local = true

[build]
server = "build-2"

[desk]
file = "../files/desk.json"

[laptop]
file = "~/laptop.json"

[box]
ssh = "anna@box.example.org"

[far]
ssh = "far"
port = 2222
command = "~/venv/bin/execzmq"
name = "train"

[cluster]
dask = "tcp://scheduler:8786"
"""


def _parse(text: str) -> dict[str, Environment]:
    return parse_environments(text.encode(), FILE, "/home/u")


def test_each_kind_of_environment() -> None:
    """A table's first word says of which kind it is; paths are relative to the file, or to the home."""
    found = _parse(GOOD)
    assert {name: one.place for name, one in found.items()} == {
        "here": InPython(),
        "build": OwnServer("build-2"),
        "desk": ConnectionFile("/p/files/desk.json"),
        "laptop": ConnectionFile("/home/u/laptop.json"),
        "box": Ssh("anna@box.example.org", None, "execzmq", "default"),
        "far": Ssh("far", 2222, "~/venv/bin/execzmq", "train"),
        "cluster": Dask("tcp://scheduler:8786"),
    }
    assert [one.kind for one in found.values()] == ["local", "server", "file", "file", "ssh", "ssh", "dask"]
    assert found["far"].where == "far:2222 (train)"
    assert {one.file for one in found.values()} == {FILE}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "'x' stands outside of a table"),
        ("[a", "not TOML"),
        ("[a]\nx = " + "[" * 5000, "nested too deep"),
        ("[a]\nssh = 'h'\n[a]", "not TOML"),
        ("['a b']\nssh = 'h'", "name is 1 to 64"),
        ("[default]\nssh = 'h'", r"\[default\] is built in"),
        ("[local]\nserver = 'x'", r"\[local\] is built in"),
        ("[a]", r"\[a\] needs one of local, server, file, ssh, dask, and has none"),
        ("[a]\nssh = 'h'\nfile = 'f'", r"\[a\] needs one of .*, and has file and ssh"),
        ("[a]\nshh = 'h'", r"\[a\] has no field 'shh': did you mean ssh\?"),
        ("[a]\nssh = 'h'\nzzzz = 1", r"\[a\] has no field 'zzzz': there are local, "),
        ("[a]\nfile = 'h'\nport = 1", r"\[a\] port: it goes with ssh, not with file"),
        ("[a]\nlocal = false", r"\[a\] local: it is true"),
        ("[a]\nserver = 'x y'", r"\[a\] server: 'x y' is no name"),
        ("[a]\nserver = 3", r"\[a\] server: it is a text of one line"),
        ("[a]\nfile = ''", r"\[a\] file: it is a text of one line"),
        ("[a]\nssh = 'h'\nport = 0", r"\[a\] port: it is a number"),
        ("[a]\nssh = 'h'\nport = true", r"\[a\] port: it is a number"),
        ("[a]\nssh = 'h'\nport = '22'", r"\[a\] port: it is a number"),
        ("[a]\nssh = 'h'\nname = '../x'", r"\[a\] name: '../x' is no name"),
        ('[a]\nssh = "h"\ncommand = "x\\ny"', r"\[a\] command: it is a text of one line"),
    ],
)
def test_wrong_file_says_what_and_where(text: str, said: str) -> None:
    """An error names the file, the environment, the field and what helps."""
    with pytest.raises(InvalidRequest, match=said) as raised:
        _parse(text)
    assert raised.value.message.startswith(f"{FILE}: ")
    assert (raised.value.reason, raised.value.file) == ("bad_environments_file", FILE)


@pytest.mark.parametrize(
    "destination",
    ["-oProxyCommand=x", "a b", "a;b", "ssh://h", "u@-h", "$(x)", "h\n", "@h", "u@", "-u@h", "h`x`", "'h'"],
)
def test_destination_that_ssh_would_take_for_something_else(destination: str) -> None:
    """Nothing that a project's file says becomes an option of ssh or a line for a shell here."""
    with pytest.raises(InvalidRequest, match="ssh: "):
        _parse(f"[a]\nssh = {json.dumps(destination)}")


@pytest.mark.parametrize("destination", ["h", "u.v-w@h.example", "::1", "u@fe80::1%eth0", "10.0.0.1", "a_b"])
def test_destinations(destination: str) -> None:
    """Names of ssh's own configuration, addresses and users are taken as they are."""
    assert _parse(f"[a]\nssh = '{destination}'")["a"].place == Ssh(destination)


def test_bounds() -> None:
    """A file has a size and a number of environments."""
    with pytest.raises(InvalidRequest, match="larger than"):
        parse_environments(b"#" * (FILE_BYTES + 1), FILE, "/")
    with pytest.raises(InvalidRequest, match="the most is"):
        _parse("".join(f"[a{n}]\nlocal = true\n" for n in range(MOST_ENVIRONMENTS + 1)))
    with pytest.raises(InvalidRequest, match="UTF-8"):
        parse_environments(b"# \xff", FILE, "/")
