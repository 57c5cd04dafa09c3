"""Have a command in a sandbox that waits until something has been mounted on the host; run as a program.

Its argument is the folder that is mounted on. Says `ready`, and after a line on stdin what the command wrote.
"""

import asyncio
import sys

from tests.commands import all_events, output_of, until_output
from tests.escapes.attempts import HOST
from tests.escapes.making import Home, at_home, params

LINE = "echo ready; while [ ! -e go ]; do sleep 0.02; done; echo x > {place}/new && echo through"


async def main(home: Home, place: str) -> None:
    """Start the command, let it see the mount, and say what it wrote."""
    async with home.server.backend() as backend:
        wish = home.wish(home.site, HOST)
        process = await backend.start(params(home.site, wish, "sh", "-c", LINE.format(place=place)))
        await until_output(process, b"ready")
        print("ready", flush=True)
        sys.stdin.readline()
        (home.site.ws / "go").touch()
        print(output_of(await all_events(process)))


if __name__ == "__main__":
    with at_home() as found:
        asyncio.run(main(found, sys.argv[1]))
