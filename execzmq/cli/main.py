"""Own the entry of the command line and how the program ends; loads nothing before it can be interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end this program with its exit status."""
    try:
        from execzmq.cli import commands, say

        status = commands.run(args)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            status = status or say.failure(error)  # what failed before has been told
    except KeyboardInterrupt:
        status = 130
    # Everything is closed by now; taking the interpreter apart would cost a fifth of a short command's time.
    os._exit(status)
