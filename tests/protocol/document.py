"""Make the parts of the protocol document that follow from the code; run as a program, write them."""

import re
from pathlib import Path

from execzmq import settings
from execzmq.protocol.methods import BROADCASTS, METHODS, Method, reach_of
from tests.protocol.samples import load

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"
ROLES = PAGE.with_name("roles.md")
MARKED = re.compile(r"<!-- from the code: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
HEX_WIDTH = 96

BOUNDS: dict[str, tuple[float, str]] = {
    "largest frame of a request": (settings.MAX_MESSAGE, "bytes"),
    "frame that a watcher sends": (settings.MAX_SUBSCRIPTION, "bytes"),
    "buffer": (settings.MAX_MESSAGE, "bytes"),
    "buffers in a message": (settings.MAX_BUFFERS, ""),
    "frames before the delimiter": (settings.MAX_ROUTING, ""),
    "packed header, parent header, metadata, each": (settings.MAX_HEADER, "bytes"),
    "packed content": (settings.MAX_CONTENT, "bytes"),
    "levels of maps and lists": (settings.MAX_NESTING, ""),
    "maps and lists in one dict": (settings.MAX_CONTAINERS, ""),
    "output event": (settings.MAX_EVENT, "bytes"),
    "output event that is broadcast whole": (settings.LIVE_EVENT, "bytes"),
    "output in a page": (settings.PAGE, "bytes"),
    "events in a page": (settings.PAGE_EVENTS, ""),
    "pages on their way to one session": (settings.PAGES_PER_CLIENT, "bytes"),
    "messages queued for one watcher": (settings.XPUB_HWM, ""),
    "bytes in one `write`": (settings.WRITE_PIECE, "bytes"),
    "input that a process has not read": (settings.STDIN_UNREAD, "bytes"),
    "one argument or variable": (settings.MAX_STRING, "bytes"),
    "subscriptions of one connection": (settings.MAX_TOPICS, ""),
    "client sessions": (settings.SESSIONS, ""),
    "client sessions of one share that is no owner's": (settings.SHARE_SESSIONS, ""),
    "requests of one such share that wait": (settings.SHARE_PENDING, ""),
    "answers kept for one session": (settings.REPLIES_PER_SESSION, ""),
    "answers kept in all": (settings.REPLIES_TOTAL, ""),
    "an answer is kept": (settings.REPLY_KEPT, "s"),
    "wait of a `read` or `wait`": (settings.LONG_POLL, "s"),
    "lease": (settings.LEASE, "s"),
    "a session is remembered after its lease": (settings.SESSION_KEPT, "s"),
    "silence after which a starter counts as gone": (settings.STARTER_GONE, "s"),
}


def methods() -> str:
    """Return the sections of all methods."""
    return "\n".join(_method(name, method) for name, method in METHODS.items())


def overview() -> str:
    """Return the table of all methods."""
    rows = ["| method | socket | least role | repeat | epoch |", "|---|---|---|---|---|"]
    for name, method in METHODS.items():
        repeat, epoch = "harmless" if method.idempotent else "kept", "yes" if method.epoch else "no"
        rows.append(f"| [`{name}`](#{name}) | {method.socket} | {method.role} | {repeat} | {epoch} |")
    return "\n".join([*rows, ""])


def roles() -> str:
    """Return what each role may ask of each method."""
    rows = ["| method | owner | operator | observer |", "|---|---|---|---|"]
    for name in METHODS:
        cells = " | ".join(reach_of(role, name) for role in ("owner", "operator", "observer"))
        rows.append(f"| [`{name}`](protocol.md#{name}) | {cells} |")
    return "\n".join([*rows, ""])


def broadcasts() -> str:
    """Return the table of all broadcasts."""
    rows = [
        f"| `{name}` | `{broadcast.topic}` | {_fields(broadcast.fields)} | {broadcast.summary} |"
        for name, broadcast in BROADCASTS.items()
    ]
    return "\n".join(["| type | topic | content | meaning |", "|---|---|---|---|", *rows, ""])


def bounds() -> str:
    """Return the table of all bounds."""
    rows = [f"| {what} | {value:,.0f} {unit}".rstrip() + " |" for what, (value, unit) in BOUNDS.items()]
    return "\n".join(["| what | most |", "|---|---|", *rows, ""])


def example() -> str:
    """Return the frames of one request and its reply, in hex."""
    return "\n".join([_frames("signal_request"), _frames("signal_reply")])


def _method(name: str, method: Method) -> str:
    lines = [
        f"### {name}",
        "",
        method.summary,
        "",
        f"* request: {_fields(method.request)}",
        f"* reply: {_fields(method.reply)}",
        "",
    ]
    return "\n".join(lines)


def _fields(fields: tuple[str, ...]) -> str:
    return ", ".join(f"`{field}`" for field in fields) or "no fields"


def _frames(name: str) -> str:
    parts = ("delimiter", "signature", "header", "parent header", "metadata", "content")
    lines = [f"`{name}`:", "", "```text"]
    for part, frame in zip(parts, load(name), strict=True):
        text = frame.hex()
        lines.append(f"# {part}, {len(frame)} bytes")
        lines += [text[start : start + HEX_WIDTH] for start in range(0, len(text), HEX_WIDTH)]
    return "\n".join([*lines, "```", ""])


PARTS = {
    "methods": methods,
    "overview": overview,
    "broadcasts": broadcasts,
    "bounds": bounds,
    "roles": roles,
    "example": example,
}


def renewed(page: str) -> str:
    """Return the page with every marked part made anew."""
    return MARKED.sub(lambda m: f"<!-- from the code: {m[1]} -->\n\n{PARTS[m[1]]()}\n<!-- end -->", page)


if __name__ == "__main__":
    for page in (PAGE, ROLES):
        page.write_text(renewed(page.read_text()))
