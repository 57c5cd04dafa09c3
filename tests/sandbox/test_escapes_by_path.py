"""Attacks by paths, by real commands under bubblewrap: what counts is what the host's disk has."""

import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from execzmq.sandbox.model import Permissions, View
from execzmq.sandbox.placeholders import Placeholders
from tests.sandbox import bare
from tests.support import wait_until

_NEW_MOUNTS = 0x20000
UIDS = [0, bare.NOBODY] if os.geteuid() == 0 else [os.geteuid()]


class Site(NamedTuple):
    """A workspace, what is beside it, and who runs what there."""

    top: Path
    uid: int
    read: str

    @property
    def ws(self) -> Path:
        return self.top / "ws"

    @property
    def out(self) -> Path:
        return self.top / "out"

    def wants(self, **changes: object) -> Permissions:
        return bare.permissions(**{"read": self.read, "writable": (b(self.ws),), **changes})

    def run(self, script: str, server_dirs: tuple[bytes, ...] = (), **changes: object) -> bare.Outcome:
        bare.own(self.top, self.uid)
        outcome = bare.run(
            self.wants(**changes), script, server_dirs=server_dirs, cwd=b(self.ws), uid=self.uid
        )
        assert outcome.did_run, outcome.stderr
        return outcome


def b(path: Path) -> bytes:
    return os.fsencode(path)


@pytest.fixture(
    params=[(uid, read) for uid in UIDS for read in ("host", "minimal")], ids=lambda p: f"{p[0]}-{p[1]}"
)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A workspace, once for each user and base."""
    top = Path(tempfile.mkdtemp(prefix="xzs-", dir="/tmp"))
    for name in ("ws", "out", "state"):
        (top / name).mkdir()
    (top / "out/secret").write_text("secret")
    (top / "state/connection.json").write_text("the key")
    yield Site(top, *request.param)
    shutil.rmtree(top)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_write_outside_of_the_roots(site: Site) -> None:
    """Escape 1: beside the root nothing is written, whether it can be seen there or not."""
    seen = site.run(f"echo x > {site.out}/w", readable=(b(site.out),))
    assert "Read-only file system" in seen.stderr
    site.run(f"echo x > {site.out}/w; echo x > {site.top}/w; echo x > /usr/w; echo x > /etc/w")
    assert names(site.top) & {"out/w", "w"} == set()


def test_write_through_a_link(site: Site) -> None:
    """Escape 2: a symbolic link in the root leads nowhere that could be written."""
    (site.ws / "link").symlink_to(site.out)
    site.run("echo x > link/w", readable=(b(site.out),))
    site.run("echo x > link/w")
    assert names(site.out) == {"secret"}


def test_hard_link_in_a_root_is_the_same_file(site: Site) -> None:
    """Escape 4 goes through, as documented: no mount can tell two names of one file apart."""
    os.link(site.out / "secret", site.ws / "second")
    site.run("echo changed > second")
    assert (site.out / "secret").read_text() == "changed\n"


def test_git_hooks(site: Site) -> None:
    """Escapes 7 and 8: what is in `.git` is not written, it is not moved away, and nothing is put over it."""
    (site.ws / ".git/hooks").mkdir(parents=True)
    before = names(site.ws)
    site.run(
        "echo x > .git/hooks/pre-commit;"
        "mv .git .g2 && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit;"
        "mkdir evil; mv -T evil .git; rm -rf .git; rmdir evil"
    )
    assert names(site.ws) - {os.fsdecode(name) for name in bare.PROTECTED} == before


def test_protected_name_that_is_missing(site: Site) -> None:
    """Escapes 10 and 71: a protected name cannot be made; the folder left of it goes when it is released."""
    journal = site.top / "journal"
    kept = Placeholders(b(journal), b(journal) + b".lock")
    bare.own(site.top, site.uid)
    script = (
        "mkdir .codex; echo x > .codex/config.toml; mkdir -p .git/hooks; chmod 777 .codex; echo x > .codex/y"
    )
    outcome = bare.run(
        site.wants(), script, cwd=b(site.ws), uid=site.uid, before=lambda view: kept.hold("one", view)
    )
    assert "Read-only file system" in outcome.stderr
    assert names(site.ws) == {".git", *(os.fsdecode(name) for name in bare.PROTECTED)}
    kept.recover(())
    kept.sweep()
    assert names(site.ws) == set()
    assert journal.read_bytes() == b""


@pytest.mark.parametrize("where", ["ssh", "link"])
def test_denied_folder_below_a_root(site: Site, where: str) -> None:
    """Escape 25: what is denied is not read, by no path, and it cannot be moved or replaced."""
    home = site.ws / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("the key")
    (site.ws / "link").symlink_to("home/.ssh")
    path = {"ssh": "home/.ssh", "link": "link"}[where]
    outcome = site.run(
        f"cat {path}/id /proc/1/root{home}/.ssh/id /proc/self/root{home}/.ssh/id; ls {path};"
        "mv home h2; mv home/.ssh h3; mkdir -p home/.ssh; echo mine > home/.ssh/authorized_keys",
        denied=(b(home / ".ssh"),),
    )
    assert outcome.stdout == ""
    assert names(home) == {".ssh", ".ssh/id"}


def test_denied_folder_that_is_missing(site: Site) -> None:
    """A denied folder that a root does not have yet is not made by a command either."""
    site.run(
        "mkdir -p .ssh; echo mine > .ssh/authorized_keys; mkdir .cfg",
        denied=(b(site.ws / ".ssh"), b(site.ws / ".cfg/x")),
    )
    assert not (site.ws / ".ssh/authorized_keys").exists()
    assert names(site.ws) >= {".ssh", ".cfg"}
    assert not (site.ws / ".cfg/x").exists()


def test_seen_below_denied(site: Site) -> None:
    """The deepest says: a folder to be read below a denied one is seen, its neighbours are not."""
    (site.ws / "d/in").mkdir(parents=True)
    (site.ws / "d/in/file").write_text("seen")
    (site.ws / "d/key").write_text("hidden")
    outcome = site.run(
        "cat d/in/file; cat d/key; ls d; echo x > d/in/file; echo x > d/y",
        denied=(b(site.ws / "d"),),
        readable=(b(site.ws / "d/in"),),
    )
    assert outcome.stdout == "seen"
    assert (site.ws / "d/in/file").read_text() == "seen"
    assert not (site.ws / "d/y").exists()


def test_server_files_below_a_root(site: Site) -> None:
    """Escape 26, C72: the server's own is masked in a root above it, also where a profile shows it again."""
    state = site.top / "state"
    outcome = site.run(
        f"cd {site.top}; cat state/connection.json /proc/1/root{state}/connection.json; ls state;"
        "mv state s2; mkdir state; echo mine > state/connection.json",
        server_dirs=(b(state),),
        writable=(b(site.top),),
    )
    assert outcome.stdout == ""
    assert (state / "connection.json").read_text() == "the key"
    assert names(state) == {"connection.json"}


def test_server_file_without_a_root_above(site: Site) -> None:
    """Escape 26: a connection file by its own path, and a folder that does not exist."""
    file = site.ws / "connection.json"
    file.write_text("the key")
    outcome = site.run(
        f"cat {file}; rm -f {file}; mv {file} x; echo mine > {file}",
        server_dirs=(b(file), b(site.top / "none")),
    )
    assert outcome.stdout == ""
    assert file.read_text() == "the key"


def test_host_file_outside_of_the_roots(site: Site) -> None:
    """Escape 60: with `minimal` a file of the host is not there; with `host` it is, by definition."""
    hidden = "/etc/fstab" if os.path.exists("/etc/fstab") else "/etc/shells"
    outcome = site.run(f"cat {hidden} > /dev/null && echo read; cat {site.out}/secret")
    assert outcome.stdout == ("read\n" if site.read == "host" else "")
    if site.read == "minimal":
        assert site.run("cat /etc/shadow /etc/ssh/*; ls -A /root /home").stdout == ""


def test_socket_of_the_host(site: Site) -> None:
    """Escape 61: a socket beside the roots is not reached, one in `/run` neither."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(site.out / "sock"))
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('{site.out}/sock'); print('reached')"
        assert site.run(f'python3 -c "{code}"; ls -A /run /tmp/*').stdout.count("reached") == 0


def test_moved_around_a_nested_repository(site: Site) -> None:
    """C68: a repository below the root is not reached by renaming what is above it."""
    (site.ws / "a/b/.git").mkdir(parents=True)
    (site.ws / "a/b/.git/config").write_text("good")
    site.run(
        "mv a x && mkdir -p a/b/.git && echo evil > a/b/.git/config; mv a/b a/y && mkdir -p a/b/.git;"
        "echo evil > a/b/.git/config; rm -rf a/b; rm -rf a; mv a/b/.git a/b/g;"
        "ln -sfT /tmp a; ln -sfT /tmp a/b"
    )
    assert (site.ws / "a/b/.git/config").read_text() == "good"
    assert {path.name for path in (site.ws / "a/b").iterdir()} == {".git"}


def test_root_below_a_root_is_not_moved(site: Site) -> None:
    """C68: what a nested root protects is not reached by renaming a folder between the two."""
    (site.ws / "a/inner").mkdir(parents=True)
    outcome = site.run(
        "mv a x; mkdir -p a/inner/.codex; echo x > a/inner/.codex/f; echo ok > a/inner/ok",
        writable=(b(site.ws), b(site.ws / "a/inner")),
    )
    assert "Device or resource busy" in outcome.stderr
    assert not (site.ws / "a/inner/.codex/f").exists()
    assert (site.ws / "a/inner/ok").exists()


def test_read_only_inside_of_a_root(site: Site) -> None:
    """Escape 70: what is read-only inside of a root stays so, and a root inside of that can be written."""
    (site.ws / "ro/rw").mkdir(parents=True)
    site.run(
        "echo x > ro/f; mv ro r2; echo x > ro/rw/f",
        writable=(b(site.ws / "ro/rw"), b(site.ws)),
        readable=(b(site.ws / "ro"),),
    )
    assert names(site.ws) & {"ro/f", "ro/rw/f", "r2"} == {"ro/rw/f"}


def test_pointer_to_a_repository(site: Site) -> None:
    """A `.git` that is a file is kept, and the repository that it names too."""
    (site.ws / "store/repo/hooks").mkdir(parents=True)
    (site.ws / ".git").write_text("gitdir: store/repo\n")
    site.run("echo x > .git; echo x > store/repo/hooks/pre-commit; mv store s; mv store/repo r; rm -f .git")
    assert (site.ws / ".git").read_text() == "gitdir: store/repo\n"
    assert names(site.ws / "store") == {"repo", "repo/hooks"}


def test_only_hooks_and_configuration(site: Site) -> None:
    """With `hooks-config` Git commits, but what makes it run programs stays, `commondir` included."""
    env = "GIT_CONFIG_GLOBAL=/dev/null git -c user.name=n -c user.email=e@e -c safe.directory='*'"
    site.run("git init -q .", protected=(), protect_git="none")
    (site.ws / ".git/config.worktree").write_text("")
    kept = Placeholders(b(site.top / "journal"), b(site.top / "journal") + b".lock")
    bare.own(site.top, site.uid)
    script = (
        f"echo a > a; {env} add a && {env} commit -qm one && {env} status --short && {env} log --oneline;"
        "echo evil > .git/hooks/pre-commit; echo evil > .git/config; echo evil > .git/config.worktree;"
        "mkdir e; echo ../e > .git/commondir; rm -f .git/commondir;"
        "mv .git g; mv .git/hooks h; mv .git/config c"
    )
    before = (site.ws / ".git/config").read_text(), names(site.ws / ".git/hooks")
    outcome = bare.run(
        site.wants(protect_git="hooks-config"),
        script,
        cwd=b(site.ws),
        uid=site.uid,
        before=lambda view: kept.hold("one", view),
    )
    assert outcome.stdout.endswith("one\n"), outcome.stderr
    assert ((site.ws / ".git/config").read_text(), names(site.ws / ".git/hooks")) == before
    assert (site.ws / ".git/config.worktree").read_text() == ""
    assert (site.ws / ".git/commondir").read_text() == ".\n"
    kept.recover(())
    kept.sweep()
    assert not (site.ws / ".git/commondir").exists()


@pytest.mark.parametrize("what", ["root", "pin"])
def test_root_is_swapped_for_a_link(site: Site, what: str) -> None:
    """Escape 69: what was replaced by a relative link after the check is not mounted and not written."""
    (site.ws / "a/.git").mkdir(parents=True)
    path = site.ws if what == "root" else site.ws / "a"
    bare.own(site.top, site.uid)

    def swap(view: View) -> None:
        path.rename(site.top / "moved")
        path.symlink_to(os.path.relpath(site.out, path.parent))

    script = f"echo x > {site.ws}/w; echo x > {site.ws}/a/w; echo x > {site.out}/w"
    bare.run(site.wants(), script, uid=site.uid, before=swap)
    assert names(site.out) == {"secret"}


def test_descriptors_do_not_stay(site: Site) -> None:
    """Escape 30: no descriptor of what is shown leads past the mounts, in the command or in pid 1."""
    (site.ws / ".git/hooks").mkdir(parents=True)
    outcome = site.run(
        "for f in /proc/1/fd/* /proc/self/fd/*; do echo x > $f/.git/hooks/x; ls -d $f/..; done"
    )
    assert outcome.stdout == ""
    assert names(site.ws / ".git") == {"hooks"}


def test_names_of_any_bytes(site: Site) -> None:
    """A root may have any name that the kernel takes."""
    root = os.fsencode(site.top) + b"/ \xff\n'\\040$(x)"
    os.makedirs(root + b"/n\xfe/.git")
    site.run(
        'echo x > "$PWD"/../ws/none; cd /tmp/*/*040*; echo x > ok; mv n* m',
        writable=(root,),
        readable=(b(site.ws),),
    )
    assert set(os.listdir(root)) - set(bare.PROTECTED) == {b".git", b"ok", b"n\xfe"}


def test_one_of_two_ends_first(tmp_path: Path) -> None:
    """Two sandboxes in one root: what the second needs stays until it has ended, and then nothing is left."""
    site = Site(tmp_path, os.geteuid(), "host")
    site.ws.mkdir()
    os.mkfifo(site.ws / "fifo")
    kept = Placeholders(b(site.top / "journal"), b(site.top / "journal") + b".lock")
    outcomes: list[bare.Outcome] = []

    def run(key: str, script: str) -> None:
        held = kept.paths
        outcomes.append(
            bare.run(
                site.wants(),
                script,
                cwd=b(site.ws),
                placeholders=held,
                before=lambda view: kept.hold(key, view),
            )
        )

    run("first", "true")
    late = threading.Thread(
        target=run, args=("second", "touch ready; read x < fifo; mkdir .codex/x; echo x > .codex/y")
    )
    late.start()
    wait_until((site.ws / "ready").exists, 20)
    kept.release("first")
    kept.sweep()
    assert names(site.ws) >= {".codex", ".git"}
    (site.ws / "fifo").write_text("go\n")
    late.join()
    assert "Read-only" in outcomes[1].stderr
    kept.release("second")
    kept.sweep()
    assert names(site.ws) == {"fifo", "ready"}


@pytest.mark.slow
@pytest.mark.parametrize("has_git", [False, True])
def test_hundred_roots(site: Site, has_git: bool) -> None:
    """A hundred roots in one sandbox are written, protected, and nothing of it is left on the host."""
    roots = [site.ws / f"r{number}" for number in range(100)]
    for root in roots:
        (root / ".git" if has_git else root).mkdir(parents=True)
    before = names(site.ws)
    kept = Placeholders(b(site.top / "journal"), b(site.top / "journal") + b".lock")
    bare.own(site.top, site.uid)
    outcome = bare.run(
        site.wants(writable=tuple(map(b, roots))),
        "for r in r*; do echo x > $r/f; mkdir $r/.codex/x; echo x > $r/.git/x; done",
        cwd=b(site.ws),
        uid=site.uid,
        before=lambda view: kept.hold("one", view),
    )
    assert outcome.did_run, outcome.stderr
    kept.recover(())
    kept.sweep()
    assert names(site.ws) - before == {f"{root.name}/f" for root in roots}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has roots of other users")
def test_root_of_another_user(tmp_path: Path) -> None:
    """Where the command could make nothing, nothing needs to be kept missing: it starts all the same."""
    site = Site(tmp_path, 0, "host")
    site.ws.mkdir()
    bare.own(site.ws, bare.NOBODY)
    outcome = bare.run(site.wants(), "mkdir .codex; touch x; ls -A", cwd=b(site.ws))
    assert outcome.did_run
    assert outcome.stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_server_folder_at_a_second_path(tmp_path: Path) -> None:
    """The server's own is masked where another mount of the host shows it, whole or in part."""
    site = Site(tmp_path, 0, "host")
    for name in ("ws/whole", "ws/part", "state/in"):
        (site.top / name).mkdir(parents=True)
    (site.top / "state/in/key").write_text("the key")

    def mounted() -> bare.Outcome:
        assert ctypes.CDLL(None).unshare(_NEW_MOUNTS) == 0
        for line in (
            ["--make-rprivate", "/"],
            ["--bind", "state", "ws/whole"],
            ["--bind", "state/in", "ws/part"],
        ):
            subprocess.run(["mount", *line], cwd=site.top, check=True)
        script = "cat whole/in/key part/key; echo mine > part/key; echo ok"
        return bare.run(site.wants(), script, cwd=b(site.ws), server_dirs=(b(site.top / "state"),))

    outcome = bare.as_user(0, mounted)
    assert outcome.stdout == "ok\n"
    assert (site.top / "state/in/key").read_text() == "the key"
