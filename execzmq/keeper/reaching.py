"""How a server gets to the keeper of its state folder: the one that is there, else a new one.

Must not know what is said to a keeper.
"""

from __future__ import annotations

from typing import NamedTuple

from execzmq.keeper.channel import Channel
from execzmq.keeper.listener import connect
from execzmq.keeper.start import KeeperProcess


class KeeperRefused(Exception):
    """The keeper does not serve this process.

    Attributes:
        reason: `busy`, `wrong_user` or `descendant`, or `silent` where it does not answer.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Reached(NamedTuple):
    """A keeper that was reached, its process where it is ours, and whether one before it was killed."""

    channel: Channel
    process: KeeperProcess | None
    follows_dead: bool


async def reach(state_dir: bytes) -> Reached:
    """Connect to the keeper that is there, else to a new one."""
    follows_dead = False
    try:
        return Reached(Channel(connect(state_dir)), None, follows_dead)
    except FileNotFoundError:
        pass
    except ConnectionRefusedError:
        follows_dead = True  # one that ends in order takes its name away
    except BlockingIOError:
        raise KeeperRefused("silent", "the keeper takes no connection: it is stopped, or it hangs") from None
    process = await KeeperProcess.start(state_dir)
    return Reached(Channel(connect(state_dir)), process, follows_dead)
