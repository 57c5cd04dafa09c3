"""Own what a page may say to a live view, checked and bounded; pure, and knows nothing of what is done.

A page is JavaScript in somebody's browser. What it says that is no request of these has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

MOST_TYPED = 256 * 1024
"""Bytes of one message for stdin."""


@dataclass(slots=True, frozen=True)
class Opened:
    """The page shows the view and wants to hear how the process is."""


@dataclass(slots=True, frozen=True)
class Pressed:
    """A button was pressed."""

    button: Literal["interrupt", "stop", "kill"]


@dataclass(slots=True, frozen=True)
class Typed:
    """What stdin is to have; `is_end` = its end after that."""

    data: bytes
    is_end: bool = False


@dataclass(slots=True, frozen=True)
class Attached:
    """The page wants all output after an event."""

    seq: int


@dataclass(slots=True, frozen=True)
class Detached:
    """The page wants no output any more."""


@dataclass(slots=True, frozen=True)
class Rendered:
    """The page has shown the output messages up to a number."""

    number: int


Request: TypeAlias = Opened | Pressed | Typed | Attached | Detached | Rendered


def parse(content: Any, buffers: Sequence[Any]) -> Request | None:
    """Return what a page asks for, `None` where it is nothing of that."""
    if not isinstance(content, dict):
        return None
    match content:
        case {"type": "opened"}:
            return Opened()
        case {"type": "interrupt" | "stop" | "kill" as button}:
            return Pressed(cast(Literal["interrupt", "stop", "kill"], button))
        case {"type": "typed"} if len(buffers) == 1:
            data = bytes(memoryview(buffers[0]).cast("B"))
            return Typed(data) if len(data) <= MOST_TYPED else None
        case {"type": "ended_stdin"}:
            return Typed(b"", is_end=True)
        case {"type": "attached", "seq": seq} if is_whole(seq):
            return Attached(seq)
        case {"type": "detached"}:
            return Detached()
        case {"type": "rendered", "number": number} if is_whole(number):
            return Rendered(number)
    return None


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
