"""Where the file of profiles is, and when it is read."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from execzmq.errors import InvalidRequest
from execzmq.sandbox import profile_file
from execzmq.sandbox.profile_store import ProfileStore, profiles_path
from execzmq.sandbox.profiles import PermissionProfile
from execzmq.types.finding import Finding

HOME = b"/home/u"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "execzmq" / "profiles.toml"
    path.parent.mkdir()
    path.write_text("[a]\n")
    path.chmod(0o600)
    return path


def test_file_is_where_xdg_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration folder is that of XDG; one that is not absolute does not count."""
    monkeypatch.setenv("HOME", str(tmp_path))
    default = tmp_path / ".config/execzmq/profiles.toml"
    assert profiles_path({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/execzmq/profiles.toml")
    assert profiles_path({"XDG_CONFIG_HOME": "xdg"}) == profiles_path({}) == default


def test_secrets_of_both_homes_are_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who moves HOME for a server does not move the keys that lie in the user's own home."""
    monkeypatch.setenv("HOME", f"{tmp_path}/x/../h/")
    store = ProfileStore()
    known = os.fsencode(pwd.getpwuid(os.getuid()).pw_dir)
    assert store.home == os.fsencode(tmp_path / "h")
    assert {store.home + b"/.ssh", os.path.join(known, b".ssh")} <= {*store.get("read-only").denied}


@pytest.mark.parametrize("home", ["", "relative"])
def test_home_that_is_none_does_not_count(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths of profiles are absolute whatever the variables say."""
    monkeypatch.setenv("HOME", home)
    assert ProfileStore().home == os.fsencode(pwd.getpwuid(os.getuid()).pw_dir)


def test_user_whom_the_system_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user without an entry has the root folder for a home."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert ProfileStore().home == b"/"


def test_without_a_file_there_are_the_built_in_ones(tmp_path: Path) -> None:
    """Nobody needs a file; one whose folder is none is none either."""
    (tmp_path / "file").touch()
    for missing in (tmp_path / "none.toml", tmp_path / "file" / "profiles.toml"):
        assert [*ProfileStore(missing, HOME).all()] == ["read-only", "workspace-write", "full-access"]


def test_changed_file_is_read_again(path: Path) -> None:
    """What the user has written holds from the next request on."""
    store = ProfileStore(path, HOME)
    assert store.get("a") is store.get("a")
    path.write_text("[a]\nnetwork = 'internet'\n")
    assert store.get("a").network.mode == "internet"
    path.unlink()
    with pytest.raises(InvalidRequest, match="no permission profile 'a'"):
        store.get("a")


def test_broken_file_breaks_no_built_in_profile(path: Path) -> None:
    """A fault in the file is told to who needs it, and to nobody else; mended, it is forgotten."""
    path.write_text("[a")
    store = ProfileStore(path, HOME)
    assert store.get("read-only").name == "read-only"
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="is not TOML"):
            store.get("a")
    path.write_bytes(b"[a]\ndescription = '\xff'\n")
    with pytest.raises(InvalidRequest, match="is not UTF-8"):
        store.all()
    path.write_text("[a]\n")
    assert store.get("a").name == "a"


def test_fault_is_found_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was wrong with a file is wrong until it changes: no start waits for it to be read again."""
    reads: list[str] = []
    parse = profile_file.parse_profiles

    def counted(text: str, *others: Any) -> dict[str, PermissionProfile]:
        reads.append(text)
        return parse(text, *others)

    monkeypatch.setattr(profile_file, "parse_profiles", counted)
    path.write_text("[a")
    store = ProfileStore(path, HOME)
    told = []
    for _ in range(3):
        with pytest.raises(InvalidRequest) as caught:
            store.get("a")
        told.append((str(caught.value), caught.value.reason))
    assert reads == ["[a"]
    assert len({*told}) == 1
    path.write_text("[a]")
    assert store.get("a").name == "a"
    assert reads == ["[a", "[a]"]


def test_doctor_tells_of_the_file(path: Path, tmp_path: Path) -> None:
    """A fault is found before a start needs a profile of it, with its line and what helps."""
    store = ProfileStore(path, HOME)
    assert store.finding() == Finding("profiles", True, f"the built-in ones, and 1 in {path}")
    path.write_text("[a]\n\nnetwrk = 'none'\n")
    found = store.finding()
    assert (found.ok, found.text) == (
        False,
        f"{path}, line 3: [a] has no field 'netwrk': did you mean network?",
    )
    assert f"correct {path}; until then there are only read-only, workspace-write," in found.remedy
    assert ProfileStore(tmp_path / "none.toml", HOME).finding().ok


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_file_of_others_is_not_believed(path: Path, mode: int) -> None:
    """Who else can write the file could give themselves what it allows."""
    path.chmod(mode)
    with pytest.raises(InvalidRequest, match="others can write to it: chmod go-w"):
        ProfileStore(path, HOME).all()


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    """A folder or a pipe in its place is named, and not waited for."""
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for path in (folder, pipe):
        with pytest.raises(InvalidRequest, match="it is no file: put one there"):
            ProfileStore(path, HOME).all()


def test_huge_file_is_refused(path: Path) -> None:
    """A file that is not meant is not read whole."""
    os.truncate(path, 1 << 30)
    with pytest.raises(InvalidRequest, match=r"it has 1,073,741,824 bytes, the most is 65,536"):
        ProfileStore(path, HOME).all()


def test_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Why the file cannot be opened is told with its name."""
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(InvalidRequest, match="it cannot be read"):
        ProfileStore(loop, HOME).all()
