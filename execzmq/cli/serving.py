"""Own `serve`: a server in the foreground, or in the background for `launch`; it alone loads the server."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from execzmq import settings
from execzmq.cli import held, say
from execzmq.cli.service import Notifier
from execzmq.cli.session import go
from execzmq.errors import Conflict, ConnectionFailed

LOG_LIMIT = settings.MIB
"""Bytes of the log file of a server that runs in the background."""
_INSECURE = (
    "insecure: whoever reaches its port can read all output, and whoever has {} is you;"
    " nothing on the way is encrypted"
)
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
@click.option(
    "--profile",
    metavar="P",
    default=settings.Settings().profile,
    show_default=True,
    help="Permission profile of commands that name none, and the most that any gets.",
)
@click.option(
    "--transport",
    type=click.Choice(["ipc", "tcp"]),
    default=settings.Settings().transport,
    show_default=True,
    help="tcp: listen on the network from the start, and not only from the first share on.",
)
@click.option(
    "--ip",
    metavar="A",
    default="",
    help="Address of this host to listen at.  [default: that by which others reach it]",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen without CURVE: whoever reaches the port can read all output. There can be no shares.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Take over from the server of that name, if one runs, and end it; commands run on."
    " Its options are not carried over: give them again.",
)
@click.option(
    "-d",
    "--detach",
    is_flag=True,
    help="Leave it running in the background once it is ready; its log is server.log in its state folder.",
)
@click.option("--lend", type=click.Choice(["start", "running"]), hidden=True)
@click.option("--while-held", type=click.Path(path_type=Path), hidden=True)
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--lock-fd", type=int, hidden=True)
def serve_command(
    name: str, replace: bool, detach: bool, lend: str | None, while_held: Path | None, **options: Any
) -> int:
    """Run a server until SIGTERM or SIGINT, which end its processes too; SIGHUP leaves them running.

    Its log goes to stderr. Clients find it by its name: `execzmq run --on NAME -- COMMAND`.
    """
    if options["insecure"] and options["transport"] != "tcp":
        raise click.UsageError("--insecure is about tcp: add --transport tcp, or leave it out")
    lent = [fd for fd in (options.pop("ready_fd"), options.pop("lock_fd")) if fd is not None]
    chosen = settings.Settings(**options)
    if lend is not None:
        return go(_lend(name, start=lend == "start"))
    if detach:
        return go(_detach(name, chosen, replace=replace))
    return go(_serve(name, chosen, lent, replace=replace, while_held=while_held))


async def _detach(name: str, chosen: settings.Settings, *, replace: bool) -> int:
    from execzmq.client import launch
    from execzmq.connection import check_name

    check_name(name)
    running = None if replace else launch.running(name)
    if running is not None:
        raise Conflict(f"a server named {name!r} runs already (pid {running.pid}); --replace takes over")
    words = ["--log-budget", str(chosen.log_budget), "--disk-budget", str(chosen.disk_budget)]
    words += ["--profile", chosen.profile, "--transport", chosen.transport]
    words += ["--ip", chosen.ip] if chosen.ip else []
    words += ["--insecure"] if chosen.insecure else []
    if chosen.idle_timeout is not None:
        words += ["--idle-timeout", str(chosen.idle_timeout)]
    launch.start_in_background(name, [*words, "--replace"] if replace else words)
    return 0


async def _lend(name: str, *, start: bool) -> int:
    """Print the connection file of a server of this host on one line, for who asks by ssh."""
    from execzmq.client import launch
    from execzmq.environments.ssh_words import MARKER

    info = await launch.ensure_server(name) if start else launch.running(name)
    if info is None:
        raise ConnectionFailed(f"no server {name} runs there; `execzmq run` and `execzmq start` start one")
    os.write(1, MARKER + json.dumps(asdict(info)).encode() + b"\n")
    return 0


async def _serve(
    name: str, chosen: settings.Settings, lent: list[int], *, replace: bool, while_held: Path | None
) -> int:
    """Run the server.

    Args:
        lent: descriptors of whoever starts it in the background; closed when it is ready, the first is told.
        while_held: the pipe of those who want it; `None` = it stays.
    """
    from execzmq.connection import ConnectionInfo, check_name, state_folder
    from execzmq.server.app import serve

    check_name(name)
    _log_to_stderr(LOG_LIMIT if lent else None)
    for fd in lent:
        os.set_inheritable(fd, False)
    manager = Notifier()
    holders = held.WhileHeld(while_held)

    def ready(info: ConnectionInfo) -> None:
        starting.close()
        manager.is_ready()
        holders.begin()
        if not lent:
            say.line(f"server {name} is ready; clients: execzmq run --on {name} -- COMMAND")
            if chosen.insecure:
                say.line(_INSECURE.format(state_folder(name) / "connection-tcp.json"))
        _tell(lent, "ready")

    with contextlib.ExitStack() as starting, _failure_told(lent), holders.removing(name):
        if replace:
            if not lent:  # else whoever started it holds the lock
                starting.enter_context(_nobody_else_starts(name))
            manager.takes_over()
        await serve(name, chosen, ready, _must_end, replace=replace)
    return 0


@contextlib.contextmanager
def _failure_told(lent: list[int]) -> Iterator[None]:
    """Tell whoever waits for the server why it does not start: its log may be on a full disk."""
    try:
        yield
    except Exception as error:
        _tell(lent, " ".join(say.text_of(error).split()))
        raise


def _tell(lent: list[int], word: str) -> None:
    """Tell whoever has lent descriptors how the start has gone, and give them back; once."""
    with contextlib.suppress(OSError):  # it has stopped waiting
        if lent:
            os.write(lent[0], f"{word}\n".encode(errors="replace"))
    for fd in lent:
        os.close(fd)
    lent.clear()


def _nobody_else_starts(name: str) -> contextlib.AbstractContextManager[int]:
    """Hold off clients that would start a server because they meet none for a moment."""
    from execzmq.client.launch import start_lock

    return start_lock(name)


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

    Where others have removed that file it begins another one, as soon as its folder is there.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int, fd: int = 2) -> None:
        super().__init__(sys.stderr)
        self._limit = limit
        self._fd = fd
        self._path = os.path.realpath(f"/proc/self/fd/{fd}")
        self._has_name = os.path.isfile(self._path)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        with contextlib.suppress(OSError):
            if self._has_name and not os.fstat(self._fd).st_nlink:
                self._begin_again()
        super().emit(record)
        with contextlib.suppress(OSError):
            status = os.fstat(self._fd)
            if stat.S_ISREG(status.st_mode) and status.st_size > self._limit:
                self._drop_older_half(status.st_size)

    def _begin_again(self) -> None:
        # A file of that name is another server's.
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.dup2(fd, self._fd)
        os.close(fd)

    def _drop_older_half(self, size: int) -> None:
        # The file was opened for appending only, and tracebacks of a crash go to the same descriptor.
        with open(f"/proc/self/fd/{self._fd}", "rb") as file:
            file.seek(size - self._limit // 2)
            file.readline()
            kept = file.read()
        os.ftruncate(self._fd, 0)
        os.write(self._fd, kept)
