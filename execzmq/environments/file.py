"""Own the form of `environments.toml`: one table for each environment, and what its fields mean.

Pure: takes the text. What is wrong is told with the file, the environment, the field and what helps.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from execzmq.connection import check_name
from execzmq.environments.model import (
    BUILT_IN,
    ConnectionFile,
    Dask,
    Environment,
    InPython,
    OwnServer,
    Place,
    Ssh,
)
from execzmq.errors import InvalidRequest

FILE_BYTES = 64 * 1024
"""Most bytes of one file."""
MOST_ENVIRONMENTS = 256
"""Most tables of one file."""

_FIELDS = {"local": (), "server": (), "file": (), "ssh": ("port", "command", "name"), "dask": ()}
"""The key that says of which kind an environment is → what else its table may have."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
# It stands among ssh's words: nothing that is an option, a URL or several words.
_DESTINATION = re.compile(r"(?:[A-Za-z0-9_.][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_.:][A-Za-z0-9_.:%-]*\Z")


def parse_environments(content: bytes, file: str, home: str) -> dict[str, Environment]:
    """Return the environments of a file, in its order.

    Args:
        file: its path: paths in it are relative to its folder.
        home: what `~` is.

    Raises:
        InvalidRequest: the file, a table or a field is wrong; reason `bad_environments_file`.
    """
    tables = _tables(content, file)
    if len(tables) > MOST_ENVIRONMENTS:
        raise _bad(file, f"it has {len(tables)} environments, the most is {MOST_ENVIRONMENTS}")
    return {name: _environment(name, tables[name], file, home) for name in tables}


def _tables(content: bytes, file: str) -> dict[str, Any]:
    if len(content) > FILE_BYTES:
        raise _bad(file, f"it is larger than {FILE_BYTES:,} bytes")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise _bad(file, "it is not UTF-8") from None
    except RecursionError:
        raise _bad(file, "it is nested too deep") from None
    except ValueError as error:  # a number of thousands of digits is no `TOMLDecodeError`
        raise _bad(file, f"it is not TOML: {error}") from None


def _environment(name: str, table: Any, file: str, home: str) -> Environment:
    if not isinstance(table, dict):
        raise _bad(file, f"{name!r} stands outside of a table: write it below [NAME], the environment's name")
    if not _NAME.match(name):
        raise _bad(file, f"[{name}]: an environment's name is 1 to 64 of A-Z a-z 0-9 _ -")
    if name in BUILT_IN:
        raise _bad(file, f"[{name}] is built in: take another name")
    try:
        return Environment(name, _place(table, os.path.dirname(file), home), file)
    except InvalidRequest as error:
        raise _bad(file, f"[{name}] {error.message}") from None


def _place(table: Mapping[str, Any], folder: str, home: str) -> Place:
    kind = _kind(table)
    if kind == "local":
        if table["local"] is not True:
            raise InvalidRequest("local: it is true, or the line is left out")
        return InPython()
    text = _text(table, kind)
    if kind == "server":
        return OwnServer(_server_name(text, "server"))
    if kind == "file":
        return ConnectionFile(os.path.normpath(os.path.join(folder, _expanded(text, home))))
    return _ssh(text, table) if kind == "ssh" else Dask(text)


def _kind(table: Mapping[str, Any]) -> str:
    """Return the one key that says of which kind it is; every key must be one of that kind's."""
    every = [*_FIELDS, *(field for fields in _FIELDS.values() for field in fields)]
    for key in table:
        if key not in every:
            near = difflib.get_close_matches(key, every, 1)
            remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(every)}"
            raise InvalidRequest(f"has no field {key!r}: {remedy}")
    kinds = [kind for kind in _FIELDS if kind in table]
    if len(kinds) != 1:
        raise InvalidRequest(f"needs one of {', '.join(_FIELDS)}, and has {' and '.join(kinds) or 'none'}")
    for key in table:
        if key != kinds[0] and key not in _FIELDS[kinds[0]]:
            raise InvalidRequest(f"{key}: it goes with ssh, not with {kinds[0]}: leave it out")
    return kinds[0]


def _ssh(destination: str, table: Mapping[str, Any]) -> Ssh:
    if not _DESTINATION.match(destination):
        raise InvalidRequest(f'ssh: {destination!r} is neither "HOST" nor "USER@HOST"')
    port = table.get("port")
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        raise InvalidRequest("port: it is a number from 1 to 65535")
    command, name = _text(table, "command", _USUAL.command), _text(table, "name", _USUAL.name)
    return Ssh(destination, port, command, _server_name(name, "name"))


_USUAL = Ssh("")


def _server_name(text: str, field: str) -> str:
    try:
        return check_name(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"{field}: {error.message}") from None


def _text(table: Mapping[str, Any], key: str, default: str = "") -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidRequest(f"{key}: it is a text of one line")
    return value


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _bad(file: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{file}: {what}", reason="bad_environments_file", file=file)
