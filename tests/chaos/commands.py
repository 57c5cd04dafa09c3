"""Commands under chaos, to be run by its path: `commands.py writer|terminal|reader SEED SECONDS RESULT`.

What a command wrote, or read, it tells in the file RESULT, past the system that is tried: one line of JSON
with the size and SHA-256 of each stream. Its exit status is `SEED % 100`.
"""

import hashlib
import json
import os
import random
import sys
import time
import tty

_PAUSE = 0.4
"""Most seconds between two bursts of a writer."""


class Record:
    """What has gone through some streams."""

    def __init__(self, *names: str) -> None:
        self._sizes = dict.fromkeys(names, 0)
        self._digests = {name: hashlib.sha256() for name in names}

    def add(self, name: str, data: bytes) -> None:
        """Count some bytes."""
        self._sizes[name] += len(data)
        self._digests[name].update(data)

    def told(self) -> dict[str, tuple[int, str]]:
        """Return size and digest of each stream."""
        return {name: (size, self._digests[name].hexdigest()) for name, size in self._sizes.items()}


def write(chance: random.Random, seconds: float, outputs: dict[str, int]) -> Record:
    """Write bursts of random size to random streams, now and then much at once, with pauses."""
    record = Record(*outputs)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = chance.choice(list(outputs))
        data = chance.randbytes(int(10 ** chance.uniform(0, 5.5)))
        view = memoryview(data)
        while view:
            view = view[os.write(outputs[name], view) :]
        record.add(name, data)
        time.sleep(chance.uniform(0, _PAUSE))
    return record


def read() -> Record:
    """Read stdin to its end."""
    record = Record("stdin")
    while data := os.read(0, 65536):
        record.add("stdin", data)
    return record


def main(kind: str, seed: int, seconds: float, result: str) -> int:
    """Be one of the commands."""
    if kind == "terminal":
        tty.setraw(0)
    outputs = {"stdout": 1} if kind == "terminal" else {"stdout": 1, "stderr": 2}
    record = read() if kind == "reader" else write(random.Random(seed), seconds, outputs)
    with open(result + ".new", "w", encoding="ascii") as file:
        json.dump(record.told(), file)
    os.rename(result + ".new", result)
    return seed % 100


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
