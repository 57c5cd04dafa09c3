"""Own what `run` and `start` say of a command that was started otherwise than asked."""

from __future__ import annotations

from typing import Any

from execzmq.cli import say
from execzmq.types.backend import ExecProcess


async def tell_differences(process: ExecProcess, asked: dict[str, Any]) -> None:
    """Say, each on one line, what a user would not expect of what was just started."""
    if process.is_repeat:
        what = f"{process.process_id} was started before, and nothing is started now"
        say.line(f"{what}; `execzmq forget {process.process_id}` lets it run anew once it has ended")
    if asked["network"] or asked["hosts"]:
        _tell_network((await process.info()).sandbox, asked)


def _tell_network(applied: dict[str, Any] | None, asked: dict[str, Any]) -> None:
    """Say where the network is narrower than asked for, since the server or a share allows no more."""
    if applied is None:  # an observer's eyes, or nothing confines it
        return
    wanted, network = asked["network"] or "proxy", applied["network"]
    if network["mode"] != wanted:
        found = f"the command's network is {network['mode']}, not {wanted}"
        say.line(f"{found}: the server, or your share, allows no more")
    elif missing := _missing(asked["hosts"], network["hosts"]):
        found = f"the command cannot reach all of {', '.join(missing)}"
        say.line(f"{found}: of that it is allowed {', '.join(network['hosts'])}")


def _missing(wanted: tuple[str, ...], allowed: list[str]) -> list[str]:
    from execzmq.sandbox.hosts import checked_hosts

    return [host for host in checked_hosts(wanted) if host not in allowed]
