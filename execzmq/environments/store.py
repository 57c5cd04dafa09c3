"""Own where the files of environments are, which of them are read, and which environment a name means.

A user's own file goes before a project's, and that one is read only in the content in which it is trusted.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from execzmq import connection
from execzmq.environments import trust
from execzmq.environments.model import BUILT_IN, ConnectionFile, Environment
from execzmq.errors import ConnectionFailed, InvalidRequest

_FILE = "environments.toml"
_PROJECT_FOLDER = ".execzmq"


@dataclass(slots=True, frozen=True)
class Known:
    """The environments that there are.

    Args:
        environments: by name, the built-in ones first.
        untrusted: path of a project's file that was not read; empty where there is none.
    """

    environments: dict[str, Environment] = field(default_factory=lambda: dict(BUILT_IN))
    untrusted: str = ""


def user_file() -> Path:
    """Return where a user's own file is looked for; a folder that is not absolute counts as unset."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path(os.path.expanduser("~/.config"))
    return base / "execzmq" / _FILE


def project_file() -> str | None:
    """Return the path of the file of the project that the current folder is in, without links in it."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        return None
    while True:
        path = os.path.join(here, _PROJECT_FOLDER, _FILE)
        if os.path.exists(path):
            return os.path.realpath(path)
        if here == os.path.dirname(here):
            return None
        here = os.path.dirname(here)


def find_environment(name: str) -> Environment | None:
    """Return what a name means, `None` where no file has it.

    Raises:
        InvalidRequest: a file is wrong, cannot be read, or the user's own one is open to others.
    """
    return BUILT_IN[name] if name in BUILT_IN else known().environments.get(name)


def environment_of(name_or_path: str) -> Environment:
    """Return what a name means: an environment, else a server that has a connection file; or a path.

    Raises:
        ConnectionFailed: there is neither. InvalidRequest: as for `find_environment`.
    """
    if "/" not in name_or_path and (found := find_environment(name_or_path)) is not None:
        return found
    try:
        return Environment(name_or_path, ConnectionFile(str(connection.find(name_or_path))))
    except ConnectionFailed as error:
        raise ConnectionFailed(f"{error.message}; {_where_to_look(name_or_path)}") from None


def _where_to_look(name_or_path: str) -> str:
    """Say what lists the names that there are, and which file was left aside."""
    if "/" in name_or_path:
        return "`execzmq connections` lists those there are"
    words = f"{_meant(name_or_path)}`execzmq environments` and `execzmq connections` list what there is"
    path = known().untrusted
    return f"{words}; {path} is not trusted, so it was not looked into" if path else words


def _meant(name: str) -> str:
    """Ask whether a name that there is was meant, where one is much like it."""
    import difflib

    from execzmq.client.known import known as servers

    names = [*known().environments, *(one.name for one in servers())]
    found = difflib.get_close_matches(name, names, 1, 0.7)
    return f"did you mean {found[0]}? " if found else ""


def known() -> Known:
    """Return all environments.

    Raises:
        InvalidRequest: as for `find_environment`.
    """
    own = user_file()
    found = _parsed(_content_of(own, is_own=True), str(own)) if os.path.lexists(own) else {}
    path = project_file()
    if path is None:
        return Known({**BUILT_IN, **found})
    try:
        content = _content_of(path, is_own=False)
    except InvalidRequest:  # whoever may write to a folder above must not be in our way
        content = None
    if content is None or not trust.is_trusted(path, content):
        return Known({**BUILT_IN, **found}, path)
    return Known({**BUILT_IN, **_parsed(content, path), **found})


def trust_project_file(path: str) -> list[Environment]:
    """Trust a project's file as it is now, and return what it says.

    Raises:
        InvalidRequest: it is wrong or cannot be read. OSError, ConnectionFailed: it cannot be recorded.
    """
    content = _content_of(path, is_own=False)
    found = list(_parsed(content, path).values())
    trust.trust(path, content)
    return found


def _content_of(path: str | Path, *, is_own: bool) -> bytes:
    from execzmq.environments.file import FILE_BYTES

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would block the open
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise _bad(path, "it is no regular file")
            if is_own and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022):
                raise _bad(path, f"others can write to it: chmod go-w {path}, and be its owner")
            return file.read(FILE_BYTES + 1)
    except OSError as error:
        raise _bad(path, f"it cannot be read ({error.strerror})") from None


def _parsed(content: bytes, path: str) -> dict[str, Environment]:
    # Most users have no such file, and what reads it takes long to load.
    from execzmq.environments.file import parse_environments

    return parse_environments(content, path, os.path.expanduser("~"))


def _bad(path: str | Path, what: str) -> InvalidRequest:
    return InvalidRequest(f"{path}: {what}", reason="bad_environments_file", file=str(path))
