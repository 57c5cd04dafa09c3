"""A plain page with terminals and the real `TerminalEnd` behind it: what a notebook has, without a notebook.

A thread serves the page, the files of `execzmq/notebook/static` and one WebSocket per terminal. A message is
the length of its content as four bytes, the content as JSON, and at most one buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, StaticFileHandler
from tornado.websocket import WebSocketHandler

import execzmq.notebook
from execzmq.client.sync import Process
from execzmq.notebook.terminal import TerminalEnd
from execzmq.types.params import TtySize

STATIC = Path(execzmq.notebook.__file__).parent / "static"

PAGE = """<!doctype html><meta charset="utf-8"><title>terminals</title><body>
<script type="module">
import {mount} from "/static/terminal.js";
const load = async (name) => name.endsWith(".mjs") ? import(`/static/${name}`)
    : (await fetch(`/static/${name}`)).text();
function channelTo(socket) {
    const early = [];
    let callback = (...message) => early.push(message);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({data}) => {
        const size = new DataView(data).getUint32(0);
        const content = JSON.parse(new TextDecoder().decode(data.slice(4, 4 + size)));
        callback(content, data.byteLength > 4 + size ? [data.slice(4 + size)] : [new ArrayBuffer(0)]);
    };
    const send = (content, buffers) => {
        const text = new TextEncoder().encode(JSON.stringify(content));
        const head = new DataView(new ArrayBuffer(4));
        head.setUint32(0, text.length);
        socket.send(new Blob([head, text, ...buffers]));
    };
    return {send, on: (given) => { callback = given; for (const m of early.splice(0)) given(...m); }};
}
globalThis.show = (key) => new Promise((resolve) => {
    const el = document.createElement("div");
    el.id = key;
    document.body.append(el);
    const socket = new WebSocket(`ws://${location.host}/terminal/${key}`);
    socket.onopen = () => { el.unmount = mount(el, channelTo(socket), {load}); resolve(); };
});
globalThis.isReady = true;
</script>"""


class Site:
    """The page at `url`; `terminals` says what is behind each key that the page may show.

    Args:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self.terminals: dict[str, tuple[Process, TtySize | None]] = {}
        self.ends: dict[str, TerminalEnd] = {}


class _Page(RequestHandler):
    def get(self) -> None:
        self.write(PAGE)


class _Socket(WebSocketHandler):
    def initialize(self, site: Site) -> None:
        self.site = site

    def open(self, *args: str, **kwargs: str) -> None:
        process, begins_with = self.site.terminals[args[0]]
        loop = asyncio.get_running_loop()

        def send(content: dict[str, Any], buffers: list[bytes]) -> None:
            text = json.dumps(content).encode()
            message = struct.pack(">I", len(text)) + text + b"".join(buffers)
            loop.call_soon_threadsafe(self._write, message)

        self.end = TerminalEnd(process, send, begins_with=begins_with)
        self.site.ends[args[0]] = self.end

    def _write(self, message: bytes) -> None:
        with contextlib.suppress(Exception):  # the page has gone
            self.write_message(message, binary=True)

    def on_message(self, message: str | bytes) -> None:
        assert isinstance(message, bytes)
        size = struct.unpack_from(">I", message)[0]
        self.end.receive(json.loads(message[4 : 4 + size]), [message[4 + size :]])

    def on_close(self) -> None:
        self.end.close()


@contextlib.contextmanager
def serving_terminals() -> Iterator[Site]:
    """Serve the page meanwhile."""
    (listener,) = bind_sockets(0, "127.0.0.1")
    site = Site(listener.getsockname()[1])
    started = threading.Event()
    stops: list[Callable[[], object]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        server = HTTPServer(
            Application(
                [
                    ("/", _Page),
                    ("/terminal/(.*)", _Socket, {"site": site}),
                    ("/static/(.*)", StaticFileHandler, {"path": str(STATIC)}),
                ]
            )
        )
        server.add_socket(listener)
        started.set()
        await stop.wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="terminal-site")
    thread.start()
    started.wait()
    try:
        yield site
    finally:
        stops[0]()
        thread.join()
