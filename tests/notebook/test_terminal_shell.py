"""IPython's own terminal: the output as it comes, without caps or views."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import REPOSITORY, deadline


@pytest.fixture
def shutdown_servers() -> Iterator[None]:
    """End the default server that a shell has started."""
    yield
    _run([sys.executable, "-m", "execzmq", "shutdown", "--all"])


def _run(argv: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        argv, env=env, input=text, capture_output=True, text=True, timeout=deadline(40).left(), check=False
    )


@pytest.mark.slow
@pytest.mark.usefixtures("shutdown_servers")
def test_terminal_is_shown_everything(tmp_path: Path) -> None:
    """All lines are written to the two streams; a failure, and how to come to what goes on, are one line."""
    script = tmp_path / "script.ipy"
    script.write_text(
        "%load_ext execzmq\n"
        "%execz seq 1 3000; echo error >&2\n"
        "%execz --bg --name talk --proc p printf 'gr\\303'; sleep 0.05; printf '\\274ß\\n'\n"
        "_ = p.wait(closed=True)\n"
        "%execz exit 3\n"
    )
    done = _run([sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", str(script)])
    lines = done.stdout.splitlines()
    assert lines[:3000] == [str(n) for n in range(1, 3001)]
    assert "grüß" in lines
    assert "error\n" in done.stderr
    assert "runs in the background; `%execz --attach talk` comes to it" in done.stderr
    assert "CalledProcessError: exit code 3: exit 3; `execzmq logs " in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("shutdown_servers")
def test_terminal_is_lent_to_a_command(tmp_path: Path) -> None:
    """`--tty` joins the terminal that IPython runs at, as `execzmq attach` does."""
    script = tmp_path / "script.ipy"
    script.write_text("%load_ext execzmq\n%execz --tty sh -c 'tty; exit 4'\n")
    ipython = f"{sys.executable} -m IPython --no-banner --colors=NoColor {script}"
    done = _run(["script", "-qec", ipython, "/dev/null"])
    assert "/dev/pts/" in done.stdout
    assert "CalledProcessError: exit code 4" in done.stdout
