"""What every test of networks needs: hosts, or a word on why there are none."""

import pytest

from tests.networks import hosts


@pytest.fixture(autouse=True)
def can_have_hosts() -> None:
    """Skip where this machine lets nobody make a host."""
    if reason := hosts.why_not():
        pytest.skip(reason)


@pytest.fixture
def can_lose() -> None:
    """Skip where packets cannot be lost."""
    if reason := hosts.why_no_loss():
        pytest.skip(reason)


@pytest.fixture
def can_be_slow() -> None:
    """Skip where packets cannot be delayed."""
    if reason := hosts.why_no_delay():
        pytest.skip(reason)
