"""The folders of one command of the corpus: whose files are where, and with which modes."""

import os
import re
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from execzmq.sandbox.model import Access
from tests.sandbox.cases import Case

OTHER = 12345
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class World:
    """The folders of one command."""

    def __init__(self, base: Path, case: Case, template: Path) -> None:
        self.base = base
        self.ws, self.out, self.secret, self.home, self.locked, self.others = (
            base / name for name in ("ws", "out", "secret", "home", "locked", "others")
        )
        for folder in (base, self.ws, self.out, self.secret, self.home, self.locked, self.others):
            folder.mkdir()
        self._fill(case, template)

    def _fill(self, case: Case, template: Path) -> None:
        for name in ("sub", "ro_dir"):
            (self.ws / name).mkdir()
            (self.ws / name / "f").write_text("f\n")
        _write(self.ws, {"a.txt": "a\n", "locked.txt": "x\n", "ro.txt": "x\n", "script.sh": "#!/bin/sh\n"})
        _write(self.ws, case.files)
        for name in ("sub", "empty", "ro_dir"):
            (self.out / name).mkdir()
        (self.out / "sub" / "f").write_text("f\n")
        texts = {"data.txt": "data\n", "ro.txt": "x\n", "tool": "#!/bin/sh\n", "prog.js": "", "prog.py": ""}
        _write(self.out, {**texts, **case.outfiles})
        if "data.db" in case.run:
            _database(self.out / "data.db")
        _write(self.secret, {"key": "key\n", "config": "x=1\n", "tool": "#!/bin/sh\n"})
        _write(self.locked, {"f": "f\n"})
        _write(self.others, {"f": "f\n", "w": "w\n"})
        (self.others / "closed").mkdir()
        if case.kept:
            (self.ws / ".git").mkdir()
        if case.git:
            shutil.copytree(template, self.ws / ".git")
        if case.tar:
            subprocess.run(["tar", "cf", "a.tar", "--transform=s/a/b/", "a.txt"], cwd=self.ws, check=True)

    def give_to(self, uid: int) -> None:
        """Make the owners and modes; without root's rights what is others' is only closed."""
        is_root = os.geteuid() == 0
        if is_root:
            for folder in (self.ws, self.out, self.secret, self.home):
                for path in (folder, *folder.rglob("*")):
                    os.chown(path, uid, uid)
            for path in (self.others, *self.others.rglob("*")):
                os.chown(path, OTHER, OTHER)
        modes = {self.ws / "locked.txt": 0, self.ws / "ro.txt": 0o444, self.ws / "ro_dir": 0o555}
        modes |= {self.out / "ro.txt": 0o444, self.out / "ro_dir": 0o555, self.ws / "script.sh": 0o644}
        modes |= {self.out / "tool": 0o755, self.secret / "tool": 0o755}
        modes |= {self.others / "f": 0o600 if is_root else 0, self.others / "closed": 0o700 if is_root else 0}
        modes |= {self.locked: 0o700 if is_root else 0}
        for path, mode in modes.items():
            path.chmod(mode)

    def mounts(self, case: Case) -> Iterator[tuple[bytes, Access]]:
        if case.profile != "minimal":
            yield bytes(self.base), "read"
        if case.profile != "read":
            yield bytes(self.ws), "write"
        if case.git or case.kept:
            yield bytes(self.ws / ".git"), "read"
        if case.profile != "minimal":
            yield bytes(self.secret), "deny"

    def env(self, given: dict[str, str]) -> dict[str, str]:
        names = {"WS": self.ws, "OUT": self.out, "SECRET": self.secret, "LOCKED": self.locked}
        names |= {"OTHERS": self.others, "HOME": self.home}
        fixed = {"PATH": PATH, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "npm_config_update_notifier": "false"}
        who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return {**fixed, **who, **given, **{name: str(path) for name, path in names.items()}}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def _database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table t(a)")
    connection.commit()
    connection.close()


@contextmanager
def ports() -> Iterator[dict[str, str]]:
    """Yield a port on which this host listens, and one on which nobody does."""
    with socket.socket() as listening, socket.socket() as idle:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        idle.bind(("127.0.0.1", 0))
        yield {"PORT": str(listening.getsockname()[1]), "FREE": str(idle.getsockname()[1])}


def template(folder: Path) -> Path:
    """Make a repository with one commit; its `.git` is copied into the worlds that need one."""
    env = {"PATH": PATH, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    me = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (folder / "repo").mkdir()
    (folder / "repo" / "a.txt").write_text("a\n")
    for words in (["init", "-q", "--template="], ["add", "."], [*me, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder / "repo", env=env, check=True)
    (folder / "repo" / ".git" / "hooks").mkdir(exist_ok=True)
    return folder / "repo" / ".git"


def expanded(script: str, env: dict[str, str]) -> str:
    """Write the world's folders and ports out, as somebody would who types the command."""
    names = ["WS", "OUT", "SECRET", "HOME", "LOCKED", "OTHERS", "HOSTTMP", "PORT", "FREE"]
    return re.sub(rf"\$({'|'.join(names)})\b", lambda match: env[match[1]], script)
