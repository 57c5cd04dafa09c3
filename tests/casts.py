"""Read recordings (asciicast, version 3) by the rules of the format, and refuse what breaks one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_CODES = {"o": r"(?s).*", "i": r"(?s).*", "m": r"(?s).*", "r": r"[1-9][0-9]*x[1-9][0-9]*", "x": r"-?[0-9]+"}
"""Code of an event → what its data look like."""
_HEADER = {
    **dict.fromkeys(("command", "title"), str),
    **dict.fromkeys(("env", "term"), dict),
    "version": int,
    "timestamp": int,
    "tags": list,
    "idle_time_limit": float,
}
_TERM = {"cols": int, "rows": int, "type": str, "version": str, "theme": dict}


@dataclass
class Cast:
    """A recording.

    Args:
        events: seconds since the one before, code and data of each.
    """

    header: dict[str, object]
    rows: int
    cols: int
    events: list[tuple[float, str, str]]

    @classmethod
    def read(cls, data: bytes) -> Cast:
        """Return the recording in a file's bytes."""
        text = data.decode("utf-8")
        assert text.endswith("\n")
        first, *rest = text.removesuffix("\n").split("\n")
        header = json.loads(first)
        _check_fields(header, _HEADER)
        _check_fields(header["term"], _TERM)
        assert header["version"] == 3
        assert header["term"]["cols"] > 0
        assert header["term"]["rows"] > 0
        events = [_event(json.loads(line)) for line in rest if not line.startswith("#")]
        ends = [number for number, event in enumerate(events) if event[1] == "x"]
        assert ends in ([], [len(events) - 1])
        return cls(header, header["term"]["rows"], header["term"]["cols"], events)

    def of(self, code: str) -> list[str]:
        """Return the data of the events of one kind."""
        return [data for _, kind, data in self.events if kind == code]

    @property
    def text(self) -> str:
        """Return all output."""
        return "".join(self.of("o"))

    @property
    def seconds(self) -> float:
        """Return how long it is."""
        return sum(event[0] for event in self.events)

    def sizes_and_output(self) -> Iterator[tuple[int, int] | bytes]:
        """Yield what a player does, in order: rows and columns, and output."""
        yield self.rows, self.cols
        for _, code, data in self.events:
            if code == "r":
                cols, rows = data.split("x")
                yield int(rows), int(cols)
            elif code == "o":
                yield data.encode()


def _event(value: object) -> tuple[float, str, str]:
    assert isinstance(value, list)
    interval, code, data = value
    assert type(interval) in (int, float)
    assert interval >= 0
    assert re.fullmatch(_CODES[code], data)
    return float(interval), code, data


def _check_fields(found: object, known: dict[str, type]) -> None:
    assert isinstance(found, dict)
    assert all(type(value) is known[name] for name, value in found.items())
