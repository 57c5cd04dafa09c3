"""One command, five watchers, nothing lost: what `make demo` shows.

A private server is started on first use, in a folder of its own that is removed at the end. A command prints
34 MB in bursts. Five other programs watch it: three from the start, one of which is frozen for a second, one
that joins in the middle, and one that comes when all is over. Each of them reports a SHA-256 of what it got.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import execzmq

COMMAND = """
import hashlib, sys, time
digest = hashlib.sha256()
for burst in range(40):
    data = b"".join(b"%03d %09d the quick brown fox\\n" % (burst, n) for n in range(25_000))
    digest.update(data)
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
    time.sleep(0.05)
print(digest.hexdigest(), file=sys.stderr)
"""


def watch(process_id: str) -> None:
    """Read everything that a process has ever written, and tell a digest of it."""
    digest, size, last = hashlib.sha256(), 0, 0
    with execzmq.connect() as client:
        for event in client.attach(process_id).events():
            if isinstance(event, execzmq.Output) and event.stream == "stdout":
                digest.update(event.data)
                size += len(event.data)
            elif isinstance(event, execzmq.Gap):
                sys.exit(f"lost {event.bytes} bytes")
            last = getattr(event, "seq", last)
    print(f"{size} bytes, last seq {last}, sha256 {digest.hexdigest()}")


def watcher(process_id: str) -> subprocess.Popen[str]:
    """Start another program that watches."""
    command = [sys.executable, __file__, "watch", process_id]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def demonstrate() -> None:
    """Start the command, watch it five times, compare."""
    with execzmq.connect() as client:
        print(f"server {client.info().pid} was started for us")
        process = client.start([sys.executable, "-u", "-c", COMMAND], name="burst", log_budget=64 << 20)
        print(f"process {process.process_id} runs; three watchers join, the second is frozen for a second")
        watchers = [watcher(process.process_id) for _ in range(3)]
        time.sleep(0.5)
        watchers[1].send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        watchers[1].send_signal(signal.SIGCONT)
        print("the fourth joins in the middle")
        watchers.append(watcher(process.process_id))
        result = process.wait(closed=True)
        print(f"the command has ended: {result}; the fifth joins now")
        watchers.append(watcher(process.process_id))
        reports = [one.communicate(timeout=60)[0].strip() for one in watchers]
        output = [event for event in process.output() if isinstance(event, execzmq.Output)]
        expected = b"".join(event.data for event in output if event.stream == "stderr").decode()
        client.shutdown()
    for number, report in enumerate(reports, 1):
        print(f"  watcher {number}: {report}")
    print(f"  the command: sha256 {expected.strip()}")
    if len(set(reports)) != 1 or expected.strip() not in reports[0]:
        sys.exit("the watchers differ")
    print("every watcher has every byte, once and in order")


def main() -> None:
    """Run the demonstration with folders of its own, or one of its watchers."""
    if sys.argv[1:2] == ["watch"]:
        watch(sys.argv[2])
        return
    with tempfile.TemporaryDirectory(prefix="execzmq-demo-", dir="/tmp") as folder:
        for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[name] = folder
        demonstrate()


if __name__ == "__main__":
    main()
