"""A client and a scheduler on one host, workers on others: a program that the test starts on the near one.

Its arguments are a folder that all hosts see and, as JSON, how each far host is entered and reached. It says
`ready` when it is, `ready` again when a host is to be cut off, and at its end one line of JSON.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Scheduler, SpecCluster
from distributed.deploy.spec import ProcessInterface

from execzmq import cluster
from execzmq.cluster import ClusterClient, hosting
from execzmq.cluster.hosting import name_of
from tests.cluster.programs import SLOTS, until

COMMANDS = 200
_SCRIPT = 'echo started >> "$0"; sleep 0.4; echo "$1"'
_NAMED = 'hostname "$0" && exec "$@"'


class FarWorker(ProcessInterface):
    """A `dask worker`, with its nanny, on a far host.

    Args:
        enter: what is put before a command line to run it there.
        host: what the host is called.
        address: of the near host, as seen from there.
    """

    def __init__(self, scheduler: str, name: str, enter: list[str], host: str, address: str) -> None:
        super().__init__(name=name)
        port = scheduler.rpartition(":")[2]
        named = ["unshare", "--uts", "sh", "-c", _NAMED, host]
        worker = [sys.executable, "-W", "error", "-m", "dask", "worker", f"tcp://{address}:{port}"]
        options = ["--name", name, "--nthreads", str(SLOTS), "--resources", f"slot={SLOTS}", "--no-dashboard"]
        self._argv = [*enter, *named, *worker, *options]
        self._process: asyncio.subprocess.Process

    async def start(self) -> None:
        """Start it; it joins the cluster when it is ready."""
        self._process = await asyncio.create_subprocess_exec(*self._argv, stdin=asyncio.subprocess.DEVNULL)
        await super().start()

    async def close(self) -> None:
        """End it, at once where it cannot take leave of the scheduler."""
        self._process.terminate()
        try:
            async with asyncio.timeout(3):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await super().close()


def lose(client: Client, folder: Path) -> None:
    """In the middle of the work kill a worker and an exec server, then have the last host cut off."""
    until(lambda: len(list(folder.glob("c*"))) >= COMMANDS // 5)
    addresses = {about["name"]: address for address, about in client.scheduler_info(-1)["workers"].items()}
    name = name_of(client.scheduler_info()["id"])
    [worker] = client.run(os.getpid, workers=[addresses["far1"]]).values()
    [server] = client.run(lambda: hosting.here(name).pid, workers=[addresses["far2"]]).values()
    for pid in (worker, server):
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(list(folder.glob("c*"))) >= 2 * COMMANDS // 5)
    print("ready", flush=True)


def work(client: Client, here: ClusterClient, folder: Path) -> dict[str, Any]:
    """Run the commands, lose what is to be lost meanwhile, and tell what became of each."""
    losing = threading.Thread(target=lose, args=(client, folder))
    losing.start()
    commands = [["sh", "-c", _SCRIPT, str(folder / f"c{n}"), str(n)] for n in range(COMMANDS)]
    results = here.map(commands, resources={"slot": 1}, text=True)
    ended = time.monotonic()
    losing.join()
    return {
        "ended": ended,
        "results": [[one.result.cause, one.returncode, one.stdout, one.host] for one in results],
        "again": here.run("echo on", text=True).stdout,
    }


def main(folder: Path, hosts: list[dict[str, Any]]) -> None:
    """Make the cluster, do the work, and end it."""
    # Dask's own time to give up a worker that is not heard of; half a minute unless told.
    dask.config.set({"distributed.comm.timeouts.tcp": "12s"})
    specs = {host["host"]: {"cls": FarWorker, "options": host} for host in hosts}
    scheduler = {"cls": Scheduler, "options": {"host": "0.0.0.0", "dashboard_address": ":0"}}
    with SpecCluster(workers=specs, scheduler=scheduler) as made, Client(made) as client:
        client.wait_for_workers(len(hosts), timeout=40)
        with cluster.connect(client) as here:
            names = here.map(["hostname"] * SLOTS * len(hosts), text=True)
            print("ready", flush=True)
            told = {"hosts": sorted({one.host for one in names}), **work(client, here, folder)}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
