"""Own `serve`: a server in the foreground, or in the background for `launch`; it alone loads the server."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import stat
import sys

import click

from execzmq import settings
from execzmq.cli import say
from execzmq.cli.session import go

LOG_LIMIT = settings.MIB
"""Bytes of the log file of a server that runs in the background."""
END_LIMIT = 120.0
"""Seconds for the whole end of a server: more than all its steps together may take."""


@click.command("serve", short_help="Run a server in the foreground.")
@click.option(
    "--name", metavar="N", default=settings.DEFAULT_NAME, show_default=True, help="The server's name."
)
@click.option(
    "--log-budget",
    type=click.IntRange(min=0),
    metavar="BYTES",
    default=settings.Settings().log_budget,
    show_default=True,
    help="Bytes of output that are kept at least per process.",
)
@click.option(
    "--disk-budget",
    type=click.IntRange(min=0),
    metavar="BYTES",
    default=settings.Settings().disk_budget,
    show_default=True,
    help="Bytes of all output together.",
)
@click.option(
    "--idle-timeout",
    type=click.FloatRange(min=0),
    metavar="S",
    help="End after S seconds without a process or a client.  [default: never]",
)
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--lock-fd", type=int, hidden=True)
def serve_command(
    name: str,
    log_budget: int,
    disk_budget: int,
    idle_timeout: float | None,
    ready_fd: int | None,
    lock_fd: int | None,
) -> int:
    """Run a server until SIGTERM or SIGINT, which end its processes too; SIGHUP leaves them running.

    Its log goes to stderr. Clients find it by its name: `execzmq run --on NAME -- COMMAND`.
    """
    chosen = settings.Settings(log_budget=log_budget, disk_budget=disk_budget, idle_timeout=idle_timeout)
    return go(_serve(name, chosen, [fd for fd in (ready_fd, lock_fd) if fd is not None]))


async def _serve(name: str, chosen: settings.Settings, lent: list[int]) -> int:
    """Run the server.

    Args:
        lent: descriptors of whoever starts it in the background; closed when it is ready, the first is told.
    """
    from execzmq.connection import ConnectionInfo, check_name
    from execzmq.server.app import serve

    check_name(name)
    _log_to_stderr(LOG_LIMIT if lent else None)
    for fd in lent:
        os.set_inheritable(fd, False)

    def ready(info: ConnectionInfo) -> None:
        if not lent:
            say.line(f"server {name} is ready; clients: execzmq run --on {name} -- COMMAND")
            return
        with contextlib.suppress(OSError):  # whoever started it has stopped waiting
            os.write(lent[0], b"ready\n")
        for fd in lent:
            os.close(fd)

    await serve(name, chosen, ready, _must_end)
    return 0


def _must_end() -> None:
    """End this program within a limit; where that strikes, stderr tells what each thread was waiting for."""
    with contextlib.suppress(OSError):
        faulthandler.dump_traceback_later(END_LIMIT, exit=True, file=2)


def _log_to_stderr(limit: int | None) -> None:
    handler = logging.StreamHandler(sys.stderr) if limit is None else BoundedLog(limit)
    logging.basicConfig(
        level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


class BoundedLog(logging.StreamHandler):  # type: ignore[type-arg]  # its class takes no argument when it runs
    """Writes to stderr, and drops the older half of the file behind it when that has grown too large.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int, fd: int = 2) -> None:
        super().__init__(sys.stderr)
        self._limit = limit
        self._fd = fd

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        super().emit(record)
        with contextlib.suppress(OSError):
            status = os.fstat(self._fd)
            if stat.S_ISREG(status.st_mode) and status.st_size > self._limit:
                self._drop_older_half(status.st_size)

    def _drop_older_half(self, size: int) -> None:
        # The file was opened for appending only, and tracebacks of a crash go to the same descriptor.
        with open(f"/proc/self/fd/{self._fd}", "rb") as file:
            file.seek(size - self._limit // 2)
            file.readline()
            kept = file.read()
        os.ftruncate(self._fd, 0)
        os.write(self._fd, kept)
