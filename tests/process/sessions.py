"""Recorded sessions of programs that draw on the whole screen; run as a program, record them anew."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.casts import Cast

FOLDER = Path(__file__).parent / "sessions"
KEYS: dict[str, tuple[Sequence[str], Sequence[str | tuple[int, int]]]] = {
    "vim": (
        ("vim", "-u", "NONE", "-N", "--cmd", "syntax on|set nu title mouse=a", "text.py"),
        [
            "Gofor n in range(9): print('é 你', n)\x1b",
            (30, 100),
            ":vsplit\r",
            "gg3yyp",
            (20, 60),
            ":%d\r",
            "u",
        ]
        + [":!echo out; seq 3\r", "\r", ":q!\r", ":q!\r"],
    ),
    "less": (
        ("less", "-R", "--mouse", "text.py"),
        [" ", (12, 40), "/def\r", "n", "G", (24, 80), "k", "h", "\x1b[6~", "q"],
    ),
    "top": (("top", "-d", "0.3", "-p", "1"), ["z", "x", (18, 70), "t", "m", (24, 100), "h", "q", "q"]),
    "tmux": (
        ("tmux", "-L", "record", "-f", "/dev/null", "new", "exec env PS1='% ' sh"),
        [
            "\x02:set status-right ''\r",
            "seq 40\r",
            "\x02%",
            "vim -u NONE text.py\r",
            '\x02"',
            "ls\r",
            (20, 70),
        ]
        + ["\x02o", "\x02o", ":q\r", "\x02[", "\x1b[A\x1b[A", "q", "\x02:kill-session\r"],
    ),
    "shell": (
        ("bash", "--norc", "--noprofile", "-i"),
        ["echo -e '\\e[1;31mred\\e[0m \\e]0;title\\a'\r", "seq 30\r", "history | cat -n\x12se\r", (10, 30)]
        + [
            "printf '%200d\\n' 7\r",
            "tput smcup; echo alternate\r",
            (24, 80),
            "tput rmcup\r",
            "clear\r",
            "exit\r",
        ],
    ),
}
"""Name → words of a command, and what is typed, a resize (rows, columns) among it."""

TEXT = "".join(f"def number_{n}():\n    return '{n}é' * {n}  # \x1b[32m{n}\x1b[0m\n\n" for n in range(40))


def session(name: str) -> Cast:
    """Return a recorded session."""
    return Cast.read((FOLDER / f"{name}.cast").read_bytes())


async def _record(name: str, folder: str) -> bytes:
    import execzmq
    from execzmq.cli.asciicast import Asciicast

    words, keys = KEYS[name]
    path = {"PATH": os.environ["PATH"]}
    env = {**path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "HOME": folder, "PS1": "$ "}
    async with execzmq.alocal() as client:
        process = await client.start(list(words), tty=True, cwd=folder, env=env, size=(24, 80))
        await asyncio.sleep(1)
        for key in keys:
            if isinstance(key, str):
                await process.write(key.encode())
            else:
                await process.resize(*key)
            await asyncio.sleep(0.7)
        await process.wait(20, closed=True)
        recording = Asciicast(await process.info(), None)
        return recording.header() + b"".join([recording.lines(event) async for event in process.events()])


if __name__ == "__main__":
    import tempfile

    FOLDER.mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or KEYS:
        with tempfile.TemporaryDirectory(prefix="execzmq-record-", dir="/tmp") as place:
            Path(place, "text.py").write_text(TEXT)
            (FOLDER / f"{chosen}.cast").write_bytes(asyncio.run(_record(chosen, place)))
