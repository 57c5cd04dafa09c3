"""The magics in a real kernel: what a cell shows, what it gives, and how it fails."""

from collections.abc import Iterator

import pytest

from tests.notebook.kernels import Kernel, kernel


@pytest.fixture(scope="module")
def notebook() -> Iterator[Kernel]:
    with kernel() as running:
        yield running


def test_line_is_one_of_the_shell(notebook: Kernel) -> None:
    """The line reaches the shell as it stands, quotes and variables included; the streams stay apart."""
    cell = notebook.run("""%execz printf '%s|' "a  b" "$0" 'it''s'; echo error >&2""")
    assert (cell.text(), cell.text("stderr")) == ("a  b|/bin/sh|its|", "error\n")
    assert not cell.shown
    assert cell.status == "ok"


def test_body_is_a_script_of_bash_with_stdin_free(notebook: Kernel) -> None:
    """The lines of a cell are bash's, untouched by Python, and stdin is not where they come from."""
    lines = ("x={0}", "array=(1 2)", "echo ${array[1]} {a,b} $x", 'read -r line; echo "[$line] $?"')
    cell = notebook.run("\n".join(("%%execz", *lines, "ls /proc/self/fd | wc -l")))
    assert cell.text() == "2 a b {0}\n[] 1\n4\n"


def test_body_has_the_number_of_its_cell(notebook: Kernel) -> None:
    """As the page shows it, and as listings of processes name the script then."""
    notebook.run("%%execz --proc p\ntrue")
    assert notebook.run("print(p.info().argv[-1].decode() == f'In [{len(In) - 2}]')").text() == "True\n"


def test_large_body_arrives(notebook: Kernel) -> None:
    """A body that no argument could hold is run; one that is too large is refused in a line."""
    padding = "# ünïcode padding\n" * 20_000
    assert notebook.run(f"%%execz\necho before\n{padding}echo after").text() == "before\nafter\n"
    cell = notebook.run("get_ipython().run_cell_magic('execz', '', 'x' * (1 << 21))")
    assert cell.text("stderr").startswith("UsageError: the cell has 2,097,152 bytes, 1,048,576 can be passed")


def test_expressions_are_put_into_the_line_only(notebook: Kernel) -> None:
    """`{expression}` is Python's, of a function's own names too; `$name` is the shell's."""
    code = "def f(n):\n    %execz -e V={n} echo {n + 1:03d} {{n}} $V ${HOME:+home} {}\nf(4)"
    assert notebook.run(code).text() == "005 {n} 4 home {}\n"
    assert notebook.run("%execz --no-expand echo {nope}").text() == "{nope}\n"


def test_expression_that_fails_runs_nothing(notebook: Kernel) -> None:
    """One line names the expression and why; the command is not run."""
    cell = notebook.run("%execz echo ran {1/0}")
    assert (cell.text(), cell.status) == ("", "error")
    assert cell.text("stderr").startswith("UsageError: {1/0}: ZeroDivisionError: division by zero; write {{")


def test_options_that_are_wrong_are_told_in_one_line(notebook: Kernel) -> None:
    """A misspelled option comes with the one that was meant; nothing has a traceback."""
    cell = notebook.run("%execz --tiemout 3 true")
    assert cell.text("stderr").count("\n") == 1
    assert "did you mean --timeout?" in cell.text("stderr")
    assert not cell.error
    for line in ("--name a_b!c true", "--timeout soon true", "", "--attach x true"):
        assert notebook.run(f"%execz {line}").text("stderr").startswith("UsageError: ")


def test_help_is_shown(notebook: Kernel) -> None:
    """`--help` prints the options, `?` too."""
    assert "--no-raise-error" in notebook.run("%execz --help").text()
    page = notebook.run("get_ipython().find_line_magic('execz').__doc__").shown
    assert "--detach-on-interrupt" in page[0]


def test_failure_is_one_line(notebook: Kernel) -> None:
    """A command that fails raises, says so in one line, and stops the cell; unless that is not wanted."""
    cell = notebook.run("%execz exit 3\nprint('not reached')")
    assert cell.error.startswith("CalledProcessError: exit code 3: exit 3; `execzmq logs ")
    assert cell.error.count("\n") == 0
    assert not cell.text()
    code = "try:\n    %execz exit 4\nexcept execzmq.CalledProcessError as e:\n    print(e.returncode)"
    assert notebook.run(f"import execzmq\n{code}").text() == "4\n"
    assert notebook.run("%execz --no-raise-error exit 3\nprint('reached')").text() == "reached\n"


def test_result_is_given(notebook: Kernel) -> None:
    """The value has the status and the output as text; alone it shows nothing."""
    cell = notebook.run("y = %execz --no-raise-error echo Grüße; exit 5\nprint(y.returncode, [y.stdout], y)")
    assert cell.text().startswith("Grüße\n5 ['Grüße\\n'] <CommandResult ")
    assert not notebook.run("%execz true").shown
    (shown,) = notebook.run("y").shown
    assert shown.endswith(": exit code 5>")


def test_streams_go_into_variables(notebook: Kernel) -> None:
    """`--out` and `--err` keep text instead of showing it, whole, and of a command that fails too."""
    cell = notebook.run("%execz --out a --err b seq 1 200000; printf 'ü' >&2; exit 1")
    assert not cell.text()
    assert "CalledProcessError" in cell.error
    assert notebook.run("print(len(a), a[-7:], b)").text() == "1288895 200000\n ü\n"
    cell = notebook.run("%execz --err b echo shown; echo kept >&2\nprint(b)")
    assert (cell.text(), cell.text("stderr")) == ("shown\nkept\n\n", "")


def test_variables_reach_the_command(notebook: Kernel) -> None:
    """`-e NAME` gives Python's value, `-e NAME=VALUE` this one; what is no text is refused."""
    cell = notebook.run(
        "lr = 0.5\nword = 'two words'\n%execz -e lr -e word -e C='x y' echo $lr \"$word\" \"$C\""
    )
    assert cell.text() == "0.5 two words x y\n"
    assert "no Python variable nope" in notebook.run("%execz -e nope true").text("stderr")
    assert "a list is no text" in notebook.run("l = []\n%execz -e l true").text("stderr")


def test_folder_and_time_limit(notebook: Kernel) -> None:
    """`--cwd` knows `~`, `--timeout` ends the command and says so."""
    assert (
        notebook.run("%execz --cwd ~ pwd\nimport os; print(os.path.expanduser('~'))").text().count("/h\n")
        == 2
    )
    cell = notebook.run("%execz --timeout 0.05 sleep 60")
    assert cell.error.count("(timed_out, asked by time limit)") == 1
    assert "\n" not in cell.error


def test_process_is_given_and_found_again(notebook: Kernel) -> None:
    """`--proc` has the process from its start; `--attach` shows it by name, all or after an event."""
    cell = notebook.run("%execz --bg --name talker --proc p -i sh -c 'echo one; read x; echo $x'")
    notebook.wait_text(cell, "one\n")
    assert notebook.run("p.write(b'two\\n'); print(p.wait(closed=True))").text() == "exit code 0\n"
    again = notebook.run("%execz --attach talker")
    assert again.text() == "one\ntwo\n"
    assert "exit code 0" in again.shown[0]
    assert notebook.run("%execz --attach talker --after-seq 2").text() == "two\n"
    assert "ProcessNotFound: " in notebook.run("%execz --attach nosuch").error


def test_input_is_given_on_request(notebook: Kernel) -> None:
    """Without `-i` a command reads the end of its input at once."""
    assert notebook.run("%execz cat; echo $?").text() == "0\n"


def test_head_and_tail_of_much_output(notebook: Kernel) -> None:
    """Of many MB a cell has a head, the last lines and where the rest is; the log has all of it (C44)."""
    cell = notebook.run("y = %execz head -c 4000000 /dev/urandom | od")
    assert len(cell.text()) <= 64 * 1024
    assert cell.text().startswith("0000000 ")
    tail = cell.shown[-1].splitlines()
    assert tail[0] == "[...]"
    assert len(tail) <= 102
    assert tail[-2] == f"{4_000_000:o}"
    held = int(tail[-1].split()[0].replace(",", ""))
    assert tail[-1].endswith(f"bytes held: `execzmq logs {tail[-1].split()[-1]}")
    assert notebook.run("print(len(y.stdout))").text() == f"{held}\n"


def test_long_line_and_many_lines_are_capped(notebook: Kernel) -> None:
    """The head has at most a thousand lines, or 64 KiB of one."""
    assert notebook.run("%execz seq 1 1100").text().splitlines()[-1] == "1000"
    cell = notebook.run("%execz head -c 300000 /dev/zero | tr '\\0' x")
    assert cell.text() == "x" * 65536
    assert len(cell.shown[-1]) < 20_000


def test_characters_are_whole_and_streams_in_order(notebook: Kernel) -> None:
    """A character that is written in two pieces is shown whole; streams come in the order of their text."""
    pieces = ("'\\303'", "'\\274\\n'", "'err\\n' >&2", "'out\\n'", "'err2\\n' >&2")
    body = "; ".join(f"p {piece}" for piece in pieces)
    cell = notebook.run(f'%%execz\np() {{ printf "$1"; sleep 0.02; }}\n{body}')
    assert [one["text"] for one in cell.outputs if one.get("name")] == ["ü\n", "err\n", "out\n", "err2\n"]


def test_bar_is_one_line(notebook: Kernel) -> None:
    """States of a bar that nobody sees are not written (C46)."""
    write = "sys.stdout.write('\\r%d%%' % (i / 4)); sys.stdout.flush(); time.sleep(.001)"
    bar = f"import sys,time\nfor i in range(401):\n {write}"
    cell = notebook.run(f'bar = {bar!r}\n%execz -e bar python3 -c "$bar"; echo')
    assert cell.text().endswith("\r100%\n")
    assert cell.text().count("\r") <= 20
    assert cell.text().count("\n") == 1


def test_two_commands_in_one_cell_share_no_line(notebook: Kernel) -> None:
    """A break is put between them where one has left a line unfinished, and nowhere else."""
    assert notebook.run("%execz printf a\n%execz printf b\n%execz echo c").text() == "a\nb\nc\n"
    assert notebook.run("%execz echo a\n%execz echo b").text() == "a\nb\n"


def test_command_that_leaves_a_child_does_not_hold_the_cell(notebook: Kernel) -> None:
    """A child that keeps the output open is told of, and what it says later stands there."""
    cell = notebook.run(
        "%execz --proc p sh -c 'sh -c \"read x </dev/tty; sleep 1.3; echo late\" & echo first'"
    )
    assert "holds its output open" in cell.text("stderr")
    notebook.wait_text(cell, "late\n")
    notebook.run("p.wait(closed=True)")


def test_quick_commands_leave_no_view_and_slow_ones_do(notebook: Kernel) -> None:
    """A view stands above the output of what does not end at once."""
    assert not notebook.run("%execz echo quick").shown
    cell = notebook.run("%execz echo first; sleep 0.2; echo second")
    assert "data" in cell.outputs[0]
    assert "exit code 0" in cell.shown[0]
    assert cell.text() == "first\nsecond\n"


def test_semicolon_and_capture(notebook: Kernel) -> None:
    """IPython's own ways to keep quiet hold."""
    cell = notebook.run("%%capture c\n%execz echo captured")
    assert not cell.text()
    assert notebook.run("print(c.stdout)").text() == "captured\n\n"


def test_environment_is_named(notebook: Kernel) -> None:
    """`--on` leads elsewhere; what is not there is told in one line."""
    assert notebook.run("%execz --on default echo here").text() == "here\n"
    cell = notebook.run("%execz --on nosuch true")
    assert cell.error.startswith("ConnectionFailed: no server 'nosuch'")
    assert cell.error.count("\n") == 0


def test_extension_is_unloaded_and_loaded_again(notebook: Kernel) -> None:
    """To unload it takes the magics away and closes what they had open."""
    cell = notebook.run("%execz --on local echo here\n%unload_ext execzmq\n%execz true")
    assert cell.text() == "here\n"
    assert "`%execz` not found" in cell.text("stderr")
    assert notebook.run("%load_ext execzmq\n%execz echo again").text() == "again\n"


def test_server_that_is_gone_is_started_anew(notebook: Kernel) -> None:
    """The next cell finds, or starts, the next server."""
    assert notebook.run("%execz --name before echo a").status == "ok"
    assert notebook.run("!execzmq shutdown").status == "ok"
    assert notebook.run("%execz echo again").text() == "again\n"
    assert notebook.run("%execz --attach before").text() == "a\n"


def test_colours_are_kept(notebook: Kernel) -> None:
    """Escape sequences reach the page, which shows them as colours."""
    assert notebook.run("%execz printf '\\033[31mred\\033[0m\\n'").text() == "\x1b[31mred\x1b[0m\n"


def test_tab_completes(notebook: Kernel) -> None:
    """Options, environments and processes are offered; words of the command are not."""
    notebook.run("%execz --name findme true")
    assert notebook.complete("%execz --det") == ["--detach-on-interrupt"]
    assert notebook.complete("y = %execz --no-r") == ["--no-raise-error"]
    assert "default" in notebook.complete("%%execz --on d")
    assert notebook.complete("%execz --attach findm") == ["findme"]
    assert notebook.complete("%execz --sandbox work") == ["workspace-write"]
