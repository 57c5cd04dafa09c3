"""The backend behind ssh keeps what every backend promises."""

import pytest

from execzmq.environments.model import Ssh
from execzmq.environments.opening import open_ssh
from execzmq.types.backend import ExecBackend
from tests.conformance import CHECKS, Check, check_name
from tests.environments.sshd import SshServer

pytestmark = pytest.mark.soak  # a login and a server for each


@pytest.mark.parametrize("check", CHECKS, ids=check_name)
async def test_backend_behind_ssh_keeps(check: Check, box: SshServer) -> None:
    """Each promise, on a fresh server."""
    backend: ExecBackend = await open_ssh("box", Ssh(box.address, box.port, box.command))
    try:
        await check(backend)
    finally:
        await backend.aclose()
