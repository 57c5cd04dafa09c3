"""Own the check of what comes in: one pydantic model per method, with ranges; knows nothing of processes.

A field that is not known is refused, so that a request never means less than it says. The fields are those of
the table of methods; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from execzmq.errors import InvalidRequest
from execzmq.server.shares import MOST_PROCESSES
from execzmq.settings import GIB, LEASE, LONG_POLL, MIB, PAGE
from execzmq.types.params import (
    EnvPolicy,
    ExecParams,
    Inherit,
    Limits,
    NetworkMode,
    SandboxIntent,
    TtySize,
)
from execzmq.types.sharing import Role, ShareTerms

_MOST_FIELDS = 64
_MOST_CURSORS = 4096


def _at_most(most: int) -> BeforeValidator:
    """Refuse a long list or map before its entries are looked at: each wrong one would make an error."""

    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > most:
            raise ValueError(f"no more than {most} entries are allowed, not {len(value)}")
        return value

    return BeforeValidator(check)


def _of_bytes(value: Any) -> Any:
    """Refuse a long list or map at once where not all in it are bytes, for the same reason."""
    entries = [*value, *value.values()] if isinstance(value, dict) else value
    if isinstance(entries, list) and len(entries) > _MOST_FIELDS and {*map(type, entries)} != {bytes}:
        raise ValueError("not all entries are bytes")
    return value


Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Epoch = Annotated[str, Field(max_length=64)]
Seq = Annotated[int, Field(ge=0, lt=1 << 63)]
Id64 = Annotated[int, Field(ge=0, lt=1 << 64)]
Seconds = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
Side = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=0, lt=1 << 62)]
Signal = Annotated[int, Field(ge=1, le=64)]
Patterns = Annotated[list[Annotated[str, Field(max_length=256)]], _at_most(256)]
Hosts = Annotated[list[Annotated[str, Field(max_length=300)]], _at_most(256)]
Ids = Annotated[list[Annotated[str, Field(max_length=256)]], _at_most(1024)]
Variables = Annotated[dict[bytes, bytes], BeforeValidator(_of_bytes)]


class Request(BaseModel):
    """What all requests share: strict types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, content: Any) -> Any:
        if isinstance(content, dict) and len(content) > _MOST_FIELDS:
            raise ValueError(f"{len(content)} fields are more than any request has")
        return content


class Nothing(Request):
    """A request without fields."""


class EnvPolicyFields(Request):
    """How the variables are made."""

    inherit: Inherit = "profile"
    exclude: Patterns = []
    set: Variables = {}
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

    profile: Word | Literal[""]
    workspace_roots: Annotated[list[bytes], _at_most(256)] = []
    network: NetworkMode | None = None
    allowed_hosts: Hosts | None = None

    def intent(self) -> SandboxIntent:
        """Return the intent as the core takes it."""
        hosts = self.allowed_hosts
        return SandboxIntent(
            self.profile,
            tuple(self.workspace_roots),
            self.network,
            None if hosts is None else tuple(hosts),
        )


class Explain(Request):
    """Explain a start."""

    process_id: Word | None = None
    name: Word | None = None
    argv: Annotated[list[bytes], Field(min_length=1, max_length=1 << 20), BeforeValidator(_of_bytes)]
    cwd: bytes | None = None
    env: Variables | None = None
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
            sandbox=sandbox.intent() if sandbox else None,
        )


class Start(Explain):
    """Start a command."""

    epoch: Epoch


class List(Request):
    """Describe processes."""

    after: Word | None = None
    usage: bool = False


class Describe(Request):
    """Find a process."""

    id_or_name: Word
    usage: bool = False


class Read(Request):
    """One page of a log."""

    process_id: Word
    instance: Id64 | None = None
    after_seq: Seq
    max_bytes: Annotated[int, Field(ge=1)] | None = None
    wait: Annotated[float, Field(ge=0.0, le=LONG_POLL)]
    open: Ids
    by_file: bool = False

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


class ShowScreen(Request):
    """What a terminal shows."""

    process_id: Word
    instance: Id64 | None = None


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
        dict[Word, Annotated[list[int], Field(min_length=2), _at_most(2)]], _at_most(_MOST_CURSORS)
    ]
    open: Ids


class Share(Request):
    """Let somebody in over the network."""

    publickey: Annotated[str, Field(min_length=40, max_length=40)]
    role: Role
    processes: Annotated[list[Word], _at_most(MOST_PROCESSES)]
    expires: Seconds
    sandbox: SandboxFields | None = None

    def terms(self) -> ShareTerms:
        """Return the terms as the core takes them."""
        sandbox = self.sandbox.intent() if self.sandbox else None
        return ShareTerms(self.role, tuple(self.processes), self.expires, sandbox)


class Revoke(Request):
    """Take a share back."""

    share_id: Word


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
    "explain": Explain,
    "profiles": Nothing,
    "list": List,
    "describe": Describe,
    "read": Read,
    "wait": Wait,
    "screen": ShowScreen,
    "forget": Forget,
    "doctor": Nothing,
    "signal": SendSignal,
    "terminate": Terminate,
    "resize": Resize,
    "claim_keyboard": ClaimKeyboard,
    "release_keyboard": ReleaseKeyboard,
    "lease": Lease,
    "share": Share,
    "shares": Nothing,
    "revoke": Revoke,
    "shutdown": Shutdown,
    "write": Write,
}

MOST_BUFFERS = {"start": 1, "explain": 1, "write": 1}
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
