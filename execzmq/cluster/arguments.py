"""Own what the calls of a cluster take besides those of other clients, and that it is that; pure.

What is wrong here must not reach Dask: its scheduler logs it, drops the task, and the call would wait on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from execzmq.client.arguments import Command
from execzmq.errors import InvalidRequest

Resources = Mapping[str, float]


def resources_of(value: Any) -> Resources | None:
    """Return what a command takes of a worker, by name, `None` for nothing.

    Raises:
        TypeError: it is no mapping of names to numbers. InvalidRequest: a number is negative, or not finite.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f'resources must be a mapping such as {{"GPU": 1}}, not {type(value).__name__}')
    return {_name(name): _amount(name, value[name]) for name in value}


def commands_of(commands: Any) -> list[Command]:
    """Return the commands of a `map`.

    Raises:
        TypeError: it is one command, whose characters are none, or nothing that has several.
    """
    if isinstance(commands, str | bytes) or not isinstance(commands, Iterable):
        raise TypeError(f"commands must be a list of commands, not {type(commands).__name__}: run takes one")
    return list(commands)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name in resources must be a str, not {type(name).__name__}")
    return name


def _amount(name: str, amount: Any) -> float:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(f"resources[{name!r}] must be a number, not {type(amount).__name__}")
    if not (math.isfinite(amount) and amount >= 0):
        raise InvalidRequest(f"resources[{name!r}] is {amount}: give a number of 0 or more")
    return amount
