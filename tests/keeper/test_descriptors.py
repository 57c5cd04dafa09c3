"""The limit on descriptors, raised here and not for commands."""

import os
import resource
from collections.abc import Iterator

import pytest

from execzmq.keeper.descriptors import DescriptorLimit

Pair = tuple[int, int]


@pytest.fixture
def inherited() -> Iterator[Pair]:
    """A soft limit well below the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowered = (100, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, lowered)
    yield lowered
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_raised_and_lowered(inherited: Pair) -> None:
    """Two descriptors can be opened under the lowered limit, however many are open."""
    limit = DescriptorLimit()
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(150)]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (inherited[1], inherited[1])
    with limit.lowered():
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == inherited
        for fd in os.pipe():
            os.close(fd)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (inherited[1], inherited[1])
    for fd in many:
        os.close(fd)
    limit.close()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == inherited


def test_nothing_to_raise() -> None:
    """Where soft and hard are equal nothing is changed and nothing reserved."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    fds = len(os.listdir("/proc/self/fd"))
    limit = DescriptorLimit()
    with limit.lowered():
        assert len(os.listdir("/proc/self/fd")) == fds
    limit.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
