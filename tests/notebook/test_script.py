"""How the lines of a cell become a command."""

import os
import subprocess

import pytest

from execzmq.errors import InvalidRequest
from execzmq.notebook.script import MOST, script_command


def _run(body: str, **more: str) -> subprocess.CompletedProcess[str]:
    argv, variables = script_command(body, "In [1]")
    env = {**os.environ, **variables, **more}
    return subprocess.run(
        argv, env=env, input="typed\n", capture_output=True, text=True, timeout=20, check=False
    )


def test_script_is_run_by_bash_as_a_file() -> None:
    """Errors have its line numbers, stdin is the caller's, and nothing of the way it came is left."""
    lines = ("read line", "echo $line ${BASH_VERSION:0:0}; env | grep -c EXECZMQ_CELL")
    done = _run("\n".join((*lines, "ls /proc/self/fd | wc -l", "nope", "exit 3")))
    assert done.stdout == "typed\n0\n4\n"
    assert ": line 4: nope: command not found" in done.stderr
    assert done.returncode == 3


def test_nothing_is_left_on_disk(tmp_path: object) -> None:
    """The file has no name any more when the script runs."""
    assert _run('ls "$TMPDIR"', TMPDIR=str(tmp_path)).stdout == ""


@pytest.mark.parametrize("body", ["printf '%s' \"a'b\"", "cat <<'END'\n$x {y}\nEND\n", "echo ü; # \udcff"])
def test_text_arrives_as_it_is(body: str) -> None:
    """Quotes, here-documents and bytes that are no characters pass."""
    expected = subprocess.run(["bash", "-c", body], capture_output=True, timeout=20, check=False)
    argv, variables = script_command(body, "In [1]")
    done = subprocess.run(argv, env={**os.environ, **variables}, capture_output=True, timeout=20, check=False)
    assert done.stdout == expected.stdout


def test_size_is_bounded() -> None:
    """Up to the bound it can be run, beyond it is refused with what helps."""
    assert _run("echo a\n" + "#" * (MOST - 20) + "\necho b").stdout == "a\nb\n"
    with pytest.raises(InvalidRequest, match="put it into a file"):
        script_command("ü" * MOST, "")
    with pytest.raises(InvalidRequest, match="null"):
        script_command("a\0b", "")


def test_command_line_tells_nothing_of_it() -> None:
    """What others see in a listing is which cell it is."""
    argv, variables = script_command("export PASSWORD=x", "In [7]")
    assert argv == ["/bin/sh", "-c", 'eval "$EXECZMQ_CELL"', "In [7]"]
    assert all(len(value.encode()) < 128 * 1024 for value in variables.values())
