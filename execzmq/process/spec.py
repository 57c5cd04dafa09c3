"""Own what is remembered of a start: enough to show it, repeat its answer and go on after a restart.

Values of variables are not among it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
from dataclasses import dataclass
from typing import Any

from execzmq.types.params import Backpressure, ExecParams, Lifetime


@dataclass(slots=True, frozen=True)
class ProcessSpec:
    """One start of one process_id.

    Args:
        starter: client session that asked for it.
        digest: identifies the request; the same one again is a repeat and not a conflict.
        requested_at: Unix seconds.
        exact_env: the client gave an empty environment, so no mark was added.
        sandbox: what confines it, as clients are told; `None` = nothing does.
    """

    process_id: str
    instance: int
    name: str | None
    argv: tuple[bytes, ...]
    cwd: bytes
    tty: bool
    stdin: str
    timeout: float | None
    timeout_grace: float
    lifetime: Lifetime
    backpressure: Backpressure
    log_budget: int
    drain_limit: float | None
    starter: str
    digest: str
    requested_at: float
    exact_env: bool
    log_instance: int = 0
    """What names the log where its end may be missing, so that no cursor of before fits; 0 = `instance`."""
    sandbox: dict[str, Any] | None = None
    rows: int = 24
    cols: int = 80
    """Size of the terminal at the start, if there is one."""
    key: str = dataclasses.field(init=False, repr=False, compare=False)
    """What names this life of the process to the keeper, in its log's folder and in the mark."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.process_id, self.instance))

    @property
    def mark(self) -> bytes | None:
        """Return the value by which descendants are known, `None` where none was set."""
        return None if self.exact_env else self.key.encode()


def key_of(process_id: str, instance: int) -> str:
    """Name one life of a process_id in one word."""
    return f"{process_id}.{instance:016x}"


@functools.cache
def boot_id() -> str:
    """Name the time since this machine was started; empty where it does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def spec_of(
    params: ExecParams,
    process_id: str,
    instance: int,
    cwd: bytes,
    budget: int,
    starter: str,
    digest: str,
    now: float,
    sandbox: dict[str, Any] | None = None,
) -> ProcessSpec:
    """Return what is remembered of a start with these parameters."""
    return ProcessSpec(
        process_id=process_id,
        instance=instance,
        name=params.name,
        argv=params.argv,
        cwd=cwd,
        tty=params.tty,
        stdin=params.stdin,
        timeout=params.timeout,
        timeout_grace=params.timeout_grace,
        lifetime=params.lifetime,
        backpressure=params.backpressure,
        log_budget=budget,
        drain_limit=params.drain_limit,
        starter=starter,
        digest=digest,
        requested_at=now,
        exact_env=params.env == {} and params.env_policy is None,
        sandbox=sandbox,
        rows=params.tty_size.rows,
        cols=params.tty_size.cols,
    )


_FIELDS = tuple(field.name for field in dataclasses.fields(ProcessSpec) if field.init)
_values_of = operator.attrgetter(*_FIELDS)


def spec_to_record(spec: ProcessSpec) -> dict[str, Any]:
    """Return a spec as the journal takes it; bytes become text that names every byte."""
    record = dict(zip(_FIELDS, _values_of(spec), strict=True))
    record["argv"] = [os.fsdecode(word) for word in spec.argv]
    record["cwd"] = os.fsdecode(spec.cwd)
    return record


def spec_from_record(record: dict[str, Any]) -> ProcessSpec:
    """Return the spec that `spec_to_record` described; fields of a later version are dropped."""
    values = {name: record[name] for name in _FIELDS if name in record}
    values["argv"] = tuple(os.fsencode(word) for word in record["argv"])
    values["cwd"] = os.fsencode(record["cwd"])
    return ProcessSpec(**values)
