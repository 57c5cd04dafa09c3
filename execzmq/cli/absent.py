"""Own what is said of servers that are not there: what runs on without them, and how it is reached again."""

from __future__ import annotations

from execzmq.settings import DEFAULT_NAME


def left_alone(name: str) -> str:
    """Say that a server has ended in order and its commands have not."""
    return f"the server {name} has ended, and its commands run on; {starters(name)} takes them over"


def starters(on: str | None) -> str:
    """Return the commands that start a server which takes over what the one before has left."""
    if on is None or on == DEFAULT_NAME:
        return "`execzmq run -- true` or `execzmq serve --detach`"
    return f"`execzmq serve --detach --name {'NAME' if '/' in on else on}`"
