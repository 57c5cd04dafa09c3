"""Own what Tab offers in the line of `%execz`: options, and names of environments, processes and profiles."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from execzmq.client.known import known
from execzmq.client.sync import Client
from execzmq.environments import store
from execzmq.errors import ExecZMQError
from execzmq.notebook.arguments import OPTIONS, being_typed
from execzmq.notebook.clients import Clients

SECONDS = 2.0
"""Seconds that whoever types waits for names of a server."""

_MAGIC = re.compile(r"\s*(?:[\w.,\s]+=\s*)?%{1,2}execz\s+(?P<rest>.*)\Z", re.DOTALL)
_ON = re.compile(r"--on[\s=]+(\S+)")
_OPTION_NAMES = tuple(name for one in OPTIONS for name in one.names)


class Completing:
    """Completes for one shell.

    Args:
        clients: of that shell; none is connected for the sake of a name.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @context_matcher(identifier="execzmq")  # type: ignore[untyped-decorator]  # of IPython
    def match(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return what goes on with what is typed, as IPython asks its matchers."""
        magic = _MAGIC.match(context.text_until_cursor)
        typed = None if magic is None else being_typed(magic["rest"])
        if magic is None or typed is None:
            return {"completions": []}
        option, fragment = typed
        if option is not None:
            names = self._names(option.names[-1], magic["rest"])
        else:
            names = _OPTION_NAMES if fragment.startswith("-") else ()
        found = [SimpleCompletion(name) for name in names if name.startswith(fragment)]
        return {"completions": found, "matched_fragment": fragment, "suppress": bool(found)}

    def _names(self, option: str, rest: str) -> Iterable[str]:
        if option == "--on":
            return _places()
        client = self._clients.peek(on[1] if (on := _ON.search(rest)) else None)
        if client is None:
            return ()
        if option == "--attach":
            return _asked(client, lambda: client.aio.processes(), lambda one: (one.process_id, one.name))
        if option == "--sandbox":
            return _asked(client, lambda: client.aio.profiles(), lambda one: (one.name,))
        return ()


def _places() -> list[str]:
    """Return the names of environments, and of the servers that have a connection file here."""
    names = {one.name for one in known()}
    with contextlib.suppress(ExecZMQError):
        names |= set(store.known().environments)
    return sorted(names)


def _asked(
    client: Client,
    ask: Callable[[], Coroutine[Any, Any, list[Any]]],
    names_of: Callable[[Any], tuple[str | None, ...]],
) -> list[str]:
    """Return names that a server tells; none where it does not answer at once."""

    async def within() -> list[Any]:
        async with asyncio.timeout(SECONDS):
            return await ask()

    try:
        found = client.portal.call(within())
    except (ExecZMQError, TimeoutError):
        return []
    return [name for one in found for name in names_of(one) if name]
