"""Own the rules by which the variables of a process are made; know nothing of where the base comes from.

Pure: names and values are bytes, as Unix has them, and nothing here reads the variables of this program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import cast

from execzmq.errors import InvalidRequest, LimitExceeded
from execzmq.types.params import EnvPolicy

MARK_NAME = b"EXECZMQ_PROCESS"
"""Variable that tells to which process of the server a command and its descendants belong."""

CORE_NAMES: Mapping[str, str] = {
    "HOME": "programs look for their configuration there",
    "LANG": "without it text that is not ASCII becomes unreadable",
    "LC_*": "the same, by kind of text",
    "LOGNAME": "POSIX's name of the user",
    "PATH": "without it no command is found by name",
    "SHELL": "programs that offer a shell start this one",
    "TEMP": "folder for temporary files, as some programs name it",
    "TERM": "what the terminal understands",
    "TMP": "folder for temporary files, as some programs name it",
    "TMPDIR": "POSIX's folder for temporary files",
    "TZ": "times would be shown in another zone",
    "USER": "the name of the user, as BSD has it",
    "USERNAME": "the same, as some programs name it",
}
"""Patterns of `inherit="core"` with the reason for each.

`XDG_RUNTIME_DIR` is not among them: it leads to the sockets of the user's session, which act for the user.
"""

_MOST_STEPS = 1 << 25
"""Characters of names times characters of patterns; a thousand variables and fifty patterns are 2^23."""


def build_env(
    base: Mapping[bytes, bytes],
    policy: EnvPolicy | None,
    mark: bytes | None,
    profile: EnvPolicy | None = None,
) -> dict[bytes, bytes]:
    """Return the variables of a process: `base` shaped by `policy`, and the mark.

    An environment that comes out empty stays empty, since that is what was asked for: it gets no mark.

    Args:
        base: the variables that the client gave, or those of this machine.
        policy: the client's; `None` = what the profile makes of the base.
        mark: value of `EXECZMQ_PROCESS`, as `ProcessSpec.mark` names it; `None` = no mark.
        profile: applied first, unless the client's policy itself says what is inherited; `None` = none.

    Raises:
        InvalidRequest: a name is empty or has `=` or NUL in it, or a value has NUL; names the entry, never
            its value.
        LimitExceeded: so many variables cannot be matched with so many patterns.
    """
    if profile is not None and base and (policy is None or policy.inherit == "profile"):
        base = _shape(base, profile)
    env = dict(base) if policy is None else _shape(base, policy)
    _check_all(env)
    if env and mark is not None:
        env[MARK_NAME] = mark
    return env


def core_only(env: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables that a program needs to run at all (`CORE_NAMES`)."""
    return _keep(env, CORE_NAMES)


def _shape(base: Mapping[bytes, bytes], policy: EnvPolicy) -> dict[bytes, bytes]:
    env = _drop(_inherit(base, policy), policy.exclude)
    env.update(cast("Mapping[bytes, bytes]", policy.set))
    return _keep(env, policy.include_only) if policy.include_only else env


def _inherit(base: Mapping[bytes, bytes], policy: EnvPolicy) -> Mapping[bytes, bytes]:
    if policy.inherit == "none":
        return {}
    return core_only(base) if policy.inherit == "core" else base


def _keep(env: Mapping[bytes, bytes], patterns: Iterable[str]) -> dict[bytes, bytes]:
    wanted = _matching(env, patterns)
    return {name: value for name, value in env.items() if name in wanted}


def _drop(env: Mapping[bytes, bytes], patterns: Iterable[str]) -> dict[bytes, bytes]:
    unwanted = _matching(env, patterns)
    return {name: value for name, value in env.items() if name not in unwanted}


@lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(map(translate, patterns)) or r"(?!)").match


def _matching(names: Iterable[bytes], patterns: Iterable[str]) -> frozenset[bytes]:
    """Return the names that match a pattern, within a bounded time: others wait for it."""
    return _matching_of(tuple(names), tuple(patterns))


@lru_cache(maxsize=16)
def _matching_of(names: tuple[bytes, ...], patterns: tuple[str, ...]) -> frozenset[bytes]:
    texts = {name: name.decode("utf-8", "surrogateescape").upper() for name in names}
    wanted = tuple(pattern.upper() for pattern in patterns)
    steps = sum(map(len, texts.values())) * sum(map(len, wanted))
    if steps > _MOST_STEPS:
        message = "the variables are too many for the patterns of env_policy: shorten one of the two"
        raise LimitExceeded(message, limit=_MOST_STEPS, value=steps)
    matches = _matcher(wanted)
    return frozenset(name for name, text in texts.items() if matches(text))


def _check_all(env: Mapping[bytes, bytes]) -> None:
    """Check all variables; the ones are looked at singly only where all together are not in order."""
    names = b"".join(env)
    if b"" in env or b"=" in names or b"\0" in names or b"\0" in b"".join(env.values()):
        for name, value in env.items():
            _check(name, value)


def _check(name: bytes, value: bytes) -> None:
    shown = name.decode("utf-8", "backslashreplace")
    if not name:
        raise InvalidRequest("a variable of env has an empty name", field="env", name=shown)
    if b"=" in name or b"\0" in name:
        raise InvalidRequest(f"env: the name {shown!r} has '=' or NUL in it", field="env", name=shown)
    if b"\0" in value:
        raise InvalidRequest(f"env: the value of {shown!r} has NUL in it", field="env", name=shown)
