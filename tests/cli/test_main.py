"""How the program begins and ends."""

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.shell import EXECZMQ, environ, execzmq
from tests.support import deadline


def test_entry_loads_nothing_before_it_can_be_interrupted() -> None:
    """An interrupt while the program is being loaded is an exit status, not a traceback."""
    code = (
        "import signal, sys, execzmq.cli.main as m\n"
        "class Interrupted:\n"
        "    def find_spec(self, *_): signal.raise_signal(signal.SIGINT)\n"
        "assert 'click' not in sys.modules\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "m.main(['ps'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=deadline(20).left(), check=False
    )
    assert (done.returncode, done.stderr) == (130, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_listing_that_cannot_be_written_is_an_error() -> None:
    """A listing that has no room is an error in one line, and not half a listing in silence."""
    with open("/dev/full", "wb") as full:
        done = execzmq("connections", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 125
    assert done.stderr == b"execzmq: No space left on device\n"


def test_listing_whose_reader_has_gone() -> None:
    """As other programs, a listing ends by SIGPIPE where nobody reads it."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = execzmq("connections", stdout=write, stderr=subprocess.PIPE, capture_output=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_module_runs_as_a_program() -> None:
    """`python -m execzmq` is the command line."""
    done = subprocess.run(
        [*EXECZMQ, "--version"], env=environ(), capture_output=True, timeout=deadline(20).left(), check=True
    )
    assert done.stdout.startswith(b"execzmq ")
