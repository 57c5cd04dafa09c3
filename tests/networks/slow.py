"""A slow way between two hosts, to be run in one of them: `slow.py DEVICE PID DELAY JITTER REORDER`.

It makes a TUN device in its own host and one in the host of process PID, and passes packets between them,
each after a while: see `links.SlowLink`. It prints `ready` when the devices are there, and ends with its
stdin.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_CLONE_NEWNET = 0x40000000
_LARGEST = 65536


class Way:
    """Packets on their way, with the time at which each arrives."""

    def __init__(self, delay: float, jitter: float, reorder: float) -> None:
        self._delay = delay
        self._jitter = jitter
        self._reorder = reorder / 100
        self._count = itertools.count()
        self._packets: list[tuple[float, int, int, bytes]] = []
        self._last: dict[int, float] = {}

    def take(self, packet: bytes, to: int, now: float) -> None:
        """Take a packet at `now`."""
        if random.random() < self._reorder:
            at = now
        else:
            at = now + self._delay + random.uniform(-self._jitter, self._jitter)
            at = self._last[to] = max(at, self._last.get(to, 0.0))
        heapq.heappush(self._packets, (at, next(self._count), to, packet))

    def arrived(self, now: float) -> list[tuple[int, bytes]]:
        """Return what has arrived by `now`, and where."""
        found = []
        while self._packets and self._packets[0][0] <= now:
            _, _, to, packet = heapq.heappop(self._packets)
            found.append((to, packet))
        return found

    def left(self, now: float) -> float | None:
        """Return the seconds until the next one arrives; `None` = none is on its way."""
        return max(0.0, self._packets[0][0] - now) if self._packets else None


def open_tun(name: str) -> int:
    """Make a device in the host that this process is in."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return fd


def go_to(pid: int) -> None:
    """Enter the host of another process."""
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def pump(way: Way, ends: dict[int, int]) -> None:
    """Pass packets on until stdin ends."""
    poller = select.epoll()
    for fd in (0, *ends):
        poller.register(fd, select.EPOLLIN)
    while True:
        left = way.left(time.monotonic())
        for fd, _ in poller.poll(left):
            if fd == 0:
                return
            take_all(way, fd, ends[fd])
        for to, packet in way.arrived(time.monotonic()):
            put(to, packet)


def take_all(way: Way, fd: int, to: int) -> None:
    """Take all packets that a device has."""
    try:
        while True:
            way.take(os.read(fd, _LARGEST), to, time.monotonic())
    except OSError:  # there is none, or the device is down
        return


def put(to: int, packet: bytes) -> None:
    """Give a packet to a device; one that is down, or full, loses it."""
    try:
        os.write(to, packet)
    except OSError:
        return


def main(device: str, pid: int, delay: float, jitter: float, reorder: float) -> None:
    """Be the way."""
    here = open_tun(device)
    go_to(pid)
    there = open_tun(device)
    print("ready", flush=True)
    pump(Way(delay, jitter, reorder), {here: there, there: here})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:6]))
