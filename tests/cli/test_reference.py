"""The reference of the command line is complete, and says nothing that is not so."""

import re

import click

from execzmq.cli import commands, options, say
from tests.sources import ROOT

PAGE = (ROOT / "docs/reference/cli.md").read_text()


def _options() -> set[str]:
    found = set()
    for name in commands.MODULE_OF:
        command = commands.cli.get_command(click.Context(commands.cli), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                found |= set(parameter.opts)
    return found


def test_every_command_and_option_is_there() -> None:
    """No command and no option is missing, and none is there that does not exist."""
    named = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", PAGE))
    own = _options() | {"--help"}
    assert own - named == set()
    assert named - own == {"-it", "-c"}  # two in one, and a shell's
    assert all(re.search(rf"`(?:execzmq )?{name}\b", PAGE) for name in commands.MODULE_OF)


def test_statuses_are_there() -> None:
    """Every exit status of ours is in the table."""
    statuses = (say.TIMED_OUT, say.FAILED, say.NOT_EXECUTABLE, say.NOT_FOUND)
    assert all(f"| {status} |" in PAGE for status in statuses)


def test_default_detach_keys() -> None:
    """The keys that the page names are those that detach."""
    assert options.parse_keys("ctrl-p,ctrl-q") == b"\x10\x11"
    assert "`ctrl-p,ctrl-q`" in PAGE
