"""The sockets of a client session: what may still be asked of them after they are closed."""

from pathlib import Path

from execzmq.client.links import Links
from tests.client.fake_server import connection_info


async def test_subscription_ends_with_its_link(short_tmp: Path) -> None:
    """A wait for a subscription that the end of the client cuts short takes it back without an error."""
    links = Links(
        connection_info(short_tmp),
        on_reply=lambda _: None,
        on_broadcast=lambda _: None,
        on_state=lambda _channel, _state: None,
        on_room=lambda _: None,
    )
    links.subscribe(b"w.0123456789abcdef")
    links.close()
    links.unsubscribe(b"w.0123456789abcdef")
