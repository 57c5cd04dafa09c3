"""Own what a page may say to a terminal, checked and bounded; knows nothing of who says it, nor what is done.

A page is JavaScript in somebody's browser. What it says that is no request of these has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from execzmq.settings import SCREEN_COLS, SCREEN_ROWS
from execzmq.types.params import TtySize

MOST_TYPED = 256 * 1024
"""Bytes of one message of keys; a page sends what is pasted in pieces."""
_LEAST_ROWS, _LEAST_COLS = 2, 10


@dataclass(slots=True, frozen=True)
class Opened:
    """The page can show the terminal, and has room for one of `size`; `None` = it is not laid out yet."""

    size: TtySize | None


@dataclass(slots=True, frozen=True)
class Rendered:
    """The page has rendered `total` bytes since the last picture, which had the number `picture`."""

    picture: int
    total: int


@dataclass(slots=True, frozen=True)
class Fitted:
    """The page has room for a terminal of `size`."""

    size: TtySize


@dataclass(slots=True, frozen=True)
class Typed:
    """Keys, pasted text and the mouse.

    Args:
        data: what the terminal would send.
        is_user: whether a person did something just now; a terminal also answers questions by itself.
    """

    data: bytes
    is_user: bool


@dataclass(slots=True, frozen=True)
class Took:
    """The user wants the keyboard, whoever has it."""


@dataclass(slots=True, frozen=True)
class HandedOver:
    """The user wants somebody else to have the keyboard."""


@dataclass(slots=True, frozen=True)
class Skipped:
    """The user wants to see the present, and not what is still to come until then."""


@dataclass(slots=True, frozen=True)
class Here:
    """The page is there: it was asked."""


Request: TypeAlias = Opened | Rendered | Fitted | Typed | Took | HandedOver | Skipped | Here


def parse(content: Any, buffers: Sequence[Any]) -> Request | None:
    """Return what a page asks for, `None` where it is nothing of that."""
    if not isinstance(content, dict):
        return None
    match content.get("type"):
        case "opened":
            return Opened(_size(content))
        case "rendered":
            picture, total = _whole(content.get("picture")), _whole(content.get("total"))
            return None if picture is None or total is None else Rendered(picture, total)
        case "fitted":
            size = _size(content)
            return None if size is None else Fitted(size)
        case "typed":
            return _typed(content, buffers)
        case "took":
            return Took()
        case "handed_over":
            return HandedOver()
        case "skipped":
            return Skipped()
        case "here":
            return Here()
    return None


def _typed(content: dict[str, Any], buffers: Sequence[Any]) -> Typed | None:
    if len(buffers) != 1:
        return None
    view = memoryview(buffers[0]).cast("B")
    return Typed(bytes(view), content.get("is_user") is True) if 0 < len(view) <= MOST_TYPED else None


def _size(content: dict[str, Any]) -> TtySize | None:
    rows, cols = _whole(content.get("rows")), _whole(content.get("cols"))
    if not rows or not cols:
        return None
    return TtySize(
        # Of a larger one somebody who joins late would not see all.
        min(max(rows, _LEAST_ROWS), SCREEN_ROWS),
        min(max(cols, _LEAST_COLS), SCREEN_COLS),
    )


def _whole(value: Any) -> int | None:
    """Return a whole number that is not negative; JavaScript may write it as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return int(value) if value >= 0 and int(value) == value else None
    except (OverflowError, ValueError):
        return None
