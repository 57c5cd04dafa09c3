"""Own what is looked at of a start before anything is begun: whether it may be, and whether it was before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from execzmq.backends.launching import check_params, digest_of, explain_plain
from execzmq.errors import Conflict
from execzmq.process.lifecycle import Life
from execzmq.process.managed import ManagedProcess
from execzmq.process.table import ProcessTable
from execzmq.sandbox.offer import Offer
from execzmq.types.params import ExecParams


def checked_cwd(params: ExecParams, offer: Offer, base_cwd: bytes) -> bytes:
    """Return where the command of a start that may be made will run.

    Raises:
        InvalidRequest, PermissionRefused, SandboxUnavailable: it may not be made.
    """
    cwd = base_cwd if params.cwd is None else params.cwd
    check_params(params, offer.permissions(params, cwd))
    return cwd


def repeated(table: ProcessTable, params: ExecParams, process_id: str, digest: str) -> ManagedProcess | None:
    """Return the process that the same start has begun before, `None` where it may begin a new one.

    Raises:
        Conflict: the id or the name is another's. InvalidRequest: one is no word. LimitExceeded.
    """
    existing = table.get(process_id)
    if existing is None or existing.life is Life.FAILED:
        table.check_new(process_id, params.name)
        return None
    if params.process_id is None or existing.spec.digest != digest:
        message = f"the process_id {process_id!r} is taken by another command; choose another"
        raise Conflict(f"{message}, or forget it", process_id=process_id)
    return existing


def explain(
    table: ProcessTable,
    offer: Offer,
    params: ExecParams,
    base_cwd: bytes,
    base_env: Mapping[bytes, bytes],
) -> dict[str, Any]:
    """Return what a start would become; see ExecBackend for its keys and errors."""
    cwd = checked_cwd(params, offer, base_cwd)
    repeated(table, params, params.process_id or table.new_id(), digest_of(params))
    return explain_plain(params, base_env, cwd)
