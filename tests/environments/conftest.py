"""A machine that ssh reaches, for each test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.environments import store
from tests.environments.sshd import SSH, SSHD, SshServer


@pytest.fixture
def box(no_leaks: None, home_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """An ssh server, which the user's file names `box`."""
    if SSHD is None or SSH is None:
        pytest.skip("needs OpenSSH's client and server")
    server = SshServer(home_root)
    monkeypatch.setenv("PATH", server.path)
    name_environments(server.environment())
    try:
        yield server
        server.shut_down()
    finally:
        server.close()


def name_environments(text: str) -> None:
    """Write the user's own file of environments."""
    path = store.user_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
