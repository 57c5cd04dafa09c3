"""What pages load is JavaScript that a page takes, and asks for nothing from elsewhere."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sources import PACKAGE

STATIC = PACKAGE / "notebook" / "static"
OURS = sorted(path for path in STATIC.iterdir() if path.suffix == ".js")
PUBLISHED = {
    "xterm.mjs": "b336ec65a086c056d4804b3d4c2347da5663d3f23c3f25be866467bd8857ad59",
    "xterm.css": "854a7c0fb70e8b1a083c16797ab827299fb18744f5ad34f227b48337e33293c6",
    "addon-fit.mjs": "2d87e1bddc73be9111de8beee5370c3bb7aac9c94e18e6f245f02ca741ef1769",
}


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_script_is_a_module(path: Path, tmp_path: Path) -> None:
    """A page can read it; where there is no node, the tests in a browser tell."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to read JavaScript with")
    copy = tmp_path / f"{path.stem}.mjs"
    copy.write_bytes(path.read_bytes())
    done = subprocess.run([node, "--check", copy], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted(STATIC.iterdir()), ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    """No file of ours names an address, nor code that is not bundled."""
    if path.is_file():
        assert not re.search(r"https?:|\bimport\s*\(?[\"']|@import|\beval\b|innerHTML", path.read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_bundled_file_is_as_it_was_published(name: str) -> None:
    """What others have written is not changed."""
    assert hashlib.sha256((STATIC / "xterm" / name).read_bytes()).hexdigest() == PUBLISHED[name]
