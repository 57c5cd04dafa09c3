"""Two lives of a backend in a network that stands for a host's: says what their sandbox reaches."""

import asyncio
import os
import tempfile
from pathlib import Path

from execzmq.backends.local import LocalBackend
from execzmq.settings import Settings
from execzmq.types.params import SandboxIntent
from tests.commands import all_events, output_of, until_output, words
from tests.support import no_child_is_left, wait_until

HOST = "10.99.0.2"
PORT = 8777

INSIDE = f"""
reach() {{
    for address in {HOST} 10.0.2.2 127.0.0.1; do
        echo "$address $( (exec 3<>/dev/tcp/$address/{PORT} && head -c 5 <&3) 2>/dev/null || echo none)"
    done
}}
reach; head -n 1 /etc/resolv.conf; echo first; read x; reach; echo second
"""


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a server of the host, on all of its addresses."""
    writer.write(b"hello")
    writer.close()


async def main() -> None:
    """Run the sandbox under one life, and let it end under the next."""
    server = await asyncio.start_server(greet, "0.0.0.0", PORT)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        one = await LocalBackend.open(Path(folder), Settings())
        params = words(
            *("bash", "-c", INSIDE),
            process_id="i",
            stdin="pipe",
            cwd=b"/",
            sandbox=SandboxIntent("read-only", network="internet"),
        )
        await until_output(await one.start(params), b"first")
        await one.aclose()
        two = await LocalBackend.open(Path(folder), Settings())
        process = await two.attach("i")
        await process.write(b"go\n")
        print(output_of(await all_events(process)).decode(), end="")
        await two.shutdown()
        wait_until(no_child_is_left, 10.0)  # the keeper still has the folder
    server.close()
    await server.wait_closed()
    left = [pid for pid in filter(str.isdecimal, os.listdir("/proc")) if _is_companion(pid)]
    print("left", left)


def _is_companion(pid: str) -> bool:
    try:
        same = os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
        return same and b"slirp4netns" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    asyncio.run(main())
