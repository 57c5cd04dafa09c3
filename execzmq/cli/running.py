"""Own `run` and `start`: the options become `ExecParams`, and `run` stands for the command to its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from execzmq.cli import say
from execzmq.cli.input import is_terminal, is_waiting
from execzmq.cli.options import COMMAND_SETTINGS, detach_keys_option, start_options
from execzmq.cli.session import connected, go, place_of
from execzmq.cli.telling import tell_differences
from execzmq.environments.model import Dask
from execzmq.errors import ConnectionFailed, InvalidRequest
from execzmq.types.backend import ExecBackend, ExecProcess
from execzmq.types.params import EnvPolicy, ExecParams
from execzmq.types.results import ExitResult

if TYPE_CHECKING:
    from execzmq.client.run import Starter


@click.command(
    "run", context_settings=COMMAND_SETTINGS, short_help="Run a command, watch it, end as it ends."
)
@click.option(
    "-i", "--interactive", is_flag=True, help="Pass stdin on.  [default: the command reads nothing]"
)
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal; with -i it is yours.")
@click.option("-d", "--detach", is_flag=True, help="Leave it running and print its id.")
@click.option("--explain", is_flag=True, help="Show what it would be allowed and become; run nothing.")
@detach_keys_option
@start_options
def run_command(
    on: str | None,
    interactive: bool,
    tty: bool,
    detach: bool,
    explain: bool,
    detach_keys: bytes,
    **asked: Any,
) -> int:
    """Run a command, show what it says, and end as it ends.

    Words after the command's name are its own; no shell reads them. Ctrl-C sends it SIGINT, a second one
    SIGTERM, a third one kills it with all that it started. With -it all keys are the command's, but for those
    that detach.

    The exit status is the command's: 128+N where signal N has ended it, 124 at its time limit, 127 where it
    is not found, 126 where it cannot be executed, 125 where execzmq has failed.
    """
    if explain:
        return go(_explain(on, stdin=interactive, tty=tty, asked=asked))
    if detach:
        return go(_start(on, stdin=interactive, tty=tty, asked=asked))
    if tty and interactive and not is_terminal():
        raise click.UsageError("-t and -i together need a terminal at stdin: leave -t out")
    return go(_run(on, interactive, tty, detach_keys, asked))


@click.command("start", context_settings=COMMAND_SETTINGS, short_help="Start a command and print its id.")
@click.option("-i", "--interactive", is_flag=True, help="Give it a pipe to `execzmq write` to.")
@click.option("-t", "--tty", is_flag=True, help="Give it a terminal to `execzmq attach` to.")
@start_options
def start_command(on: str | None, interactive: bool, tty: bool, **asked: Any) -> int:
    """Start a command, print its id and leave it running.

    Words after the command's name are its own; no shell reads them.
    """
    return go(_start(on, stdin=interactive, tty=tty, asked=asked))


async def _start(on: str | None, *, stdin: bool, tty: bool, asked: dict[str, Any]) -> int:
    _check_resources(on, asked)
    async with connected(on, start=True) as backend:
        params = params_of(backend, asked, stdin=stdin, tty=tty)
        process = await _starter(backend, asked).start(params)
        await tell_differences(process, asked)
        say.listing(process.process_id)
    return 0


async def _explain(on: str | None, *, stdin: bool, tty: bool, asked: dict[str, Any]) -> int:
    from execzmq.cli.profiles import show_explanation

    _check_resources(on, asked)
    async with connected(on, start=True) as backend:
        show_explanation(await backend.explain(params_of(backend, asked, stdin=stdin, tty=tty)))
    return 0


def _check_resources(on: str | None, asked: dict[str, Any]) -> None:
    """Refuse resources where nothing counts them, before anything is started for that.

    Raises:
        InvalidRequest: they are asked for, and it is no cluster.
    """
    if asked["resources"] and not isinstance(place_of(on), Dask):
        raise InvalidRequest("resources are counted on a cluster alone: leave them out, or name one by --on")


def _starter(backend: ExecBackend, asked: dict[str, Any]) -> Starter:
    """Return what starts the command: a cluster is told what it takes there."""
    if not asked["resources"]:
        return backend
    from execzmq.cluster.backend import ClusterBackend
    from execzmq.cluster.slots import Slot

    assert isinstance(backend, ClusterBackend)
    return Slot(backend, asked["resources"])


def params_of(backend: ExecBackend, asked: dict[str, Any], **more: Any) -> ExecParams:
    """Return what the options ask for; the folder, variables and umask are ours where they mean the same."""
    from execzmq.client.arguments import start_params, this_process

    variables, inherit, words = asked["env"], asked["env_policy"], asked["command"]
    names = ("name", "process_id", "cwd", "sandbox", "network", "limits", "timeout")
    caller = this_process() if backend.is_local else None
    named = {key: asked[key] for key in names} | _places(asked, is_local=caller is not None)
    options = {**named, "umask": _umask() if caller is not None else None, **more}
    params = start_params([os.fsencode(word) for word in words], options, caller)  # type: ignore[arg-type]  # the keys are its own
    if not variables and inherit is None:
        return params
    policy = params.env_policy or EnvPolicy()
    added = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    return replace(params, env_policy=replace(policy, inherit=inherit or policy.inherit, set=added))


def _places(asked: dict[str, Any], *, is_local: bool) -> dict[str, Any]:
    """Return the roots, of which relative ones are below our folder where that means anything, and hosts."""
    roots = tuple(map(os.path.abspath, asked["roots"])) if is_local else asked["roots"]
    return {"workspace_roots": roots, "allowed_hosts": asked["hosts"] or None}


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


async def _run(
    on: str | None, interactive: bool, tty: bool, detach_keys: bytes, asked: dict[str, Any]
) -> int:
    from execzmq.cli.foreground import DRAIN, end_tree
    from execzmq.cli.relay import Relay
    from execzmq.client.limit import within
    from execzmq.client.run import start_whole

    _check_resources(on, asked)
    if not interactive and is_waiting():
        say.line("the command reads nothing from stdin; add -i to pass it on")
    with Relay() as relay:
        try:
            async with connected(on, start=True) as backend:
                more = {"stdin": interactive, "backpressure": "pause", "drain_limit": DRAIN}
                params = params_of(backend, asked, **more, **_terminal(tty))
                process = await start_whole(_starter(backend, asked), params)
                relay.begin(process)
                limit = None if params.timeout is None else params.timeout + params.timeout_grace + DRAIN
                work = _stand_for(process, interactive, tty, detach_keys)
                with _found_again(process):
                    await tell_differences(process, asked)
                    result = await within(limit, work, lambda: end_tree(process))
        except asyncio.CancelledError as error:
            return relay.status(error)
    return say.detached(process.process_id) if result is None else say.end(process.process_id, result)


@contextlib.contextmanager
def _found_again(process: ExecProcess) -> Iterator[None]:
    """Where the server is lost, tell how its command is found when there is one again."""
    try:
        yield
    except ConnectionFailed as error:
        step = f"once a server runs again, `execzmq attach {process.process_id}` goes on with the command"
        raise ConnectionFailed(f"{error.message}; {step}") from None


def _terminal(tty: bool) -> dict[str, Any]:
    if not tty:
        return {}
    from execzmq.cli.terminal import size_of

    return {"tty": True, "size": size_of(0, 1, 2)}


async def _stand_for(
    process: ExecProcess, interactive: bool, tty: bool, detach_keys: bytes
) -> ExitResult | None:
    from execzmq.cli.foreground import end_tree

    try:
        if tty and interactive:
            return await _lend_terminal(process, detach_keys)
        return await _stream(process, interactive=interactive, tty=tty)
    except OSError:
        # Nobody can read the command's output any more, or see what it does.
        await end_tree(process)
        raise


async def _lend_terminal(process: ExecProcess, detach_keys: bytes) -> ExitResult | None:
    from execzmq.cli.joined import JoinedTerminal

    joined = JoinedTerminal(process, detach_keys=detach_keys)
    result = await joined.run()
    if result is None and not joined.has_left:
        raise BrokenPipeError(errno.EPIPE, "the terminal has gone")
    return result


async def _stream(process: ExecProcess, *, interactive: bool, tty: bool) -> ExitResult:
    from execzmq.cli.foreground import beside, copy, feed
    from execzmq.cli.input import Input
    from execzmq.cli.output import Output

    async with contextlib.AsyncExitStack() as stack:
        output = stack.enter_context(contextlib.closing(Output()))
        if tty:
            from execzmq.cli.terminal import passing_size

            await stack.enter_async_context(passing_size(process))
        if interactive:
            await stack.enter_async_context(beside(feed(process, Input())))
        return await copy(process, output)
