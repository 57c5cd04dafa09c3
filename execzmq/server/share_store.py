"""Own the file that keeps a server's network: its key pair, where it listens, and its shares.

It has mode 0600 and is written as a whole. What cannot be read lets nobody in.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import zmq

from execzmq.connection import write_private
from execzmq.server.network import CHANNELS, Network
from execzmq.server.shares import checked_key, from_record, to_record
from execzmq.types.sharing import ShareInfo

log = logging.getLogger("execzmq.server")

NAME = "network.json"
FORMAT = 1
_MOST_BYTES = 1 << 24


@dataclass(slots=True, frozen=True)
class Stored:
    """What the file says.

    Args:
        publickey, secretkey: of the server (Z85).
        ip: that was bound, empty where none has been.
        ports: by the order of the sockets; 0 = none yet.
    """

    publickey: str
    secretkey: str = field(repr=False)
    ip: str = ""
    ports: tuple[int, ...] = (0, 0, 0, 0, 0)

    def network(self) -> Network:
        """Return where to listen."""
        return Network(self.ip, self.ports, self.secretkey)


class ShareStore:
    """The file in one state folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def load(self) -> tuple[Stored, list[ShareInfo]] | None:
        """Return what was saved, `None` where nothing was, or nothing that can be read."""
        try:
            with open(self.path, "rb") as file:
                return _parsed(json.loads(file.read(_MOST_BYTES)))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError, OSError) as error:
            log.error("%s cannot be read, so no share of it is in force: %s", self.path, error)
            self._put_aside()
            return None

    def save(self, stored: Stored, shares: Collection[ShareInfo]) -> None:
        """Write the file, so that a share that was taken back stays so.

        Raises:
            ConnectionFailed: the file system cannot hide it. OSError: it cannot be written.
        """
        content = {"format": FORMAT, **asdict(stored), "shares": [to_record(one) for one in shares]}
        write_private(self.path, json.dumps(content, indent=1).encode() + b"\n", durable=True)

    def is_there(self) -> bool:
        """Tell whether the file exists."""
        return self.path.exists()

    def _put_aside(self) -> None:
        try:
            os.replace(self.path, self.path.with_suffix(".bad.json"))
        except OSError as error:
            log.error("%s cannot be put aside either: %s", self.path, error)


def new_pair() -> Stored:
    """Make the key pair of a server that has none."""
    publickey, secretkey = zmq.curve_keypair()
    return Stored(publickey.decode(), secretkey.decode())


def _parsed(content: dict[str, Any]) -> tuple[Stored, list[ShareInfo]]:
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']}, this version has {FORMAT}")
    ports = tuple(int(port) for port in content["ports"])
    if len(ports) != len(CHANNELS):
        raise ValueError("it has not the ports of five sockets")
    stored = Stored(checked_key(content["publickey"]), checked_key(content["secretkey"]), str(content["ip"]))
    return replace(stored, ports=ports), [from_record(one) for one in content["shares"]]
