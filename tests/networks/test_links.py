"""The hosts and links of these tests do what they say, and leave nothing."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from execzmq.connection import host_id
from tests.networks import hosts, probe
from tests.networks.hosts import Host
from tests.networks.links import Link, SlowLink
from tests.support import ms, wait_until

pytestmark = pytest.mark.slow

Pair: TypeAlias = tuple[Host, Host]


@pytest.fixture
def pair(short_tmp: Path) -> Iterator[Pair]:
    """Two hosts, the first of which answers; the second does not see the folder of the test."""
    with hosts.made(1, [short_tmp]) as made:
        argv = [*made[0].enter, sys.executable, probe.__file__, "echo"]
        answering = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert answering.stdout is not None
            assert answering.stdout.readline() == b"ready\n"
            yield made[0], made[1]
        finally:
            answering.communicate()


def ask(link: Link, version: int, count: int = 1, patience: float = 3.0) -> dict[int, float]:
    """Ask the near end from the far one; return the numbers that came back, in order, and their seconds."""
    words = [probe.__file__, "ask", link.address(version), str(count), "0.001", str(patience)]
    lines = link.far.do(sys.executable, *words).splitlines()
    return {int(number): float(seconds) for number, seconds in map(str.split, lines)}


def test_hosts_see_each_other_until_the_link_is_cut(pair: Pair) -> None:
    """By IPv4 and IPv6; healed it is as before, addresses included."""
    link = Link(*pair, 1)
    assert ask(link, 4)
    assert ask(link, 6)
    link.cut()
    assert not ask(link, 4, patience=0.2)
    assert not ask(link, 6, patience=0.2)
    link.heal()
    wait_until(lambda: bool(ask(link, 4, patience=0.2)))
    wait_until(lambda: bool(ask(link, 6, patience=0.2)))


def test_a_link_that_loses(pair: Pair, can_lose: None) -> None:
    """A fifth of the packets, each way: between a half and four fifths of the answers come."""
    link = Link(*pair, 1)
    link.lose(20.0)
    assert 250 < len(ask(link, 4, 500, patience=0.5)) < 400
    link.silence()
    assert not ask(link, 4, patience=0.2)
    link.speak()
    assert len(ask(link, 6, 500)) == 500


def test_a_slow_link(pair: Pair, can_be_slow: None) -> None:
    """There and back takes twice the delay, in order where nothing overtakes."""
    with contextlib.closing(SlowLink(*pair, 1, delay=0.03, jitter=0.01)) as link:
        answers = ask(link, 4, 100)
        assert list(answers) == list(range(100))
        assert 0.04 < min(answers.values()) <= max(answers.values()) < ms(3000)
        link.cut()
        assert not ask(link, 6, patience=0.2)
        link.heal()
        wait_until(lambda: bool(ask(link, 6, patience=0.2)))


def test_a_link_on_which_packets_overtake(pair: Pair, can_be_slow: None) -> None:
    """All come, and not in order."""
    with contextlib.closing(SlowLink(*pair, 1, delay=0.03, reorder=20.0)) as link:
        answers = ask(link, 4, 200)
        assert sorted(answers) == list(range(200)) != list(answers)


def test_what_is_far_is_another_machine(pair: Pair, short_tmp: Path) -> None:
    """It sees other files, and its programs count as those of another machine."""
    (short_tmp / "file").touch()
    near, far = pair
    assert near.do("ls", str(short_tmp)) == "file\n"
    assert far.do("ls", str(short_tmp)) == ""
    code = "from execzmq.connection import host_id; print(host_id())"
    assert near.do(sys.executable, "-c", code) == f"{host_id()}\n"
    assert far.do(sys.executable, "-c", code) != f"{host_id()}\n"


def test_nothing_is_left(short_tmp: Path) -> None:
    """When the holders are gone, so are the namespaces with all that is in them."""
    with hosts.made(1, [short_tmp]) as made:
        Link(made[0], made[1], 1)
        names = [os.readlink(f"/proc/{host.pid}/ns/net") for host in made]
    assert os.readlink("/proc/self/ns/net") not in names
    assert not set(names) & _namespaces()


def _namespaces() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return found
