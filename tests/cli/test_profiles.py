"""`profiles`, `--explain`, and the options that say what a command may do."""

import json
import os
import re
from pathlib import Path

import pytest

from execzmq.cli import say
from tests.cli.shell import environ, execzmq

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]


def write_profiles(text: str) -> Path:
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "execzmq" / "profiles.toml"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_profiles_are_listed() -> None:
    """Built-in ones and the user's own, the default marked; `--json` has every field."""
    write_profiles("[lab]\nextends = 'workspace-write'\nwritable = ['/scratch']\nnetwork = 'internet'\n")
    listed = execzmq("profiles").stdout.decode().splitlines()
    assert [line.split()[0] for line in listed] == ["NAME", "read-only", "workspace-write", "*", "lab"]
    assert listed[4].split() == ["lab", "/scratch,", "its", "roots", "internet", "-"]
    found = {one["name"]: one for one in json.loads(execzmq("profiles", "--json").stdout)}
    assert found["full-access"] == {
        "name": "full-access",
        "description": found["full-access"]["description"],
        "is_default": True,
        "fields": {"confined": False},
    }
    assert found["lab"]["fields"]["writable"] == ["/scratch"]


def test_broken_file_is_told() -> None:
    """The error names the file and the place, and a run without a profile of it goes on."""
    path = write_profiles("[lab]\nnetwrk = 'none'\n")
    done = execzmq("profiles")
    assert done.returncode == say.FAILED
    told = f"{path}, line 2: [lab] has no field 'netwrk': did you mean network?"
    assert done.stderr.decode() == f"execzmq: {told}\n"
    assert execzmq("run", "--", "true").returncode == 0
    for _ in range(2):
        done = execzmq("doctor")
        assert done.returncode == 1
        shown = done.stdout.decode()
        found = rf"^BAD  (server: )?profiles: {re.escape(told)}\n     -> correct "
        assert re.search(found, shown, re.MULTILINE)
        execzmq("shutdown")


def test_explain_runs_nothing(tmp_path: Path) -> None:
    """What a command would become is shown, of variables the names alone."""
    done = execzmq(
        "run", "--explain", "--env-policy", "none", "-e", "A=hush", "--", "touch", "a b", cwd=tmp_path
    )
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        "sandbox: none, the command is not confined",
        f"cwd: {tmp_path}",
        "variables: A EXECZMQ_PROCESS",
        "command: touch 'a b'",
    ]
    assert list(tmp_path.iterdir()) == []


def test_unknown_profile_is_told_with_those_there_are() -> None:
    """Nothing is run under a profile that does not exist."""
    done = execzmq("run", "--sandbox", "nope", "--", "true")
    assert done.returncode == say.FAILED
    assert b"there are read-only, workspace-write, full-access" in done.stderr


def test_explain_tells_what_a_sandbox_changes(tmp_path: Path) -> None:
    """Variables that a command does not get as they are given, by name, and with the sandbox's value."""
    words = ("run", "--explain", "--sandbox", "read-only", "--", "true")
    shown = execzmq(*words, cwd=tmp_path, env=environ(LC_ALL="de_DE.UTF-8", LC_TIME="C", TMPDIR="/x")).stdout
    lines = dict(line.split(": ", 1) for line in shown.decode().splitlines())
    assert "LC_ALL" not in lines["variables"].split()
    assert {"PWD", "TMPDIR", "LANG"} <= {*lines["variables"].split()}
    told = lines["variables that the sandbox sets"].split()
    assert {"LANG=de_DE.UTF-8", "LC_MESSAGES=C", "TMPDIR=/tmp", "UV_CACHE_DIR=/tmp/uv-cache"} <= {*told}
    assert lines["variables that it takes out"] == "LC_ALL LC_TIME"


@pytest.mark.parametrize("words", [("--root", "."), ("--network", "none"), ("--allow-host", "a.example")])
def test_confinement_needs_a_profile(words: tuple[str, str]) -> None:
    """What only a sandbox can keep is not promised without one."""
    done = execzmq("run", *words, "--", "true")
    assert done.returncode == say.FAILED
    assert b"need a sandbox" in done.stderr


def test_limits() -> None:
    """Limits hold without a sandbox; sizes have units, and a wrong one is told."""
    limits = ("--limit", "descriptors=50", "--limit", "file_size=1M")
    done = execzmq("run", *limits, "--", "sh", "-c", "ulimit -n; ulimit -f")
    assert done.stdout == b"50\n2048\n"
    for wrong, told in (
        ("mem=1", b"is not NAME=N with one of memory,"),
        ("cpu=1K", b"no whole number"),
        ("cpu=10m", b"write 600"),
        ("memory=1.5G", b"write 1536M"),
        ("processes=0", b"with processes=0 no command can run: ask for at least 1"),
    ):
        done = execzmq("run", "--limit", wrong, "--", "true")
        assert done.returncode == say.FAILED
        assert told in done.stderr


def test_a_profile_with_a_folder_that_is_not_there() -> None:
    """Each start says whose fault it is: the profile's, and in which field."""
    write_profiles("[lab]\nextends = 'workspace-write'\nreadable = ['/no/such']\n")
    done = execzmq("run", "--sandbox", "lab", "--", "true")
    assert done.returncode == say.FAILED
    assert b"profile lab, readable: the path '/no/such' does not exist" in done.stderr


def test_served_profile_confines_what_names_none() -> None:
    """A server that confines runs nothing unconfined; one with an unknown profile does not begin."""
    assert execzmq("serve", "--name", "g", "--profile", "read-only", "--detach").returncode == 0
    assert b"*  read-only" in execzmq("profiles", "--on", "g").stdout
    done = execzmq("run", "--on", "g", "--cwd", "/", "--", "touch", "/etc/nosuch")
    assert (done.returncode, b"denied" in done.stderr) == (1, True)
    assert execzmq("run", "--on", "g", "--sandbox", "full-access", "--", "true").returncode == say.FAILED
    shown = execzmq(
        "run", "--on", "g", "--cwd", "/", "--explain", "--root", "/usr/share", "--", "true"
    ).stdout
    assert b"sandbox profile: read-only" in shown
    done = execzmq("serve", "--name", "h", "--profile", "nope", "--detach")
    assert done.returncode != 0
    assert b"no permission profile 'nope'" in done.stderr


def test_profiles_complete() -> None:
    """A shell offers the profiles of the server."""
    execzmq("run", "--", "true")
    variables = {
        "_EXECZMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": "execzmq run --sandbox w",
        "COMP_CWORD": "3",
    }
    done = execzmq(env=environ(**variables))
    assert done.stdout.split() == [b"plain,workspace-write"]
