"""Own the links between hosts: a pair of veth, or two TUN devices with a slow relay between them.

Each can be cut and healed, and can lose packets. Knows nothing of execzmq.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.networks.hosts import Host

_SLOW = str(Path(__file__).with_name("slow.py"))
_ADDRESSES = {4: "10.77.{}.{}", 6: "fd77:{:x}::{}"}


class Link:
    """A wire between two hosts, with an IPv4 and an IPv6 address at each end.

    Args:
        number: names its devices and its addresses, from 1 to 254.
    """

    def __init__(self, near: Host, far: Host, number: int) -> None:
        self.near = near
        self.far = far
        self._number = number
        self._device = f"x{number}"
        self._make()
        for place, host in enumerate((near, far), 1):
            self._set_up(host, place)

    def address(self, version: int = 4) -> str:
        """Return the address of the near end, IPv4 or IPv6."""
        return self._address(version, 1)

    def far_address(self, version: int = 4) -> str:
        """Return the address of the far end, IPv4 or IPv6."""
        return self._address(version, 2)

    def cut(self) -> None:
        """Take the near end down. The devices at both ends refuse what is sent, so TCP tries again soon."""
        self.near.do("ip", "link", "set", self._device, "down")

    def heal(self) -> None:
        """Take it up again."""
        self.near.do("ip", "link", "set", self._device, "up")

    def silence(self) -> None:
        """Cut it somewhere between its ends, which are not told: TCP waits ever longer between two trials."""
        self.lose(100)

    def speak(self) -> None:
        """Heal what was silent."""
        self.lose(0)

    def lose(self, percent: float) -> None:
        """Lose that share of the packets, either way, in place of what was lost before."""
        table = f"table inet {self._device}"
        chance = f"numgen random mod 10000 < {round(percent * 100)}" if percent < 100 else ""
        rule = f'iifname "{self._device}" {chance} drop;'
        chain = f"chain c {{ type filter hook input priority 0; {rule} }};"
        for host in (self.near, self.far):
            host.do("nft", "-f", "-", told=f"{table}\ndelete {table}\n{table} {{ {chain} }}\n")

    def close(self) -> None:
        """End what keeps it up; its devices are gone with the hosts."""

    def _make(self) -> None:
        """Make a device at each end."""
        name, far = self._device, str(self.far.pid)
        self.near.do("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", far)

    def _set_up(self, host: Host, place: int) -> None:
        # IPv6 addresses go with the link unless told to stay, and cannot be used at once unless `nodad`.
        host.do("sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{self._device}/keep_addr_on_down")
        lines = [
            f"addr add {self._address(4, place)}/24 dev {self._device}",
            f"addr add {self._address(6, place)}/64 dev {self._device} nodad",
            f"link set {self._device} up",
        ]
        host.do("ip", "-batch", "-", told="\n".join(lines) + "\n")

    def _address(self, version: int, place: int) -> str:
        return _ADDRESSES[version].format(self._number, place)


class SlowLink(Link):
    """A link on which packets take their time.

    Args:
        delay: seconds from end to end.
        jitter: seconds by which that varies, up or down; packets keep their order.
        reorder: percent of the packets that wait for no other and so overtake.
    """

    def __init__(
        self, near: Host, far: Host, number: int, *, delay: float, jitter: float = 0.0, reorder: float = 0.0
    ) -> None:
        self._options = [str(delay), str(jitter), str(reorder)]
        super().__init__(near, far, number)

    def close(self) -> None:
        """End the relay."""
        self._relay.communicate()

    def _make(self) -> None:
        # As in `hosts`, the relay ends with its stdin.
        argv = [*self.near.enter, sys.executable, _SLOW, self._device, str(self.far.pid), *self._options]
        self._relay = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._relay.stdout is not None
        if self._relay.stdout.readline() != b"ready\n":
            self.close()
            raise AssertionError("the slow link was not made")
