"""Limits of a sandbox: what is decided, and that it holds, as root and as an ordinary user."""

import asyncio
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.errors import InvalidRequest, SandboxUnavailable
from execzmq.sandbox import cgroup_files
from execzmq.sandbox import limits as module
from execzmq.sandbox.cgroups import Cgroups, Place
from execzmq.sandbox.limits import LimitPlan, Rlimit, check, counts_processes, enforce, group_for, plan
from execzmq.types.params import Limits
from tests.sandbox.jail import MIB, NOBODY, Ended, as_user, confine, held, names_in, python

ALL = Limits(memory=100 * MIB, cpu=3, processes=7, file_size=5, descriptors=64)
BOTH = ("memory", "pids")
NO_CORE = Rlimit(resource.RLIMIT_CORE, 0, 0)
IS_ROOT = os.geteuid() == 0

FORKS = """
import os, time
made = 0
for _ in range(250):
    try:
        pid = os.fork()
    except OSError as error:
        print(made, error.errno == 11)
        break
    if pid == 0:
        time.sleep(60)
    made += 1
else:
    print(made)
"""
HOG = "print(len(bytearray(400 << 20)))"
FILL = "file = open('/tmp/f', 'wb')\nfor _ in range(300): file.write(bytes(1 << 20))\nprint('filled')"
FAMILY = """
import os
for generation in range(4):
    kept = None
    kept = bytearray(60 << 20)
    if pid := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
print('all four')
"""


# what is decided


def test_nothing_asked_leaves_no_core() -> None:
    """Without any limit there is still no core dump."""
    assert plan(Limits(), BOTH, 0) == LimitPlan((NO_CORE,), {}, ())


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_group_keeps_what_it_can(uid: int) -> None:
    """A control group bounds memory and processes of the whole sandbox; the rest is each process's."""
    found = plan(ALL, BOTH, uid)
    assert found.rlimits == (
        NO_CORE,
        Rlimit(resource.RLIMIT_CPU, 3, 4),
        Rlimit(resource.RLIMIT_FSIZE, 5, 5),
        Rlimit(resource.RLIMIT_NOFILE, 64, 64),
    )
    assert found.enforced == {
        "memory": "sandbox",
        "cpu": "process",
        "processes": "sandbox",
        "file_size": "process",
        "descriptors": "process",
    }
    assert found.missing == ()


def test_an_ordinary_user_without_a_group() -> None:
    """Then memory is each process's address space, which bounds no sandbox; processes are still counted."""
    found = plan(ALL, (), 1000)
    assert Rlimit(resource.RLIMIT_AS, 100 * MIB, 100 * MIB) in found.rlimits
    assert Rlimit(resource.RLIMIT_NPROC, 8, 8) in found.rlimits
    assert (found.enforced["memory"], found.enforced["processes"]) == ("process", "sandbox")
    assert found.missing == ("memory",)


def test_root_without_a_group() -> None:
    """Nobody counts root's processes."""
    found = plan(ALL, (), 0)
    assert "processes" not in found.enforced
    assert found.missing == ("memory", "processes")
    assert all(limit.kind != resource.RLIMIT_NPROC for limit in found.rlimits)


def test_whose_processes_are_counted() -> None:
    """Those of one sandbox alone are, since Linux 5.14, except for root."""
    assert counts_processes(1000, "6.18.44-generic")
    assert counts_processes(1000, "5.14.0")
    assert not counts_processes(1000, "5.10.0-8-amd64")
    assert not counts_processes(1000, "?")
    assert not counts_processes(0, "6.18.44")
    assert plan(ALL, (), 1000, "5.10.0").missing == ("memory", "processes")


def test_required_limits_that_are_missing() -> None:
    """What was required and cannot be had is refused, by name and with what helps."""
    check(plan(ALL, BOTH, 0), "start this")
    with pytest.raises(SandboxUnavailable, match=r"\(processes\): start this") as caught:
        check(plan(Limits(processes=3, cpu=1), (), 0), "start this")
    assert caught.value.missing == ["processes"]


def test_too_few_descriptors() -> None:
    """With fewer than bubblewrap itself needs it would fail half-way."""
    with pytest.raises(InvalidRequest, match="16"):
        plan(Limits(descriptors=15), BOTH, 0)


# that it holds


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A folder that every user may write to."""
    folder = Path(tempfile.mkdtemp(prefix="xz-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


class Who:
    """A user, and the control groups that it may make."""

    def __init__(self, uid: int, cgroups: Cgroups) -> None:
        self.uid = uid
        self.cgroups = cgroups

    def confine(
        self, command: list[str], limits: Limits, workspace: Path, tmp_bytes: int = 64 * MIB
    ) -> Ended:
        """Run a command in a sandbox as this user; its control group must be gone afterwards."""
        ended = as_user(self.uid, lambda: confine(command, limits, self.cgroups, str(workspace), tmp_bytes))
        assert ended.is_removed
        return ended


@pytest.fixture(params=["root", "root-without-groups", "nobody", "nobody-with-groups"])
def who(request: pytest.FixtureRequest) -> Iterator[Who]:
    """Root and an ordinary user, with control groups and without."""
    user, _, groups = request.param.partition("-")
    if not IS_ROOT and request.param != "nobody":
        pytest.skip("needs root")
    uid = 0 if user == "root" else NOBODY if IS_ROOT else os.geteuid()
    if request.param == "nobody-with-groups":
        lent = _lend(Cgroups.find("test_limits"), NOBODY)
        yield Who(uid, lent)
        for place in lent.places:
            os.rmdir(place.folder)
    else:
        none = groups == "without-groups" or user == "nobody"
        yield Who(uid, Cgroups("none.") if none else Cgroups.find("test_limits"))


def _lend(cgroups: Cgroups, uid: int) -> Cgroups:
    """Return what a user may do whom root has given a group in each tree."""
    places = []
    for place in cgroups.places:
        folder = f"{place.folder}/execzmq-test-{os.getpid()}"
        os.mkdir(folder)
        for name in ("", "/cgroup.procs", "/tasks"):
            os.chown(folder + name, uid, uid)
        places.append(Place(folder, place.version, place.controllers))
    return Cgroups("lent.", tuple(places))


def has(who: Who, controller: str) -> bool:
    """Tell whether this user has groups with a controller."""
    return controller in who.cgroups.controllers


def test_fork_bomb(who: Who, workspace: Path) -> None:
    """E50: of 250 forks those are refused that pass the limit; the command itself counts."""
    ended = who.confine(python(FORKS), Limits(processes=64), workspace)
    if who.uid == 0 and not has(who, "pids"):
        assert (ended.output, ended.enforced) == ("250\n", {})
    else:
        assert (ended.output, ended.enforced) == ("63 True\n", {"processes": "sandbox"})
    assert ended.facts.refused_forks == has(who, "pids")


def test_a_group_that_is_joined_at_the_gate(who: Who, workspace: Path) -> None:
    """A wrapper that has not joined its group by itself is put there; the limits are the same."""

    def bombed() -> tuple[int, str]:
        with held(python(FORKS), str(workspace)) as sandbox:
            limits = Limits(processes=64)
            enforced = asyncio.run(enforce(sandbox.pid, "life", limits, who.cgroups, os.geteuid()))
            ended = sandbox.release()
        assert enforced.cgroup is None or asyncio.run(enforced.cgroup.remove())
        return ended

    is_counted = who.uid != 0 or has(who, "pids")
    assert as_user(who.uid, bombed) == (0, "63 True\n" if is_counted else "250\n")


def test_nothing_to_limit_makes_no_group(who: Who) -> None:
    """Limits that each process has for itself need no control group."""
    assert group_for("life", Limits(cpu=1), who.cgroups) is None
    assert who.cgroups.recover() == ({}, [])


def test_one_process(who: Who, workspace: Path) -> None:
    """A command that may be one process only can run and fork nothing."""
    ended = who.confine(["sh", "-c", "echo one; /bin/true && echo two"], Limits(processes=1), workspace)
    is_counted = who.uid != 0 or has(who, "pids")
    assert ended.output.startswith("one\n")
    assert ("two" in ended.output) is not is_counted


def test_memory_hog(who: Who, workspace: Path) -> None:
    """E51: 400 MiB are not to be had; a control group kills and counts it, otherwise asking fails."""
    size = 160 * MIB if has(who, "memory") else 256 * MIB
    ended = who.confine(python(HOG), Limits(memory=size), workspace)
    if has(who, "memory"):
        assert ended.code == 128 + signal.SIGKILL
        assert ended.facts.oom_kills >= 1
        assert ended.enforced == {"memory": "sandbox"}
    else:
        assert ended.code == 1
        assert "MemoryError" in ended.output
        assert ended.facts.oom_kills == 0
        assert ended.enforced == {"memory": "process"}


def test_memory_of_a_family(who: Who, workspace: Path) -> None:
    """Four processes that together take more: a control group bounds them all, an address space does not."""
    ended = who.confine(python(FAMILY), Limits(memory=160 * MIB), workspace)
    assert (ended.facts.oom_kills > 0) is has(who, "memory")
    assert (ended.output == "all four\n") is not has(who, "memory")


def test_files_in_memory_count(who: Who, workspace: Path) -> None:
    """What is written to the sandbox's own /tmp is memory: it counts with a group, and its size bounds it."""
    ended = who.confine(python(FILL), Limits(memory=100 * MIB), workspace, tmp_bytes=1024 * MIB)
    assert (ended.facts.oom_kills > 0) is has(who, "memory")
    assert (ended.output == "filled\n") is not has(who, "memory")
    ended = who.confine(python(FILL), Limits(memory=100 * MIB), workspace, tmp_bytes=16 * MIB)
    assert "No space left on device" in ended.output


def test_core_dump(who: Who, workspace: Path) -> None:
    """E55: an abort leaves no core, also when the command asks for one."""
    ended = who.confine(["sh", "-c", "ulimit -c unlimited; kill -ABRT $$"], Limits(), workspace)
    assert ended.code in {128 + signal.SIGABRT, 2}
    ended = who.confine(python("import os; os.abort()"), Limits(), workspace)
    assert ended.code == 128 + signal.SIGABRT
    assert names_in(workspace) == []


def test_descriptors(who: Who, workspace: Path) -> None:
    """E56: of 5,000 duplicates those are refused that pass the limit; it cannot be raised."""
    code = (
        "import os, resource\ncount = 0\ntry:\n  while count < 5000: os.dup(0); count += 1\n"
        "except OSError as error: print(count, error.strerror)\n"
        "try: resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))\n"
        "except (OSError, ValueError): print('stays')"
    )
    ended = who.confine(python(code), Limits(descriptors=1024), workspace)
    assert ended.output == "1021 Too many open files\nstays\n"


def test_file_size(who: Who, workspace: Path) -> None:
    """A file ends at the limit, and its writer by SIGXFSZ."""
    code = "import signal; signal.signal(25, signal.SIG_DFL); open('f', 'wb', 0).write(bytes(4 << 20))"
    ended = who.confine(python(code + "; open('f', 'ab', 0).write(b'x')"), Limits(file_size=MIB), workspace)
    assert ended.code == 128 + signal.SIGXFSZ
    assert (workspace / "f").stat().st_size == MIB
    assert ended.facts.enforced == {"file_size"}


@pytest.mark.slow
def test_cpu(who: Who, workspace: Path) -> None:
    """A process that computes for too long ends by SIGXCPU, one that ignores that a second later by KILL."""
    ended = who.confine(["sh", "-c", "exec sh -c 'while :; do :; done'"], Limits(cpu=1), workspace)
    assert ended.code == 128 + signal.SIGXCPU
    ended = who.confine(["sh", "-c", "trap '' XCPU; while :; do :; done"], Limits(cpu=1), workspace)
    assert ended.code == 128 + signal.SIGKILL


def test_least_descriptors_are_enough(who: Who, workspace: Path) -> None:
    """With the fewest that may be asked for a sandbox can be built."""
    limits = Limits(descriptors=module.LEAST_DESCRIPTORS)
    assert who.confine(["true"], limits, workspace).code == 0


def test_no_way_out_of_the_group(who: Who, workspace: Path) -> None:
    """What runs inside can neither leave its control group nor raise its limits, whoever owns the files."""
    code = (
        "import glob, os\nopened = []\n"
        "for name in ('cgroup.procs', 'tasks', 'pids.max', 'memory.limit_in_bytes', 'memory.max'):\n"
        "  for path in glob.glob('/sys/fs/cgroup/**/' + name, recursive=True):\n"
        "    try: opened.append(os.open(path, os.O_WRONLY))\n"
        "    except OSError: pass\n"
        "print(opened)"
    )
    ended = who.confine(python(code), Limits(memory=160 * MIB, processes=64), workspace)
    assert ended.output == "[]\n"


def test_a_required_limit_that_is_missing_starts_nothing(who: Who, workspace: Path) -> None:
    """The refusal comes before the command runs, and leaves no control group."""

    def refused() -> tuple[str, ...]:
        with held(["touch", "ran"], str(workspace)) as sandbox:
            try:
                enforced = asyncio.run(
                    enforce(sandbox.pid, "life", ALL, who.cgroups, os.geteuid(), required=True)
                )
            except SandboxUnavailable as error:
                return tuple(error.missing)
        assert enforced.cgroup is not None
        assert asyncio.run(enforced.cgroup.remove())
        return ()

    missing = as_user(who.uid, refused)
    expected = [] if has(who, "memory") else ["memory"]
    if not has(who, "pids") and who.uid == 0:
        expected.append("processes")
    assert list(missing) == expected
    assert names_in(workspace) == []
    assert who.cgroups.recover() == ({}, [])


def test_a_sandbox_that_has_ended(who: Who, workspace: Path) -> None:
    """Limits of what has ended cannot be set; that is said, and leaves no control group."""

    def ended() -> None:
        with held(["true"], str(workspace)) as sandbox:
            sandbox.close()
            with pytest.raises(ProcessLookupError):
                asyncio.run(enforce(sandbox.pid, "life", ALL, who.cgroups, os.geteuid()))

    as_user(who.uid, ended)
    assert who.cgroups.recover() == ({}, [])


def test_a_group_that_takes_nobody(who: Who, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the process may not be put into its group, resource limits take its place, and that is said."""
    monkeypatch.setattr(cgroup_files, "write", refuse_processes)

    def limited() -> LimitPlan:
        with held(["true"], str(workspace)) as sandbox:
            enforced = asyncio.run(enforce(sandbox.pid, "life", ALL, who.cgroups, os.geteuid()))
            assert enforced.cgroup is None
            return enforced.plan

    assert as_user(who.uid, limited) == plan(ALL, (), who.uid)
    assert who.cgroups.recover() == ({}, [])


def refuse_processes(folder: str, name: str, value: str) -> None:
    """Write as ever, but no process into a group."""
    if name in {"cgroup.procs", "tasks"}:
        raise PermissionError
    Path(folder, name).write_text(value)
