"""What a newcomer is shown of a terminal's past."""

import pytest

from execzmq.cli.replay import LIMIT, beginning, picture, picture_of
from execzmq.types.events import Event, Exited, Gap, Output, Started
from execzmq.types.results import ExitResult, ProcessInfo, ReadResponse
from tests.fakes import FakeProcess


@pytest.mark.parametrize(
    ("past", "is_cut", "shown", "has_holes"),
    [
        (b"all of it", False, b"all of it", False),
        (b"half a line\nwhole line\n", True, b"whole line\n", True),
        (b"\xa9 cut in a character", True, b" cut in a character", True),
        (b"old\x1b[2Jnew", True, b"\x1b[2Jnew", False),
        (b"old\x1b[H\x1b[Jnew", False, b"\x1b[H\x1b[Jnew", False),
        (b"shell\x1b[?1049hvim", False, b"\x1b[?1049hvim", False),
        (b"a\x1bcb\x1bcc", False, b"\x1bcc", False),
    ],
)
def test_picture_begins_where_the_screen_was_cleared(
    past: bytes, is_cut: bool, shown: bytes, has_holes: bool
) -> None:
    """The last clearing begins the picture; else it begins with a whole line."""
    result = picture(past, is_cut=is_cut)
    assert (result.data, result.is_cut) == (shown, has_holes)


@pytest.mark.parametrize(
    "question",
    [
        b"\x1b[c", b"\x1b[>0c", b"\x1b[6n", b"\x1b[?6n", b"\x1b[?2026$p", b"\x1b[>q", b"\x1b[?u", b"\x1b[14t",
        b"\x1b]11;?\x07", b"\x1b]4;1;?\x1b\\", b"\x1bP+q544e\x1b\\", b"\x1bP$qm\x1b\\", b"\x05",
        b"\x1b]52;c;c2VjcmV0\x07",
    ],
)  # fmt: skip
def test_picture_asks_nothing(question: bytes) -> None:
    """A question to the terminal is left out: its answer would be typed into the command."""
    assert picture(b"a" + question + b"b", is_cut=False).data == b"ab"


@pytest.mark.parametrize(
    "kept", [b"\x1b]0;title\x07", b"\x1b[31m", b"\x1b[2;5H", b"\x1b[>1u", b"\x1b[22;0;0t"]
)
def test_picture_keeps_what_draws(kept: bytes) -> None:
    """What sets titles, colours, places and modes stays."""
    assert picture(kept, is_cut=False).data == kept


class Logged(FakeProcess):
    """A process with a log that is read in pages of one event or more."""

    def __init__(self, log: list[Event]) -> None:
        super().__init__("p", [])
        self.log = log
        self.reads = 0

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        self.reads += 1
        found = [e for e in self.log if (e.to_seq if isinstance(e, Gap) else e.seq) > after_seq]
        page = tuple(found[:1] if max_bytes else found[:7])
        last = page[-1] if page else None
        end = after_seq if last is None else last.to_seq if isinstance(last, Gap) else last.seq
        return ReadResponse("p", 1, page, end, 1, len(self.log))


def _log(count: int, size: int) -> list[Event]:
    outputs = [Output(n + 2, "stdout", n * size, b"%06d\n" % n * (size // 7)) for n in range(count)]
    return [Started(1, 1), *outputs, Exited(count + 2, ExitResult(exit_code=0))]


def _info(process: Logged, output_bytes: int) -> ProcessInfo:
    info = process.information
    return ProcessInfo(
        **{
            **{name: getattr(info, name) for name in info.__slots__},
            "last_seq": len(process.log),
            "output_bytes": {"stdout": output_bytes, "stderr": 0},
        }
    )


async def test_long_past_is_found_by_few_reads() -> None:
    """The newest bytes of a long log are found without reading what is before them."""
    size = 7 * 64
    process = Logged(_log(10_000, size))
    info = _info(process, 10_000 * size)
    seq = await beginning(process, info)
    assert process.reads <= 20
    offset = (seq - 1) * size
    assert 10_000 * size - LIMIT - 2 * size <= offset <= 10_000 * size - LIMIT
    shown, end = await picture_of(process, info)
    assert end == info.last_seq
    assert shown.is_cut
    assert shown.data.endswith(b"009999\n")
    assert LIMIT - size <= len(shown.data) <= LIMIT


async def test_short_past_is_shown_whole() -> None:
    """A log that is short is shown from its first byte."""
    process = Logged(_log(3, 7))
    shown, end = await picture_of(process, _info(process, 21))
    assert (shown.data, shown.is_cut, end) == (b"000000\n000001\n000002\n", False, 5)


async def test_what_is_gone_leaves_holes() -> None:
    """After a gap the picture begins anew, with holes."""
    log: list[Event] = [
        Output(1, "stdout", 0, b"early"),
        Gap(2, 3, 100),
        Output(4, "stdout", 105, b"rest\nlate\n"),
    ]
    process = Logged(log)
    shown, _ = await picture_of(process, _info(process, 115))
    assert shown.is_cut
    assert shown.data == b"late\n"
