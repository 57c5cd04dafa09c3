"""Own how a process's events look as an asciicast (version 3), the format of terminal recordings; pure."""

from __future__ import annotations

import codecs
import json
import re

from execzmq import errors
from execzmq.cli import say
from execzmq.cli.text import command_line
from execzmq.types.events import Closed, Event, Failed, Gap, Notice, Output
from execzmq.types.params import TtySize
from execzmq.types.results import ProcessInfo

_TICKS = 1_000_000
"""Parts of a second that intervals are told in: rounded ones would not add up."""
_LONE_NEWLINE = re.compile(r"(?<!\r)\n")


class Asciicast:
    """Makes the lines of one recording.

    Args:
        info: the process. A recording of one without a terminal looks as at a terminal.
        stream: whose output is recorded; `None` = that of both.
    """

    def __init__(self, info: ProcessInfo, stream: str | None) -> None:
        self._info = info
        self._stream = stream
        self._ticks: int | None = None
        self._ends_in_return = False
        self._decoders = {name: _decoder() for name in ("stdout", "stderr")}

    def header(self) -> bytes:
        """Return the first line."""
        info = self._info
        size = info.tty_size or TtySize()
        header: dict[str, object] = {"version": 3, "term": {"cols": size.cols, "rows": size.rows}}
        if info.started_at:
            header["timestamp"] = int(info.started_at)
        if info.argv:
            header["command"] = command_line(info.argv)
        if info.name:
            header["title"] = info.name
        return _line(header)

    def lines(self, event: Event) -> bytes:
        """Return what an event adds: mostly a line, or nothing."""
        ticks = round(event.time * _TICKS)
        if self._ticks is None:
            self._ticks = ticks
        found = self._told(event)
        if not found:
            return b""
        interval = max(0, ticks - self._ticks)  # a clock may be put back
        self._ticks += interval
        return b"".join(
            _line([interval / _TICKS if number == 0 else 0.0, code, data])
            for number, (code, data) in enumerate(found)
        )

    def _told(self, event: Event) -> list[tuple[str, str]]:
        if isinstance(event, Output):
            text = self._text(event)
            return [("o", text)] if text else []
        if isinstance(event, Gap):
            left = self._left()
            return [*left, ("m", f"{event.bytes} bytes are missing here")]
        if isinstance(event, Notice) and event.kind == "resized":
            return [("r", f"{event.data.get('cols')}x{event.data.get('rows')}")]
        if isinstance(event, Closed):
            return [*self._left(), ("x", str(say.status_of_result(event.result)))]
        if isinstance(event, Failed):
            return [("x", str(say.status_of_error(errors.from_wire(event.error))))]
        return []

    def _text(self, event: Output) -> str:
        if self._stream not in (None, event.stream):
            return ""
        text = self._decoders[event.stream].decode(event.data)
        return text if self._info.tty else self._with_returns(text)

    def _with_returns(self, text: str) -> str:
        """Return text as a terminal is sent it: each line begins at the left."""
        before = "\r" if self._ends_in_return else ""
        self._ends_in_return = (before + text).endswith("\r")
        return _LONE_NEWLINE.sub("\r\n", before + text)[len(before) :]

    def _left(self) -> list[tuple[str, str]]:
        """Return what there is of characters that do not go on."""
        texts = [decoder.decode(b"", final=True) for decoder in self._decoders.values()]
        self._decoders = {name: _decoder() for name in self._decoders}
        return [("o", text) for text in texts if text]


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode("utf-8", "replace") + b"\n"
