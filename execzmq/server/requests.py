"""Own the check of what comes in: one pydantic model per method, with ranges; knows nothing of processes.

A field that is not known is refused, so that a request never means less than it says. The fields are those of
the table of methods; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from execzmq.errors import InvalidRequest
from execzmq.settings import GIB, LEASE, LONG_POLL, MIB, PAGE
from execzmq.types.params import EnvPolicy, ExecParams, Limits, SandboxIntent, TtySize

Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Epoch = Annotated[str, Field(max_length=64)]
Seq = Annotated[int, Field(ge=0, lt=1 << 63)]
Id64 = Annotated[int, Field(ge=0, lt=1 << 64)]
Seconds = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
Side = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=0, lt=1 << 62)]
Signal = Annotated[int, Field(ge=1, le=64)]
Patterns = Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=256)]
Ids = Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=1024)]


class Request(BaseModel):
    """What all requests share: strict types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Nothing(Request):
    """A request without fields."""


class EnvPolicyFields(Request):
    """How the variables are made."""

    inherit: Literal["all", "core", "none"] = "all"
    exclude: Patterns = []
    set: dict[bytes, bytes] = {}
    include_only: Patterns = []

    def policy(self) -> EnvPolicy:
        """Return the policy as the core takes it."""
        return EnvPolicy(self.inherit, tuple(self.exclude), self.set, tuple(self.include_only))


class TtyFields(Request):
    """The terminal of a process."""

    rows: Side
    cols: Side
    echo: bool = True


class LimitsFields(Request):
    """Limits of a process."""

    memory: Count | None = None
    cpu: Count | None = None
    processes: Count | None = None
    file_size: Count | None = None
    descriptors: Count | None = None


class SandboxFields(Request):
    """What a sandboxed process may do."""

    profile: Word
    workspace_roots: Annotated[list[bytes], Field(max_length=256)] = []


class Start(Request):
    """Start a command."""

    epoch: Epoch
    process_id: Word | None = None
    name: Word | None = None
    argv: Annotated[list[bytes], Field(min_length=1, max_length=1 << 20)]
    cwd: bytes | None = None
    env: dict[bytes, bytes] | None = None
    env_policy: EnvPolicyFields | None = None
    stdin: Literal["null", "pipe", "data"]
    tty: TtyFields | None = None
    merge_stderr: bool
    timeout: Seconds | None = None
    timeout_grace: Seconds
    lifetime: Literal["server", "client"]
    backpressure: Literal["spill", "pause"]
    log_budget: Annotated[int, Field(ge=64 * 1024, le=64 * GIB)] | None = None
    drain_limit: Seconds | None = None
    umask: Annotated[int, Field(ge=0, le=0o777)] | None = None
    arg0: bytes | None = None
    limits: LimitsFields | None = None
    sandbox: SandboxFields | None = None

    def params(self, data: bytes) -> ExecParams:
        """Return the parameters of the start; `data` is what stdin is given."""
        policy, tty, limits, sandbox = self.env_policy, self.tty, self.limits, self.sandbox
        return ExecParams(
            argv=tuple(self.argv),
            process_id=self.process_id,
            name=self.name,
            cwd=self.cwd,
            env=self.env,
            env_policy=policy.policy() if policy else None,
            stdin=self.stdin,
            stdin_data=data,
            tty=tty is not None,
            tty_size=TtySize(tty.rows, tty.cols) if tty else TtySize(),
            tty_echo=tty.echo if tty else True,
            merge_stderr=self.merge_stderr,
            timeout=self.timeout,
            timeout_grace=self.timeout_grace,
            lifetime=self.lifetime,
            backpressure=self.backpressure,
            log_budget=self.log_budget,
            drain_limit=self.drain_limit,
            umask=self.umask,
            arg0=self.arg0,
            limits=Limits(**limits.model_dump()) if limits else None,
            sandbox=SandboxIntent(sandbox.profile, tuple(sandbox.workspace_roots)) if sandbox else None,
        )


class Describe(Request):
    """Find a process."""

    id_or_name: Word


class Read(Request):
    """One page of a log."""

    process_id: Word
    instance: Id64 | None = None
    after_seq: Seq
    max_bytes: Annotated[int, Field(ge=1)] | None = None
    wait: Annotated[float, Field(ge=0.0, le=LONG_POLL)]
    open: Ids

    @property
    def page_bytes(self) -> int:
        """Return the most output bytes of the page."""
        return PAGE if self.max_bytes is None else min(self.max_bytes, PAGE)


class Wait(Request):
    """Wait for an end."""

    process_id: Word
    instance: Id64 | None = None
    until: Literal["exited", "closed"]
    timeout: Annotated[float, Field(ge=0.0, le=LONG_POLL)]


class Forget(Request):
    """Remove an ended process."""

    process_id: Word
    instance: Id64 | None = None


class SendSignal(Request):
    """Send a signal."""

    epoch: Epoch
    process_id: Word
    signal: Signal


class Terminate(Request):
    """End a tree."""

    epoch: Epoch
    process_id: Word
    grace: Annotated[float, Field(ge=0.0, le=86400.0)]


class Resize(Request):
    """Set the size of a terminal."""

    epoch: Epoch
    process_id: Word
    rows: Side
    cols: Side


class ClaimKeyboard(Request):
    """Be the only one who types."""

    process_id: Word
    take_over: bool


class ReleaseKeyboard(Request):
    """Let others type."""

    process_id: Word


class Lease(Request):
    """Tell that a session lives."""

    seconds: Annotated[float, Field(ge=0.0, le=LEASE)]
    cursors: Annotated[
        dict[Word, Annotated[list[int], Field(min_length=2, max_length=2)]], Field(max_length=4096)
    ]
    open: Ids


class Shutdown(Request):
    """End the server."""

    epoch: Epoch


class Write(Request):
    """Append to stdin."""

    epoch: Epoch
    process_id: Word
    offset: Seq
    end: bool


MODELS: Mapping[str, type[Request]] = {
    "kernel_info": Nothing,
    "info": Nothing,
    "start": Start,
    "list": Nothing,
    "describe": Describe,
    "read": Read,
    "wait": Wait,
    "forget": Forget,
    "doctor": Nothing,
    "signal": SendSignal,
    "terminate": Terminate,
    "resize": Resize,
    "claim_keyboard": ClaimKeyboard,
    "release_keyboard": ReleaseKeyboard,
    "lease": Lease,
    "shutdown": Shutdown,
    "write": Write,
}

MOST_BUFFERS = {"start": 1, "write": 1}
LARGEST_BUFFER = 4 * MIB


def check(method: str, content: dict[str, Any]) -> Request:
    """Return the checked request.

    Raises:
        InvalidRequest: `fields` names what is wrong with which field; values are not repeated.
    """
    try:
        return MODELS[method].model_validate(content)
    except ValidationError as error:
        fields = {
            ".".join(map(str, e["loc"]))[:128]: e["msg"] for e in error.errors(include_input=False)[:16]
        }
        what = "; ".join(f"{name}: {text}" for name, text in fields.items())
        raise InvalidRequest(f"{method}: {what}"[:1000], fields=fields) from None
