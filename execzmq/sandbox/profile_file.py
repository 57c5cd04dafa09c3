"""Own the form of the TOML file of a user's own profiles: one table for each, and what its fields mean.

Pure: takes the text. What is wrong is told with the file, the profile, the field and what helps.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from execzmq.errors import InvalidRequest
from execzmq.sandbox.hosts import checked_hosts
from execzmq.sandbox.model import Network, ProtectGit
from execzmq.sandbox.profiles import (
    FULL_ACCESS,
    PermissionProfile,
    Workspaces,
    checked_path,
)
from execzmq.sandbox.toml_keys import long_key
from execzmq.sandbox.toml_lines import line_of
from execzmq.types.params import EnvPolicy, Limits, NetworkMode
from execzmq.types.sizes import parse_size

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_WORD = re.compile(r"[A-Za-z-]+\Z")
_AT_LINE = re.compile(r"\(at line (\d+), ")
_BASE_WORDS = ("host", "minimal")

MOST_PROFILES = 256
"""Tables of one file: each may extend the one before it."""
MOST_PARTS = 8
"""Parts of one key; a file that is meant has four at most: `NAME.env.set.VARIABLE`."""


def _size(value: Any) -> Any:
    return parse_size(str(value)) if isinstance(value, str | float) else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(_size), Field(ge=0, lt=1 << 62)]
Count = Annotated[int, Field(ge=0, lt=1 << 62)]
Texts = list[str]
TextOrTexts = Annotated[list[str], BeforeValidator(_listed)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LimitsTable(_Table):
    """`[NAME.limits]`; what it does not name is inherited."""

    memory: Size | None = None
    cpu: Count | None = None
    processes: Count | None = None
    file_size: Size | None = None
    descriptors: Count | None = None
    output: Size | None = None


class EnvTable(_Table):
    """`[NAME.env]`; `exclude` and `set` add to what is inherited."""

    inherit: Literal["all", "core", "none"] | None = None
    exclude: Texts = []
    set: dict[str, str] = {}
    include_only: Texts | None = None


class ProfileTable(_Table):
    """`[NAME]`; what it does not name is inherited."""

    extends: str = "read-only"
    description: str | None = None
    readable: TextOrTexts | None = None
    writable: Texts | None = None
    workspaces: TextOrTexts | None = None
    denied: Texts = []
    lift_denied: Texts = []
    protected: Texts = []
    lift_protected: Texts = []
    protect_git: ProtectGit | None = None
    network: NetworkMode | None = None
    allowed_hosts: Texts | None = None
    tmp: Size | None = None
    limits: LimitsTable = LimitsTable()
    require_limits: bool | None = None
    allow_debug: bool | None = None
    env: EnvTable = EnvTable()


def parse_profiles(
    text: str, builtin: Mapping[str, PermissionProfile], home: bytes, file: str
) -> dict[str, PermissionProfile]:
    """Return all profiles, the built-in ones first, then those of the file in its order.

    Args:
        builtin: the built-in ones.
        home: what `~` is.
        file: the file's name, for errors.

    Raises:
        InvalidRequest: the file, a table or a field is wrong; reason `bad_profile_file`.
    """
    source = _Source(file, text)
    if (key := long_key(text, MOST_PARTS)) is not None:
        raise source.fault(f"a key has more than {MOST_PARTS} parts, no field is nested so deep: {key} …")
    content = source.content()
    if len(content) > MOST_PROFILES:
        raise source.fault(f"it has {len(content)} profiles, the most is {MOST_PROFILES}")
    tables = {name: _table(name, content[name], builtin, source) for name in content}
    return _Reader(tables, builtin, home, source).all()


class _Source(NamedTuple):
    """The file, as far as errors tell of it."""

    file: str
    text: str

    def content(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except RecursionError:
            raise self.fault("it is nested too deep") from None
        except ValueError as error:  # a number of thousands of digits is no `TOMLDecodeError`
            at = _AT_LINE.search(str(error))
            line = int(at[1]) if at else max(1, len(self.text.splitlines()))
            raise self.fault(f"it is not TOML: {_AT_LINE.sub('(', str(error))}", line=line) from None

    def fault(self, what: str, *place: str, line: int | None = None) -> InvalidRequest:
        """Return the error that names the file, and the line that comes nearest to a place in it."""
        line = line_of(self.text, *place) if place else line
        shown = self.file if line is None else f"{self.file}, line {line}"
        return InvalidRequest(f"{shown}: {what}", reason="bad_profile_file", file=self.file, line=line)


class _Reader:
    """Makes profiles of tables, each after the one that it extends."""

    def __init__(
        self,
        tables: Mapping[str, ProfileTable],
        builtin: Mapping[str, PermissionProfile],
        home: bytes,
        source: _Source,
    ) -> None:
        self._tables, self._done = tables, dict(builtin)
        self._home, self._source = home, source

    def all(self) -> dict[str, PermissionProfile]:
        """Return every profile, in the order of the file."""
        order = [*self._done, *self._tables]
        for name in self._tables:
            self._profile(name, ())
        return {name: self._done[name] for name in order}

    def _profile(self, name: str, heirs: tuple[str, ...]) -> PermissionProfile:
        if name in self._done:
            return self._done[name]
        if name in heirs:
            raise self._fault(f"extends itself: {' extends '.join((*heirs, name))}", name)
        table = self._tables[name]
        if table.extends == FULL_ACCESS:
            remedy = "extend read-only or workspace-write, and allow what is needed"
            raise self._fault(f"cannot extend {FULL_ACCESS}, which confines nothing: {remedy}", name)
        if table.extends not in self._done and table.extends not in self._tables:
            others = dict.fromkeys((*self._done, *self._tables))
            there_are = ", ".join(one for one in others if one not in (name, FULL_ACCESS))
            raise self._fault(f"extends {table.extends!r}, and there are only {there_are}", name)
        parent = self._profile(table.extends, (*heirs, name))
        try:
            self._done[name] = _extended(parent, name, table, self._home)
        except InvalidRequest as error:
            field = error.message.partition(":")[0]
            raise self._fault(error.message, name, field) from None
        return self._done[name]

    def _fault(self, what: str, name: str, field: str = "extends") -> InvalidRequest:
        return self._source.fault(f"[{name}] {what}", name, *field.split("."))


def _extended(parent: PermissionProfile, name: str, table: ProfileTable, home: bytes) -> PermissionProfile:
    """Return the profile of a table: what it says, and of its parent what it does not say."""
    given = table.model_fields_set
    paths = {field: _paths(getattr(table, field) or (), field, home) for field in ("writable", "denied")}
    lifted = _paths(table.lift_denied, "lift_denied", home)
    direct = {field: getattr(table, field) for field in _DIRECT if field in given}
    return replace(
        parent,
        name=name,
        description=table.description or "",
        **direct,
        **(_read_of(table.readable, home) if table.readable is not None else {}),
        writable=paths["writable"] if "writable" in given else parent.writable,
        workspaces=_workspaces(table.workspaces, parent, home),
        denied=_more(parent.denied, paths["denied"], lifted, "denied"),
        protected=_more(parent.protected, _names(table.protected), tuple(table.lift_protected), "protected"),
        network=_network(table, parent.network),
        tmp_bytes=parent.tmp_bytes if table.tmp is None else table.tmp,
        limits=_limits(table.limits, parent.limits),
        output_bytes=parent.output_bytes if table.limits.output is None else table.limits.output,
        env_policy=_env(table.env, parent.env_policy),
    )


_DIRECT = ("protect_git", "require_limits", "allow_debug")
"""Fields whose value is taken as it is."""


def _paths(texts: Iterable[str], field: str, home: bytes) -> tuple[bytes, ...]:
    expanded = (os.fsencode(text) for text in texts)
    full = (home + path[1:] if path == b"~" or path.startswith(b"~/") else path for path in expanded)
    return tuple(dict.fromkeys(checked_path(path, f"{field}:") for path in full))


def _read_of(words: list[str], home: bytes) -> dict[str, Any]:
    """Return `read` and `readable`; a list that names neither `host` nor `minimal` is read besides this."""
    paths = _paths_or_words(words, _BASE_WORDS, "readable", home)
    return {"read": "host" if "host" in words else "minimal", "readable": paths}


def _workspaces(words: list[str] | None, parent: PermissionProfile, home: bytes) -> Workspaces:
    if words is None:
        return parent.workspaces
    paths = _paths_or_words(words, ("any",), "workspaces", home)
    return "any" if "any" in words else paths


def _paths_or_words(
    words: Iterable[str], known: tuple[str, ...], field: str, home: bytes
) -> tuple[bytes, ...]:
    """Return the paths; what looks like a word is told which words there are."""
    others = [word for word in words if word not in known]
    for word in others:
        if _WORD.match(word):
            quoted = ", ".join(f'"{one}"' for one in known)
            raise InvalidRequest(f"{field}: {word!r} is none of {quoted}, and no absolute path")
    return _paths(others, field, home)


def _more(inherited: tuple[T, ...], added: tuple[T, ...], lifted: tuple[T, ...], field: str) -> tuple[T, ...]:
    """Return what is inherited but for what is lifted, and what is added."""
    before, without = {*inherited}, {*lifted}
    for one in lifted:
        if one not in before:
            shown = os.fsdecode(one) if isinstance(one, bytes) else one
            raise InvalidRequest(f"lift_{field}: nothing that it extends has {shown!r}: leave it out")
    return tuple(dict.fromkeys((*(one for one in inherited if one not in without), *added)))


def _names(names: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise InvalidRequest(f"protected: {name!r} is no name of a file: write it without folders")
        if name == ".git":
            raise InvalidRequest("protected: .git has a field of its own: set protect_git")
    return tuple(names)


def _network(table: ProfileTable, inherited: Network) -> Network:
    if table.allowed_hosts is None:
        return inherited if table.network in (None, inherited.mode) else Network(table.network)
    if table.network not in (None, "proxy"):
        raise InvalidRequest(f'allowed_hosts: they need network = "proxy", not "{table.network}"')
    try:
        return Network("proxy", checked_hosts(table.allowed_hosts))
    except InvalidRequest as error:
        raise InvalidRequest(f"allowed_hosts: {error.message}") from None


def _limits(table: LimitsTable, inherited: Limits) -> Limits:
    chosen = {one.name: getattr(table, one.name) for one in fields(Limits)}
    limits = replace(inherited, **{name: value for name, value in chosen.items() if value is not None})
    try:
        limits.check()
    except InvalidRequest as error:
        raise InvalidRequest(f"{error.details['field']}: {error.message}") from None
    return limits


def _env(table: EnvTable, inherited: EnvPolicy) -> EnvPolicy:
    added = {os.fsencode(name): os.fsencode(value) for name, value in table.set.items()}
    for name, value in added.items():
        if not name or b"=" in name or b"\0" in name + value:
            shown = os.fsdecode(name)
            raise InvalidRequest(
                f"env.set: {shown!r} cannot be a variable: it has '=' or NUL in it, or no name"
            )
    only = inherited.include_only if table.include_only is None else tuple(table.include_only)
    return EnvPolicy(
        inherit=table.inherit or inherited.inherit,
        exclude=tuple(dict.fromkeys((*inherited.exclude, *table.exclude))),
        set={**inherited.set, **added},
        include_only=only,
    )


def _table(name: str, content: Any, builtin: Container[str], source: _Source) -> ProfileTable:
    if not isinstance(content, dict):
        words = f"{name!r} stands outside of a table: write it below [NAME], the profile's name"
        raise source.fault(words, name)
    if not _NAME.match(name):
        raise source.fault(f"[{name}]: a profile's name is 1 to 64 of A-Z a-z 0-9 _ -", name)
    if name in builtin:
        raise source.fault(f"[{name}] is built in: take another name, and extend it where it can be", name)
    try:
        return ProfileTable.model_validate(content)
    except ValidationError as error:
        place = map(str, error.errors(include_url=False)[0]["loc"])
        raise source.fault(f"[{name}] {_fault(error)}", name, *place) from None


_INNER: dict[str, type[BaseModel]] = {"limits": LimitsTable, "env": EnvTable}


def _fault(error: ValidationError) -> str:
    """Return what is wrong with the first wrong field, and what helps."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "list_type" and isinstance(first["input"], str):
        return f"{place}: it is a list: write [{json.dumps(first['input'], ensure_ascii=False)}]"
    if first["type"] in ("dict_type", "model_type"):
        return f"{place}: it is a table, of names and values"
    if first["type"] != "extra_forbidden":
        return f"{place}: {first['msg'].removeprefix('Value error, ')}"
    *outer, field = map(str, first["loc"])
    model = _INNER.get(".".join(outer), ProfileTable)
    near = difflib.get_close_matches(field, model.model_fields, 1)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(model.model_fields)}"
    return f"has no field {place!r}: {remedy}"
