"""The corpus of failing commands: what is run, what is true of it, and in which part it counts."""

import hashlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

User = Literal["root", "user"]
Part = Literal["development", "held-out"]
FOLDER = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Case:
    """One command of the corpus.

    `who` names those for whom the failure is the sandbox's, `only` those for whom the command is run at all;
    empty = both. `outside` = it is also run without a sandbox, to check that what is said of it is true.
    """

    run: str
    why: str
    is_denied: bool
    who: str = ""
    only: str = ""
    profile: Literal["write", "read", "minimal"] = "write"
    network: Literal["none", "host"] = "none"
    outside: bool = True
    git: bool = False
    tar: bool = False
    needs: str = ""
    files: dict[str, str] = field(default_factory=dict)
    outfiles: dict[str, str] = field(default_factory=dict)

    @property
    def part(self) -> Part:
        """Return the part: by the text of the command, so that nobody chooses."""
        return "held-out" if hashlib.sha256(self.run.encode()).digest()[0] & 1 else "development"

    def is_for(self, user: User) -> bool:
        """Tell whether the command is run for a user."""
        return self.only in ("", user)

    def is_denied_to(self, user: User) -> bool:
        """Tell whether the sandbox, and it alone, refuses this user something."""
        return self.is_denied and self.who in ("", user)


def load() -> list[Case]:
    """Return all commands of the corpus."""
    return [
        Case(**entry, is_denied=name == "denied")
        for name in ("denied", "own")
        for entry in tomllib.loads((FOLDER / f"{name}.toml").read_text())["case"]
    ]
