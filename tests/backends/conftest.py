"""What the tests of backends share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import no_child_is_left, wait_until


@pytest.fixture
def folder(short_tmp: Path) -> Iterator[Path]:
    """A state folder of the test's own; its keeper, a child of this Python, is reaped at the end."""
    yield short_tmp
    with contextlib.suppress(TimeoutError):  # a failed test leaves one
        wait_until(no_child_is_left, 2.0)
