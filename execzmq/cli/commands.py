"""Own the list of commands: what was typed becomes a call and its exit status, without a traceback.

Loads click alone; a command's module is loaded when it is named.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

import click

from execzmq import settings
from execzmq.cli import say

MODULE_OF = {
    "run": "running",
    "start": "running",
    "ps": "listing",
    "logs": "logs",
    "attach": "attaching",
    "wait": "control",
    "write": "control",
    "signal": "control",
    "stop": "control",
    "kill": "control",
    "resize": "control",
    "forget": "control",
    "share": "sharing",
    "shares": "sharing",
    "revoke": "sharing",
    "serve": "serving",
    "shutdown": "servers",
    "connections": "servers",
    "environments": "environments",
    "profiles": "profiles",
    "doctor": "doctoring",
}
"""Command → module of this package that has a function of its name, in the order of the help page."""


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a newcomer needs them."""
        return list(MODULE_OF)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        module = MODULE_OF.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"execzmq.cli.{module}"), f"{cmd_name}_command")
        return command


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(settings.VERSION, prog_name="execzmq", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run commands on a server that remembers what they said, and watch them from anywhere."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    _fill_standard_descriptors()
    try:
        status = cli.main(args, prog_name="execzmq", standalone_mode=False)
    except click.UsageError as error:
        say.line(f"{error.format_message()} (see {_help_of(error)})")
        return say.FAILED
    except click.ClickException as error:
        say.line(error.format_message())
        return say.FAILED
    except (click.Abort, KeyboardInterrupt):
        return say.INTERRUPTED
    except OSError as error:  # of a help page that cannot be written
        return say.failure(error)
    return status if isinstance(status, int) else 0


def _help_of(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else "execzmq"
    return f"`{path} --help`"


def _fill_standard_descriptors() -> None:
    """Open those that the caller has closed: whatever took their numbers would be taken for them."""
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > 2:
            os.close(fd)
            return
        os.set_inheritable(fd, True)
