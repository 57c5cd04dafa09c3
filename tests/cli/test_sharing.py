"""`share`, `shares` and `revoke`, and `serve` on the network."""

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.cli.text import age
from execzmq.connection import load
from execzmq.types.sizes import parse_duration
from tests.cli.shell import execzmq, read_until, running
from tests.support import deadline


@contextlib.contextmanager
def box(*options: str, said: bytes = b"ready; clients") -> Iterator[str]:
    """Run a server named `box` meanwhile, which has said that; its end ends its processes."""
    with running("serve", "--name", "box", "--ip", "127.0.0.1", *options) as server:
        assert server.stderr is not None
        yield read_until(server.stderr.fileno(), said).decode()
        assert execzmq("shutdown", "--on", "box").returncode == 0
        server.wait(deadline(20).left())


@pytest.mark.slow
def test_a_file_is_handed_out_used_and_taken_back(tmp_path: Path) -> None:
    """Whoever has it sees what it allows; by its id or by a copy it ends."""
    path = tmp_path / "watch.json"
    with box():
        execzmq("start", "--on", "box", "--name", "train", "--", "sh", "-c", "echo epoch 1; sleep 60")
        execzmq("start", "--on", "box", "--name", "other", "--", "sleep", "60")
        done = execzmq("share", "--on", "box", "--process", "train", "--expires", "8h", "--output", str(path))
        assert done.returncode == 0, done.stderr
        share_id = done.stdout.decode().strip()
        assert re.fullmatch(r"[0-9a-f]{12}", share_id)
        assert f"lets an observer in at 127.0.0.1:{load(path).shell_port} until" in done.stderr.decode()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

        seen = execzmq("ps", "--on", str(path)).stdout.decode()
        assert "train" in seen
        assert "other" not in seen
        assert "epoch" not in seen
        assert execzmq("logs", "--on", str(path), "train").stdout == b"epoch 1\n"
        refused = execzmq("run", "--on", str(path), "--", "id")
        assert (refused.returncode, refused.stdout) == (125, b"")
        assert b"an observer's" in refused.stderr
        assert execzmq("kill", "--on", str(path), "train").returncode == 125
        examined = execzmq("doctor", "--on", str(path)).stdout.decode()
        assert "ok   server: box is alive" in examined
        assert "ok   server: findings: doctor is for the role owner" in examined

        listed = execzmq("shares", "--on", "box").stdout.decode().splitlines()
        assert listed[0].split()[:2] == ["ID", "ROLE"]
        assert listed[1].split()[:3] == [share_id, "observer", "7h"]
        (entry,) = json.loads(execzmq("shares", "--on", "box", "--json").stdout)
        assert (entry["share_id"], entry["role"], len(entry["processes"])) == (share_id, "observer", 1)

        again = execzmq("share", "--on", "box", "--process", "train", "--output", str(path))
        assert (again.returncode, b"exists already" in again.stderr) == (125, True)
        execzmq("share", "--on", "box", "--role", "owner", "--output", str(tmp_path / "other.json"))
        assert execzmq("revoke", "--on", "box", str(path)).returncode == 0
        gone = execzmq("ps", "--on", str(path))
        assert gone.returncode == 125
        assert b"revoked or has ended" in gone.stderr
        lost = execzmq("revoke", "--on", "box", "lost.json")
        assert (lost.returncode, b"cannot read connection file lost.json" in lost.stderr) == (125, True)
        twice = execzmq("revoke", "--on", "box", share_id)
        assert (twice.returncode, b"no share" in twice.stderr) == (125, True)


@pytest.mark.slow
def test_an_operator_s_sandbox_is_named(tmp_path: Path) -> None:
    """By the options that `run` has; a folder is one of the server's machine."""
    root, path = tmp_path / "w", tmp_path / "operate.json"
    root.mkdir()
    with box():
        words = ("--role", "operator", "--root", "w", "--output", str(path))
        done = execzmq("share", "--on", "box", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (entry,) = json.loads(execzmq("shares", "--on", "box", "--json").stdout)
        assert entry["sandbox"]["workspace_roots"] == [str(root)]
        assert f"workspace-write {root}" in execzmq("shares", "--on", "box").stdout.decode()
        line = f"echo x > {root}/x && pwd"
        ran = execzmq("run", "--on", str(path), "--cwd", str(root), "--", "sh", "-c", line)
        assert (ran.returncode, ran.stdout) == (0, f"{root}\n".encode()), ran.stderr
        assert (root / "x").read_text() == "x\n"
        assert execzmq("run", "--on", str(path), "--root", "/etc", "--", "true").returncode == 125
        ran = execzmq("run", "--on", str(path), "--cwd", str(root), "--allow-host", "a.example", "--", "true")
        assert (ran.returncode, b"network is none, not proxy" in ran.stderr) == (0, True), ran.stderr
        words = ("--role", "operator", "--root", "/no/such", "--output", str(tmp_path / "no.json"))
        refused = execzmq("share", "--on", "box", *words)
        assert (refused.returncode, b"the root '/no/such' does not exist on the" in refused.stderr) == (
            125,
            True,
        )
        words = ("--role", "operator", "--allow-host", "a.example", "--output", str(tmp_path / "net.json"))
        assert execzmq("share", "--on", "box", "--root", str(root), *words).returncode == 0
        net = ("run", "--on", str(tmp_path / "net.json"), "--cwd", str(root), "--network", "internet")
        ran = execzmq(*net, "--", "true")
        assert (ran.returncode, b"network is proxy, not internet" in ran.stderr) == (0, True), ran.stderr


@pytest.mark.slow
def test_the_default_server_is_started_to_be_shared(tmp_path: Path) -> None:
    """It listens from its first share on, and does not end for want of work while one is in force."""
    try:
        done = execzmq("share", "--role", "owner", "--output", str(tmp_path / "me.json"))
        assert done.returncode == 0, done.stderr
        ran = execzmq("run", "--on", str(tmp_path / "me.json"), "--", "echo", "me")
        assert ran.stdout == b"me\n"
    finally:
        execzmq("shutdown")


@pytest.mark.slow
def test_without_curve_it_says_what_that_means() -> None:
    """And names the file that leads there."""
    with box("--transport", "tcp", "--insecure", said=b"whoever has [^\n]*\n") as said:
        path = re.search(r"whoever has (\S+) is you", said)
        assert path is not None
        assert execzmq("run", "--on", path[1], "--", "echo", "x").stdout == b"x\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("share",), b"--output"),
        (("share", "--output", "f", "--expires", "soon"), b"is no time"),
        (("share", "--output", "f", "--role", "king"), b"king"),
        (("revoke",), b"ID-OR-FILE"),
        (("revoke", "./none.json"), b"none.json"),
        (("serve", "--insecure"), b"--transport tcp"),
        (("serve", "--name", "box", "--transport", "tcp", "--ip", "here"), b"no IP address"),
    ],
)
def test_what_cannot_be_meant_is_said(words: tuple[str, ...], problem: bytes) -> None:
    """In one line, before anything is begun."""
    done = execzmq(*words)
    assert done.returncode == 125
    assert problem in done.stderr
    assert not os.path.exists("f")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("8h", 28800), ("1.5d", 129600)]
)
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    """Or is in seconds."""
    assert parse_duration(text) == seconds
    assert age(seconds)


@pytest.mark.parametrize("text", ["", "h", "8 h", "-1h", "8w", "8H", "1e9d", "٣h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """Rather than guessed at."""
    with pytest.raises(ValueError, match="is no time"):
        parse_duration(text)
