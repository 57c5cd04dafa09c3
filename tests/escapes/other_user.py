"""Arrange that tests run as an ordinary user, who cannot enter the home of who runs them.

Owns a folder with a copy of interpreter, packages and tree that the user can read, and another that is the
user's own.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.escapes.site import base_folder
from tests.support import REPOSITORY

UID = next(user.pw_uid for user in pwd.getpwall() if user.pw_name in ("games", "operator", "bin"))
"""A user who has a name, for programs that ask for it, and no files.

`nobody` is none such: whoever has no place in a user namespace has that number too.
"""

_UNUSED = ("site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "config-*", "*.a")
_PACKAGES = ("execzmq", "pytest", "pytest-timeout", "hypothesis", "pip", "ipykernel")
"""What the tests run with, besides what these need themselves: little of all that is installed here."""
_UNASKED = ("jedi/third_party/", "debugpy/")
"""Parts of these that are for who completes names or looks for faults, with most of all files."""
_TREE = ("execzmq", "tests", "pyproject.toml")


class Copy:
    """A tree that the user can read and run below `top`, and a home."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = top / "home"
        self._python = top / "python"
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self._fill(version)
        self.home.mkdir(mode=0o700)
        os.chown(self.home, UID, UID)
        self.program = self._python / "bin" / version

    def _fill(self, version: str) -> None:
        """Copy what is needed, all of it to be read by everyone."""
        program = self._python / "bin" / version
        program.parent.mkdir(parents=True)
        _copy(os.path.realpath(sys.executable), program)
        standard = Path(sysconfig.get_path("stdlib"))
        _copy_tree(standard, self._python / "lib" / version, _UNUSED)
        for library in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
            _copy(library, self._python / "lib" / library.name)
        _copy_packages(self._python / "lib" / version / "site-packages")
        for name in _TREE:
            source, target = REPOSITORY / name, self.top / "tree" / name
            if source.is_dir():
                _copy_tree(source, target, ())
            else:
                _copy(source, target)

    @property
    def env(self) -> dict[str, str]:
        """Return the user's variables; nothing of this one's is among them."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(self.top / "tree"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_LIBRARY_PATH": str(self._python / "lib"),
            "EXECZMQ_TEST_TIMESCALE": os.environ.get("EXECZMQ_TEST_TIMESCALE", "1"),
        }

    def run(self, *words: str, seconds: float) -> "subprocess.CompletedProcess[str]":
        """Run the copied Python in the copied tree as that user."""
        return subprocess.run(
            [str(self.program), *words],
            env=self.env,
            cwd=self.top / "tree",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            user=UID,
            group=UID,
            extra_groups=(),
        )


def _copy_packages(target: Path) -> None:
    own = Path(sysconfig.get_path("purelib"))
    for distribution in _needed(_PACKAGES):
        for file in distribution.files or ():
            source = own / file
            if str(file).startswith(_UNASKED):
                continue
            if ".." not in file.parts and not file.name.startswith("_editable_impl_") and source.exists():
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                _copy(source, target / file)
    _open_folders(target)


def _needed(names: Iterable[str]) -> list[metadata.Distribution]:
    """Return distributions and all that they need, without extras."""
    found: dict[str, metadata.Distribution] = {}
    left = list(names)
    while left:
        name = canonicalize_name(left.pop())
        if name not in found:
            found[name] = metadata.distribution(name)
            needs = map(Requirement, found[name].requires or ())
            left += [one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})]
    return list(found.values())


def _copy_tree(source: Path, target: Path, unused: tuple[str, ...]) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*unused), copy_function=_copy)
    _open_folders(target)


def _open_folders(top: Path) -> None:
    for folder, _, _ in os.walk(top):
        os.chmod(folder, 0o755)


def _copy(source: str | Path, target: str | Path) -> None:
    # With its times: else what was compiled would not count, and each start would compile all anew.
    shutil.copy2(source, target)
    os.chmod(target, 0o755 if os.stat(source).st_mode & 0o111 else 0o644)


@contextlib.contextmanager
def other_user() -> Iterator[Copy]:
    """A copy meanwhile. Only root can have one."""
    top = Path(tempfile.mkdtemp(prefix="xz-", dir=base_folder()))
    try:
        top.chmod(0o755)
        yield Copy(top)
    finally:
        shutil.rmtree(top)
