"""The backend of this Python keeps what every backend promises."""

import pytest

from tests.conformance import CHECKS, Check, check_name
from tests.factories import open_local

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", CHECKS, ids=check_name)
async def test_local_backend_keeps(check: Check) -> None:
    """Each promise, on a fresh backend."""
    async with open_local() as backend:
        await check(backend)
