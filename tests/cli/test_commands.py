"""The command line as a whole: help, errors in one line, what it loads, completion."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from execzmq.cli import commands
from execzmq.cli.options import parse_keys
from tests.cli.shell import EXECZMQ, execzmq
from tests.support import deadline

COMMANDS = list(commands.MODULE_OF)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has a help page, and every option on it says what it is for."""
    assert commands.run([command, "--help"]) == 0
    assert "Usage: execzmq" in capsys.readouterr().out
    loaded = commands.cli.get_command(click.Context(commands.cli), command)
    assert loaded is not None
    assert loaded.name == command
    for parameter in loaded.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.name


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command one sees what there is."""
    assert commands.run([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command} " in shown for command in COMMANDS)


@pytest.mark.parametrize(
    "words", [["nonsense"], ["--nonsense"], ["ps", "too", "many"], ["resize", "p", "0", "1"]]
)
def test_bad_usage_is_one_line(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """What is typed wrongly costs one line that says where to look, and status 125."""
    assert commands.run(words) == 125
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("execzmq: ")
    assert err.count("\n") == 1
    assert "--help" in err


@pytest.mark.parametrize(
    "words",
    [["ps"], ["logs", "x"], ["attach", "x"], ["wait", "x"], ["stop", "x"], ["forget", "x"], ["shutdown"]],
    ids=" ".join,
)
def test_nothing_is_started_to_look(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """All but `run` and `start` say that no server runs, and what starts one."""
    assert commands.run(words) == 125
    assert "execzmq run" in capfd.readouterr().err


def test_run_loads_little() -> None:
    """`run` and `ps` load no pydantic, no Jupyter, no rich, no psutil, and nothing of the server's."""
    code = (
        "import sys, json\n"
        "from execzmq.cli import commands, running, listing, session, foreground, relay, output\n"
        "import execzmq.client.remote, execzmq.client.launch, execzmq.client.arguments\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], timeout=deadline(20).left()))
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & {"pydantic", "jupyter_core", "jupyter_client", "rich", "psutil", "IPython"}
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("execzmq.")}
    assert not ours & {"execzmq.server", "execzmq.backends", "execzmq.keeper", "execzmq.process"}
    assert "zmq.asyncio" not in loaded


def test_fault_of_ours_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A fault inside is told in one line with its place; no traceback reaches the user."""
    monkeypatch.setattr("execzmq.client.launch.running", lambda _name: 1 / 0)
    assert commands.run(["ps"]) == 125
    err = capfd.readouterr().err
    assert "ZeroDivisionError" in err
    assert "test_commands.py" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "keys"), [("ctrl-p,ctrl-q", b"\x10\x11"), ("ctrl-],d", b"\x1dd"), ("", b""), ("Ctrl-A", b"\x01")]
)
def test_detach_keys(text: str, keys: bytes) -> None:
    """Keys are written as in docker."""
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-pq", "ab", "ctrl-1", "é", ",", "a,"])
def test_keys_that_are_none(text: str) -> None:
    """What is no key is refused by name."""
    with pytest.raises(click.BadParameter):
        parse_keys(text)


def _complete(shell: str, *words: str) -> list[str]:
    env = {**os.environ, "_EXECZMQ_COMPLETE": f"{shell}_complete"}
    env |= {"COMP_WORDS": " ".join(("execzmq", *words)), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        EXECZMQ,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline(20).left(),
        check=True,
    )
    return [line.partition(",")[2] for line in done.stdout.decode().splitlines() if line]


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_completion() -> None:
    """A shell completes commands, options, and the ids and names of processes and servers."""
    assert _complete("bash", "at") == ["attach"]
    assert _complete("bash", "wait", "") == []
    execzmq("start", "--id", "train-7", "--name", "trainer", "--", "sleep", "60")
    assert sorted(_complete("bash", "wait", "tr")) == ["train-7", "trainer"]
    assert _complete("bash", "wait", "--on", "de") == ["default"]
    assert _complete("bash", "signal", "train-7", "HU") == ["HUP"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    """Each shell gets its script."""
    if shell == "bash" and not Path("/bin/bash").exists():
        pytest.skip("there is no bash")
    env = {**os.environ, "_EXECZMQ_COMPLETE": f"{shell}_source"}
    done = subprocess.run(
        EXECZMQ,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline(20).left(),
        check=True,
    )
    assert b"_EXECZMQ_COMPLETE" in done.stdout
