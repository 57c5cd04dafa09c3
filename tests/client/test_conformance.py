"""The backend behind a server keeps what every backend promises."""

import pytest

from tests.conformance import CHECKS, Check, check_name
from tests.factories import open_remote, open_shared

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", CHECKS, ids=check_name)
async def test_remote_backend_keeps(check: Check) -> None:
    """Each promise, on a fresh server."""
    async with open_remote() as backend:
        await check(backend)


@pytest.mark.parametrize("check", CHECKS, ids=check_name)
async def test_shared_backend_keeps(check: Check) -> None:
    """Each promise also to who comes over the network."""
    async with open_shared() as backend:
        await check(backend)
