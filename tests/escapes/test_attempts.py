"""Attempts to get out of a sandbox, through a real server: what each did is looked up on the host.

The attempts that are independent of each other are made in one start. Each is also made without a sandbox
where that does no harm: there it goes through, so that one that is stopped was worth to be made.
"""

from collections.abc import Iterator

import pytest

from tests.escapes.attempts import HOST, MINIMAL, PLAIN, Attempt, Run
from tests.escapes.attempts_files import FILES
from tests.escapes.attempts_kernel import ALONE, ANYWHERE, KERNEL, TOGETHER
from tests.escapes.making import Home, made

pytestmark = pytest.mark.slow

MODES = [(mode, tty) for mode in (HOST, MINIMAL) for tty in (False, True)] + [(PLAIN, False)]
WITHOUT = (*FILES, *KERNEL, *ALONE, *ANYWHERE)
WITH = (*TOGETHER, *ANYWHERE)


def _id(value: object) -> str:
    if isinstance(value, Attempt):
        return f"{value.number} {value.title}"
    assert isinstance(value, tuple)
    return f"{value[0]}-{'pty' if value[1] else 'pipe'}"


@pytest.fixture(scope="module", params=MODES, ids=_id)
def without_network(home: Home, request: pytest.FixtureRequest) -> Iterator[Run]:
    """What came of the attempts in a sandbox without a network."""
    mode, tty = request.param
    with made(home, WITHOUT, mode, tty, "none") as run:
        yield run


@pytest.fixture(scope="module", params=MODES, ids=_id)
def with_network(home: Home, request: pytest.FixtureRequest) -> Iterator[Run]:
    """What came of the attempts in a sandbox with the host's network."""
    mode, tty = request.param
    with made(home, WITH, mode, tty, "host") as run:
        yield run


def _judge(attempt: Attempt, run: Run) -> None:
    if not attempt.is_made(run.mode):
        return
    answer = run.answers[attempt.number]
    assert attempt.through(run) == attempt.is_expected(run.mode), answer


@pytest.mark.parametrize("attempt", WITHOUT, ids=_id)
def test_without_network(without_network: Run, attempt: Attempt) -> None:
    """Each attempt is stopped, but for those that go through by definition."""
    _judge(attempt, without_network)


@pytest.mark.parametrize("attempt", WITH, ids=_id)
def test_with_the_hosts_network(with_network: Run, attempt: Attempt) -> None:
    """In the host's network its ports are reached, its sockets and processes are not."""
    _judge(attempt, with_network)
