"""Own how functions that take `**options` show their keywords to `help()` and to completion."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def options_from(keywords: type) -> Callable[[F], F]:
    """Give a function whose last parameter is `**options` the keywords of a TypedDict as its signature."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *named, _ = signature.parameters.values()
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=annotation)
            for name, annotation in keywords.__annotations__.items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *extra])  # type: ignore[attr-defined]  # inspect reads it
        return function

    return decorate
