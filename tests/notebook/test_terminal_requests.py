"""What a page says is checked before it means anything."""

import pytest

from execzmq.notebook.terminal_requests import (
    MOST_TYPED,
    Fitted,
    HandedOver,
    Here,
    Opened,
    Rendered,
    Request,
    Skipped,
    Took,
    Typed,
    parse,
)
from execzmq.settings import SCREEN_COLS, SCREEN_ROWS
from execzmq.types.params import TtySize


@pytest.mark.parametrize(
    ("content", "buffers", "request_"),
    [
        ({"type": "opened"}, [], Opened(None)),
        ({"type": "opened", "rows": 30, "cols": 90.0}, [], Opened(TtySize(30, 90))),
        ({"type": "rendered", "picture": 2, "total": 70000}, [], Rendered(2, 70000)),
        ({"type": "fitted", "rows": 1, "cols": 1}, [], Fitted(TtySize(2, 10))),
        ({"type": "fitted", "rows": 10**9, "cols": 10**9}, [], Fitted(TtySize(SCREEN_ROWS, SCREEN_COLS))),
        ({"type": "typed", "is_user": True}, [memoryview(b"x")], Typed(b"x", True)),
        ({"type": "typed", "is_user": "yes"}, [b"x" * MOST_TYPED], Typed(b"x" * MOST_TYPED, False)),
        ({"type": "took"}, [], Took()),
        ({"type": "handed_over"}, [], HandedOver()),
        ({"type": "skipped"}, [], Skipped()),
        ({"type": "here"}, [], Here()),
    ],
)
def test_requests(content: object, buffers: list[bytes], request_: Request) -> None:
    """Each kind becomes what it asks for, its numbers within their bounds."""
    assert parse(content, buffers) == request_


@pytest.mark.parametrize(
    ("content", "buffers"),
    [
        (None, []),
        ({}, []),
        ({"type": ["opened"]}, []),
        ({"type": "exec"}, []),
        ({"type": "fitted", "rows": True, "cols": 80}, []),
        ({"type": "fitted", "rows": 24, "cols": float("nan")}, []),
        ({"type": "fitted", "rows": 24, "cols": float("inf")}, []),
        ({"type": "fitted", "rows": 24}, []),
        ({"type": "rendered", "picture": 1, "total": -1}, []),
        ({"type": "rendered", "picture": 1, "total": 0.5}, []),
        ({"type": "typed"}, []),
        ({"type": "typed"}, [b""]),
        ({"type": "typed"}, [b"a", b"b"]),
        ({"type": "typed"}, [b"x" * (MOST_TYPED + 1)]),
    ],
)
def test_nonsense_is_nothing(content: object, buffers: list[bytes]) -> None:
    """What is no request, or out of bounds, is none."""
    assert parse(content, buffers) is None
