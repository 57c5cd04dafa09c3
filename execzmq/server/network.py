"""Own how a socket listens on tcp: addresses, ports, and the options that libzmq takes at `bind`."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import zmq

from execzmq.errors import InvalidRequest
from execzmq.server.auth import IPC_DOMAIN, PLAIN_DOMAIN, TCP_DOMAIN

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")

_HANDSHAKE = 3000
"""Milliseconds for a connection to say who it is; libzmq's own are ten times that."""
_BACKLOG = 1024
_KEEPALIVE = {
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 15,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 3,
}


@dataclass(slots=True, frozen=True)
class Network:
    """Where the five sockets listen on tcp.

    Args:
        ip: the address that is bound.
        ports: in the order of `CHANNELS`; 0 = any that is free.
        secretkey: of the server (Z85); empty = without CURVE.
    """

    ip: str
    ports: tuple[int, ...] = (0, 0, 0, 0, 0)
    secretkey: str = field(default="", repr=False)

    def port(self, channel: str) -> int:
        """Return the port of one of the sockets."""
        return self.ports[CHANNELS.index(channel)]

    def endpoint(self, channel: str) -> str:
        """Return where to bind one of the sockets."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"tcp://{host}:{self.port(channel) or '*'}"


def listen(sock: zmq.Socket[bytes], network: Network, channel: str) -> str:
    """Bind a socket; return the endpoint, which names the port.

    Raises:
        zmq.ZMQError: it cannot be bound.
    """
    with _as(sock, network):
        sock.bind(network.endpoint(channel))
    return bytes(sock.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()


def port_of(endpoint: str) -> int:
    """Return the port of an endpoint on tcp."""
    return int(endpoint.rpartition(":")[2])


@contextlib.contextmanager
def _as(sock: zmq.Socket[bytes], network: Network) -> Iterator[None]:
    """Have the options of the network while something is bound, and those of ipc again afterwards."""
    sock.setsockopt(zmq.IPV6, int(":" in network.ip))
    sock.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE)
    sock.setsockopt(zmq.BACKLOG, _BACKLOG)
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(option, value)
    sock.setsockopt(zmq.ZAP_DOMAIN, (TCP_DOMAIN if network.secretkey else PLAIN_DOMAIN).encode())
    if network.secretkey:
        sock.setsockopt(zmq.CURVE_SERVER, 1)
        sock.setsockopt(zmq.CURVE_SECRETKEY, network.secretkey.encode())
    try:
        yield
    finally:
        sock.setsockopt(zmq.CURVE_SERVER, 0)
        sock.setsockopt(zmq.ZAP_DOMAIN, IPC_DOMAIN.encode())


def address_here() -> str:
    """Return the address by which others most likely reach this host; its loopback where it has no other."""
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))  # asks the table of routes; nothing is sent
            return str(probe.getsockname()[0])
    return "127.0.0.1"


def checked_address(ip: str) -> str:
    """Return an address as libzmq takes it.

    Raises:
        InvalidRequest: it is none, or one at which nobody can be reached.
    """
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        raise InvalidRequest(f"{ip!r} is no IP address: name one of this host's (`ip address`)") from None
    if address.is_multicast:
        raise InvalidRequest(f"{ip} is an address of many: name one of this host's (`ip address`)")
    return str(address)


def reachable(ip: str) -> str:
    """Return the address that others are told of what is bound at `ip`."""
    return address_here() if ipaddress.ip_address(ip).is_unspecified else ip
