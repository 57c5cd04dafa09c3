"""What the attempts share: one server."""

from collections.abc import Iterator

import pytest

from tests.escapes.making import Home, at_home


@pytest.fixture(scope="package")
def home() -> Iterator[Home]:
    """A server of this user's."""
    with at_home() as found:
        yield found
