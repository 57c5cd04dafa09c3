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
    """The inherited limit can be put in force, however many descriptors are open, and taken away again."""
    limit = DescriptorLimit()
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(150)]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (inherited[1], inherited[1])
    limit.lower()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == inherited
    limit.raise_again()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (inherited[1], inherited[1])
    for fd in many:
        os.close(fd)


def test_nothing_to_raise() -> None:
    """Where soft and hard are equal nothing is changed."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    equal = (before[1], before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, equal)
    limit = DescriptorLimit()
    limit.lower()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == equal
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
