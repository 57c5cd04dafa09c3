"""The corpus of failing commands: what is run, what is true of it, and in which part it counts."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

User = Literal["root", "user"]
Part = Literal["development", "held-out"]
FOLDER = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Case:
    """One command of the corpus.

    `who` names those for whom the failure is the sandbox's, `only` those for whom the command is run at all;
    empty = both. `kept` = the workspace has no `.git`, and none can be made. `outside` = it is also run
    without a sandbox, to check that what is said of it is true.
    """

    run: str
    why: str
    denied: bool
    part: Part
    who: str = ""
    only: str = ""
    profile: Literal["write", "read", "minimal"] = "write"
    network: Literal["none", "host"] = "none"
    outside: bool = True
    git: bool = False
    kept: bool = False
    tar: bool = False
    needs: str = ""
    files: dict[str, str] = field(default_factory=dict)
    outfiles: dict[str, str] = field(default_factory=dict)

    def is_for(self, user: User) -> bool:
        """Tell whether the command is run for a user."""
        return self.only in ("", user)

    def is_denied_to(self, user: User) -> bool:
        """Tell whether the sandbox, and it alone, refuses this user something."""
        return self.denied and self.who in ("", user)


def load() -> list[Case]:
    """Return all commands of the corpus."""
    denied = [Case(**entry, denied=True, part="development") for entry in _entries("denied")]
    own = [Case(**entry, denied=False, part="development") for entry in _entries("own")]
    second = [Case(**entry, part="development") for entry in _entries("second")]
    return denied + own + second + [Case(**entry, part="held-out") for entry in _entries("held-out")]


def _entries(name: str) -> list[dict[str, Any]]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())["case"]  # type: ignore[no-any-return]  # TOML's
