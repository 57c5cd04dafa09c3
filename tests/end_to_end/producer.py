"""A program that writes and reads until it is told to end, and then tells what; to be run by its path.

`producer.py SEED REPORT STOP INPUT_BYTES`: random bursts go to stdout, and to stderr unless that is the same
terminal; INPUT_BYTES are read from stdin. When the file STOP is there and the input has come, a JSON object
with the digests is put into the file REPORT, and the status is 42.
"""

import hashlib
import json
import os
import random
import select
import sys
import time
import tty


def produce(seed: int, report: str, stop: str, input_bytes: int) -> int:
    """Write and read to the end."""
    chance = random.Random(seed)
    is_terminal = os.isatty(1)
    if is_terminal:
        tty.setraw(0)
    digests = {name: hashlib.sha256() for name in ("stdout", "stderr", "stdin")}
    number, left = 0, input_bytes
    while left or not os.path.exists(stop):
        for name, fd in (("stdout", 1), ("stderr", 2))[: 1 if is_terminal else 2]:
            number += 1
            piece = b"%s %09d\n" % (name.encode(), number) * chance.choice((1, 1, 5, 50, 200, 4000))
            digests[name].update(piece)
            write_all(fd, piece)
        while left and select.select([0], [], [], 0)[0]:
            data = os.read(0, min(left, 65536))
            assert data, "the input has ended too early"
            digests["stdin"].update(data)
            left -= len(data)
        time.sleep(chance.random() * 0.04)
    with open(report + ".new", "w") as file:
        json.dump({name: digest.hexdigest() for name, digest in digests.items()}, file)
    os.rename(report + ".new", report)
    return 42


def write_all(fd: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    sys.exit(produce(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
