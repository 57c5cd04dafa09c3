"""From permissions to a view, on a real disk: what is refused and by which name, what is mounted and how."""

import errno
import os
from pathlib import Path

import pytest

from execzmq.errors import InvalidRequest, LimitExceeded, SandboxUnavailable
from execzmq.sandbox import paths, places, planning, repositories
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.model import Mount, Permissions, View
from tests.sandbox.bare import permissions


def b(path: Path) -> bytes:
    return os.fsencode(path)


@pytest.fixture
def ws(short_tmp: Path) -> Path:
    """A root, with a server's folder beside it."""
    (short_tmp / "ws").mkdir()
    (short_tmp / "state").mkdir()
    return short_tmp / "ws"


def look(wanted: Permissions, *server_dirs: Path, placeholders: tuple[bytes, ...] = ()) -> list[Mount]:
    """Return the mounts, with descriptors closed."""
    view = paths.view_of(wanted, server_dirs=tuple(map(b, server_dirs)), placeholders=placeholders)
    mounts = [mount._replace(fd=0 if mount.fd >= 0 else -1) for mount in view.mounts]
    view.close()
    return mounts


def refused(wanted: Permissions, *server_dirs: Path) -> str:
    with pytest.raises(InvalidRequest) as error:
        look(wanted, *server_dirs)
    assert error.value.path
    return str(error.value.reason)


def test_roots_that_are_refused(ws: Path) -> None:
    """Escapes 68, 69: each root that cannot be is refused by name, before anything starts."""
    (ws / "file").touch()
    (ws / "dangling").symlink_to("nothing")
    (ws / "loop").symlink_to("loop")
    (ws / "slash").symlink_to("/")
    (ws / "kernel").symlink_to("/proc/sys")
    (ws / ".git/hooks").mkdir(parents=True)
    (ws / ".codex").mkdir()
    wrong = {
        "none": "root_not_found",
        "file": "root_not_directory",
        "file/x": "root_not_found",
        "dangling": "root_not_found",
        "loop": "root_not_found",
        "slash": "root_is_slash",
        "kernel": "root_is_system",
        ".git/hooks": "root_is_protected",
        ".codex": "root_is_protected",
        "n" * 300: "path_too_long",
    }
    assert {name: refused(permissions(writable=(b(ws / name),))) for name in wrong} == wrong
    assert refused(permissions(writable=(b"ws",))) == "path_relative"
    assert refused(permissions(writable=(b"/a\0--bind\0/\0/",))) == "path_with_nul"
    assert refused(permissions(readable=(b"/",), read="minimal")) == "root_is_slash"
    assert refused(permissions(denied=(b"/",))) == "deny_is_slash"


def test_roots_that_meet_what_is_hidden(ws: Path) -> None:
    """A root in what the server owns or a profile denies is refused, by a link as well."""
    (ws / "link").symlink_to("../state")
    (ws / "in").mkdir()
    state = ws.parent / "state"
    assert refused(permissions(writable=(b(state),)), state) == "root_in_server_dir"
    assert refused(permissions(writable=(b(ws / "link"),)), state) == "root_in_server_dir"
    assert refused(permissions(readable=(b(state),)), state) == "root_in_server_dir"
    assert refused(permissions(writable=(b(ws / "in"),), denied=(b(ws),))) == "write_below_denied"
    assert refused(permissions(writable=(b(ws),), denied=(b(ws),))) == "write_below_denied"


def test_links_that_cannot_be_kept(ws: Path) -> None:
    """A link in a root is replaced by any command: no protected name and no denied path goes through one."""
    (ws / ".codex").symlink_to("other")
    assert refused(permissions(writable=(b(ws),))) == "protected_is_link"
    (ws / ".codex").unlink()
    (ws / ".git").symlink_to("other")
    assert refused(permissions(writable=(b(ws),))) == "protected_is_link"
    (ws / ".git").unlink()
    (ws / "cfg").symlink_to("../state")
    assert refused(permissions(writable=(b(ws),), denied=(b(ws / "cfg/key"),))) == "denied_is_link"
    assert refused(permissions(writable=(b(ws),)), ws / "cfg") == "denied_is_link"


def test_bounds_hold_for_what_links_lead_to(ws: Path) -> None:
    """A root within what the server allows by its name alone, and outside of it in truth, is refused."""
    (ws / "link").symlink_to("../state")
    allowed = permissions(writable=(b(ws),), write_within=(b(ws),))
    assert look(allowed)[0].path == b(ws)
    wanted = permissions(writable=(b(ws / "link"),), write_within=(b(ws),))
    assert refused(wanted) == "root_not_permitted"
    assert refused(permissions(readable=(b(ws / "link"),), read_within=(b(ws),))) == "root_not_permitted"


def test_link_as_root(ws: Path) -> None:
    """A root that is a link is mounted at the path that it leads to, which the view reports."""
    (ws.parent / "link").symlink_to("ws")
    with_links = permissions(writable=(b(ws.parent / "link"), b(ws)), protected=(), protect_git="none")
    view = paths.view_of(with_links, server_dirs=())
    try:
        assert view.roots == (b(ws),)
        assert [mount.path for mount in view.mounts] == [b(ws)]
        assert os.path.samestat(os.fstat(view.descriptors[0]), os.stat(ws))
    finally:
        view.close()
    view.close()


def test_order_of_a_view(ws: Path) -> None:
    """Outer before inner, the server's own last; what is missing is kept missing."""
    (ws / "a/.git").mkdir(parents=True)
    (ws / "secret").touch()
    state = ws / "state"
    state.mkdir()
    wanted = permissions(writable=(b(ws),), protected=(b".codex",), denied=(b(ws / "secret"),))
    assert look(wanted, state) == [
        Mount(b(ws), "write", True, 0),
        Mount(b(ws / ".codex"), "read", True, -1, is_missing=True),
        Mount(b(ws / ".git"), "read", True, -1, is_missing=True),
        Mount(b(ws / "a"), "write", True, 0),
        Mount(b(ws / "secret"), "deny", False),
        Mount(b(ws / "a/.git"), "read", True, 0),
        Mount(b(state), "deny", True, is_last=True),
    ]


def test_server_folder_below_a_denied_one_that_is_shown_again(ws: Path) -> None:
    """What is seen again below a denied folder does not show the server's own with it."""
    (ws / "home/u/state").mkdir(parents=True)
    wanted = permissions(
        writable=(b(ws),),
        readable=(b(ws / "home/u"),),
        denied=(b(ws / "home"),),
        protected=(),
        protect_git="none",
    )
    found = look(wanted, ws / "home/u/state")
    assert [(mount.access, mount.path) for mount in found[1:]] == [
        ("deny", b(ws / "home")),
        ("read", b(ws / "home/u")),
        ("deny", b(ws / "home/u/state")),
    ]


def test_folder_left_by_another_sandbox_counts_as_missing(ws: Path) -> None:
    """An empty folder that a sandbox left is covered anew; what somebody has filled meanwhile is shown."""
    wanted = permissions(writable=(b(ws),), protected=(), protect_git="all")
    (ws / ".git").mkdir()
    left = (b(ws / ".git"),)
    assert look(wanted, placeholders=left)[1].is_missing
    assert not look(wanted)[1].is_missing
    (ws / ".git/HEAD").touch()
    assert not look(wanted, placeholders=left)[1].is_missing


def test_missing_name_in_a_missing_folder(ws: Path) -> None:
    """The outermost missing folder is kept missing: no other is made on the host for it."""
    wanted = permissions(writable=(b(ws),), protected=(b".a/b/c",), protect_git="none")
    assert [(m.path, m.is_missing) for m in look(wanted)[1:]] == [(b(ws / ".a"), True)]


def test_too_many(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fit are refused, and no descriptor stays open."""
    for number in range(planning.MOST_DESCRIPTORS + 1):
        (ws / f"r{number}").mkdir()
    roots = tuple(b(folder) for folder in sorted(ws.iterdir()))
    with pytest.raises(LimitExceeded, match="name fewer roots") as error:
        look(permissions(writable=roots, protected=(), protect_git="none"))
    assert error.value.limit == planning.MOST_DESCRIPTORS
    monkeypatch.setattr(planning, "MOST_MOUNTS", 2)
    with pytest.raises(LimitExceeded):
        look(permissions(writable=roots[:1]))


def test_replaced_while_it_is_opened(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not any more what was resolved is refused, and nothing stays open."""
    (ws / "a/.git").mkdir(parents=True)
    real = places.open_path

    def swap(path: bytes, *, is_dir: bool) -> int:
        if path == b(ws / "a/.git"):
            (ws / "a").rename(ws / "b")
            (ws / "a").symlink_to("b")
        return real(path, is_dir=is_dir)

    monkeypatch.setattr(places, "open_path", swap)
    assert refused(permissions(writable=(b(ws),))) == "root_changed"


def test_server_file_with_a_second_name(ws: Path) -> None:
    """Escape 4: a connection file that can be read by another name is not hidden by a mask: no sandbox."""
    file = ws.parent / "state/connection.json"
    file.touch()
    look(permissions(), ws.parent / "state")
    os.link(file, ws / "mine")
    for hidden in (ws.parent / "state", file):
        with pytest.raises(SandboxUnavailable) as error:
            look(permissions(), hidden)
        assert error.value.reason == "server_file_linked"


def test_where_nested_repositories_are_looked_for(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest are found first, down to a depth, by no link, and not in what is skipped."""
    for name in ("a/.git", "a/b/.git", "1/2/3/4/.git", "1/2/3/4/5/.git", "node_modules/m/.git", "x/y/.git"):
        (ws / name).mkdir(parents=True)
    (ws / "link").symlink_to("a")
    found = list(repositories.nested([b(ws)], lambda path: path != b(ws / "x"), Disk()))
    assert found == [b(ws / name) for name in ("a", "a/b", "1/2/3/4")]
    monkeypatch.setattr(repositories, "MOST_FOLDERS", 3)
    assert list(repositories.nested([b(ws)], lambda path: True, Disk())) == [b(ws / "a")]
    monkeypatch.setattr(repositories, "MOST_ENTRIES", 0)
    assert not list(repositories.nested([b(ws)], lambda path: True, Disk()))


def test_parts_of_a_repository(ws: Path) -> None:
    """With `hooks-config`: what names programs to run, in worktrees and submodules too, and pointers."""
    for name in (".git/hooks", ".git/worktrees/w", ".git/modules/m", "sub", "wt"):
        (ws / name).mkdir(parents=True)
    (ws / ".git/config").write_text("[extensions]\n\tworktreeConfig = true\n")
    (ws / "sub/.git").write_text("gitdir: ../.git/modules/m\n")
    (ws / "wt/.git").write_text(f"gitdir: {ws}/.git/worktrees/w\n")
    (ws / ".git/worktrees/w/commondir").write_text("../..\n")
    found = {
        path[len(b(ws)) + 1 :]
        for path in repositories.kept_of([b(ws)], "hooks-config", lambda path: True, Disk())
    }
    assert found >= {
        b".git/hooks",
        b".git/config",
        b".git/commondir",
        b".git/config.worktree",
        b".git/worktrees/w/commondir",
        b".git/modules/m/hooks",
        b".git/modules/m/config",
        b"sub/.git",
        b"wt/.git",
    }
    assert not list(repositories.kept_of([b(ws)], "none", lambda path: True, Disk()))


def test_pointers_that_lead_nowhere(ws: Path) -> None:
    """A `.git` file of any content is kept itself, and protects nothing outside of the roots."""
    for content in (
        b"",
        b"gitdir:",
        b"gitdir: /",
        b"gitdir: ../state",
        b"gitdir: .",
        b"gitdir: a\0b",
        b"\xff" * 9000,
    ):
        (ws / ".git").write_bytes(content)
        assert list(repositories.kept_of([b(ws)], "all", lambda path: True, Disk())) == [b(ws / ".git")]


def test_view_closes_once(ws: Path) -> None:
    """A view that is closed has nothing left to close."""
    view = paths.view_of(permissions(writable=(b(ws),)), server_dirs=())
    assert set(view.placeholders) >= {b(ws / ".git")}
    view.close()
    view.close()
    assert view.descriptors == []
    assert isinstance(view, View)


def test_what_cannot_be_looked_at_for_want_of_descriptors(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that was not found because no descriptor was free must not be taken for none."""

    def refuse(path: bytes) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    (ws / "below" / ".git").mkdir(parents=True)
    monkeypatch.setattr("execzmq.sandbox.repositories.os.scandir", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        paths.view_of(permissions(writable=(os.fsencode(ws),)), server_dirs=[])
