"""Make attempts one after the other and say what came of each; runs inside of the sandbox, by path.

Knows the standard library only. Each attempt is a child of its own: a shell line, or Python, which begins
with `#python`. One JSON object is written for each, on a line that begins with `@@`.
"""

import json
import os
import select
import signal
import sys
import time

SECONDS = 12.0
PRELUDE = """
import array, ctypes, errno, fcntl, json, os, signal, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
FACTS = json.loads(os.environ["FACTS"])
WS, OUT, RUN, CONNECTION = (os.environ[name] for name in ("WS", "OUT", "RUN", "CONNECTION"))
def call(name, *args):
    '''Make a system call; return what it returns, or the negative errno.'''
    done = libc.syscall(FACTS["calls"][name], *(arg if arg is None or isinstance(arg, (bytes, ctypes.Array))
                        else ctypes.c_long(arg) for arg in args))
    return done if done >= 0 else -ctypes.get_errno()
def tell(what, function):
    '''Do something, and say whether it went through.'''
    try:
        print("through", what, function())
    except BaseException as error:
        print("stopped", what, type(error).__name__, error)
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        one.settimeout(3)
        one.connect(address)
        one.send(b"x")
"""


def main(path: str) -> None:
    """Make the attempts that a file names."""
    with open(path) as file:
        attempts, facts = json.load(file)
    os.environ["FACTS"] = json.dumps(facts)
    own = dict(os.environ)
    os.environ.update(facts["variables"])
    for number, code in attempts:
        code, text = attempt(code.replace("@ENVIRON@", repr(own)))
        print("\n@@" + json.dumps({"number": number, "code": code, "text": text}), flush=True)


def attempt(code: str) -> tuple[int, str]:
    """Make one attempt; return its exit code (negative: the signal that ended it) and what it wrote."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        run(code)
    os.close(writer)
    text = read(reader)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    os.close(reader)
    return os.waitstatus_to_exitcode(status), text.decode("utf-8", "backslashreplace")


def run(code: str) -> None:
    """Run the code instead of this program."""
    if not code.startswith("#python"):
        os.execv("/bin/sh", ["sh", "-c", code])
    try:
        exec(compile(PRELUDE + code, "attempt", "exec"), {"__name__": "attempt"})
        sys.stdout.flush()
    except BaseException as error:
        print("stopped", type(error).__name__, error, flush=True)
    os._exit(0)


def read(reader: int) -> bytes:
    """Return what is written until nobody writes any more, or the time is over."""
    data, end = b"", time.monotonic() + SECONDS
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        if not (more := os.read(reader, 65536)):
            break
        data += more
    return data[:100_000]


if __name__ == "__main__":
    main(sys.argv[1])
