"""Which files of environments are read, and in which content a project's is trusted."""

import os
import stat
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.environments import store, trust
from execzmq.environments.model import ConnectionFile, OwnServer, Ssh
from execzmq.errors import ConnectionFailed, InvalidRequest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a project two folders above the current one; as yet empty."""
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    file = tmp_path / ".execzmq" / "environments.toml"
    file.parent.mkdir()
    file.touch()
    return file


def _write_own(text: str) -> Path:
    path = store.user_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_there_are_the_built_in_ones() -> None:
    """`default` and `local` are always there."""
    assert list(store.known().environments) == ["default", "local"]
    assert store.environment_of("default").place == OwnServer("default")


def test_users_own_file_is_found_in_the_configuration_folder() -> None:
    """The file is where XDG has it."""
    _write_own("[box]\nssh = 'box'")
    assert store.environment_of("box").place == Ssh("box")
    assert str(store.user_file()).startswith(os.environ["XDG_CONFIG_HOME"])


def test_users_own_file_that_others_may_write_to_is_refused() -> None:
    """Whoever could write to it would decide where commands run."""
    path = _write_own("[box]\nssh = 'box'")
    path.chmod(0o666)
    with pytest.raises(InvalidRequest, match="chmod go-w"):
        store.environment_of("box")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidRequest, match="no regular file"):
        store.environment_of("box")


def test_projects_file_counts_only_in_its_trusted_content(project: Path) -> None:
    """Another content, or the same content in another place, is not what was trusted."""
    project.write_text("[box]\nssh = 'box'")
    assert store.known().untrusted == str(project)
    with pytest.raises(ConnectionFailed, match=r"is not trusted"):
        store.environment_of("box")
    assert [one.name for one in store.trust_project_file(str(project))] == ["box"]
    assert store.environment_of("box").place == Ssh("box")
    assert store.known().untrusted == ""
    project.write_text("[box]\nssh = 'bog'")
    with pytest.raises(ConnectionFailed):
        store.environment_of("box")
    project.write_text("[box]\nssh = 'box'")
    assert store.environment_of("box").place == Ssh("box")
    moved = project.parent.rename(project.parents[1] / "src" / ".execzmq") / project.name
    assert store.known().untrusted == str(moved)


def test_trust_can_be_taken_back(project: Path) -> None:
    """What is trusted no more is as if it had never been."""
    store.trust_project_file(str(project))
    assert trust.untrust(str(project))
    assert not trust.untrust(str(project))
    assert store.known().untrusted == str(project)


def test_wrong_file_cannot_be_trusted(project: Path) -> None:
    """It would be in the way of every command in that folder."""
    project.write_text("[default]\nssh = 'box'")
    with pytest.raises(InvalidRequest, match="built in"):
        store.trust_project_file(str(project))
    assert store.known().untrusted == str(project)


def test_users_own_environment_goes_before_a_projects(project: Path) -> None:
    """A project cannot send elsewhere what a user has named."""
    _write_own("[box]\nssh = 'mine'")
    project.write_text("[box]\nssh = 'theirs'\n[lab]\nssh = 'lab'")
    store.trust_project_file(str(project))
    places = {name: one.place for name, one in store.known().environments.items()}
    assert (places["box"], places["lab"]) == (Ssh("mine"), Ssh("lab"))


def test_path_in_a_projects_file_is_relative_to_it(project: Path) -> None:
    """Wherever below the project one is."""
    project.write_text("[box]\nfile = 'box.json'")
    store.trust_project_file(str(project))
    assert store.environment_of("box").place == ConnectionFile(str(project.parent / "box.json"))


def test_projects_file_that_cannot_be_read_is_in_nobodys_way(project: Path) -> None:
    """A FIFO in a folder above neither hangs nor fails what has nothing to do with it."""
    project.unlink()
    os.mkfifo(project)
    _write_own("[box]\nssh = 'mine'")
    assert store.environment_of("box").place == Ssh("mine")
    with pytest.raises(InvalidRequest, match="no regular file"):
        store.trust_project_file(str(project))


def test_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is in a folder that is not there any more is in no project."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert store.project_file() is None


def test_name_that_nobody_has() -> None:
    """The error says where to look."""
    with pytest.raises(ConnectionFailed, match=r"'nobody'.*`execzmq environments`"):
        store.environment_of("nobody")
    with pytest.raises(ConnectionFailed, match=r"'\./nobody'.*`execzmq connections`"):
        store.environment_of("./nobody")


def test_records_of_trust_are_private(project: Path) -> None:
    """They lie in the state folder, 0600, where no sandbox sees them."""
    store.trust_project_file(str(project))
    path = trust.records_path()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert any(path.is_relative_to(folder) for folder in connection.hidden_folders())


@pytest.mark.parametrize("damage", ["[]", "{", "[" * 100_000, "{}"])
def test_damaged_records_trust_nothing(project: Path, damage: str) -> None:
    """What cannot be read is asked for again."""
    store.trust_project_file(str(project))
    trust.records_path().write_text(damage)
    assert store.known().untrusted == str(project)
    store.trust_project_file(str(project))
    assert store.known().untrusted == ""


def test_records_that_others_may_write_to_trust_nothing(project: Path) -> None:
    """Whoever could write them would trust for us."""
    store.trust_project_file(str(project))
    trust.records_path().chmod(0o622)
    assert store.known().untrusted == str(project)
