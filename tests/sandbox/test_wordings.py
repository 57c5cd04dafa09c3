"""How programs word their errors."""

import pytest

from execzmq.sandbox.wordings import complaints, has_other_host, operation_in, paths_in, port_in


@pytest.mark.parametrize(
    ("kind", "line", "path"),
    [
        ("read_only", "sh: 1: cannot create /x/y: Read-only file system", b"/x/y"),
        ("read_only", "/bin/sh: 1: cannot create built: Read-only file system", b"built"),
        ("read_only", "bash: line 1: /x/y: Read-only file system", b"/x/y"),
        ("read_only", "tar: a b: Cannot open: Read-only file system", b"a b"),
        ("read_only", "java.io.FileNotFoundException: /x/y (Read-only file system)", b"/x/y"),
        ("read_only", "Read-only file system @ rb_sysopen - /x/y (Errno::EROFS)", b"/x/y"),
        ("read_only", "npm error path /x/y: EROFS", b"/x/y"),
        ("read_only", "attempt to write a readonly database", b""),
        ("cross_device", "OSError: [Errno 18] Invalid cross-device link: '/x/y' -> 'z'", b"/x/y"),
        ("busy", "rm: cannot remove 'x': Device or resource busy", b"x"),
        ("no_space", "Error: ENOSPC: no space left on device, write", b""),
        ("unresolved", "curl: (6) Could not resolve host: x.org", b""),
        ("unresolved", "ping: x.org: Name or service not known", b""),
        ("unresolved", "java.net.UnknownHostException: x.org", b""),
        ("unresolved", "dial tcp: lookup x.org: dial udp", b""),
        ("unresolved", "socket.gaierror: [Errno -3] failed", b""),
        ("unreachable", "connect: network is unreachable", b""),
        ("unreachable", "ssh: connect to host x port 22: No route to host", b""),
        ("refused", "curl: (7) Failed to connect to x port 80", b""),
        ("not_permitted", "hostname: you must be root to change the host name", b""),
        ("not_permitted", 'sudo: The "no new privileges" flag is set', b""),
        ("denied", "Error: EACCES: permission denied, mkdir '/x/y'", b"/x/y"),
        ("denied", "cp: cannot open \u2018/x/y\u2019 for reading: Permission denied", b"/x/y"),
        ("missing", "python3: can't open file '/x/y': [Errno 2] No such file", b"/x/y"),
        ("missing", "sh: 1: /x/y: not found", b"/x/y"),
        ("missing", "Error: Cannot find module '/x/y'", b"/x/y"),
        (
            "missing",
            "cannot connect to unix:///run/docker.sock: no such file or directory",
            b"/run/docker.sock",
        ),
        ("invalid", "chown: changing group of 'x': Invalid argument", b"x"),
        ("unopened", "curl: (37) Couldn't open file /x/y", b"/x/y"),
        ("not_implemented", "io_uring_setup: Function not implemented", b""),
    ],
)
def test_wordings(kind: str, line: str, path: bytes) -> None:
    """Each line is known for its error, and what it names is among its paths."""
    (complaint,) = complaints(b"", line.encode())
    assert complaint.kind == kind
    assert not path or path in complaint.paths


def test_folded_and_coloured_lines() -> None:
    """A line that curl folds is one; escapes and returns of a terminal are left out."""
    (complaint,) = complaints(
        b"", b"Warning: Failed to open the file /x/y: Read-only file \r\nWarning: system\r\ncurl: (23)"
    )
    assert complaint.paths[0] == b"/x/y"
    assert complaint.doubts == ()
    (complaint,) = complaints(b"", b"\x1b[1;31mx: /a/b: Permission \x1b[0mdenied\x1b]0;title\x07\n")
    assert complaint.line == "x: /a/b: Permission denied"


def test_complaints_are_bounded() -> None:
    """However long the output, complaints and their lines are few and short."""
    found = complaints(b"", b"x: Permission denied\n" * 1000 + b"permission denied " + b"/" * 10000)
    assert len(found) <= 24
    assert max(len(complaint.line) for complaint in found) <= 1000


def test_words_of_a_command_line() -> None:
    """Paths, operations and ports are found in a script; addresses of others are no paths."""
    assert paths_in("cd /a/b && cp x --to=../c https://x.org/d/e") == [b"/a/b", b"../c"]
    assert operation_in("os.chown('x', 1, 1)") == "owner"
    for words in ("changing permissions of", "preserving permissions for", "setting permissions for"):
        assert operation_in(f"{words} 'x'") == "mode"
    assert [port_in(text) for text in ("127.0.0.1:80", "localhost (localhost)|127.0.0.1|:81", "x:80")] == [
        80,
        81,
        None,
    ]
    assert has_other_host("Failed to connect to 192.0.2.7 port 443")
    assert not has_other_host("Failed to connect to localhost port 443")
