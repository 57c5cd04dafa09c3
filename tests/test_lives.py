"""The helper that has a server through several lives."""

import pytest

from tests.lives import lives
from tests.support import wait_until


def test_nothing_is_begun_after_the_end() -> None:
    """A thread that is late begins no server that nobody would end."""
    with lives() as server:
        last = server.now
    wait_until(lambda: last.process.poll() is not None)
    with pytest.raises(RuntimeError, match="no server is begun any more"):
        server.begin()
    assert server.now is last
