"""What people do all day succeeds in `workspace-write`, by the client and by the command line."""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from execzmq.client.run import CompletedProcess
from execzmq.client.sync import Client
from execzmq.sandbox.profile_store import profiles_path
from execzmq.types.params import EnvPolicy
from tests.cli.shell import UserTerminal, execzmq
from tests.homes import another_home
from tests.servers import serving
from tests.sources import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PYTHON = sys.executable
SECONDS = 80.0


def need(*tools: str) -> None:
    """Skip the test where a tool is not on this machine, and say which."""
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        pytest.skip(f"this machine has no {', '.join(missing)}")


def need_module(name: str) -> None:
    """Skip the test where the tests' interpreter has no such module."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{PYTHON} has no {name}")


@pytest.fixture
def root(home_root: Path) -> Path:
    """The workspace."""
    folder = home_root / "ws"
    folder.mkdir()
    return folder


def _write_profiles() -> None:
    """Write the user's own: one that also sees the tests' interpreter, and two that may commit."""
    seen = [str(ROOT), sys.prefix, sys.base_prefix]
    path = profiles_path()
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f'[python]\nextends = "workspace-write"\nreadable = {["host", *seen]}\n'
        '[commits]\nextends = "workspace-write"\nprotect_git = "none"\n'
        '[no-hooks]\nextends = "workspace-write"\nprotect_git = "hooks-config"\n'
    )
    path.chmod(0o600)


class Place:
    """A workspace, and a client whose commands may write to it."""

    def __init__(self, client: Client, root: Path) -> None:
        self.root, self._client = root, client

    def run(self, script: str, profile: str = "workspace-write", **more: Any) -> CompletedProcess:
        """Run a script to its end."""
        return self._client.run(
            ["bash", "-euc", textwrap.dedent(script)],
            cwd=self.root,
            sandbox=profile,
            workspace_roots=[self.root],
            text=True,
            timeout=SECONDS,
            **more,
        )

    def succeed(self, script: str, profile: str = "workspace-write", **more: Any) -> str:
        """Run a script, which must succeed, and return what it said."""
        done = self.run(script, profile, **more)
        assert (done.result.exit_code, done.result.cause) == (0, "exited"), (done.stdout, done.stderr)
        return str(done.stdout)

    def with_python(self, script: str) -> str:
        """Run a shell's script that runs the tests' interpreter, with what it needs to find its library."""
        chosen = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return self.succeed(script, "python", env_policy=EnvPolicy(set=chosen))

    def python(self, script: str) -> str:
        """Run a Python script from a file with the tests' interpreter."""
        (self.root / "script.py").write_text(textwrap.dedent(script))
        return self.with_python(f"'{PYTHON}' script.py")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of one server for all: it knows nothing of a workspace that a command does not say."""
    with another_home():
        _write_profiles()
        with serving() as server, server.client() as client:
            yield client


@pytest.fixture
def place(client: Client, root: Path) -> Place:
    return Place(client, root)


COMMANDS = {
    "gcc": """
        printf '#include <stdio.h>\\nint main(void){puts("built");return 0;}' > a.c
        printf 'a: a.c\\n\\tgcc -O2 -g -o a a.c\\n' > Makefile
        make -j2 -s; ./a
        """,
    "sqlite3": """
        sqlite3 a.db 'pragma journal_mode=wal; create table t(a); insert into t values(42);' > /dev/null
        test -e a.db; sqlite3 a.db 'select a from t; vacuum;'
        """,
    "tar": """
        mkdir d; echo 1 > d/a; ln d/a d/b; ln -s a d/c; mkfifo d/f; chmod 711 d/a
        tar cf a.tar d; rm -r d; tar xpf a.tar; cp -a d e; cp -r d g; install -D -m 755 d/a x/y/z; mv x w
        test "$(readlink e/c)" = a; gzip a.tar; test d/a -ef d/b; cat w/y/z
        """,
    "mktemp": """
        echo 1 > "$(mktemp)"; echo 2 > "$(mktemp -d)/a"; echo 3 > /dev/shm/a; echo 4 > /var/tmp/a
        cat <(echo 5) <<< x; cat /dev/shm/a
        """,
    "vim": """
        echo one > a; vim -es -u NONE -c '%s/one/two/' -c wq a; cat a
        """,
    "ssh-keygen": """
        ssh-keygen -q -t ed25519 -N '' -f key; test "$(stat -c %a key)" = 600; ssh-keygen -l -f key.pub
        """,
    "script": """
        script -qec 'test -t 1 && tty' /dev/null
        """,
    "tmux": """
        tmux -f /dev/null new-session -d 'echo inside > said; tmux wait-for -S done'
        while [ ! -e said ]; do sleep 0.02; done; cat said
        """,
    "top": """
        ps aux | grep -c '[p]s aux'; top -bn1 | head -1; nproc; df . /tmp > /dev/null; free > /dev/null
        flock lock timeout 5 nice setsid true; echo 1 2 3 | xargs -P3 -n1 test -n; id -un
        getent hosts "$(hostname)"
        """,
    "dpkg-deb": """
        mkdir -p p/DEBIAN p/usr/bin; echo 1 > p/usr/bin/x; cd p/DEBIAN
        printf '%s: a\\n' Package Maintainer Description > control
        printf '%s\\n' 'Version: 1' 'Architecture: all' >> control
        cd ../..
        dpkg-deb --root-owner-group --build p a.deb; dpkg-deb -x a.deb out; cat out/usr/bin/x
        """,
}


@pytest.mark.parametrize("tool", COMMANDS)
def test_commands(place: Place, tool: str) -> None:
    """Compilers, databases, archives, editors, keys, terminals inside of it, packages."""
    need(*(["gcc", "make"] if tool == "gcc" else [tool]))
    assert place.succeed(COMMANDS[tool])


def test_git_is_read(place: Place) -> None:
    """A repository is looked at; its `.git` stays as it is, and a commit says so."""
    need("git")
    place_repository(place)
    said = place.succeed("git status --short; git diff -- a; git log --oneline; git show HEAD:a")
    assert " M a" in said
    assert "-one\n+two" in said
    done = place.run("git -c user.name=a -c user.email=a@b commit -qam second")
    assert (done.result.exit_code != 0, done.result.cause) == (True, "sandbox_denied")


def test_git_commits_without_its_configuration(place: Place) -> None:
    """With `protect_git = "hooks-config"` Git works as the page on profiles says, and fails as it says."""
    need("git")
    place_repository(place)
    place.succeed(
        """
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git switch -qc topic; git commit -qam second; echo three > a; git stash -q; git stash pop -q
        git commit -qam third; git switch -q -; git merge -q topic; git switch -q topic; git rebase -q HEAD~1
        git fetch -q .; git gc -q; git worktree add -q w -b w; git init -q new; cd new; git config a.b c
        """,
        "no-hooks",
    )
    busy = "could not write config file .git/config: Device or resource busy"
    for words in ("config a.b c", "remote add o /x", "branch -m topic other", "init"):
        done = place.run(f"git {words}", "no-hooks")
        assert done.result.cause == "sandbox_denied"
        assert busy in done.stderr.replace(f"{place.root.resolve()}/", "")


def test_git_commits_where_it_may(place: Place) -> None:
    """With `protect_git = "none"` all of Git works."""
    need("git")
    place_repository(place)
    place.succeed(
        """
        git config user.name a; git config user.email a@b
        git commit -qam second; git checkout -qb other; git stash; git gc -q; git worktree add -q w
        git clone -q . c
        """,
        "commits",
    )
    assert (place.root / "c" / "a").read_text() == "two\n"


def place_repository(place: Place) -> None:
    """Make a repository on the host with one commit and one change."""
    (place.root / "a").write_text("one\n")
    named = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "a"), (*named, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=place.root, check=True)
    (place.root / "a").write_text("two\n")


def test_npm(place: Place) -> None:
    """Scripts of a package run, and a package from the disk is installed; nothing is written to the home."""
    need("node", "npm")
    (place.root / "package.json").write_text(
        '{"name": "a", "version": "1.0.0", "scripts": {"hi": "node -e \\"console.log(6 * 7)\\""}}'
    )
    assert "42" in place.succeed("npm run hi")
    said = place.succeed(
        "npm pack --silent; mkdir b; cd b; npm init -y; npm install ../a-1.0.0.tgz; ls node_modules"
    )
    assert said.endswith("a\n")


def test_node(place: Place) -> None:
    """A server and its client, threads, children, the list of networks."""
    need("node")
    (place.root / "a.js").write_text(
        """
        const http = require("http"), os = require("os"), fs = require("fs");
        const { Worker } = require("worker_threads");
        console.log(Object.keys(os.networkInterfaces()), os.hostname(), os.userInfo().uid);
        console.log(require("child_process").execFileSync("echo", ["child"]).toString());
        fs.watch(".").close();
        new Worker("console.log('thread')", { eval: true });
        const server = http.createServer((_, reply) => reply.end("answer")).listen(0, "localhost", () => {
          http.get({ port: server.address().port, host: "localhost" }, (reply) => {
            reply.on("data", (data) => console.log(String(data)));
            reply.on("end", () => server.close());
          });
        });
        """
    )
    said = place.succeed("node a.js")
    assert all(word in said for word in ("lo", "child", "thread", "answer"))


def test_server_and_client_in_one_sandbox(place: Place) -> None:
    """What listens on the loopback is reached there, by its number, as `localhost` and by the host's name."""
    said = place.python(
        """
        import http.server, socket, threading, urllib.request
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for host in ("127.0.0.1", "localhost", socket.gethostname()):
            with urllib.request.urlopen(f"http://{host}:{server.server_port}/script.py") as reply:
                print(reply.status)
        server.shutdown()
        """
    )
    assert said.split() == ["200"] * 3


def test_multiprocessing_c74(place: Place) -> None:
    """Semaphores, pools of each kind, managers and shared memory, under pytest."""
    (place.root / "test_a.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing, pytest
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing.shared_memory import SharedMemory

            @pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
            def test_pools(kind, tmp_path):
                context = multiprocessing.get_context(kind)
                assert context.Semaphore(2).acquire()
                with context.Pool(2) as pool:
                    assert pool.map(abs, [-1, -2]) == [1, 2]
                with context.Manager() as manager:
                    assert manager.dict(a=1)["a"] == 1
                with ProcessPoolExecutor(2, mp_context=context) as pool:
                    assert list(pool.map(abs, [-1])) == [1]

            def test_memory():
                memory = SharedMemory(create=True, size=100)
                memory.close()
                memory.unlink()
            """
        )
    )
    assert "4 passed" in place.with_python(f"'{PYTHON}' -m pytest -q test_a.py")


def test_install_from_a_wheel(place: Place) -> None:
    """A virtual environment is made in the workspace, and a wheel from the disk is installed into it."""
    need_module("pip")
    info = "hello-1.0.dist-info"
    with zipfile.ZipFile(place.root / "hello-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("hello.py", "def main(): print('hello')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\nhello = hello:main\n")
        wheel.writestr(f"{info}/RECORD", "")
    said = place.with_python(
        f"""
        '{PYTHON}' -m venv --without-pip v
        '{PYTHON}' -m pip --python v/bin/python install -q --no-index ./hello-1.0-py3-none-any.whl
        v/bin/hello
        """
    )
    assert said == "hello\n"


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_jupyter_kernel(place: Place, transport: str) -> None:
    """A kernel is started in the sandbox and driven from there."""
    need_module("ipykernel")
    said = place.python(
        f"""
        import sys
        from jupyter_client import KernelManager
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_core.paths import jupyter_runtime_dir
        import os
        os.makedirs(jupyter_runtime_dir())
        manager = KernelManager(
            transport="{transport}", connection_file=os.path.join(jupyter_runtime_dir(), "kernel-1.json")
        )
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]
        manager._kernel_spec = KernelSpec(argv=argv, language="python")
        manager.start_kernel()
        client = manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive("print(6 * 7)", timeout=60)
        print(reply["content"]["status"])
        client.stop_channels()
        manager.shutdown_kernel()
        """
    )
    assert said.split() == ["42", "ok"]


def test_set_gid_workspace(place: Place) -> None:
    """Where folders hand their group on, files and folders are made and copied; the bit itself is not set.

    The filter does not see what a path leads to: a program would get the bit as well as a folder.
    """
    (place.root / "d").mkdir()
    (place.root / "d" / "a").write_text("1")
    for folder in (place.root, place.root / "d"):
        folder.chmod(0o2775)
    place.succeed(
        "mkdir -p e/f; cp -r d g; cp -p d/a d/b; install -d -m 755 i; mv e h; chmod 00755 i || true"
    )
    assert stat.S_IMODE((place.root / "g").stat().st_mode) & 0o7000 == 0o2000
    for script in ("chmod g+s d", "cp -a d x", "chmod g+w d", "chmod 2755 d/a"):
        done = place.run(script)
        assert (done.result.exit_code != 0, done.result.cause) == (True, "sandbox_denied"), script
    assert stat.S_IMODE((place.root / "d" / "a").stat().st_mode) & 0o7000 == 0


def test_folder_is_made_without_set_gid_whatever_is_asked_for(place: Place) -> None:
    """mkdir(2) may be asked for these bits, since it does not set them."""
    place.succeed("python3 -c 'import os; os.mkdir(\"made\", 0o6775)'")
    assert stat.S_IMODE((place.root / "made").stat().st_mode) & 0o7000 == 0


@pytest.fixture
def servers(no_leaks: None, state_home: Path) -> Iterator[None]:
    """End the server that the command line starts."""
    yield
    assert execzmq("shutdown", "--all").returncode == 0


def test_command_line(servers: None, root: Path) -> None:
    """The same by `execzmq run`, from the folder where one stands."""
    done = execzmq("run", "--sandbox", "workspace-write", "--", "sh", "-c", "echo 1 > a; cat a", cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n", b"")
    done = execzmq(
        "run", "--sandbox", "workspace-write", "--root", str(root), "--cwd", str(root), "touch", "b"
    )
    assert done.returncode == 0
    assert sorted(path.name for path in root.iterdir() if not path.name.startswith(".")) == ["a", "b"]


def at_terminal(root: Path, *words: str) -> UserTerminal:
    """Run a command in a sandbox at a terminal of the user's."""
    options = (
        "-i",
        "-t",
        "--sandbox",
        "workspace-write",
        "--root",
        str(root),
        "--cwd",
        str(root),
        "-e",
        "TERM=xterm",
    )
    return UserTerminal("run", *options, "--", *words)


def test_pager_and_editor_at_a_terminal(servers: None, root: Path) -> None:
    """Full-screen programs get keys and sizes."""
    need("less", "vim")
    (root / "a").write_text("".join(f"line {number}\n" for number in range(200)))
    with at_terminal(root, "less", "a") as user:
        user.expect(b"line 0")
        user.type(b"G")
        user.expect(b"line 199")
        user.type(b"q")
        assert user.process.wait(20) == 0
    with at_terminal(root, "vim", "-u", "NONE", "b") as user:
        user.expect(b"~")
        user.type(b"ione\x1b:wq\r")
        assert user.process.wait(20) == 0
    assert (root / "b").read_text() == "one\n"


def test_top_and_tmux_at_a_terminal(servers: None, root: Path) -> None:
    """One looks at what runs inside; one makes terminals of its own."""
    need("top", "tmux")
    with at_terminal(root, "top", "-d", "0.1") as user:
        user.expect(b"top")
        user.type(b"q")
        assert user.process.wait(20) == 0
    with at_terminal(root, "tmux", "-f", "/dev/null", "new-session", "sh") as user:
        user.type(b"echo in''side\r")
        user.expect(b"inside")
        user.type(b"exit\r")
        assert user.process.wait(20) == 0
