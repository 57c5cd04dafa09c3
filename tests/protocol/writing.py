"""Write what a server writes of events, by the tables that readers go by, for tests that have no server."""

from typing import Any

from execzmq.protocol.records import EVENTS
from execzmq.types.events import Event, Gap, Output, last_seq_of
from execzmq.types.results import ReadResponse

KINDS = {cls: kind for kind, (cls, _) in EVENTS.items()}


def entry_of(event: Event) -> list[Any]:
    """Return the entry of `events` in a `read_reply`; the bytes of an output go into the buffer."""
    kind = KINDS[type(event)]
    seq = event.from_seq if isinstance(event, Gap) else event.seq
    rest = [form.write(getattr(event, name)) for name, form in EVENTS[kind][1].items()]
    return [kind, seq, event.time, *rest, *([len(event.data)] if isinstance(event, Output) else [])]


def page_of(page: ReadResponse) -> tuple[dict[str, Any], list[bytes]]:
    """Return the fields of a `read_reply` but its status, and its buffer."""
    content = {
        "process_id": page.process_id,
        "instance": page.instance,
        "events": [entry_of(event) for event in page.chunks],
        "next_seq": page.next_seq,
        "first_seq": page.first_seq,
        "last_seq": page.last_seq,
        "exited": page.exited,
        "closed": page.closed,
        "exit_code": page.exit_code,
        "signal": page.signal,
        "failure": page.failure,
        "dropped_bytes": page.dropped_bytes,
    }
    data = b"".join(event.data for event in page.chunks if isinstance(event, Output))
    return content, [data] if data else []


def broadcast_of(
    process_id: str, instance: int, event: Event
) -> tuple[str, bytes, dict[str, Any], list[bytes]]:
    """Return type, topic, content and buffers of the broadcast of an event."""
    kind = KINDS[type(event)]
    content = {"process_id": process_id, "instance": instance, "seq": last_seq_of(event), "time": event.time}
    content |= {name: form.write(getattr(event, name)) for name, form in EVENTS[kind][1].items()}
    last = event.stream if isinstance(event, Output) else kind
    buffers = [event.data] if isinstance(event, Output) else []
    return f"process_{kind}", f"p.{process_id}.{last}".encode(), content, buffers
