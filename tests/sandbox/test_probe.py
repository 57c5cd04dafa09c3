"""The proof that sandboxes can be enforced here: by each bubblewrap, as root and as another."""

import asyncio
import contextlib
import os
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.errors import SandboxUnavailable
from execzmq.sandbox import checker, probe, seccomp, wrapper
from execzmq.sandbox.probe import Attempt, Build, Probe, Report
from execzmq.sandbox.remedies import Machine, explain
from execzmq.types.finding import Finding
from tests.sandbox import inside
from tests.sandbox.test_wrapper import made

OPTIONS = [
    *(b"--unshare-user", b"--disable-userns", b"--unshare-ipc", b"--unshare-pid", b"--unshare-uts"),
    *(b"--hostname", b"localhost", b"--unshare-cgroup-try", b"--unshare-net", b"--cap-drop", b"ALL"),
    *(b"--new-session", b"--ro-bind", b"/", b"/", b"--dev", b"/dev", b"--proc", b"/proc"),
    *(b"--ro-bind", b"/proc/sys", b"/proc/sys"),
]
WHOLE = [
    "bubblewrap",
    "privileges",
    "system call filter",
    "kernel settings",
    "connection files",
    "namespaces",
]


def built(options: list[bytes], program: bytes | None = None) -> Build:
    """Return what makes the arguments of a start."""

    # Not later: another user may not be able to read the package that makes it.
    filtered = seccomp.program(allow_debug=False) if program is None else program

    @contextlib.contextmanager
    def build() -> Iterator[Attempt]:
        yield Attempt(b"".join(b"%b\0" % option for option in options), filtered)

    return build


def without(*words: bytes) -> list[bytes]:
    """Return the options without some that stand beside each other."""
    at = next(i for i in range(len(OPTIONS)) if tuple(OPTIONS[i : i + len(words)]) == words)
    return OPTIONS[:at] + OPTIONS[at + len(words) :]


def use(monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
    """Let these bubblewraps be all there are."""
    monkeypatch.setattr(wrapper, "known", lambda: iter(paths))


def as_uid(uid: int, build: Build, secret: Path) -> Report:
    """Look as another user, in a child that was forked: no file of ours has to be readable for that user."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(uid)
            os.write(writer, pickle.dumps(probe.look(build, [bytes(secret)])))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, "its traceback is on stderr"
    report = pickle.loads(answer)
    assert isinstance(report, Report)
    return report


def _become(uid: int) -> None:
    if os.geteuid() != uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def secret_of(folder: Path, uid: int) -> Path:
    """Make a file that its owner alone can read, in a folder that a sandbox can cover."""
    secret = folder / "connection.json"
    secret.write_text("{}")
    secret.chmod(0o600)
    os.chown(secret, uid, -1)
    return secret


def cover(path: Path) -> list[bytes]:
    """Return the options that hide a folder."""
    return [b"--perms", b"000", b"--tmpfs", bytes(path), b"--remount-ro", bytes(path)]


@pytest.fixture
def secret(workspace: Path, monkeypatch: pytest.MonkeyPatch, uid: int, bwrap: str) -> Path:
    """A secret of this user's; the bubblewrap of the test is the one that is used."""
    use(monkeypatch, bwrap)
    return secret_of(workspace, uid)


def broken(report: Report) -> dict[str, str]:
    """Return what is wrong by its name."""
    return {one.name.removeprefix("sandbox: "): one.text for one in report.findings if not one.ok}


def test_a_sandbox_holds_here(uid: int, secret: Path, bwrap: str) -> None:
    """All that a sandbox must be is found inside of one, as root and as another user."""
    report = as_uid(uid, built([*OPTIONS, *cover(secret.parent)]), secret)
    assert broken(report) == {}
    assert report.trouble is None
    assert report.wrapper is not None
    assert report.wrapper.path == os.path.realpath(bwrap)
    assert [one.name for one in report.findings] == [f"sandbox: {name}" for name in WHOLE]


@pytest.mark.parametrize("kind", ["net", "pid"])
def test_a_shared_namespace_is_found(uid: int, secret: Path, kind: str) -> None:
    """A namespace that is left out of the arguments is missed."""
    report = as_uid(uid, built([*without(b"--unshare-%b" % kind.encode()), *cover(secret.parent)]), secret)
    assert broken(report)["namespaces"] == f"{kind} is the server's"
    assert report.trouble is not None


def test_capabilities_are_found(secret: Path, uid: int) -> None:
    """A capability that is left to the command is found, root's above all (bubblewrap keeps them all)."""
    options = [*OPTIONS, b"--cap-add", b"CAP_NET_ADMIN", *cover(secret.parent)]
    report = as_uid(uid, built(options), secret)
    assert "CapEff" in broken(report)["privileges"]
    assert report.trouble is not None
    assert report.trouble.reason == "privileges_kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="kernel settings are root's")
def test_open_kernel_settings_are_found(bwrap: str, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root without a capability may write `core_pattern` all the same, unless it is covered (escape 18)."""
    use(monkeypatch, bwrap)
    report = probe.look(built(without(b"--ro-bind", b"/proc/sys", b"/proc/sys")))
    assert broken(report) == {"kernel settings": "core_pattern can be written"}


def test_a_readable_connection_file_is_found(uid: int, secret: Path) -> None:
    """A file of the server's own that a command could read is found (escape 26)."""
    report = as_uid(uid, built(OPTIONS), secret)
    assert broken(report) == {"connection files": "1 of the server's own can be read"}


def test_a_filter_that_is_none(uid: int, secret: Path) -> None:
    """A filter that bubblewrap or the kernel does not take means that there is no sandbox."""
    report = as_uid(uid, built([*OPTIONS, *cover(secret.parent)], b"\x06\0\0\0\0\0"), secret)
    assert set(broken(report)) == {"start"}
    assert report.trouble is not None


def test_bubblewraps_words_are_told(bwrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps it from starting is told with what to do."""
    use(monkeypatch, bwrap)
    report = probe.look(built([*OPTIONS, b"--no-such-option"]))
    assert report.trouble is not None
    assert report.trouble.reason == "bwrap_too_old"
    assert "--no-such-option" in broken(report)["start"]


def test_inside_of_a_sandbox_there_is_none(bwrap: str, uid: int, shared: Path) -> None:
    """Our own sandboxes allow no further ones: bubblewrap's words for that are understood (escape 80)."""
    inner = [bwrap, "--unshare-user", "--ro-bind", "/", "/", "--", "/bin/true"]
    options = ["--disable-userns", "--ro-bind", str(shared), str(shared)]
    done = inside.run(bwrap, inner, uid, options=options)
    assert done.returncode != 0
    assert explain(done.stderr, Machine()).reason in ("too_many_namespaces", "no_namespaces")


def test_no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bubblewrap it is said how to get one."""
    use(monkeypatch)
    report = probe.look(built(OPTIONS))
    assert report.wrapper is None
    assert report.findings == (
        Finding(
            "sandbox: bubblewrap", False, f"bubblewrap is not installed: {wrapper.REMEDY}", wrapper.REMEDY
        ),
    )


HANGS = "#!/bin/sh\ncase $1 in --help) echo '{words}'; exit;; esac\n{work}\nexec 9<{fifo}\n"
SAYS_CHILD = "echo '{ \"child-pid\": 1 }' >/proc/$$/fd/$6"


@pytest.fixture
def hanging(short_tmp: Path, request: pytest.FixtureRequest) -> str:
    """A bubblewrap that never comes to its end."""
    os.mkfifo(short_tmp / "fifo")
    text = HANGS.format(words=" ".join(wrapper.OPTIONS), work=request.param, fifo=short_tmp / "fifo")
    return made(short_tmp / "bwrap", text)


@pytest.mark.parametrize("hanging", ["", SAYS_CHILD], ids=["at once", "later"], indirect=True)
def test_a_bubblewrap_that_hangs_is_killed(hanging: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed in time, and nothing of it is left."""
    monkeypatch.setattr(probe, "TIMEOUT", 0.3)
    use(monkeypatch, hanging)
    report = probe.look(built(OPTIONS))
    assert report.trouble is not None
    assert report.trouble.reason == "probe_timeout"


@pytest.mark.parametrize("hanging", [""], indirect=True)
async def test_the_loop_runs_on_while_bubblewrap_hangs(hanging: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a sandbox is refused in time; the loop never stands."""
    monkeypatch.setattr(probe, "TIMEOUT", 0.3)
    use(monkeypatch, hanging)
    waiting = asyncio.ensure_future(Probe(built(OPTIONS)).require())
    turns = 0
    while not waiting.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 100
    with pytest.raises(SandboxUnavailable) as caught:
        await waiting
    assert caught.value.reason == "probe_timeout"


async def test_what_passed_is_not_looked_at_again(
    bwrap: str, monkeypatch: pytest.MonkeyPatch, short_tmp: Path
) -> None:
    """One look is enough, until bubblewrap itself is another."""
    link = short_tmp / "bwrap"
    link.write_text(f'#!/bin/sh\nexec {bwrap} "$@"\n')
    link.chmod(0o755)
    use(monkeypatch, str(link))
    looks = []

    @contextlib.contextmanager
    def counted() -> Iterator[Attempt]:
        looks.append(1)
        with built(OPTIONS)() as attempt:
            yield attempt

    asked = Probe(counted)
    assert {await asked.require() for _ in range(3)} == {wrapper.find()}
    assert len(looks) == 1
    os.utime(link, (1, 1))
    await asyncio.gather(*(asked.require() for _ in range(5)))
    assert len(looks) == 2


async def test_what_failed_is_looked_at_again(bwrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has done what the remedy says need not start the server anew; until then every start is refused."""
    options = [*OPTIONS, b"--no-such-option"]
    use(monkeypatch, bwrap)
    asked = Probe(lambda: built(options)())
    for _ in range(2):
        with pytest.raises(
            SandboxUnavailable, match="no sandbox can be enforced here: this bubblewrap lacks"
        ):
            await asked.require()
    options.pop()
    assert (await asked.require()).path == bwrap


@pytest.mark.parametrize("error", [SandboxUnavailable("none", reason="seccomp"), OSError(24, "many files")])
async def test_arguments_that_cannot_be_made(
    error: Exception, bwrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not even the arguments can be made, sandboxes are refused with the reason."""
    use(monkeypatch, bwrap)

    def build() -> contextlib.AbstractContextManager[Attempt]:
        raise error

    with pytest.raises(SandboxUnavailable) as caught:
        await Probe(build).require()
    assert caught.value.reason in ("seccomp", "probe_failed")


def test_a_look_that_broke_off_proves_nothing() -> None:
    """Half an answer is none."""
    said = "core_pattern closed\nown 0000 1 2\n"
    (only,) = checker.judge(said, 0, {}, {})
    assert only.fault is not None
    assert only.fault.reason == "probe_failed"


@pytest.mark.parametrize(
    ("was", "now", "name"),
    [
        ("first 0000 1 2", "first 0010 1 2", "privileges"),
        ("own 0000 1 2", "own 0000 0 2", "privileges"),
        ("first 0000 1 2", "first 0000 1 0", "system call filter"),
        ("own 0000 1 2", "own 0000 1 1", "system call filter"),
        ("core_pattern closed", "core_pattern open", "kernel settings"),
        ("core_pattern closed", "core_pattern closed\ncore_pattern open", "kernel settings"),
        ("secret closed", "secret open", "connection files"),
        ("secret closed", "", "connection files"),
    ],
)
def test_judging(was: str, now: str, name: str) -> None:
    """Each thing that is not as it must be is a fault of its own."""
    said = "core_pattern closed\nsecret closed\nown 0000 1 2\nfirst 0000 1 2\ndone\n"
    own = {kind: f"{kind}:[1]" for kind in checker.NAMESPACES}
    inside = {kind: f"{kind}:[2]" for kind in checker.NAMESPACES}
    assert not [one for one in checker.judge(said, 1, own, inside) if one.fault]
    assert was in said
    assert [one.name for one in checker.judge(said.replace(was, now), 1, own, inside) if one.fault] == [name]


@pytest.mark.parametrize("kind", checker.NAMESPACES)
def test_judging_namespaces(kind: str) -> None:
    """A namespace that is the server's, or that cannot be seen, is a fault."""
    own = dict.fromkeys(checker.NAMESPACES, "1")
    others = {name: "2" for name in own if name != kind}
    for shown in ({**own, **others}, others):
        found = [one for one in checker.judge("done", 0, own, shown) if one.name == "namespaces"]
        assert found[0].fault is not None
        assert kind in found[0].fault.text
