"""`environments`, and what `--on` makes of a name."""

import json
from pathlib import Path

import pytest

from execzmq.cli import options
from execzmq.environments import store
from tests.cli.shell import execzmq
from tests.servers import serving


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a project that the current folder is in."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".execzmq" / "environments.toml"
    file.parent.mkdir()
    file.write_text("[lab]\nssh = 'lab'\n[built]\nserver = 'b'\n[gone]\nfile = 'gone.json'\n")
    return file


def _own(text: str) -> None:
    path = store.user_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.slow
def test_projects_file_is_read_once_trusted(project: Path) -> None:
    """Before that it is named, with what to do; `trust` shows what is in it; `untrust` takes it back."""
    done = execzmq("environments")
    assert b"lab" not in done.stdout
    assert str(project).encode() in done.stderr
    assert b"`execzmq environments trust`" in done.stderr
    done = execzmq("run", "--on", "lab", "--", "true")
    assert (done.returncode, b"is not trusted" in done.stderr) == (125, True)
    done = execzmq("environments", "trust")
    assert done.stdout == b"lab: ssh lab (default)\nbuilt: server b\ngone: file %s\n" % (
        bytes(project.parent / "gone.json")
    )
    shown = json.loads(execzmq("environments", "--json").stdout)
    assert [(one["name"], one["kind"], one["state"]) for one in shown] == [
        ("default", "server", "none"),
        ("local", "local", "-"),
        ("lab", "ssh", "-"),
        ("built", "server", "none"),
        ("gone", "file", "none"),
    ]
    assert shown[2] | {"file": ""} == {
        "name": "lab",
        "kind": "ssh",
        "destination": "lab",
        "port": None,
        "command": "execzmq",
        "server": "default",
        "state": "-",
        "file": "",
    }
    assert shown[0]["file"] is None
    assert execzmq("environments", "untrust").returncode == 0
    assert b"lab" not in execzmq("environments", "list").stdout


@pytest.mark.slow
def test_named_server_is_started_at_first_use(project: Path, servers: None) -> None:
    """An environment may be a server of one's own with a name; those that only look do not start it."""
    execzmq("environments", "trust", str(project))
    done = execzmq("ps", "--on", "built")
    assert done.returncode == 125
    assert b"no b server runs" in done.stderr
    done = execzmq("run", "--on", "built", "--", "echo", "x")
    assert (done.stdout, done.returncode) == (b"x\n", 0)
    states = {one["name"]: one["state"] for one in json.loads(execzmq("environments", "--json").stdout)}
    assert states["built"] == "alive"
    assert execzmq("ps", "--on", "built").returncode == 0
    assert execzmq("shutdown", "--on", "built").returncode == 0


@pytest.mark.slow
def test_connection_file_by_name() -> None:
    """An environment may be a connection file, wherever it lies."""
    with serving("t") as server:
        _own(f"[desk]\nfile = '{server.state}/connection.json'")
        assert execzmq("run", "--on", "desk", "--", "echo", "x").stdout == b"x\n"
        assert b"alive" in execzmq("environments").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("run", "--on", "cluster", "--", "true"),
            b"no scheduler of a Dask cluster answers at tcp://127.0.0.1:1",
        ),
        (("run", "--on", "local", "--", "true"), b"execzmq.local()"),
        (("ps", "--on", "nobody"), b"`execzmq environments` and `execzmq connections` list"),
        (("ps", "--on", "clustre"), b"did you mean cluster?"),
        (("run", "--resources", "gpu=1", "--", "true"), b"resources are counted on a cluster alone"),
        (("run", "--on", "cluster", "--resources", "gpu", "--", "true"), b"'gpu' is not NAME=N"),
        (("start", "--on", "cluster", "--resources", "m=2GB", "--", "true"), b"write 2G"),
        (("environments", "list", "x"), b"list takes no file"),
        (("environments", "trust", "--json"), b"--json goes with list"),
        (("environments", "trust"), b"name the file"),
        (("environments", "trust", "no/such"), b"cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_is_said(words: tuple[str, ...], said: bytes, home_root: Path) -> None:
    """In one line, with what to do."""
    _own("[cluster]\ndask = 'tcp://127.0.0.1:1'")
    done = execzmq(*words, cwd=home_root)
    assert done.returncode == 125
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_wrong_file_is_said_wherever_a_name_is_looked_up() -> None:
    """With the file, the environment and the field; the default server needs no file."""
    _own("[box]\nssh = 'x'\nprot = 1")
    for words in (("ps", "--on", "box"), ("environments",)):
        done = execzmq(*words)
        assert done.returncode == 125
        assert f"{store.user_file()}: [box] has no field 'prot': did you mean port?".encode() in done.stderr
    assert b"environments.toml" not in execzmq("ps").stderr


def test_names_complete() -> None:
    """Environments are offered for `--on`, but for the one that only Python has."""
    _own("[box]\nssh = 'x'")
    found = options.complete_servers(None, None, "")  # type: ignore[arg-type]  # it looks at neither
    assert [one.value for one in found] == ["box", "default"]
