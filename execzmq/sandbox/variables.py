"""Own the variables that must be otherwise in a sandbox than they were given. Pure.

Knows nothing of where they come from: whoever gives them says which of them stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from execzmq.types.params import NetworkMode

PROXY_PORT = 3128
BY_WRAPPER = b"PWD"
"""Bubblewrap sets it to the working directory, and cannot be told not to."""

Changes = dict[bytes, bytes | None]
"""New values by name; `None` = it is taken out."""

_ENGLISH = (b"", b"C", b"POSIX")
_ENGLISH_TOO = (b"C.UTF-8", b"C.utf8")
"""These are in English as long as `LANGUAGE` names no other."""


def changes_of(env: Mapping[bytes, bytes], kept: Collection[bytes], network: NetworkMode) -> Changes:
    """Return what a sandbox makes of variables; no variables at all stay none.

    Args:
        env: all variables of the command.
        kept: names of those that somebody has set for this command, or for its profile.
        network: what the command may reach.
    """
    if not env:
        return {}
    wanted: Changes = {b"TMPDIR": b"/tmp"} if b"TMPDIR" in env else {}
    if network == "proxy":
        wanted |= _proxy()
    if not {b"LC_ALL", b"LC_MESSAGES"} & set(kept) and not _is_english(env):
        wanted |= _in_english(env)
    return {name: value for name, value in wanted.items() if name not in kept and env.get(name) != value}


def changed(env: Mapping[bytes, bytes], changes: Changes) -> dict[bytes, bytes]:
    """Return the variables after the changes."""
    return {name: value for name, value in {**env, **changes}.items() if value is not None}


def _is_english(env: Mapping[bytes, bytes]) -> bool:
    named = env.get(b"LC_ALL") or env.get(b"LC_MESSAGES") or env.get(b"LANG") or b""
    return named in _ENGLISH or (named in _ENGLISH_TOO and not env.get(b"LANGUAGE"))


def _in_english(env: Mapping[bytes, bytes]) -> Changes:
    """Return what makes messages English, in which they are evidence, and leaves all else as it is.

    `LC_ALL` wins over `LC_MESSAGES`: it goes, and `LANG` says the same of all that has no name of its own.
    """
    everything = env.get(b"LC_ALL")
    if not everything:
        return {b"LC_MESSAGES": b"C"}
    gone = {name: None for name in env if name.startswith(b"LC_")}
    return {**gone, b"LANG": everything, b"LC_MESSAGES": b"C"}


def _proxy() -> Changes:
    address = b"http://127.0.0.1:%d" % PROXY_PORT
    named = dict.fromkeys((b"HTTP_PROXY", b"HTTPS_PROXY", b"ALL_PROXY"), address)
    named[b"NO_PROXY"] = b"localhost,127.0.0.1,::1"
    return {**named, **{name.lower(): value for name, value in named.items()}}
