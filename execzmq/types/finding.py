"""Own what one check of a machine has found, as `doctor` tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Finding:
    """What one check has found.

    Args:
        name: of the check.
        ok: whether all is well.
        text: what was found.
        remedy: what to do where it is not well.
    """

    name: str
    ok: bool
    text: str
    remedy: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the finding as plain values."""
        return {"name": self.name, "ok": self.ok, "text": self.text, "remedy": self.remedy}
