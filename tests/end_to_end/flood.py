"""Connections that never say who they are: `flood.py IP COUNT AT_ONCE PORT…`, a program of its own.

Some are silent, some send junk, some half a greeting. It needs a processor of its own, as strangers have.
"""

import contextlib
import os
import socket
import sys

GREETINGS = (b"", os.urandom(32), b"\xff\0\0\0\0\0\0\0\1\x7f\3\0")


def opened(ip: str, port: int, number: int) -> socket.socket:
    """Open one connection, and say what the `number`th says."""
    one = socket.create_connection((ip, port), 1.0)
    with contextlib.suppress(OSError):
        one.send(GREETINGS[number % len(GREETINGS)])
    return one


def hold(ip: str, ports: list[int], count: int) -> list[socket.socket]:
    """Open so many and keep those that could be opened."""
    held = []
    for number in range(count):
        with contextlib.suppress(OSError):
            held.append(opened(ip, ports[number % len(ports)], number))
    return held


def main(ip: str, count: int, at_once: int, ports: list[int]) -> None:
    """Open so many, at most `at_once` at a time."""
    held: list[socket.socket] = []
    for number in range(count):
        if len(held) >= at_once:
            held.pop(0).close()
        with contextlib.suppress(OSError):
            held.append(opened(ip, ports[number % len(ports)], number))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), [int(word) for word in sys.argv[4:]])
