"""Whether a refusal is the sandbox's: decided from words, view and host, without any of them being there."""

import dataclasses
import signal

import pytest

from execzmq.sandbox.model import Network, Permissions
from execzmq.sandbox.sight import Reach
from execzmq.sandbox.verdict import Ending, judge
from execzmq.types.params import Limits

PERMISSIONS = Permissions(
    profile="workspace-write",
    read="host",
    readable=(),
    writable=(b"/ws",),
    denied=(),
    protected=(),
    protect_git="all",
    network=Network("none"),
    tmp_bytes=1 << 20,
    limits=Limits(),
)
READ_ONLY = b"touch: cannot touch '/srv/x': Read-only file system\n"


COPIED = b"fatal: cannot copy '/usr/share/git-core/templates/x' to '%s': Read-only file system\n"
RETRYING = b"WARNING: Retrying after '%s': /simple/six/\n"
UNRESOLVED = RETRYING % (b"x" * 300 + b": [Errno -3] Temporary failure in name resolution")
GAVE_UP = b"ERROR: Could not find a version that satisfies the requirement six (from versions: none)\n"


class Outside:
    """A host on which everything is there and allowed, but for what is named."""

    def __init__(
        self, refused: tuple[bytes, ...] = (), missing: tuple[bytes, ...] = (), is_root: bool = False
    ) -> None:
        self.refused, self.missing, self.is_root = refused, missing, is_root
        self.online: bool | None = True
        self.looks = 0

    def resolve(self, path: bytes) -> bytes:
        self.looks += 1
        return path.replace(b"/ws/link", b"/srv")

    def exists(self, path: bytes) -> bool:
        return path not in self.missing

    def may(self, path: bytes, reach: Reach) -> bool | None:
        return path not in self.refused

    def may_plainly(self, path: bytes, reach: Reach) -> bool | None:
        return not self.is_root

    def is_one_device(self, paths: tuple[bytes, ...]) -> bool | None:
        return True

    def has_capability(self, number: int) -> bool | None:
        return self.is_root

    def listens(self, port: int) -> bool | None:
        return port == 5432

    def is_online(self) -> bool | None:
        return self.online


def ending(stderr: bytes = b"", **changes: object) -> Ending:
    """Return the end of a command that failed with code 1 in a sandbox with the root /ws."""
    mounts = ((b"/ws", "write"), (b"/ws/.git", "read"), (b"/home/u/.ssh", "deny"))
    plain = Ending(1, None, (b"tool",), b"/ws", b"", stderr, PERMISSIONS, mounts)  # type: ignore[arg-type]  # literals
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]  # names of its fields


@pytest.mark.parametrize(
    ("words", "confidence", "rule"),
    [
        (READ_ONLY, "high", "not_writable"),
        (b"touch: cannot touch '/ws/link/x': Read-only file system\n", "high", "not_writable"),
        (b"OSError: [Errno 30] Read-only file system: '/srv/x'\n", "high", "not_writable"),
        (b"Error: EROFS: read-only file system, open '/srv/x'\n", "high", "not_writable"),
        (b"open /srv/x: read-only file system\n", "high", "not_writable"),
        (
            b"error: failed to write `/srv/x`\n\nCaused by:\n  Read-only file system (os error 30)\n",
            "medium",
            "",
        ),
        (b"fatal: Unable to create '/ws/.git/index.lock': Read-only file system\n", "high", "not_writable"),
        (COPIED % b"/ws/.git/description", "high", "not_writable"),
        (b"Error: EROFS: read-only file system, copyfile '/usr/x' -> '/srv/x'\n", "high", "not_writable"),
        (b"cat: /home/u/.ssh/id: Permission denied\n", "high", "not_readable"),
        (b"mv: cannot move '.git' to '.git2': Device or resource busy\n", "high", "mount_point"),
        (
            b"ln: failed to create hard link 'x' => '/srv/x': Invalid cross-device link\n",
            "high",
            "other_mount",
        ),
        (b"cat: /run/docker.sock: No such file or directory\n", "high", "hidden"),
        (b"dd: error writing '/tmp/big': No space left on device\n", "high", "tmp_full"),
        (b"unshare: unshare failed: Operation not permitted\n", "medium", "not_allowed"),
        (b"strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted\n", "medium", "not_allowed"),
        (b"curl: (6) Could not resolve host: example.org\n", "medium", "no_network"),
        (b"connect ECONNREFUSED 127.0.0.1:5432\n", "high", "host_loopback"),
    ],
)
def test_refusals_of_the_sandbox(words: bytes, confidence: str, rule: str) -> None:
    """What the sandbox refuses, and the host would not, is a denial, with the line that tells it."""
    verdict = judge(ending(words), Outside())
    assert (verdict.cause, verdict.confidence) == ("sandbox_denied", confidence)
    assert verdict.evidence[0].rule == (rule or verdict.evidence[0].rule)
    assert verdict.evidence[0].place == "stderr"


@pytest.mark.parametrize(
    "words",
    [
        b"cat: locked: Permission denied\n",
        b"cat: /srv/x: Permission denied\n",
        b"touch: cannot touch '/ws/x': Read-only file system\n",
        b"cat: /nosuch: No such file or directory\n",
        b"connect ECONNREFUSED 127.0.0.1:5433\n",
        b"chown: changing ownership of 'x': Operation not permitted\n",
        b'mount: only root can use "--types" option (effective UID is 65534): Operation not permitted\n',
        b"curl: (6) Could not resolve host: nosuch.invalid\n",
        b"E   AssertionError: 'Permission denied' != ''\n",
        b"git@host: Permission denied (publickey).\n",
    ],
)
def test_failures_of_their_own(words: bytes) -> None:
    """What would fail outside too is no denial, whatever the words."""
    assert judge(ending(words), Outside(missing=(b"/nosuch",))).cause is None


def test_refused_outside_too() -> None:
    """What this user may not write outside either is not the sandbox's doing."""
    assert judge(ending(READ_ONLY), Outside(refused=(b"/srv/x",))).cause is None
    assert judge(ending(READ_ONLY), Outside(missing=(b"/srv",))).cause is None


def test_superuser_loses_powers() -> None:
    """What root could do outside by its powers alone is refused by the sandbox, which has dropped them."""
    for words in (
        b"cat: locked: Permission denied\n",
        b"chown: changing ownership of 'x': Invalid argument\n",
    ):
        assert judge(ending(words), Outside(is_root=True)).evidence[0].rule == "no_privilege"


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 0},
        {"was_asked": True},
        {"exit_code": None, "signal": signal.SIGKILL},
        {"exit_code": 128 + signal.SIGTERM},
    ],
)
def test_other_ends_are_no_denials(changes: dict[str, object]) -> None:
    """Success is never a denial, nor is what a client, a limit or a signal ended."""
    assert judge(ending(READ_ONLY, **changes), Outside()).cause is None


def test_refusals_that_did_not_matter() -> None:
    """A warning, or an error that other ones followed, is told with low confidence and is no cause."""
    for words in (
        b"warning: no cache: [Errno 30] Read-only file system: '/srv/x'\n",
        READ_ONLY + b"main.c:1:2: error: expected ';'\n",
        READ_ONLY + b"make: [Makefile:2: all] Error 1 (ignored)\n",
    ):
        verdict = judge(ending(words), Outside())
        assert (verdict.cause, verdict.confidence) == (None, "low")
        assert verdict.evidence


def test_chained_exceptions_are_one() -> None:
    """An exception that another one caused is still why the command failed."""
    words = (
        b"OSError: [Errno 30] Read-only file system: '/srv/x'\n\nThe above exception was the direct cause of"
    )
    verdict = judge(ending(words + b" the following exception:\n\nValueError: no state\n"), Outside())
    assert verdict.confidence == "high"


def test_streams() -> None:
    """On stdout alone words count less, unless stderr was joined to it; quoted text does not count."""
    assert judge(ending(stdout=READ_ONLY), Outside()).confidence == "medium"
    assert judge(ending(stdout=b"\x1b[31m" + READ_ONLY, is_mixed=True), Outside()).confidence == "high"
    assert judge(ending(stdout=b"> " + READ_ONLY), Outside()).cause is None


def test_oom_and_limits() -> None:
    """A kernel's count of kills is the cause oom; other limits are told as evidence without a cause."""
    assert judge(ending(exit_code=137, oom_kills=1), Outside()).cause == "oom"
    limited = dataclasses.replace(PERMISSIONS, limits=Limits(file_size=10, cpu=1, processes=5))
    changes: tuple[dict[str, object], ...] = ({"exit_code": 153}, {"exit_code": 137}, {"forks_refused": 3})
    for change in changes:
        verdict = judge(ending(b"", permissions=limited, **change), Outside())
        assert verdict.cause is None
        assert [entry.rule for entry in verdict.evidence] == ["limit"]


@pytest.mark.parametrize(
    "changes", [{"exit_code": 0}, {"was_asked": True}, {"was_asked": True, "exit_code": 137}]
)
def test_what_the_limits_have_counted_is_told_of_every_end(changes: dict[str, object]) -> None:
    """Forks that were refused and processes that were killed are facts, also where the command goes on."""
    limited = dataclasses.replace(PERMISSIONS, limits=Limits(cpu=1, processes=5))
    counted = ending(READ_ONLY, permissions=limited, forks_refused=3, oom_kills=2, **changes)
    verdict = judge(counted, Outside())
    assert (verdict.cause, verdict.confidence) == (None, "")
    assert [*map(str, verdict.evidence)] == ["oom 2 killed (limits)", "limit processes=5 (limits)"]


def test_proxy_refusals() -> None:
    """A host that the proxy refused is certain where the output names it, else less so."""
    hosts = ("example.org:443",)
    told = [
        judge(ending(words, refused_hosts=hosts), Outside()).confidence
        for words in (b"cannot reach example.org\n", b"", b"1 test failed\n")
    ]
    assert told == ["high", "high", "medium"]


def test_a_copy_is_refused_for_its_target() -> None:
    """Where nothing is written it is the target that is told, also in a name that is kept missing."""
    outside = Outside(missing=(b"/ws/.git",))
    verdict = judge(ending(COPIED % b"/ws/.git/x"), outside)
    assert [one.subject for one in verdict.evidence] == ["/ws/.git/x"]
    assert judge(ending(COPIED % b"/srv/x"), Outside(refused=(b"/srv/x",))).cause is None


def test_warning_after_which_a_program_gives_up() -> None:
    """pip only warns of an index that it cannot reach: it is why where pip then finds nothing, only there."""
    verdict = judge(ending(3 * UNRESOLVED + GAVE_UP), Outside())
    assert (verdict.cause, verdict.confidence, len(verdict.evidence)) == ("sandbox_denied", "medium", 1)
    assert verdict.evidence[0].line.endswith("Temporary failure in name resolution': /simple/six/")
    assert len(verdict.evidence[0].line) <= 200
    other = GAVE_UP.replace(b"none", b"1.0")
    for words in (UNRESOLVED, UNRESOLVED + other, UNRESOLVED + b"Successfully installed six\n", GAVE_UP):
        assert judge(ending(words), Outside()).cause is None


def test_proxy_refusal_that_was_warned_of() -> None:
    """What the proxy refused is no cause where a program has only warned of it, and went on."""
    told = b"OSError('403 Forbidden (execzmq: index.example:443 is not allowed: allow it with --allow-host')"
    warned = RETRYING % told
    for words, cause in ((warned + GAVE_UP, "sandbox_denied"), (warned, None), (told, "sandbox_denied")):
        verdict = judge(ending(words, refused_hosts=("index.example:443",)), Outside())
        assert (verdict.cause, verdict.evidence[0].rule) == (cause, "proxy_refused")


def test_network_of_the_host() -> None:
    """With the host's network, and on a host that is offline, nothing of it is the sandbox's."""
    words = b"curl: (6) Could not resolve host: example.org\n"
    host = dataclasses.replace(PERMISSIONS, network=Network("host"))
    assert judge(ending(words, permissions=host), Outside()).confidence == ""
    outside = Outside()
    outside.online = False
    assert judge(ending(words), outside).confidence == "low"


def test_killed_by_the_filter() -> None:
    """SIGSYS is the filter's; of a shell that says nothing of it, it may be a code of its own."""
    code = 128 + signal.SIGSYS
    assert judge(ending(exit_code=code), Outside()).confidence == "medium"
    assert judge(ending(exit_code=code, argv=(b"/bin/sh", b"-c", b"x")), Outside()).cause is None


def test_looks_are_bounded() -> None:
    """However much a command complains, the host is asked a bounded number of times."""
    outside = Outside(missing=(b"/srv",))
    judge(ending(READ_ONLY * 500), outside)
    assert outside.looks <= 48


def test_evidence_can_be_read() -> None:
    """Evidence is one line: a stable name, what it is about, where it was seen and what stood there."""
    words = str(judge(ending(READ_ONLY), Outside()).evidence[0])
    assert words == f"not_writable /srv/x (stderr: {READ_ONLY.decode().strip()})"


def test_bytes_that_are_no_text() -> None:
    """Output that is not UTF-8 is judged all the same, and evidence can be sent as text."""
    verdict = judge(ending(b"touch: cannot touch '/srv/\xff': Read-only file system\n"), Outside())
    assert verdict.cause == "sandbox_denied"
    assert str(verdict.evidence[0]).encode()
