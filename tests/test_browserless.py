"""Where there is no Chromium: the run says what to do, and fails where nobody would read that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.support import REPOSITORY

PAGES = "tests/browser/test_pages.py"


def _run(folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start the tests of the pages where neither the system nor Playwright has a browser."""
    env = {name: value for name, value in os.environ.items() if name != "CI"}
    env |= {"PATH": str(folder), "PLAYWRIGHT_BROWSERS_PATH": str(folder), **variables}
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PAGES]
    return subprocess.Popen(pytest, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_no_chromium(short_tmp: Path) -> None:
    """A person reads in the last lines what was not run, and why; in CI the run fails with that."""
    with _run(short_tmp) as here, _run(short_tmp, CI="true") as in_ci:
        said, said_in_ci = here.communicate()[0], in_ci.communicate()[0]
    assert here.returncode == 0
    assert f"not run: {PAGES}::test_a_cell_runs[lab]: {chromium.NONE}" in said
    assert in_ci.returncode == 1
    assert chromium.NONE in said_in_ci
