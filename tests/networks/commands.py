"""Commands beside the server, to be run by its path: `commands.py count|flood|read RESULT …`.

What a command wrote, or read, it tells in the file RESULT, past the system that is tried: a line of JSON with
size and SHA-256 of each stream.

`count RESULT SECONDS` writes numbered lines to both streams in turn, a hundred in a second. `flood RESULT
BYTES FIFO` writes numbered lines as fast as it can, when FIFO has been opened and closed. `read RESULT` reads
stdin to its end.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator

from tests.chaos.commands import Record, read

EXIT_CODE = 43
_TICK = 0.01
_PIECE = 65536


def numbered() -> Iterator[bytes]:
    """Yield lines of ten bytes, each with its number."""
    return (b"%9d\n" % number for number in itertools.count())


def count(seconds: float) -> Record:
    """Write at a steady pace."""
    record, lines = Record("stdout", "stderr"), numbered()
    begin = time.monotonic()
    for tick in range(int(seconds / _TICK)):
        time.sleep(max(0.0, begin + tick * _TICK - time.monotonic()))
        for fd, name in ((1, "stdout"), (2, "stderr")):
            record.add(name, _write(fd, next(lines)))
    return record


def flood(size: int, fifo: str) -> Record:
    """Write without a pause."""
    record, lines = Record("stdout"), numbered()
    with open(fifo, "rb") as file:
        file.read()
    for _ in range(-(-size // _PIECE)):
        record.add("stdout", _write(1, b"".join(itertools.islice(lines, _PIECE // 10))))
    return record


def _write(fd: int, data: bytes) -> bytes:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return data


def main(kind: str, result: str, words: list[str]) -> int:
    """Be one of the commands."""
    if kind == "count":
        record = count(float(words[0]))
    elif kind == "flood":
        record = flood(int(words[0]), words[1])
    else:
        record = read()
    with open(result + ".new", "w", encoding="ascii") as file:
        json.dump({**record.told(), "ended": time.monotonic()}, file)
    os.rename(result + ".new", result)
    return EXIT_CODE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
