"""The systemd unit, and what a service manager is told."""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from execzmq.cli import commands
from execzmq.cli.service import Notifier
from tests.cli.shell import execzmq, running
from tests.servers import serving
from tests.sources import ROOT
from tests.support import deadline

UNIT = ROOT / "docs/howto/execzmq.service"


@contextlib.contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    """Be a service manager that listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(deadline(20).left())
        yield sock


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_is_told(short_tmp: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    """At a path or an abstract name, which no child of ours gets."""
    name = f"{short_tmp}/n"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if abstract else name)
    with manager(f"\0{name}" if abstract else name) as sock:
        notifier = Notifier()
        assert "NOTIFY_SOCKET" not in os.environ
        notifier.takes_over()
        assert sock.recv(100) == f"MAINPID={os.getpid()}".encode()
        notifier.is_ready()
        assert sock.recv(100) == f"READY=1\nMAINPID={os.getpid()}".encode()
    notifier.is_ready()  # one that has gone does no harm


def test_without_a_manager_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is the usual case."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Notifier().is_ready()


@pytest.mark.slow
def test_a_reload_names_the_new_process_before_the_old_one_ends(short_tmp: Path) -> None:
    """Otherwise the manager would take the end of the old one for that of the service."""
    with serving() as old, manager(f"{short_tmp}/n") as sock:
        reload = ("serve", "--name", "t", "--replace", "--detach")
        with running(*reload, env={**os.environ, "NOTIFY_SOCKET": f"{short_tmp}/n"}) as reloading:
            main_pid = int(sock.recv(100).removeprefix(b"MAINPID="))
            said = sock.recv(100)
            assert reloading.wait(deadline(20).left()) == 0
        assert said == f"READY=1\nMAINPID={main_pid}".encode()
        assert old.wait() == 0
        done = execzmq("run", "--on", "t", "--", "printenv", "NOTIFY_SOCKET")
        assert (done.returncode, done.stdout) == (1, b"")
        assert execzmq("shutdown", "--on", "t").returncode == 0


def _settings() -> dict[str, str]:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_unit_says_what_its_page_says() -> None:
    """And its command lines are such as are understood."""
    settings = _settings()
    page = (ROOT / "docs/howto/run-as-a-service.md").read_text()
    for line in ("KillMode=process", "OOMPolicy=continue", "NotifyAccess=all"):
        assert line in UNIT.read_text().splitlines()
        assert line in page
    command = commands.cli.get_command(click.Context(commands.cli), "serve")
    assert command is not None
    for name, detached in (("ExecStart", False), ("ExecReload", True)):
        program, serve, *words = shlex.split(settings[name])
        assert (program, serve) == ("%h/.local/bin/execzmq", "serve")
        chosen = command.make_context("serve", words).params
        assert (chosen["replace"], chosen["detach"]) == (True, detached)


def test_the_unit_is_verified(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By systemd itself: no line that it does not know, no program that is not there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (package `systemd`)")
    program = short_tmp / ".local/bin/execzmq"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(short_tmp))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(UNIT)], capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
