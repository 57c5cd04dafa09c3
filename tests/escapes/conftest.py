"""What the attempts share: one server."""

from collections.abc import Iterator

import pytest

from tests.escapes.making import Home, at_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A server of this user, for one file of attempts: what runs when others begin would be theirs."""
    with at_home() as found:
        yield found
