"""Numbered datagrams there and back: `probe.py echo`, or `probe.py ask ADDRESS COUNT INTERVAL PATIENCE`.

`echo` prints `ready` and ends with its stdin. `ask` prints a line for each answer, in the order in which they
come: its number, and the seconds that it took. It waits at most PATIENCE seconds after its last question.
"""

from __future__ import annotations

import select
import socket
import sys
import time

_PORT = 7007


def echo() -> None:
    """Send everything back."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.bind(("::", _PORT))
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([server, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            data, sender = server.recvfrom(64)
            server.sendto(data, sender)


def ask(address: str, count: int, interval: float, patience: float) -> None:
    """Ask all, and tell each answer as it comes."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asker:
        asker.connect((address, _PORT))
        begin, missing = time.monotonic(), 0
        for number in range(count):
            missing = listen(asker, missing, begin + number * interval)
            time.sleep(max(0.0, begin + number * interval - time.monotonic()))
            asker.send(f"{number} {time.monotonic()}".encode())
            missing += 1
        listen(asker, missing, time.monotonic() + patience)


def listen(asker: socket.socket, missing: int, until: float) -> int:
    """Tell the answers that come until then, or until none is missing; return how many are."""
    while missing and (left := until - time.monotonic()) > 0:
        if select.select([asker], [], [], left)[0]:
            number, asked = asker.recv(64).split()
            print(int(number), time.monotonic() - float(asked))
            missing -= 1
    return missing


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        echo()
    else:
        ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
