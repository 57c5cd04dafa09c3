"""The same attempts as an ordinary user, when root runs the tests."""

import os
import re

import pytest

from tests.escapes.other_user import other_user

SECONDS = 240.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_attempts_of_an_ordinary_user() -> None:
    """All attempts of this folder, made by commands of a server that an ordinary user runs.

    An ordinary user who runs the tests has made them already, and cannot make those of root.
    """
    if os.geteuid() != 0:
        pytest.skip("escapes from a server of root's: run `make test` as root")
    with other_user() as copy:
        options = ("-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-o", "timeout=120")
        done = copy.run("-m", "pytest", *options, "tests/escapes", seconds=SECONDS)
    assert done.returncode == 0, done.stdout[-8000:]
    assert re.search(r"^\d+ passed", done.stdout, re.M), done.stdout[-8000:]
