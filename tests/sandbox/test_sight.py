"""What a sandboxed command finds at a path."""

import pytest

from execzmq.sandbox.sight import Sight, absolute

MOUNTS = (
    (b"/tmp/ws", "write"),
    (b"/tmp/ws/.git", "read"),
    (b"/tmp/ws/.git/x", "write"),
    (b"/home/u/.ssh", "deny"),
)


@pytest.mark.parametrize(
    ("path", "host", "minimal"),
    [
        (b"/tmp/ws/a", "write", "write"),
        (b"/tmp/ws2", "private", "private"),
        (b"/tmp/ws/.git/config", "read", "read"),
        (b"/tmp/ws/.git/x/y", "write", "write"),
        (b"/tmp/ws/.gitignore", "write", "write"),
        (b"/home/u/.ssh/id", "deny", "deny"),
        (b"/home/u", "read", "hidden"),
        (b"/usr/bin/env", "read", "read"),
        (b"/run/docker.sock", "hidden", "hidden"),
        (b"/dev/shm/x", "private", "private"),
        (b"/dev/sda", "hidden", "hidden"),
        (b"/proc/sys", "read", "read"),
        (b"/", "read", "hidden"),
    ],
)
def test_places(path: bytes, host: str, minimal: str) -> None:
    """The innermost mount counts, then the sandbox's own folders, then what the profile shows at all."""
    assert Sight("host", MOUNTS).at(path) == host  # type: ignore[arg-type]  # literals
    assert Sight("minimal", MOUNTS).at(path) == minimal  # type: ignore[arg-type]  # literals


def test_later_mount_covers() -> None:
    """Of two mounts at one path the later one is seen, and a mount covers the sandbox's own folders."""
    assert Sight("host", ((b"/a", "write"), (b"/a", "deny"))).at(b"/a/b") == "deny"
    assert Sight("host", ((b"/var", "read"),)).at(b"/var/tmp/x") == "read"


def test_file_systems() -> None:
    """Links do not cross two mounts."""
    sight = Sight("host", MOUNTS)  # type: ignore[arg-type]  # literals
    names = [sight.file_system_of(path) for path in (b"/tmp/ws/a", b"/tmp/x", b"/usr", b"/etc")]
    assert names == [b"/tmp/ws", b"/tmp", b"/", b"/"]


@pytest.mark.parametrize(
    ("path", "cwd", "result"),
    [(b"a", b"/w", b"/w/a"), (b"../a", b"/w/x", b"/w/a"), (b"/a//b/.", b"/w", b"/a/b"), (b"//a", b"", b"/a")],
)
def test_absolute(path: bytes, cwd: bytes, result: bytes) -> None:
    """A relative path is one of the working directory."""
    assert absolute(path, cwd) == result
