"""Own what is looked at inside of a sandbox, and what must be found there. Pure.

The look is a script for any /bin/sh: a view holds one, but need not hold a Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SCRIPT = r"""
read_status() {
    while read -r name value; do
        case $name in
            CapEff:) capabilities=$value ;;
            NoNewPrivs:) privileges=$value ;;
            Seccomp:) filter=$value ;;
        esac
    done <"/proc/$1/status"
}
tell() { if eval "$2" 2>/dev/null; then echo "$1 open"; else echo "$1 closed"; fi; }
tell core_pattern '(: >>/proc/sys/kernel/core_pattern)'
for secret; do
    tell secret '(: <"$secret")'
done
read_status $$
echo "own $capabilities $privileges $filter"
tries=0
read_status 1
while [ "$filter" != 2 ] && [ $tries -lt 300 ]; do
    (:)
    tries=$((tries + 1))
    read_status 1
done
echo "first $capabilities $privileges $filter"
echo "done"
"""
"""Its arguments are the paths of what must not be readable. Opening for writing writes nothing.

The first process puts its filter on beside the command, which may be earlier: a try takes as long as a fork.
"""

NAMESPACES = ("user", "pid", "net", "mnt")


class Fault(NamedTuple):
    """What a sandbox must have and this one has not.

    Attributes:
        reason: one word for programs.
        text: what was found.
    """

    reason: str
    text: str


class Checked(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: of it.
        text: what is so if all is well.
        fault: what is wrong, else None.
    """

    name: str
    text: str
    fault: Fault | None


def command(secrets: Iterable[bytes]) -> list[bytes]:
    """Return what is run inside."""
    return [b"/bin/sh", b"-c", os.fsencode(SCRIPT), b"execzmq-checker", *secrets]


def judge(said: str, secrets: int, own: Mapping[str, str], inside: Mapping[str, str]) -> list[Checked]:
    """Judge what the script has said.

    Args:
        said: its output.
        secrets: how many paths it was given.
        own: names of the server's namespaces by their kind.
        inside: the same of the sandbox; what could not be read is missing.
    """
    lines = said.splitlines()
    if "done" not in lines:
        return [Checked("look inside", "", Fault("probe_failed", "the look inside did not come to its end"))]
    return [
        _privileges(lines),
        _filter(lines),
        _settings(lines),
        _secrets(lines, secrets),
        _namespaces(own, inside),
    ]


def _values(lines: list[str], key: str, number: int) -> list[str]:
    """Return what stands behind a word; unless it is there once and whole, nothing is known."""
    found = [line.split()[1:] for line in lines if line.startswith(key + " ")]
    return found[0] if len(found) == 1 and len(found[0]) == number else ["unknown"] * number


def _privileges(lines: list[str]) -> Checked:
    wrong = []
    for who in ("first", "own"):
        capabilities, privileges, _ = _values(lines, who, 3)
        if set(capabilities) != {"0"}:
            wrong.append(f"CapEff of the {who} process is {capabilities}")
        if privileges != "1":
            wrong.append(f"NoNewPrivs of the {who} process is {privileges}")
    return _checked("privileges", "no capabilities, and none can be gained", "privileges_kept", wrong)


def _filter(lines: list[str]) -> Checked:
    filters = {who: _values(lines, who, 3)[2] for who in ("first", "own")}
    wrong = [f"Seccomp of the {who} process is {value}" for who, value in filters.items() if value != "2"]
    return _checked("system call filter", "on the first process as on the command", "filter_missing", wrong)


def _settings(lines: list[str]) -> Checked:
    wrong = ["core_pattern can be written"] if _values(lines, "core_pattern", 1) != ["closed"] else []
    return _checked("kernel settings", "cannot be written", "kernel_settings_open", wrong)


def _secrets(lines: list[str], expected: int) -> Checked:
    closed = lines.count("secret closed")
    wrong = [] if closed == expected else [f"{expected - closed} of the server's own can be read"]
    return _checked("connection files", "cannot be read", "server_readable", wrong)


def _namespaces(own: Mapping[str, str], inside: Mapping[str, str]) -> Checked:
    wrong = [
        f"{kind} is the server's" if kind in inside else f"{kind} could not be looked at"
        for kind in NAMESPACES
        if inside.get(kind, own.get(kind)) == own.get(kind)
    ]
    return _checked("namespaces", f"own {', '.join(NAMESPACES)}", "namespaces_shared", wrong)


def _checked(name: str, text: str, reason: str, wrong: list[str]) -> Checked:
    return Checked(name, text, Fault(reason, ", ".join(wrong)) if wrong else None)
