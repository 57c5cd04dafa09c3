"""What is said to ssh, and what its answers mean."""

import dataclasses
import subprocess

import pytest

from execzmq.connection import ConnectionInfo
from execzmq.environments import ssh_words
from execzmq.environments.model import Ssh
from execzmq.errors import AuthenticationFailed, ConnectionFailed, ExecZMQError, VersionMismatch

KEY = "0123-not-to-be-seen"
INFO = ConnectionInfo("ipc", "/run/user/7/execzmq/t/s", 1, 2, 3, 4, 5, key=KEY, host="h/m", epoch="e", pid=7)
SSH = Ssh("anna@box", 2222, "~/bin/execzmq", "train")


def test_nothing_is_asked_and_nothing_of_the_users_own_is_forwarded() -> None:
    """The connection is ours alone: no password, no agent, no X11, no forward of the configuration."""
    words = ssh_words.connect_argv(SSH, "/d/c", "script")
    options = {words[i + 1] for i, word in enumerate(words) if word == "-o"}
    assert options >= {"BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes"}
    assert words[:3] == ["ssh", "-S", "/d/c"]
    assert words[-5:-1] == ["-p", "2222", "--", "anna@box"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_far_end_runs_what_was_written(shell: str) -> None:
    """The script comes through the login shell there as it is, whatever quotes are in it."""
    script = """printf '%s\\n' "it's $((1 + 1))" '"'"""
    line = ssh_words.connect_argv(SSH, "/d/c", script)[-1]
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "it's 2\n\"\n"


def test_a_server_is_lent_and_then_held() -> None:
    """The command is the user's own line; the far end lasts until its stdin ends."""
    assert "~/bin/execzmq serve --lend start --name train && " in ssh_words.lend_script(SSH, start=True)
    assert "--lend running" in ssh_words.lend_script(SSH, start=False)
    done = subprocess.run(
        ["sh", "-c", ssh_words.hold_script()], input=b"x" * 100, capture_output=True, check=True, timeout=30
    )
    assert ssh_words.marked(done.stdout) == b""


def test_all_sockets_are_forwarded_and_no_secret_is_in_the_words() -> None:
    """Each of the five has a path here, the one that the client's connection file then names."""
    words = ssh_words.forward_argv("/d/c", INFO, "/d")
    assert {word for word in words if ":" in word} == {
        f"/d/s-{port}:/run/user/7/execzmq/t/s-{port}" for port in (1, 2, 3, 4, 5)
    }
    assert not [word for word in words if KEY in word]
    near = ssh_words.forwarded(INFO, "/d")
    assert (near.socket_path("iopub"), near.key) == ("/d/s-3", KEY)
    assert (near.host, near.epoch, near.pid) == ("", "", 0)


@pytest.mark.parametrize(
    "ip", ["/a:b", "/a$HOME", "/a${X}", "/a%h", "/a\\b", "/a\n", "/a[0]", "a/b", "/\x7f"]
)
def test_path_that_ssh_would_read_otherwise_is_refused(ip: str) -> None:
    """What the other machine says becomes neither another forward nor a variable of ours."""
    with pytest.raises(ConnectionFailed, match="cannot forward"):
        ssh_words.forward_argv("/d/c", dataclasses.replace(INFO, ip=ip), "/d")


def test_server_without_unix_sockets_is_refused() -> None:
    """A connection file for tcp needs no ssh, or another way."""
    with pytest.raises(ConnectionFailed, match="cannot forward"):
        ssh_words.forward_argv("/d/c", dataclasses.replace(INFO, transport="tcp", ip="10.0.0.1"), "/d")


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"", None),
        (b"execzmq-lends {}", None),
        (b"execzmq-lends {}\n", b"{}"),
        (b"welcome!\nexeczmq-lends {}\nmore", b"{}"),
        (b"not execzmq-lends {}\n", None),
    ],
)
def test_marked_line_among_what_else_is_said(output: bytes, found: bytes | None) -> None:
    """A login shell's files may print what they like."""
    assert ssh_words.marked(output) == found


@pytest.mark.parametrize(
    ("status", "said", "kind", "told"),
    [
        (
            255,
            ["Host key verification failed."],
            AuthenticationFailed,
            "yet: `ssh -p 2222 anna@box true`",
        ),
        (
            255,
            [
                "@@@@@",
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
                "Host key verification failed.",
            ],
            AuthenticationFailed,
            "another one than before",
        ),
        (
            255,
            ["anna@box: Permission denied (publickey)."],
            AuthenticationFailed,
            r"does not let this user in.*\(anna@box: Permission denied \(publickey\).\)",
        ),
        (
            255,
            ["ssh: connect to host box port 2222: Connection refused"],
            ConnectionFailed,
            "ssh to anna@box",
        ),
        (255, [], ConnectionFailed, "it said nothing"),
        (127, ["sh: 1: execzmq: not found"], ConnectionFailed, "has no execzmq on its PATH: install"),
        (125, ["execzmq: No such option: --lend (see ...)"], VersionMismatch, "too old"),
        (125, ["execzmq: no server train runs there"], ConnectionFailed, "anna@box: no server train"),
        (1, ["motd", "Permission denied"], ConnectionFailed, r"Permission denied \(status 1\)"),
        (0, [], ConnectionFailed, "it said nothing"),
    ],
)
def test_end_of_ssh_is_explained(status: int, said: list[str], kind: type[ExecZMQError], told: str) -> None:
    """By the environment's name, what happened, what to do, and ssh's own last words."""
    error = ssh_words.why_ended("gpu", SSH, status, said)
    assert type(error) is kind
    assert error.message.startswith("environment gpu: ")
    with pytest.raises(kind, match=told):
        raise error


def test_server_that_is_not_met_is_explained() -> None:
    """An ssh server may be told to forward no sockets; else the client's own error tells."""
    said = ["channel 3: open failed: connect failed: open failed"]
    mismatch = VersionMismatch("speaks 2", server=2)
    refused = ssh_words.not_met("gpu", SSH, said, mismatch)
    assert isinstance(refused, ConnectionFailed)
    assert "AllowStreamLocalForwarding" in refused.message
    told = ssh_words.not_met("gpu", SSH, ["welcome"], mismatch)
    assert (type(told), told.message, told.server) == (VersionMismatch, "environment gpu: speaks 2", 2)
