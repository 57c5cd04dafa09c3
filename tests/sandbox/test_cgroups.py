"""Control groups: on a tree of files for each kind of host, and on this host as far as it has them."""

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from execzmq.sandbox import cgroup_files, cgroup_plan
from execzmq.sandbox.cgroups import Cgroup, Cgroups, Place, enable
from execzmq.types.params import Limits
from tests.commands import is_alive
from tests.sandbox.jail import joining
from tests.support import child, wait_until

BOTH = ("memory", "pids")
LIMITS = Limits(memory=64 << 20, processes=20)
SANDBOXES = cgroup_plan.SANDBOXES
LEAF = cgroup_plan.LEAF

FILES = {
    1: ("cgroup.procs", "memory.limit_in_bytes", "memory.oom_control", "pids.max", "pids.events"),
    2: (
        *("cgroup.procs", "cgroup.kill", "cgroup.controllers", "cgroup.subtree_control"),
        *("memory.max", "memory.oom.group", "memory.events", "pids.max", "pids.events"),
    ),
}


class Tree:
    """A root folder with the files that a kernel would show; new groups get theirs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._mkdir, self._rmdir = os.mkdir, os.rmdir
        self.shown = FILES[1] + FILES[2]
        self._mounts: list[str] = []
        self._groups: list[str] = []
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)

    def mount(self, version: int, controllers: str, own: str) -> Path:
        """Mount a tree, and put this process into the group `own` of it."""
        point = f"/sys/fs/cgroup/{controllers if version == 1 else 'unified'}"
        kind = f"cgroup cgroup rw,{controllers}" if version == 1 else "cgroup2 cgroup2 rw"
        self._mounts.append(f"9 1 0:9 / {point} rw - {kind}")
        self._groups.append(f"{version % 2}:{controllers if version == 1 else ''}:{own}")
        self.write("proc/self/mountinfo", "\n".join(self._mounts))
        self.write("proc/self/cgroup", "\n".join(self._groups))
        folder = self.root / f"{point}{own}".strip("/")
        self._fill(folder, version)
        if version == 2:
            (folder / "cgroup.controllers").write_text(controllers)
        return folder

    def write(self, name: str, text: str) -> None:
        """Write a file below the root."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Make a group with its files."""
        self._mkdir(path, mode)
        if str(path).startswith(f"{self.root}/sys"):
            self._fill(Path(path), 2 if "unified" in str(path) else 1)

    def rmdir(self, path: str) -> None:
        """Remove a group with its files, if no process is in it."""
        if str(path).startswith(f"{self.root}/sys") and os.path.isdir(path):
            procs = Path(path, "cgroup.procs")
            if procs.exists() and procs.read_text():
                raise OSError(errno.EBUSY, "busy")
            for file in Path(path).iterdir():
                file.unlink()
        self._rmdir(path)

    def _fill(self, folder: Path, version: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in {*FILES[version]} & {*self.shown}:
            (folder / name).touch()


@pytest.fixture
def tree(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """An empty root folder."""
    return Tree(short_tmp, monkeypatch)


def find(tree: Tree) -> Cgroups:
    """Look at that tree."""
    return Cgroups.find("server", str(tree.root))


async def test_version_1(tree: Tree) -> None:
    """With version 1 a group is made in each tree, below the server's own."""
    memory, pids = tree.mount(1, "memory", "/box"), tree.mount(1, "pids", "/")
    found = find(tree)
    assert found.controllers == {"memory", "pids"}
    assert not found.reason
    assert [place.folder for place in found.places] == [str(memory), str(pids).rstrip("/")]
    group = found.create("life", LIMITS)
    await group.add(os.getpid())
    (folder,) = memory.glob("execzmq.*.life")
    assert (folder / "memory.limit_in_bytes").read_text() == str(64 << 20)
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())
    assert not group.remove_now()
    (other,) = pids.glob("execzmq.*.life")
    assert not other.exists() or (other / "pids.max").read_text() == "21"


def test_version_2_in_a_container(tree: Tree) -> None:
    """Where nobody manages the tree the server's processes make way into a group below."""
    own = tree.mount(2, "cpu memory pids", "/")
    (own / "cgroup.procs").write_text("10\n11\n")
    found = find(tree)
    assert found.controllers == {"memory", "pids"}
    assert (own / LEAF / "cgroup.procs").read_text() in {"10", "11"}
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"
    group = found.create("life", LIMITS)
    (folder,) = own.glob("execzmq.*.life")
    assert (folder / "memory.max").read_text() == str(64 << 20)
    assert (folder / "memory.oom.group").read_text() == "1"
    assert (folder / "pids.max").read_text() == "21"
    (folder / "memory.events").write_text("oom 3\noom_kill 2\n")
    (folder / "pids.events").write_text("max 5\n")
    assert group.events() == (2, 5)
    (folder / "cgroup.procs").write_text("1\n")
    assert not asyncio.run(group.end(limit=0.0))
    assert (folder / "cgroup.kill").read_text() == "1"
    (folder / "cgroup.procs").write_text("")
    assert group.remove_now()
    assert group.remove_now()
    assert group.events() == (0, 0)


def test_version_2_beside_systemd(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under systemd only the unit for sandboxes is used, which says that it was given away."""
    own = tree.mount(2, "memory pids", "/app.slice/execzmq.service")
    tree.write("run/systemd/system/x", "")
    assert not find(tree).controllers
    assert SANDBOXES in find(tree).reason
    lent = own.parent / SANDBOXES
    os.mkdir(lent)
    (lent / "cgroup.controllers").write_text("memory pids")
    monkeypatch.setattr(
        os, "getxattr", lambda path, name: b"1" if (path, name) == (str(lent), "user.delegate") else b"0"
    )
    found = find(tree)
    assert found.controllers == {"memory", "pids"}
    assert not found.reason
    assert [place.folder for place in found.places] == [str(lent)]
    assert (own / "cgroup.subtree_control").read_text() == ""


def test_what_a_group_uses_in_version_1(tree: Tree) -> None:
    """Memory without files that the kernel can drop; times are counted elsewhere."""
    folder = tree.mount(1, "memory", "/box")
    group = find(tree).create("life", LIMITS)
    assert group.usage() == cgroup_plan.Counted()
    (made,) = folder.glob("execzmq.*.life")
    (made / "memory.usage_in_bytes").write_text("5000000\n")
    (made / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 1000000\n")
    assert group.usage() == cgroup_plan.Counted(None, 4_000_000)


def test_what_a_group_uses_in_version_2(tree: Tree) -> None:
    """Every group counts times, also those of who has ended."""
    own = tree.mount(2, "memory pids", "/")
    group = find(tree).create("life", LIMITS)
    (made,) = own.glob("execzmq.*.life")
    (made / "memory.current").write_text("5000000\n")
    (made / "memory.stat").write_text("anon 7\ninactive_file 6000000\n")
    (made / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert group.usage() == cgroup_plan.Counted(1.5, 0)


def test_hybrid(tree: Tree) -> None:
    """Version 2 without controllers is passed by for the trees of version 1, and what is missing is named."""
    tree.mount(2, "", "/")
    tree.mount(1, "pids", "/box")
    found = find(tree)
    assert found.controllers == {"pids"}
    assert "memory" in found.reason
    assert "pids" not in found.reason


def test_none(tree: Tree) -> None:
    """A host without control groups has none, and says so."""
    assert not find(tree).controllers
    assert "memory and pids" in find(tree).reason
    assert find(tree).recover(["a"]) == ({}, [])


def test_a_tree_that_refuses(tree: Tree) -> None:
    """A tree in which a limit cannot be written is not counted on, and nothing is left in it."""
    memory = tree.mount(1, "memory", "/box")
    tree.shown = ()
    assert not find(tree).controllers
    assert not list(memory.glob("execzmq.*"))


def test_who_is_listed_late_is_killed_too(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is being made while its parent is killed shows up only later."""
    tree.mount(1, "pids", "/box")
    group = find(tree).create("life", LIMITS)
    with sleeper() as parent, sleeper() as late:
        lists = iter([f"{parent.pid}\n", f"{parent.pid}\n", "", f"{late.pid}\n", f"{late.pid}\n"])
        read = cgroup_files.read
        monkeypatch.setattr(
            cgroup_files,
            "read",
            lambda folder, name: next(lists, "") if name == "cgroup.procs" else read(folder, name),
        )
        (folder,) = tree.root.glob("sys/fs/cgroup/pids/box/execzmq.*.life")
        (folder / "cgroup.procs").write_text("busy\n")
        assert not asyncio.run(group.end(limit=0.1))
        assert (parent.wait(), late.wait()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_nobody_is_kept_from_forking_before_the_kill(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot fork ends with a code of its own, and nobody would know that it was killed."""
    pids = tree.mount(1, "pids", "/box")
    group = find(tree).create("life", LIMITS)
    (folder,) = pids.glob("execzmq.*.life")
    limits = []

    def note(pidfd: int, signo: int) -> None:
        limits.append((folder / "pids.max").read_text())

    monkeypatch.setattr(signal, "pidfd_send_signal", note)
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")
    assert not asyncio.run(group.end(limit=0.0))
    assert limits == ["21"]
    assert (folder / "pids.max").read_text().startswith("0")


# on this host

MEMBER = """
import os, time
while open('/proc/self/cgroup').read().count('/execzmq.') < 2: time.sleep(0.001)
"""
"""Waits until the process is in its groups: those that it has made before are in none."""


@pytest.fixture
def real() -> Iterator[Cgroups]:
    """The groups of a server of this test's own; none may be left."""
    found = Cgroups.find(f"test-{os.getpid()}")
    if found.controllers != {"memory", "pids"}:
        pytest.skip(f"not on this host: {found.reason}")
    yield found
    assert found.recover() == ({}, [])


@contextmanager
def sleeper(*argv: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that stays until it is killed, at the end of the block at the latest."""
    with subprocess.Popen(argv or ("sleep", "1000"), stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[bytes]") -> bytes:
    """Return what a process says first."""
    assert process.stdout is not None
    return process.stdout.readline()


def folders(found: Cgroups, key: str) -> list[str]:
    """Return the folders that a group with this key has."""
    return [
        entry.path
        for place in found.places
        for entry in os.scandir(place.folder)
        if entry.name.startswith("execzmq.") and entry.name.endswith(f".{key}")
    ]


async def test_a_group_is_busy_until_its_last_process_is_gone(real: Cgroups) -> None:
    """Removing waits for the end of what is inside, and gives up in time."""
    group = real.create("life", LIMITS)
    with sleeper() as process:
        await group.add(process.pid)
        assert not await group.remove(limit=0.0)
        process.kill()
    assert await group.remove()
    assert await group.remove()
    assert folders(real, "life") == []


async def test_cancelled_removal_is_left_to_recover(real: Cgroups) -> None:
    """What a busy group left behind is found later."""
    group = real.create("life", LIMITS)
    with sleeper() as process:
        await group.add(process.pid)
        assert sorted(real.recover().busy) == sorted(folders(real, "life"))
        process.kill()
    assert real.recover() == ({}, [])
    assert folders(real, "life") == []


async def test_the_end_of_a_server_leaves_nothing(real: Cgroups) -> None:
    """What was just killed is waited for; what lives on keeps its group."""
    with sleeper() as one, sleeper() as other:
        await real.create("one", LIMITS).add(one.pid)
        await real.create("other", LIMITS).add(other.pid)
        one.kill()
        assert await real.tidy(["other"]) == []
        assert (folders(real, "one"), len(folders(real, "other"))) == ([], 2)
        assert sorted(await real.tidy(limit=0.0)) == sorted(folders(real, "other"))
        other.kill()
        assert await real.tidy() == []
        assert folders(real, "other") == []


async def test_kill_reaches_all(real: Cgroups) -> None:
    """KILL to a group ends what is in it, children that were made meanwhile too, and nobody else."""
    code = f"{MEMBER}for _ in range(5): os.fork()\nos.write(1, b'ready\\n')\nwhile True: time.sleep(9)"
    group = real.create("life", Limits(processes=100))
    with sleeper() as other, sleeper(*child(code)) as process:
        await group.add(process.pid)
        assert first_line(process) == b"ready\n"
        assert await group.end()
        assert process.wait() == -signal.SIGKILL
        assert other.poll() is None


async def test_kill_is_why_all_end(real: Cgroups) -> None:
    """Who is just making processes ends by the signal, and not because it cannot make another one."""
    code = f"{MEMBER}print('ready')\nwhile True:\n  if os.fork() == 0: os._exit(0)\n  os.wait()"
    for number in range(10):
        group = real.create(f"life-{number}", Limits(processes=100))
        with sleeper(*child(code)) as process:
            await group.add(process.pid)
            assert first_line(process) == b"ready\n"
            assert await group.end()
            assert process.wait() == -signal.SIGKILL


async def test_a_key_is_used_again(real: Cgroups) -> None:
    """An empty group of an earlier life is made anew; a busy one is refused."""
    real.create("life", LIMITS)
    group = real.create("life", LIMITS)
    with sleeper() as process:
        await group.add(process.pid)
        with pytest.raises(OSError, match="busy"):
            real.create("life", LIMITS)
        process.kill()
    assert await group.remove()


async def test_a_process_that_has_ended(real: Cgroups) -> None:
    """It cannot be added, and the group can be removed at once."""
    with sleeper() as process:
        process.kill()
    group = real.create("life", LIMITS)
    with pytest.raises(ProcessLookupError):
        await group.add(process.pid)
    assert group.remove_now()


def test_two_servers_beside_each_other(real: Cgroups) -> None:
    """One server recovers nothing of another's, the same key or not."""
    other = Cgroups.find(f"test-{os.getpid()}-other")
    kept = real.create("life", LIMITS)
    assert other.recover(["life"]) == ({}, [])
    assert folders(real, "life")
    mine = other.create("life", LIMITS)
    assert kept.remove_now()
    assert len(folders(other, "life")) == len(other.places)
    assert mine.remove_now()


def test_killed_server(real: Cgroups) -> None:
    """After kill -9 the next life has the group of what lives, with its counts, and removes the rest."""
    code = (
        "import asyncio, subprocess, sys\nfrom execzmq.sandbox.cgroups import Cgroups\n"
        "from execzmq.types.params import Limits\n"
        "found = Cgroups.find(sys.argv[1])\n"
        "for n in range(5): found.create(f'gone-{n}', Limits(processes=3))\n"
        "line = 'read x; sleep 9 & sleep 9 & sleep 9 & sleep 9'\n"
        "process = subprocess.Popen(['sh', '-c', line], stdin=0, stderr=subprocess.DEVNULL)\n"
        "asyncio.run(found.create('alive', Limits(processes=1)).add(process.pid))\n"
        "print(process.pid, flush=True)\nsys.stdout.close()\nprocess.wait()"
    )
    argv = [*child(code), f"test-{os.getpid()}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        pid = int(server.stdout.readline())
        server.kill()
        server.wait()
        known, busy = real.recover(["alive"])
        assert (list(known), busy) == (["alive"], [])
        assert folders(real, "gone-3") == []
        server.stdin.write(b"\n")
        server.stdin.flush()
        wait_until(lambda: known["alive"].events().refused_forks > 0)
        assert asyncio.run(known["alive"].end())
    wait_until(lambda: not is_alive(pid))


def test_groups_of_servers_that_have_ended_go(real: Cgroups) -> None:
    """The next server of this user removes them; what is busy, or of one that lives, stays."""
    code = (
        "import asyncio, sys, time\nfrom execzmq.sandbox.cgroups import Cgroups\n"
        "from execzmq.types.params import Limits\n"
        "found = Cgroups.find(sys.argv[1])\n"
        "found.create('empty', Limits(processes=3))\n"
        "busy = found.create('busy', Limits(processes=3))\n"
        "asyncio.run(busy.add(int(sys.argv[2])))\n"
        "print('ready', flush=True)\ntime.sleep(1000)"
    )
    dead = Cgroups.find(name := f"test-{os.getpid()}-dead")
    with sleeper() as inside:
        with sleeper(*child(code), name, str(inside.pid)) as server:
            assert first_line(server) == b"ready\n"
            assert real.recover() == ({}, [])
            assert len(folders(dead, "empty")) == 2
        assert real.recover() == ({}, [])
        assert folders(dead, "empty") == []
        assert len(folders(dead, "busy")) == 2
        # The next life takes them over: they are not abandoned any more.
        known = dead.recover(["busy"]).known
        inside.kill()
        inside.wait()
        assert real.recover() == ({}, [])
        assert len(folders(dead, "busy")) == 2
    assert asyncio.run(known["busy"].remove())


async def test_who_joins_by_itself(real: Cgroups) -> None:
    """With some words before its command a process is in the group before it executes that."""
    group = real.create("life", LIMITS)
    words = [
        *map(os.fsdecode, joining(group)),
        "sh",
        "-c",
        'cat /proc/self/cgroup; echo "$0 $1"',
        "a b",
        "--",
    ]
    with sleeper(*words) as process:
        assert process.stdout is not None
        said = process.stdout.read().decode()
        assert process.wait() == 0
    groups = cgroup_plan.memberships(said.removesuffix("a b --\n"))
    assert cgroup_plan.is_member(f"{cgroup_plan.prefix_of(f'test-{os.getpid()}')}life", BOTH, groups)
    assert await group.remove()


async def test_a_group_that_cannot_be_joined(real: Cgroups) -> None:
    """The command is executed all the same, without a word of ours, and is put into the group later."""
    group = real.create("life", LIMITS)
    words = [*map(os.fsdecode, joining(group)), "sh", "-c", "echo said; exec sleep 1000"]
    renamed = [word.replace("life/tasks", "none/tasks") for word in words]
    with sleeper(*renamed) as process:
        assert first_line(process) == b"said\n"
        assert await group.add(process.pid) == {"memory", "pids"}
        assert await group.end()
        assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
async def test_a_thousand_lives(real: Cgroups) -> None:
    """A thousand groups, each with a process, leave nothing."""
    spent, longest = 0.0, 0.0
    for number in range(1000):
        with sleeper() as process:
            before = time.perf_counter()
            group = real.create(f"life-{number}", LIMITS)
            await group.add(process.pid)
            spent += time.perf_counter() - before
            process.kill()
        before = time.perf_counter()
        assert await group.remove()
        longest = max(longest, time.perf_counter() - before)
    assert real.recover() == ({}, [])
    print(f"create + add {spent:.3f} ms each, longest remove {longest * 1000:.1f} ms")


# version 2 on this host, with whatever it controls there


@pytest.fixture
def unified() -> Iterator[str]:
    """A group of version 2 of this test's own."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [tree.point for tree in cgroup_plan.hierarchies(file.read()) if tree.version == 2]
    if not points or not os.access(points[0], os.W_OK):
        pytest.skip("no version 2 tree that this user may write to")
    folder = f"{points[0]}/execzmq-test-{os.getpid()}"
    os.mkdir(folder)
    yield folder
    for name in (f"{folder}/{LEAF}", folder):
        wait_until(lambda name=name: cgroup_files.remove(name))  # type: ignore[misc]  # bound now


async def test_version_2_kills_and_removes(unified: str) -> None:
    """`cgroup.kill` ends all, and the group can then be removed."""
    place = Place(unified, 2, frozenset())
    group = Cgroups("test.", (place,)).create("life", LIMITS)
    with sleeper() as process:
        await group.add(process.pid)
        assert not group.remove_now()
        assert await group.end()
        assert process.wait() == -signal.SIGKILL


def test_version_2_makes_way(unified: str) -> None:
    """A group that has processes gives controllers to those below it only after they have left it."""
    available = Path(unified, "cgroup.controllers").read_text().split()
    if not available:
        pytest.skip("version 2 controls nothing on this host")
    with sleeper() as process:
        asyncio.run(Cgroup({Place(unified, 2, frozenset()): unified}).add(process.pid))
        with pytest.raises(OSError, match="busy"):
            Path(unified, "cgroup.subtree_control").write_text(f"+{available[0]}")
        enable(unified, available[:1])
        assert Path(unified, LEAF, "cgroup.procs").read_text() == f"{process.pid}\n"
        assert Path(unified, "cgroup.subtree_control").read_text().split() == available[:1]
        enable(unified, available[:1])
        process.kill()
