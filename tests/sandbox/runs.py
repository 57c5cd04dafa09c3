"""Run the corpus for one user and print, as JSON, what became of each command.

Run as `python -m tests.sandbox.runs root|user`. By root, `user` gives its rights up after all files are made.
Each command gets a world of its own, and a second one for its run without a sandbox.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from execzmq.sandbox.model import Access, Network, Permissions
from execzmq.sandbox.outside import Host
from execzmq.sandbox.verdict import Ending, judge
from execzmq.types.params import Limits
from tests.sandbox.bare import TMP_BYTES, Bare, run
from tests.sandbox.cases import Case, User, load

NOBODY, OTHER = 65534, 12345
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
AT_ONCE = 4
REFUSALS = re.compile(
    rb"denied|read-only file|not permitted|cross-device|resource busy|no such file|no space|EROFS|EACCES|EPERM",
    re.IGNORECASE,
)
KEYWORDS = re.compile(
    rb"operation not permitted|permission denied|read-only file system|seccomp|sandbox|landlock"
    rb"|failed to write file",
    re.IGNORECASE,
)


class Online(Host):
    """This host, taken as one with a network: what the corpus says of names is true of such a one."""

    def is_online(self) -> bool | None:
        return True


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
        if case.git:
            yield bytes(self.ws / ".git"), "read"
        if case.profile != "minimal":
            yield bytes(self.secret), "deny"

    def env(self, ports: dict[str, str], hosttmp: Path) -> dict[str, str]:
        names = {"WS": self.ws, "OUT": self.out, "SECRET": self.secret, "LOCKED": self.locked}
        names |= {"OTHERS": self.others, "HOME": self.home, "HOSTTMP": hosttmp}
        fixed = {"PATH": PATH, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "npm_config_update_notifier": "false"}
        who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return {**fixed, **who, **ports, **{name: str(path) for name, path in names.items()}}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def _database(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("create table t(a)")
    connection.commit()
    connection.close()


@contextmanager
def _ports() -> Iterator[dict[str, str]]:
    """Yield a port on which this host listens, and one on which nobody does."""
    with socket.socket() as listening, socket.socket() as idle:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        idle.bind(("127.0.0.1", 0))
        yield {"PORT": str(listening.getsockname()[1]), "FREE": str(idle.getsockname()[1])}


def _permissions(case: Case) -> Permissions:
    return Permissions(
        profile=case.profile,
        read="minimal" if case.profile == "minimal" else "host",
        readable=(),
        writable=(),
        denied=(),
        protected=(),
        protect_git="all",
        network=Network(case.network),
        tmp_bytes=TMP_BYTES,
        limits=Limits(),
    )


def keyword_rule(status: int, output: bytes) -> bool:
    """Tell what the rule of words alone says, as codex has it."""
    if status == 0:
        return False
    if KEYWORDS.search(output):
        return True
    return status not in (2, 126, 127) and status == 128 + 31


def _inside(case: Case, world: World, env: dict[str, str]) -> dict[str, Any]:
    permissions = _permissions(case)
    mounts = tuple(world.mounts(case))
    started = time.perf_counter()
    script = _expanded(case.run, env)
    done = run(Bare(mounts, permissions.read, case.network == "host"), script, world.ws, env)
    ending = Ending(
        exit_code=done.returncode if done.returncode >= 0 else None,
        signal=-done.returncode if done.returncode < 0 else None,
        argv=(b"/bin/sh", b"-c", script.encode()),
        cwd=bytes(world.ws),
        stdout=done.stdout[-16384:],
        stderr=done.stderr[-16384:],
        permissions=permissions,
        mounts=mounts,
    )
    took = time.perf_counter() - started
    began = time.perf_counter()
    verdict = judge(ending, Online())
    return {
        "status": done.returncode,
        "output": (done.stderr + done.stdout)[-3000:].decode("utf-8", "replace"),
        "is_told": verdict.cause == "sandbox_denied",
        "confidence": verdict.confidence,
        "evidence": [str(entry) for entry in verdict.evidence],
        "took": took,
        "seconds": time.perf_counter() - began,
        "keywords": keyword_rule(done.returncode, done.stdout + done.stderr),
    }


def _expanded(script: str, env: dict[str, str]) -> str:
    """Write the world's folders and ports out, as somebody would who types the command."""
    names = "WS OUT SECRET HOME LOCKED OTHERS HOSTTMP PORT FREE".split()
    return re.sub(rf"\$({'|'.join(names)})\b", lambda match: env[match[1]], script)


def _outside(case: Case, world: World, env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        ["/bin/sh", "-c", _expanded(case.run, env)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=env,
        cwd=world.ws,
        start_new_session=True,
        timeout=50,
    )
    output = done.stderr + done.stdout
    return {
        "outside_status": done.returncode,
        "outside_refused": bool(REFUSALS.search(output)),
        "outside_output": output[-1000:].decode("utf-8", "replace"),
    }


def _template(folder: Path) -> Path:
    """Make a repository with one commit; its `.git` is copied into the worlds that need one."""
    env = {"PATH": PATH, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    me = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (folder / "repo").mkdir()
    (folder / "repo" / "a.txt").write_text("a\n")
    for words in (["init", "-q", "--template="], ["add", "."], [*me, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder / "repo", env=env, check=True)
    (folder / "repo" / ".git" / "hooks").mkdir(exist_ok=True)
    return folder / "repo" / ".git"


def _lose_rights(uid: int) -> None:
    if os.geteuid() == 0 and uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def _one(case: Case, worlds: tuple[World, World], ports: dict[str, str], hosttmp: Path) -> dict[str, Any]:
    told = _inside(case, worlds[0], worlds[0].env(ports, hosttmp))
    if case.outside:
        told |= _outside(case, worlds[1], worlds[1].env(ports, hosttmp))
    return told


def main(user: User) -> None:
    """Run all that this user can run, and print the results in the order of the corpus."""
    uid = 0 if user == "root" else NOBODY if os.geteuid() == 0 else os.geteuid()
    cases = [case for case in load() if case.is_for(user)]
    missing = sorted({case.needs for case in cases if case.needs and not shutil.which(case.needs, path=PATH)})
    cases = [case for case in cases if case.needs not in missing]
    with (
        tempfile.TemporaryDirectory(prefix="xz-", dir="/tmp", ignore_cleanup_errors=True) as name,
        _ports() as ports,
    ):
        base = Path(name)
        base.chmod(0o755)
        template = _template(base)
        worlds = [
            (World(base / f"{n}i", case, template), World(base / f"{n}o", case, template))
            for n, case in enumerate(cases)
        ]
        for pair in worlds:
            for world in pair:
                world.give_to(uid)
        with tempfile.NamedTemporaryFile(prefix="xz-", dir="/tmp") as hosttmp:
            os.chmod(hosttmp.name, 0o644)
            child = os.fork()
            if child == 0:
                _lose_rights(uid)
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    path = Path(hosttmp.name)
                    told = list(
                        pool.map(
                            lambda pair: _one(pair[0], pair[1], ports, path), zip(cases, worlds, strict=True)
                        )
                    )
                results = [
                    {"run": c.run, "part": c.part, "is_denied": c.is_denied_to(user), **t}
                    for c, t in zip(cases, told, strict=True)
                ]
                json.dump({"missing": missing, "results": results}, sys.stdout)
                sys.stdout.flush()
                os._exit(0)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])  # type: ignore[arg-type]  # the test names one of the two
