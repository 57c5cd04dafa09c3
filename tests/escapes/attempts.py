"""What an attempt is, and what is known when attempts have been made."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from execzmq.types.results import ExitResult
from tests.escapes.site import Site

HOST, MINIMAL, PLAIN = "host", "minimal", "unconfined"
BOTH = frozenset({HOST, MINIMAL})
NEVER: frozenset[str] = frozenset()


class Answer(NamedTuple):
    """What one attempt has ended with, and what it wrote."""

    code: int
    text: str


@dataclass
class Run:
    """What is known after one start with many attempts.

    Attributes:
        mode: the base, or that there was no sandbox.
        tty: whether there was a terminal.
        site: with all that was aimed at, still there.
        secrets: what must not reach the client, by name.
        output: all that has reached the client.
        reached: the sockets of the host that were reached.
        applied: what the server has told of the sandbox.
    """

    mode: str
    tty: bool
    site: Site
    secrets: dict[str, str]
    output: bytes
    answers: dict[str, Answer]
    result: ExitResult
    reached: set[str] = field(default_factory=set)
    applied: dict[str, Any] = field(default_factory=dict)

    def says(self, number: str) -> bool:
        """Tell whether an attempt itself says that something of it went through."""
        return "through" in self.answers[number].text

    def shows(self, secret: str) -> bool:
        """Tell whether a secret has reached the client."""
        return self.secrets[secret].encode() in self.output


class Attempt(NamedTuple):
    """One attempt.

    Args:
        number: its row in the list of attempts that the sandbox was designed against; `N` marks a new one.
        code: a shell line, or Python that begins with `#python`.
        through: whether it had its effect, looked up on the host wherever the host can tell.
        passes: the bases with which it goes through by definition, as the documentation says.
        plain: whether it is also made without a sandbox, where it must go through: it would have an effect.
    """

    number: str
    title: str
    code: str
    through: Callable[[Run], bool]
    passes: frozenset[str] = NEVER
    plain: bool = True

    def is_made(self, mode: str) -> bool:
        """Tell whether it is made in such a run."""
        return mode != PLAIN or self.plain

    def is_expected(self, mode: str) -> bool:
        """Tell whether it goes through in such a run."""
        return mode == PLAIN or mode in self.passes


IS_ROOT = os.geteuid() == 0
