"""Each case runs over a backend of this Python and over a server."""

import pytest

from tests.factories import FACTORIES, Factory


@pytest.fixture(params=list(FACTORIES))
def factory(request: pytest.FixtureRequest) -> Factory:
    """Return what opens a backend."""
    return FACTORIES[request.param]
