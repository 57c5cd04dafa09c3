"""Own what is said of shares: what one is to allow, and what there is; know nothing of who checks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from execzmq.types.params import SandboxIntent

Role = Literal["owner", "operator", "observer"]

DAY = 86400.0


@dataclass(slots=True, frozen=True)
class ShareTerms:
    """What a share is to allow.

    Args:
        role: `owner` all that its maker may; `operator` starts sandboxed commands, and acts on these and on
            `processes`; `observer` watches `processes` and nothing else.
        processes: ids, or names of processes that there are.
        expires: seconds until it ends, at most 366 days.
        sandbox: of an operator, the most that a command may do; `None` = the profile `workspace-write`. No
            folder can be written and no network reached that it does not name.
    """

    role: Role = "observer"
    processes: tuple[str, ...] = ()
    expires: float = DAY
    sandbox: SandboxIntent | None = None


@dataclass(slots=True, frozen=True)
class ShareInfo:
    """A share that there is; times are Unix seconds.

    Args:
        share_id: by which it is revoked; made from `publickey`. The ids of the processes that an operator
            starts begin with it and a `-`.
        processes: ids of what its holder may watch, and as an operator act on.
        sandbox: of an operator, the most that a command may do.
        publickey: of its holder (Z85); no secret.
    """

    share_id: str
    role: Role
    processes: tuple[str, ...]
    created_at: float
    expires_at: float
    sandbox: SandboxIntent | None = None
    publickey: str = ""

    @property
    def prefix(self) -> str:
        """Return what the process ids begin with that its holder makes."""
        return f"{self.share_id}-"
