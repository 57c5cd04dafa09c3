"""Interrupts of the kernel, and what goes on behind a cell: in a real kernel."""

import time
from collections.abc import Iterator

import pytest

from tests.notebook.kernels import Kernel, kernel

TRAP = """trap 'echo caught; exit 42' INT; echo up; while :; do sleep .05; done"""
SLOW_START = """
import threading
import execzmq
from execzmq import Client

real = Client.start
gate = threading.Event()

def slow(self, *args, **options):
    process = real(self, *args, **options)
    print("started", flush=True)
    gate.wait()
    return process

Client.start = slow
"""


@pytest.fixture(scope="module")
def notebook() -> Iterator[Kernel]:
    with kernel() as running:
        yield running


def test_interrupt_is_a_signal_of_the_commands_own(notebook: Kernel) -> None:
    """SIGINT reaches it, it ends as it likes, and the cell is interrupted all the same (C22)."""
    cell = notebook.start(f"%%execz --proc p\n{TRAP}")
    notebook.wait_text(cell, "up\n")
    notebook.interrupt()
    notebook.wait_end(cell)
    assert cell.text() == "up\ncaught\n"
    assert "sent SIGINT to the command; interrupt again to send SIGTERM" in cell.text("stderr")
    assert cell.error == "KeyboardInterrupt: the command has ended: exit code 42"
    assert notebook.run("print(p.wait().exit_code)").text() == "42\n"


def test_cells_after_an_interrupted_one_do_not_run(notebook: Kernel) -> None:
    """Run-All stops there, and the command is gone (C23)."""
    first = notebook.start("%execz --proc p sh -c 'echo up; exec sleep 600'")
    second = notebook.start("print('not to be seen')")
    notebook.wait_text(first, "up\n")
    notebook.interrupt()
    notebook.wait_end(second)
    assert (first.status, second.status) == ("error", "aborted")
    assert not second.text()
    assert notebook.run("print(p.wait())").text() == "signal 2 (INT)\n"


def test_every_further_interrupt_does_more(notebook: Kernel) -> None:
    """INT, TERM, KILL: each is said, and the third one ends what heeds nothing."""
    body = "trap 'echo int' INT; trap 'echo term' TERM; echo up; while :; do sleep .02; done"
    cell = notebook.start(f"%%execz --proc p\n{body}")
    for text in ("up\n", "int\n", "term\n"):
        notebook.wait_text(cell, text)
        notebook.interrupt()
    notebook.wait_end(cell)
    assert "killing the command and all that it started" in cell.text("stderr")
    assert cell.error.startswith(
        "KeyboardInterrupt: the command has ended: signal 9 (KILL) (terminated, asked by"
    )


def test_loop_of_short_commands_can_be_interrupted(notebook: Kernel) -> None:
    """However short each command is, the loop ends and nothing runs on."""
    for _ in range(5):
        cell = notebook.start("import itertools\nfor i in itertools.count():\n    %execz echo {i}")
        notebook.wait_text(cell, "3\n")
        notebook.interrupt()
        notebook.wait_end(cell)
        assert cell.status == "error"
        assert "KeyboardInterrupt" in cell.error
    cell = notebook.run(
        "import execzmq; c = execzmq.connect()\nprint([p for p in c.processes() if not p.closed])\nc.close()"
    )
    assert cell.text() == "[]\n"


def test_flood_is_interrupted_at_once(notebook: Kernel) -> None:
    """`yes` ends within a second of the interrupt (C44)."""
    cell = notebook.start("%execz yes")
    notebook.wait(cell, lambda: len(cell.shown) == 2)
    before = time.monotonic()
    notebook.interrupt()
    notebook.wait_end(cell)
    assert time.monotonic() - before < 1.0
    assert "bytes held" in cell.shown[1]


def test_command_can_be_left_running(notebook: Kernel) -> None:
    """With `--detach-on-interrupt` it runs on, the cell says so, and what it says later stands under it."""
    body = "echo up; read x; echo $x; read x"
    cell = notebook.start(f"%execz --detach-on-interrupt -i --proc p sh -c '{body}'")
    later = notebook.start("print('not to be seen')")
    notebook.wait_text(cell, "up\n")
    notebook.interrupt()
    notebook.wait_end(later)
    assert cell.error.startswith("KeyboardInterrupt: ")
    assert "runs on; `%execz --attach " in cell.error
    assert not later.text()
    after = notebook.run("p.write(b'later\\n')")
    notebook.wait_text(cell, "later\n")
    assert not after.text()
    assert notebook.run("p.kill(); print(p.wait().cause)").text() == "terminated\n"


def test_restart_of_the_kernel_is_no_interrupt() -> None:
    """A front end interrupts a kernel before it restarts it; the command runs on and can be attached to."""
    with kernel() as notebook:
        cell = notebook.start("%execz -i --name kept sh -c 'echo up; read x; echo $x'")
        notebook.wait_text(cell, "up\n")
        notebook.restart()
        write = "import execzmq; p = execzmq.attach('kept'); print(p.info().state); p.write(b'on\\n')"
        assert notebook.run(write).text() == "running\n"
        assert notebook.run("%execz --attach kept").text() == "up\non\n"


def test_interrupt_leaves_what_is_only_watched(notebook: Kernel) -> None:
    """To attach is to look: an interrupt ends the looking alone."""
    notebook.run("%execz --bg --proc p -i --name watched sh -c 'echo up; read x; echo $x'")
    cell = notebook.start("%execz --attach watched")
    notebook.wait_text(cell, "up\n")
    notebook.interrupt()
    notebook.wait_end(cell)
    assert "runs on; `%execz --attach watched` comes back to it" in cell.error
    assert notebook.run("print(p.info().state); p.write(b'x\\n'); print(p.wait(closed=True))").text() == (
        "running\nexit code 0\n"
    )
    assert cell.text() == "up\n"


def test_output_in_the_background_stays_under_its_cell(notebook: Kernel) -> None:
    """Whatever runs meanwhile, what a background command says stands under the cell that started it (C47)."""
    cell = notebook.run("%execz --bg --proc p -i sh -c 'while read x; do echo $x; done'")
    assert cell.status == "ok"
    others = [notebook.run(f"p.write(b'{n}\\n')\nprint('x')\n%execz echo y") for n in (1, 2, 3)]
    notebook.wait_text(cell, "1\n2\n3\n")
    assert [other.text() for other in others] == ["x\ny\n"] * 3
    notebook.run("p.close_stdin(); p.wait(closed=True)")
    notebook.wait(cell, lambda: "exit code 0" in cell.shown[0])


def test_much_output_in_the_background_never_stalls(notebook: Kernel) -> None:
    """100 MB are written to the end, with nobody reading, and the cell shows its last lines."""
    cell = notebook.run("%execz --bg --proc p sh -c 'yes | head -c 100000000; echo; echo done'")
    done = notebook.run("r = p.wait(closed=True); print(r.output_bytes['stdout'], r)", seconds=30)
    assert done.text() == "100000006 exit code 0\n"
    notebook.wait(cell, lambda: "done\n100,000,006 bytes held" in cell.shown[-1])


def test_bars_side_by_side(notebook: Kernel) -> None:
    """Two commands that overwrite their lines in one cell: both are seen to their end (C46)."""
    bar = (
        "import sys,time\n"
        "for i in range(5):\n"
        " sys.stdout.write('\\r%s%d%%' % (sys.argv[1], i * 25)); sys.stdout.flush(); time.sleep(.03)\n"
        "print()"
    )
    one = '%execz --bg --proc p -e bar python3 -c "$bar" a'
    other = '%execz -e bar python3 -c "$bar" b'
    cell = notebook.run(f"bar = {bar!r}\n{one}\n{other}\np.wait(closed=True)")
    notebook.wait_text(cell, "\ra100%")
    notebook.wait_text(cell, "\rb100%")
    assert cell.text().endswith("100%\n")
    lines = [line.rsplit("\r", 1)[-1] for line in cell.text().splitlines()]
    assert all(line[:1] in ("a", "b", "") for line in lines)


def test_interrupt_while_a_start_hangs(notebook: Kernel) -> None:
    """An interrupt that finds the command not started yet ends the cell, and the command if it was."""
    notebook.run(SLOW_START)
    cell = notebook.start("%execz --name slowly sleep 600")
    notebook.wait_text(cell, "started\n")
    notebook.interrupt()
    notebook.wait_end(cell)
    assert "KeyboardInterrupt" in cell.error
    code = "Client.start = real\nc = execzmq.connect()\nprint(c.attach('slowly').wait().cause)\nc.close()"
    assert notebook.run(code).text() == "terminated\n"
