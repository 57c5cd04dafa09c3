"""Run the corpus for one user and print, as JSON, what became of each command.

Run as `python -m tests.sandbox.runs root|user [check]`. By root, `user` gives its rights up after all files
are made. With `check`, each command is also run without a sandbox, in a second world.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from execzmq.sandbox.model import Network, Permissions
from execzmq.sandbox.outside import Host
from execzmq.sandbox.verdict import Ending, judge
from execzmq.types.params import Limits
from tests.sandbox.cases import Case, User, load
from tests.sandbox.worlds import PATH, World, expanded, ports, template
from tests.sandbox.wrapped import TMP_BYTES, Bare, run

NOBODY = 65534
AT_ONCE = 4
REFUSALS = re.compile(
    rb"denied|read-only file|not permitted|cross-device|resource busy|no such file|no space"
    rb"|EROFS|EACCES|EPERM",
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
    script = expanded(case.run, env)
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


def _outside(case: Case, world: World, env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        ["/bin/sh", "-c", expanded(case.run, env)],
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


def _lose_rights(uid: int) -> None:
    if os.geteuid() == 0 and uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


class Job(NamedTuple):
    """One command with its world, and a second one where it is also run without a sandbox."""

    case: Case
    world: World
    second: World | None


def _run(job: Job, user: User, given: dict[str, str]) -> dict[str, Any]:
    told = _inside(job.case, job.world, job.world.env(given))
    if job.second is not None:
        told |= _outside(job.case, job.second, job.second.env(given))
    return {"run": job.case.run, "part": job.case.part, "is_denied": job.case.is_denied_to(user), **told}


def _jobs(base: Path, cases: list[Case], uid: int, is_checked: bool) -> list[Job]:
    repository = template(base)
    jobs = []
    for number, case in enumerate(cases):
        second = World(base / f"{number}o", case, repository) if is_checked and case.outside else None
        jobs.append(Job(case, World(base / f"{number}i", case, repository), second))
    for job in jobs:
        for world in (job.world, job.second):
            if world is not None:
                world.give_to(uid)
    return jobs


def _run_all(jobs: list[Job], user: User, given: dict[str, str], uid: int) -> list[dict[str, Any]]:
    """Run all in a child that has this user's rights, and return what it says of them."""
    with tempfile.TemporaryFile() as results:
        child = os.fork()
        if child == 0:
            _lose_rights(uid)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                told = list(pool.map(lambda job: _run(job, user, given), jobs))
            os.write(results.fileno(), json.dumps(told).encode())
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(1)
        results.seek(0)
        answer: list[dict[str, Any]] = json.load(results)
        return answer


def _memory() -> str:
    """Return where thousands of small files are cheap to make."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"


def main(user: User, is_checked: bool) -> None:
    """Run all that this user can run, and print the results in the order of the corpus."""
    uid = 0 if user == "root" else NOBODY if os.geteuid() == 0 else os.geteuid()
    cases = [case for case in load() if case.is_for(user)]
    missing = sorted({case.needs for case in cases if case.needs and not shutil.which(case.needs, path=PATH)})
    cases = [case for case in cases if case.needs not in missing]
    with (
        tempfile.TemporaryDirectory(prefix="xz-", dir=_memory(), ignore_cleanup_errors=True) as name,
        tempfile.NamedTemporaryFile(prefix="xz-", dir="/tmp") as hosttmp,
        ports() as given,
    ):
        os.chmod(name, 0o755)
        os.chmod(hosttmp.name, 0o644)
        jobs = _jobs(Path(name), cases, uid, is_checked)
        results = _run_all(jobs, user, {**given, "HOSTTMP": hosttmp.name}, uid)
    json.dump({"missing": missing, "results": results}, sys.stdout)


if __name__ == "__main__":
    main("root" if sys.argv[1] == "root" else "user", "check" in sys.argv[2:])
