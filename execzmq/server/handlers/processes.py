"""Answer starts, listings and reads."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from execzmq.backends.local_process import LocalProcess
from execzmq.backends.measuring import all_measured, measured
from execzmq.backends.prepared import Prepared
from execzmq.backends.starting import begin_when_prepared
from execzmq.errors import InvalidRequest
from execzmq.process.managed import ManagedProcess
from execzmq.process.paging import Place
from execzmq.process.reading import page_of
from execzmq.protocol.fields import plain
from execzmq.protocol.values import process_info_to_wire
from execzmq.server import requests
from execzmq.server.access import check_started_id
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Later, Reply
from execzmq.server.pages import entries_of
from execzmq.server.views import seen_entry, seen_failure, seen_info
from execzmq.settings import MIB
from execzmq.types.params import ExecParams
from execzmq.types.results import ProcessInfo

_ROOM_POLL = 1.0
_LIST_BYTES = MIB
"""Bytes of descriptions after which a list goes on in the next reply."""
_INFO_BYTES = 1024
"""Bytes of a description besides its words, its folder and what failed."""


def start(
    context: Context, caller: Caller, request: requests.Start, buffers: Sequence[Any]
) -> Reply | Later | Awaitable[Reply]:
    """Start a command, or answer as before where the same request comes again."""
    params = _params(context, caller, request, buffers)
    preparing = context.backend.prepare(params, caller.peer.sandbox)
    if preparing is not None:
        return _start_confined(context, caller, params, preparing)
    process, starting, repeated = context.backend.begin(params, caller.session)
    if starting is None:
        return _started(process, repeated)
    return Later(lambda answer: starting.then(lambda _: answer(_started(process, repeated)), answer))


async def _start_confined(
    context: Context, caller: Caller, params: ExecParams, preparing: Coroutine[Any, Any, Prepared]
) -> Reply:
    process, starting, repeated = await begin_when_prepared(
        context.backend, params, caller.session, caller.peer.sandbox, preparing, caller.check_current
    )
    if starting is not None:
        await starting
    return _started(process, repeated)


def explain(
    context: Context, caller: Caller, request: requests.Explain, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Tell what a start would become."""
    params = _params(context, caller, request, buffers)

    async def answer() -> Reply:
        explained = await context.backend.explain(params, caller.peer.sandbox)
        return Reply({**explained, "sandbox": plain(explained["sandbox"])})

    return answer()


def _params(
    context: Context, caller: Caller, request: requests.Explain, buffers: Sequence[Any]
) -> ExecParams:
    peer, process_id = caller.peer, request.process_id
    check_started_id(peer, process_id, process_id is not None and context.sharing.book.reserves(process_id))
    if (request.stdin == "data") != bool(buffers):
        raise InvalidRequest(
            "start: stdin 'data' and one buffer belong together", fields={"stdin": "no buffer"}
        )
    params = request.params(bytes(buffers[0]) if buffers else b"")
    if process_id is None and peer.role == "operator" and peer.share is not None:
        return replace(params, process_id=peer.share.prefix + context.backend.new_process_id())
    return params


def _started(process: ManagedProcess, repeated: bool) -> Reply:
    return Reply(
        {
            "process_id": process.process_id,
            "instance": process.instance,
            "pid": process.pid or 0,
            "repeated": repeated,
            "sandbox": plain(process.spec.sandbox),
        }
    )


def list_processes(
    context: Context, caller: Caller, request: requests.List, buffers: Sequence[Any]
) -> Reply | Awaitable[Reply]:
    """Describe processes, as many as one message carries well."""
    found: list[ManagedProcess] = []
    size = 0
    sees = caller.peer.sees
    following = (one for one in context.backend.table.after(request.after) if sees(one.process_id))
    for process in following:
        found.append(process)
        spec = process.spec
        size += _INFO_BYTES + len(spec.cwd) + sum(map(len, spec.argv)) + len(str(process.failure or ""))
        if size > _LIST_BYTES:
            break
    more = next(following, None) is not None
    if request.usage:
        return _list_measured(context, caller, found, more)
    return _listed(caller, [process.info() for process in found], more)


async def _list_measured(
    context: Context, caller: Caller, processes: list[ManagedProcess], more: bool
) -> Reply:
    return _listed(caller, await all_measured(context.backend, processes), more)


def _listed(caller: Caller, infos: list[ProcessInfo], more: bool) -> Reply:
    return Reply({"processes": [process_info_to_wire(_seen(caller, info)) for info in infos], "more": more})


def describe(
    context: Context, caller: Caller, request: requests.Describe, buffers: Sequence[Any]
) -> Reply | Awaitable[Reply]:
    """Describe the process of that id or name."""
    process = context.backend.table.find(request.id_or_name, caller.peer.sees)
    if request.usage:
        return _describe_measured(context, caller, process)
    return _described(caller, process.info())


async def _describe_measured(context: Context, caller: Caller, process: ManagedProcess) -> Reply:
    return _described(caller, await measured(context.backend, process))


def _described(caller: Caller, info: ProcessInfo) -> Reply:
    return Reply({"process": process_info_to_wire(_seen(caller, info))})


def _seen(caller: Caller, info: ProcessInfo) -> ProcessInfo:
    return seen_info(info) if caller.peer.role == "observer" else info


def read(
    context: Context, caller: Caller, request: requests.Read, buffers: Sequence[Any]
) -> Reply | Awaitable[Reply]:
    """Answer with a page of the log, at once where there is one."""
    handle = context.process(request.process_id, caller.session, request.instance)
    process = handle.require()
    context.pages.open_reads(caller.session, request.open)
    process.was_read(request.after_seq)
    if handle.is_starter:
        process.streams.told(request.after_seq)
    has_news = process.log.last_seq > request.after_seq or process.life.is_over or not request.wait
    room = _room(context, caller, request) if has_news else 0
    if room:
        return _page(context, caller, request, process, room)
    return _page_later(context, caller, request, handle)


async def _page_later(
    context: Context, caller: Caller, request: requests.Read, handle: LocalProcess
) -> Reply:
    await handle.wait_news(request.after_seq, request.wait)
    while not (room := _room(context, caller, request)):
        await context.pages.wait_room(caller.session, _ROOM_POLL)
    return _page(context, caller, request, handle.require(), room)


def _room(context: Context, caller: Caller, request: requests.Read) -> int:
    return context.pages.room_for(caller.session, caller.connection, request.page_bytes)


def _page(
    context: Context, caller: Caller, request: requests.Read, process: ManagedProcess, max_bytes: int
) -> Reply:
    log, result, is_observer = process.log, process.result, caller.peer.role == "observer"
    by_file = request.by_file and caller.peer.role == "owner"
    page = page_of(process, request.after_seq, max_bytes, by_file=by_file)
    buffers = [memoryview(page.buffer)] if page.buffer else []
    for buffer in buffers:
        context.pages.sent(caller.session, caller.connection, caller.msg_id, buffer)
    entries = entries_of(page)
    content = {
        "process_id": process.process_id,
        "instance": process.instance,
        "events": list(map(seen_entry, entries)) if is_observer else entries,
        "next_seq": page.next_seq,
        "first_seq": log.first_seq,
        "last_seq": log.last_seq,
        "exited": process.life.has_exited,
        "closed": process.life.is_over,
        "exit_code": result.exit_code if result else None,
        "signal": result.signal if result else None,
        "failure": seen_failure(process.failure) if is_observer else process.failure,
        "dropped_bytes": dict(log.dropped),
    }
    if page.place is not None:
        content |= _place_of(page.place)
    return Reply(content, buffers)


def _place_of(place: Place) -> dict[str, Any]:
    device, inode = place.identity
    return {
        "file": os.fsencode(place.path),
        "device": device,
        "inode": inode,
        "position": place.position,
        "length": place.length,
    }


def wait(
    context: Context, caller: Caller, request: requests.Wait, buffers: Sequence[Any]
) -> Reply | Awaitable[Reply]:
    """Answer when the process has come to that end, or the time is over."""
    handle = context.process(request.process_id, caller.session, request.instance)
    process = handle.require()
    if process.life.is_over or (request.until == "exited" and process.life.has_exited):
        return _described(caller, process.info())
    return _wait(caller, handle, request)


async def _wait(caller: Caller, handle: LocalProcess, request: requests.Wait) -> Reply:
    return _described(caller, await handle.wait(request.until, request.timeout))


def forget(context: Context, caller: Caller, request: requests.Forget, buffers: Sequence[Any]) -> Reply:
    """Remove an ended process and its log."""
    context.backend.forget(context.process(request.process_id, caller.session, request.instance).require())
    return Reply()
