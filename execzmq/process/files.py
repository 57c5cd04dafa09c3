"""Own the files of one log together, and what is found when they are opened again; no new events.

`out.<offset>`, `err.<offset>` and `meta.<offset>` are data, `idx.<seq>` is the index.
"""

from __future__ import annotations

import contextlib
import os
import shutil

from execzmq.process.index import RECORD_SIZE, Record, pack
from execzmq.process.indexfiles import IndexFiles
from execzmq.process.logfile import FileLost, create
from execzmq.process.segments import SegmentedStream, segment_size
from execzmq.process.trimming import Trimmer
from execzmq.process.unlinking import empty_folder
from execzmq.settings import KIB

_PREFIXES = {"stdout": "out", "stderr": "err", "meta": "meta"}
_FIRST = ("meta.0", "idx.1", "out.0")
"""What the first output, which is mostly that of stdout, and the event before it are written to."""
_LARGEST_INDEX = 256 * KIB


class LogFiles:
    """The files in `folder`.

    Args:
        folder: made by `make_folder`.
        budget: an eighth of it is the size from which on a new file is begun.

    `data` has the streams by name, `index` the records; `trimmer` gives space back and counts it in
    `dropped`; `exist` is set by `load` and by whoever has written the first of them.
    """

    __slots__ = (
        "_folder",
        "_has_prepared",
        "damaged",
        "data",
        "dropped",
        "exist",
        "index",
        "trimmer",
    )

    def __init__(self, folder: str, budget: int) -> None:
        self._folder = folder
        size = segment_size(budget)
        self.data = {name: SegmentedStream(folder, prefix, size) for name, prefix in _PREFIXES.items()}
        self.index = IndexFiles(folder, min(size, _LARGEST_INDEX) // RECORD_SIZE)
        self.dropped: dict[str, int] = {"stdout": 0, "stderr": 0}
        self.trimmer = Trimmer(self.data, self.index, self.dropped)
        self.exist = False
        self.damaged = False
        self._has_prepared = False

    def make_folder(self) -> None:
        """Make the folder, for the user alone."""
        os.makedirs(self._folder, 0o700, exist_ok=True)

    def prepare(self) -> None:
        """Make the files that the first output needs, still empty: on a busy disk that takes its time.

        They count as not there until something stands in them. What cannot be made now is made then.
        """
        with contextlib.suppress(OSError):
            self.make_folder()
            self._has_prepared = True
            for name in _FIRST:
                os.close(create(f"{self._folder}/{name}"))

    def end(self) -> None:
        """Close the descriptors after the last event, and remove what was prepared and never needed."""
        self.close()
        if self._has_prepared and not self.exist:
            with contextlib.suppress(OSError):
                for name in _FIRST:
                    os.unlink(f"{self._folder}/{name}")
                os.rmdir(self._folder)

    def load(self) -> Record | None:
        """Take up what an earlier life has left, cut off a torn record, and return the last one.

        `damaged` is set where bytes are missing of which the index tells, or more than one record is bad.

        Raises:
            OSError: the folder cannot be read or written.
        """
        found = self._find()
        self.exist = bool(found)
        if not found:
            return None
        for name, prefix in _PREFIXES.items():
            self.data[name].load(found.get(prefix, ()))
        bad = self.index.load(found.get("idx", ()))
        last = self.index.last_record()
        self.exist = last is not None or bad > 0 or any(stream.end for stream in self.data.values())
        self.damaged = bad > 1 or (last is not None and self._lacks_data(last))
        for name in self.dropped:
            stream, end = self.data[name], last.end_of(name) if last is not None else 0
            self.dropped[name] = max(0, end - stream.bytes_on_disk + max(0, stream.end - end))
        self.trimmer.counts_are_known = False
        return last

    def store(self, record: Record, data: bytes | None) -> None:
        """Write one event; of one whose bytes are there already (`None`) the record alone.

        Raises:
            OSError: the disk failed or is full; the event does not stand there, and can be tried again.
        """
        stream = self.data[record.stream]
        if data:
            stream.cut(record.offset)  # an attempt before may have got no further than the bytes
            stream.skip_to(record.offset)
            try:
                stream.append(data)
            except FileLost:
                self.note_losses()
                stream.append(data)
        self.index.append(pack(record), record.seq)
        if record.kind == "output":
            stream.note_record(record.offset)
        else:
            stream.close()

    def give_up(self, record: Record) -> None:
        """Count an output event as dropped that was not stored; what an attempt has left of it goes too."""
        with contextlib.suppress(OSError):  # the disk failed: these bytes stay, and no record speaks of them
            self.data[record.stream].cut(record.offset)
        self.dropped[record.stream] += record.length

    def _find(self) -> dict[str, list[int]]:
        """Return the numbers in the names of the log's files, by their prefix."""
        found: dict[str, list[int]] = {}
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                prefix, _, number = name.partition(".")
                if number.isdecimal() and (prefix == "idx" or prefix in _PREFIXES.values()):
                    found.setdefault(prefix, []).append(int(number))
        return found

    def _lacks_data(self, last: Record) -> bool:
        if self.data[last.stream].end < last.offset + last.length:
            return True
        return any(self.data[name].end < last.end_of(name) for name in self.dropped)

    def has_hole(self, name: str, end: int) -> bool:
        """Tell whether a stream goes on beyond `end` without the bytes there: an event was lost in memory."""
        stream = self.data[name]
        if stream.end <= end or stream.file_end(end) > end:
            return False
        self.damaged = True
        return True

    def cut(self, name: str, end: int) -> int:
        """Discard the bytes of an output stream beyond `end`; return how many they were."""
        stream = self.data[name]
        before = stream.bytes_on_disk
        stream.cut(end)
        self.dropped[name] = max(0, end - stream.bytes_on_disk)
        return before - stream.bytes_on_disk

    def note_losses(self) -> bool:
        """Look after what others have taken away; return whether bytes are gone that were there."""
        lost = {name: stream.note_losses() for name, stream in self.data.items()}
        for name in self.dropped:
            self.dropped[name] += lost[name]
        return any(lost.values())

    def close(self) -> None:
        """Close the descriptors; reading goes on to work, and writing opens them again. Idempotent."""
        self.index.close()
        for stream in self.data.values():
            stream.close()

    def remove(self) -> None:
        """Close the files and unlink all that is in the folder, whosoever it is.

        Raises:
            OSError: something could not be removed.
        """
        self.close()
        empty_folder(self._folder)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder)
