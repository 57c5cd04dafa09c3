"""Recorded sessions of programs that draw on the whole screen; run as a program, record them anew."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.casts import Cast

_PAUSE = 0.7
FOLDER = Path(__file__).parent / "sessions"
Key = str | tuple[int, int]
KEYS: dict[str, tuple[Sequence[str], Sequence[Key]]] = {
    "vim": (
        ("vim", "-u", "NONE", "-N", "--cmd", "syntax on|set nu title mouse=a", "text.py"),
        (
            *("Gofor n in range(9): print('é 你', n)\x1b", (30, 100), ":vsplit\r", "gg3yyp", (20, 60)),
            *(":%d\r", "u", ":!echo out; seq 3\r", "\r", ":q!\r", ":q!\r"),
        ),
    ),
    "less": (
        ("less", "-R", "--mouse", "text.py"),
        (" ", (12, 40), "/def\r", "n", "G", (24, 80), "k", "h", "\x1b[6~", "q", "q"),
    ),
    "top": (("top", "-d", "0.3", "-p", "1"), ("z", "x", (18, 70), "t", "m", (24, 100), "h", "q", "q")),
    "tmux": (
        ("tmux", "-L", "record", "-f", "tmux.conf", "new"),
        (
            *("seq 40\r", "\x02%", "vim -u NONE text.py\r", '\x02"', "ls\r", (20, 70), "\x02o", "\x02o"),
            *(":q\r", "\x02[", "\x1b[A\x1b[A", "q", "\x02:", "kill-server\r"),
        ),
    ),
    "shell": (
        ("bash", "--norc", "--noprofile", "-i"),
        (
            *(
                "echo -e '\\e[1;31mred\\e[0m \\e]0;title\\a'\r",
                "seq 30\r",
                "history | cat -n\x12se\r",
                (10, 30),
            ),
            *("printf '%200d\\n' 7\r", "tput smcup; echo alternate\r", (24, 80), "tput rmcup\r"),
            *("clear\r", "exit\r"),
        ),
    ),
}
"""Name → words of a command, and what is typed, a resize (rows, columns) among it."""

TEXT = "".join(f"def number_{n}():\n    return '{n}é' * {n}  # \x1b[32m{n}\x1b[0m\n\n" for n in range(40))


TMUX = """\
set -g status-right ''
set -g assume-paste-time 0
set -g default-command "exec env PS1='% ' sh"
"""


def session(name: str) -> Cast:
    """Return a recorded session."""
    return Cast.read((FOLDER / f"{name}.cast").read_bytes())


def _record(name: str, folder: str) -> bytes:
    import execzmq
    from execzmq.cli.asciicast import Asciicast

    words, keys = KEYS[name]
    env = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
        "HOME": folder,
        "PS1": "$ ",
    }
    with execzmq.local() as client:
        process = client.start(list(words), tty=True, cwd=folder, env={**env, "PS1": "$ "}, size=(24, 80))
        time.sleep(_PAUSE)
        for key in keys:
            if isinstance(key, str):
                process.write(key.encode())
            else:
                process.resize(*key)
            time.sleep(_PAUSE)
        process.wait(10, closed=True)
        recording = Asciicast(process.info(), None)
        return recording.header() + b"".join(map(recording.lines, process.events()))


if __name__ == "__main__":
    import tempfile

    FOLDER.mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or KEYS:
        with tempfile.TemporaryDirectory(prefix="execzmq-record-", dir="/tmp") as place:
            Path(place, "text.py").write_text(TEXT)
            Path(place, "tmux.conf").write_text(TMUX)
            (FOLDER / f"{chosen}.cast").write_bytes(_record(chosen, place))
