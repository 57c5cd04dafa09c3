"""What is known of control groups as text."""

import pytest

from execzmq.sandbox.cgroup_plan import (
    LEAF,
    SANDBOXES,
    Hierarchy,
    Write,
    counter,
    folder_of,
    hierarchies,
    lent,
    memberships,
    prefix_of,
    writes,
)
from execzmq.types.params import Limits

HYBRID = """\
23 1 8:1 / / rw,relatime - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/1f /sys/fs/cgroup/me\\040mory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate
"""
GROUPS = "8:pids:/user.slice/a:b\n4:memory:/docker/1f/web\n2:cpu,cpuacct:/\n0::/user.slice\n"
USER = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice"


def test_hierarchies() -> None:
    """Each mounted tree is found, with what it controls here and which part of it is shown."""
    assert hierarchies(HYBRID) == [
        Hierarchy(1, frozenset(), "/", "/sys/fs/cgroup/cpu,cpuacct"),
        Hierarchy(1, frozenset({"memory"}), "/docker/1f", "/sys/fs/cgroup/me mory"),
        Hierarchy(1, frozenset({"pids"}), "/", "/sys/fs/cgroup/pids"),
        Hierarchy(2, frozenset(), "/", "/sys/fs/cgroup/unified"),
    ]
    assert hierarchies("") == []


def test_own_folders() -> None:
    """The group of a process is a folder below the mount point, as far as the mount shows it."""
    groups = memberships(GROUPS)
    _, memory, pids, unified = hierarchies(HYBRID)
    assert folder_of(memory, groups) == "/sys/fs/cgroup/me mory/web"
    assert folder_of(memory, {"memory": "/docker/1f"}) == "/sys/fs/cgroup/me mory"
    assert folder_of(pids, groups) == "/sys/fs/cgroup/pids/user.slice/a:b"
    assert folder_of(unified, groups) == "/sys/fs/cgroup/unified/user.slice"


@pytest.mark.parametrize("group", ["/docker/other", "/docker/1f2", "/../x", "/"])
def test_a_group_that_is_not_shown(group: str) -> None:
    """A group outside of what is mounted has no folder."""
    memory = hierarchies(HYBRID)[1]
    assert folder_of(memory, {"memory": group}) is None
    assert folder_of(memory, {}) is None


@pytest.mark.parametrize(
    ("own", "delegated", "is_managed", "expected"),
    [
        ("/sys/fs/cgroup", [], False, "/sys/fs/cgroup"),
        (f"/sys/fs/cgroup/{LEAF}", [], False, "/sys/fs/cgroup"),
        (f"{USER}/run-1.scope", [], True, None),
        (f"{USER}/run-1.scope", [f"{USER}/run-1.scope"], True, f"{USER}/run-1.scope"),
        (f"{USER}/run-1.scope/{LEAF}", [f"{USER}/run-1.scope"], True, f"{USER}/run-1.scope"),
        (f"{USER}/execzmq.service", [f"{USER}/execzmq.service"], True, None),
        (f"{USER}/execzmq.service", [f"{USER}/{SANDBOXES}"], True, f"{USER}/{SANDBOXES}"),
        (f"{USER}/terminal.scope", [f"{USER}/{SANDBOXES}"], True, f"{USER}/{SANDBOXES}"),
    ],
)
def test_whose_group_may_be_had(
    own: str, delegated: list[str], is_managed: bool, expected: str | None
) -> None:
    """Only what systemd has given away, or what nobody manages; never the group of a service itself."""
    assert lent(own, is_managed, lambda folder: folder in delegated) == expected


def test_two_servers_have_two_prefixes() -> None:
    """No name of one server's begins as those of another one do, whatever they are called."""
    first, second = prefix_of("/state/a"), prefix_of("/state/a.b")
    assert not first.startswith(second)
    assert not second.startswith(first)
    assert prefix_of("/state/\udcff") != first


def test_what_is_written() -> None:
    """Version 2 ends a sandbox as a whole and without swap; pid 1 of the sandbox is counted besides."""
    limits = Limits(memory=1000, processes=4, cpu=1)
    both = ("memory", "pids")
    assert writes(2, both, limits) == [
        Write("memory.max", "1000"),
        Write("memory.swap.max", "0", optional=True),
        Write("memory.oom.group", "1", optional=True),
        Write("pids.max", "5"),
    ]
    assert writes(1, ["memory"], limits) == [
        Write("memory.limit_in_bytes", "1000"),
        Write("memory.memsw.limit_in_bytes", "1000", optional=True),
    ]
    assert writes(1, ["pids"], limits) == [Write("pids.max", "5")]
    assert writes(2, both, Limits(cpu=1)) == []
    assert writes(2, both, Limits(processes=1 << 40)) == [Write("pids.max", "4194304")]


def test_counters() -> None:
    """A count is found by its whole name, and is 0 where there is none."""
    text = "low 0\noom 7\noom_kill 3\noom_group_kill 1\n"
    assert [counter(text, name) for name in ("oom_kill", "oom", "max")] == [3, 7, 0]
    assert counter("", "oom_kill") == 0
