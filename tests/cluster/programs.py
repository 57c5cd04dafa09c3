"""What tests do with a cluster, each in a program of its own: `python -m tests.cluster.programs NAME`.

Dask leaves threads and children to the end of a program, so that none of it is in the tests' own. Each writes
one line of JSON at its end. Warnings are errors, in the workers too.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Future, LocalCluster

import execzmq
from execzmq import cluster, connection
from execzmq.cluster import ClusterClient
from execzmq.cluster.backend import ClusterBackend
from execzmq.cluster.dask import Dask
from execzmq.cluster.hosting import name_of
from tests.conformance import CHECKS

SLOTS = 4


@contextlib.contextmanager
def local() -> Iterator[Client]:
    """Make a cluster of two workers with nannies on this machine."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=SLOTS, dashboard_address=":0", resources={"slot": SLOTS}
        ) as made,
        Client(made) as client,
    ):
        yield client


def server_of(client: Client) -> connection.ConnectionInfo:
    """Return how to reach the exec server of this machine."""
    name = name_of(client.scheduler_info()["id"])
    return connection.load(connection.state_folder(name) / "connection.json")


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for what announces itself by no event."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def everyday(client: Client) -> dict[str, Any]:
    """Do with a cluster what one does with a server, and watch from a second client."""
    with cluster.connect(client) as here, cluster.connect(client) as there:
        first = server_of(client)
        done = here.run("echo out; echo err >&2; exit 3", text=True)
        process = here.start(["cat"], stdin=True, name="cat", resources={"slot": 1})
        found = there.attach("cat")
        process.write(b"hello\n")
        process.close_stdin()
        lines = list(found.lines())
        results = here.map(
            [f"echo {n}; exit {n % 2}" for n in range(200)], progress=True, resources={"slot": 1}, text=True
        )
        infos = there.processes()
        return {
            "run": [done.returncode, done.stdout, done.stderr],
            "lines": lines,
            "host": process.host,
            "found": found.process_id == process.process_id,
            "exit": process.wait(timeout=10).exit_code,
            "told": found.info().host,
            "map": [[result.returncode, result.stdout, result.host] for result in results],
            "names": sorted({info.host for info in infos}),
            "processes": len(infos),
            "cwd": here.run("pwd", text=True).stdout,
            "same": first == server_of(client),
            "hosts": here.info().statistics["hosts"],
            "profiles": len(here.profiles()),
        }


def errors(client: Client) -> dict[str, Any]:
    """Meet every error of one command, and go on."""
    with cluster.connect(client) as here:
        results = here.map(
            [["true"], ["/no/such/program"], ["sleep", "60"], ["sh", "-c", "kill -9 $$"]],
            timeout=2.0,
        )
        checked = here.map(["exit 3", "exit 0"], check=True)
        here.run(["true"], process_id="mine")
        return {
            "checked": [[result.returncode, type(result.error).__name__] for result in checked],
            "results": [
                [result.result.cause, result.returncode, type(result.error).__name__] for result in results
            ],
            "raised": [
                raised(lambda: here.run(["/no/such/program"])),
                raised(lambda: here.run("exit 3", check=True)),
                raised(lambda: here.attach("nobody")),
                raised(lambda: here.run(["false"], process_id="mine")),
                raised(here.shutdown),
                raised(lambda: here.run("true", no_such_keyword=1)),  # type: ignore[call-arg]  # the point
                raised(lambda: here.run("true", resources=["GPU"])),  # type: ignore[arg-type]  # the point
                raised(lambda: here.start("true", resources={"GPU": "1"})),  # type: ignore[dict-item]  # the point
                raised(lambda: here.map(["true"], resources={"GPU": -1})),
                raised(lambda: here.map("true")),
                raised(lambda: cluster.connect("hpc")),  # type: ignore[arg-type]  # the point
            ],
            "again": here.run(["true"]).returncode,
        }


def raised(work: Callable[[], object]) -> str:
    """Return the name of what is raised."""
    try:
        work()
    except Exception as error:
        return type(error).__name__
    return "nothing"


async def _twin() -> dict[str, Any]:
    async with (
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0", asynchronous=True) as made,
        Client(made, asynchronous=True) as client,
        await cluster.aconnect(client) as here,
    ):
        done = await here.run("echo hi", text=True)
        process = await here.start("echo there")
        lines = [line async for line in process.lines()]
        waiting = asyncio.create_task(here.run("echo no > never", resources={"nobody has": 1}))
        await asyncio.to_thread(until, lambda: here.cluster.statistics()["waiting"] == 1)
        waiting.cancel()
        cancelled = await asyncio.gather(waiting, return_exceptions=True)
        results = await here.map(["exit 1", "exit 2"])
    tasks = [repr(task) for task in asyncio.all_tasks() if "execzmq" in repr(task)]
    return {
        "stdout": done.stdout,
        "lines": lines,
        "cancelled": type(cancelled[0]).__name__,
        "codes": [result.returncode for result in results],
        "tasks": len(tasks),
    }


def twin() -> dict[str, Any]:
    """Do the same with coroutines, in the loop of the Dask client's own."""
    return {**asyncio.run(_twin()), "never": os.path.exists("never")}


def a_worker_is_killed(client: Client) -> dict[str, Any]:
    """Kill each worker process once, while commands run and others wait."""
    with cluster.connect(client) as here:
        script = f"echo start >> {os.getcwd()}/$0; sleep 2; echo $0"
        commands = [["sh", "-c", script, f"c{n}"] for n in range(12)]

        def kill() -> None:
            until(lambda: len(list(Path().glob("c*"))) >= 2 * SLOTS)
            for pid in client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        results = here.map(commands, text=True)
        killer.join()
        return {
            "results": [[result.returncode, result.stdout] for result in results],
            "starts": [Path(f"c{n}").read_text().count("start") for n in range(12)],
        }


def a_server_is_killed(client: Client) -> dict[str, Any]:
    """Kill the exec server of a host: a nanny starts another, and all goes on."""
    with cluster.connect(client) as here:
        process = here.start("for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done")
        lines = process.lines()
        first = next(lines)
        before = server_of(client)
        os.kill(before.pid, signal.SIGKILL)
        rest = list(lines)
        after = server_of(client)
        return {
            "lines": [first, *rest],
            "exit": process.wait().exit_code,
            "another": before.pid != after.pid,
            "again": here.run("echo on", text=True).stdout,
        }


def nothing_is_started_late(client: Client) -> dict[str, Any]:
    """Take back what waits: by an interrupt, by Dask, by the end of a client."""
    with cluster.connect(client) as here:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        interrupted = raised_by_interrupt(
            lambda: here.map(
                ["sleep 30; touch late"] * (2 * SLOTS) + ["touch late"] * 4, resources={"slot": 1}
            )
        )
        left = [info.state for info in here.processes() if not info.exited]
        refused = [waited(here, lambda: drop_tasks(client))]
        other = cluster.connect(client)
        refused.append(waited(other, other.close))
        return {
            "interrupted": interrupted,
            "left": left,
            "refused": refused,
            "late": os.path.exists("late"),
            "again": here.run("echo on", text=True).stdout,
        }


def drop_tasks(client: Client) -> None:
    """Have Dask drop the tasks that it has, as it does when a cluster is restarted."""
    keys: list[str] = []
    while not keys:
        keys = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
    client.cancel([Future(key, client) for key in keys], force=True)


def waited(client: ClusterClient, end: Callable[[], object]) -> str:
    """Return what a command meets that has no place yet when something is done."""
    met: list[str] = []

    def run() -> None:
        met.append(raised(lambda: client.run("touch late", resources={"slot": 99})))

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: client.cluster.statistics()["waiting"] == 1)
    end()
    thread.join()
    return met[0]


def raised_by_interrupt(work: Callable[[], object]) -> bool:
    """Tell whether an interrupt ended it."""
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


def secrets(client: Client) -> dict[str, Any]:
    """Look for the key of the server, and for words of a command, wherever Dask shows something."""
    with cluster.connect(client) as here:
        process = here.start(["sh", "-c", "sleep 1 # word-of-a-command"], env={"A": "word-of-a-command"})
        shown = [
            *map(repr, [here, process, here.aio.backend]),
            repr(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler._to_dict())),
            repr(client.run(lambda dask_worker: dask_worker._to_dict())),
            repr(client.get_events()),
            repr(client.get_scheduler_logs()),
            repr(client.get_worker_logs()),
            repr(client.get_worker_logs(nanny=True)),
        ]
        process.wait()
    key = server_of(client).key
    return {"found": [n for n, text in enumerate(shown) for word in (key, "word-of") if word in text]}


def command_line(client: Client) -> dict[str, Any]:
    """Use the cluster by a name, from a shell and by `connect`."""
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "execzmq"
    folder.mkdir(mode=0o700)
    address = client.scheduler_info()["address"]
    (folder / "environments.toml").write_text(f"[hpc]\ndask = '{address}'\n")

    def call(*words: str) -> list[Any]:
        argv = [sys.executable, "-m", "execzmq", words[0], "--on", "hpc", *words[1:]]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        return [done.returncode, done.stdout, done.stderr]

    unserved = call("ps")
    told = {"run": call("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")}
    call("start", "--name", "sleeper", "--", "sleep", "60")
    told["resources"] = call("run", "--resources", "slot=1.5", "--", "echo", "placed")
    told["ps"] = call("ps")
    [info] = json.loads(call("ps", "--json")[1])
    stopped = call("stop", "sleeper")[0]
    with execzmq.connect("hpc") as here:
        assert isinstance(here, ClusterClient)
        connected = here.map(["echo from python"], text=True)[0].stdout
    return {
        **told,
        "unserved": unserved,
        "info": [info["name"], info["host"]],
        "stopped": stopped,
        "waited": call("wait", "sleeper")[0],
        "shutdown": call("shutdown"),
        "doctor": call("doctor")[0],
        "connected": connected,
    }


def preloads() -> dict[str, Any]:
    """Have all parts by `--preload`; kill the nannies of a host, one after the other."""
    with contextlib.ExitStack() as stack:
        dask = [sys.executable, "-m", "dask"]
        preload = ["--scheduler-file", "where.json", "--preload", "execzmq.cluster", "--no-dashboard"]
        host = ["--host", "127.0.0.1"]

        def begin(kind: str, *words: str) -> subprocess.Popen[bytes]:
            program = subprocess.Popen([*dask, kind, *preload, *host, *words], stdin=subprocess.DEVNULL)
            stack.callback(program.wait)
            stack.callback(program.terminate)
            return program

        begin("scheduler", "--port", "0", "--dashboard-address", ":0")
        nannies = [begin("worker", "--nthreads", "2") for _ in range(2)]
        client = stack.enter_context(Client(scheduler_file="where.json"))
        client.wait_for_workers(2)
        here = stack.enter_context(cluster.connect(client))
        server = server_of(client)
        process = here.start(["sleep", "60"])
        nannies[0].kill()
        until(lambda: len(client.scheduler_info()["workers"]) == 1)
        echoed = here.run("echo on", text=True).stdout
        same = server == server_of(client)
        nannies[1].kill()
        result = process.wait(timeout=30)
        state = connection.state_folder(name_of(client.scheduler_info()["id"]))
        until(lambda: not state.exists())
        return {"echoed": echoed, "same": same, "cause": result.cause, "by": result.asked_by}


KEPT = [
    check
    for check in CHECKS
    # A cluster is no one process, and its servers end with its nannies.
    if check.__name__ not in ("server_describes_itself", "shutdown_ends_everything")
]
"""What every backend promises, and that of a cluster too."""


async def _conformance() -> dict[str, Any]:
    failed: dict[str, str] = {}
    async with (
        LocalCluster(n_workers=1, threads_per_worker=16, dashboard_address=":0", asynchronous=True) as made,
        Client(made, asynchronous=True) as client,
    ):
        for check in KEPT:
            backend = await ClusterBackend.open(Dask(client))
            try:
                async with asyncio.timeout(20):
                    await check(backend)
            except (Exception, pytest.fail.Exception):
                failed[check.__name__] = traceback.format_exc()
            finally:
                for info in await backend.list_processes():
                    process = await backend.attach(info.process_id)
                    await process.terminate(0.0)
                    await process.ended("closed", 20.0)
                    await process.forget()
                await backend.aclose()
    return {"kept": len(KEPT) - len(failed), "failed": failed}


def conformance() -> dict[str, Any]:
    """Hold the backend of a cluster to what every backend promises."""
    return asyncio.run(_conformance())


def workers_come_and_go() -> dict[str, Any]:
    """Leave a command alone with its slot; let the last worker go, and have another one."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as made,
        Client(made) as client,
        cluster.connect(client) as here,
    ):
        with Client(made.scheduler_address) as other, cluster.connect(other) as there:
            there.start("sleep 2; touch first")
        waited = here.run("ls first", text=True).stdout
        process = here.start(["sleep", "60"])
        first = server_of(client)
        made.scale(0)
        left = process.wait(timeout=30)
        until(lambda: not client.scheduler_info()["workers"])
        without = [raised(here.profiles), here.processes()]
        made.scale(1)
        again = here.run("echo on", text=True).stdout
        another = server_of(client)
        return {
            "waited": waited,
            "left": [left.cause, left.asked_by],
            "without": without,
            "again": again,
            "another": first.pid != another.pid and first.key != another.key,
        }


def without_nannies() -> dict[str, Any]:
    """Use workers that are threads of this program."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as made,
        Client(made) as client,
        cluster.connect(client) as here,
    ):
        results = here.map([f"echo {n}" for n in range(8)], text=True)
    return {"stdout": [result.stdout for result in results]}


ON_A_CLUSTER = (
    command_line,
    everyday,
    errors,
    secrets,
    a_server_is_killed,
    a_worker_is_killed,
    nothing_is_started_late,
)
ALONE = (conformance, twin, preloads, workers_come_and_go, without_nannies)


def main(names: list[str]) -> None:
    """Do what the names say, with one cluster unless they need one of their own."""
    told: dict[str, Any] = {one.__name__: one() for one in ALONE if one.__name__ in names}
    if wanted := [one for one in ON_A_CLUSTER if one.__name__ in names]:
        with local() as client:
            told |= {one.__name__: one(client) for one in wanted}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
