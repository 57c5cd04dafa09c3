"""The filter of system calls: what it answers to each, on both architectures, without running one."""

import errno
import platform

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execzmq.errors import SandboxUnavailable
from execzmq.sandbox import seccomp
from tests.sandbox import bpf
from tests.sandbox.numbers import NUMBERS

ARCHES = {"x86_64": (0, bpf.X86_64), "aarch64": (1, bpf.AARCH64)}
EVERYDAY = (
    *("read", "write", "execve", "exit_group", "kill", "connect", "bind", "listen", "seccomp", "prctl"),
    *("memfd_create", "pidfd_open", "statx"),
)

ARGUMENT = st.integers(0, (1 << 64) - 1)
INT = (1 << 32) - 1


@pytest.fixture(autouse=True)
def forgotten():
    """Each test has its filter made anew: the machine may be another one."""
    seccomp.program.cache_clear()
    yield
    seccomp.program.cache_clear()


def on_each(*names: str) -> pytest.MarkDecorator:
    """Run a test for each of these calls on each architecture that has it."""
    pairs = [(arch, name) for arch in ARCHES for name in names if NUMBERS[name][ARCHES[arch][0]] is not None]
    return pytest.mark.parametrize(("arch", "name"), pairs, indirect=["arch"])


@pytest.fixture(params=ARCHES)
def arch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an architecture that this machine then claims to be."""
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    return str(request.param)


def answer(arch: str, name: str, *args: int, allow_debug: bool = False) -> int:
    """Return the errno that a call gets; 0 if it is let through."""
    column, audit = ARCHES[arch]
    number = NUMBERS[name][column]
    assert number is not None
    return bpf.errno_of(bpf.run(seccomp.program(allow_debug=allow_debug), number, args, audit))


def on_x86_64(name: str, *args: int) -> int:
    """Return the same for this machine's own filter where it is of x86_64, for many arguments."""
    number = NUMBERS[name][0]
    assert number is not None
    return bpf.errno_of(bpf.run(X86_64_PROGRAM, number, args))


def _program_of(machine: str) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform, "machine", lambda: machine)
        seccomp.program.cache_clear()
        return seccomp.program(allow_debug=False)


X86_64_PROGRAM = _program_of("x86_64")


@pytest.mark.parametrize("name", seccomp.REFUSED + seccomp.TRACING)
@settings(max_examples=10)
@given(st.lists(ARGUMENT, min_size=6, max_size=6))
def test_refused_whatever_the_arguments(name: str, args: list[int]) -> None:
    """What is refused is refused with any arguments."""
    assert on_x86_64(name, *args) == errno.EPERM


@on_each(*seccomp.REFUSED, *seccomp.TRACING)
def test_refused(arch: str, name: str) -> None:
    """Mounts, namespaces, the kernel's tools, clocks and tracing are refused (escapes 11, 14, 15, 24, 33)."""
    assert answer(arch, name) == errno.EPERM


@on_each(*seccomp.ABSENT)
def test_absent(arch: str, name: str) -> None:
    """Calls whose arguments no filter sees look as if the kernel lacked them: programs go another way."""
    assert answer(arch, name) == errno.ENOSYS


@on_each(*seccomp.TRACING)
def test_tracing_where_the_profile_allows_it(arch: str, name: str) -> None:
    """With `allow_debug` processes may trace each other; nothing else changes."""
    assert answer(arch, name, allow_debug=True) == 0
    assert answer(arch, "mount", allow_debug=True) == errno.EPERM


@on_each(*EVERYDAY)
def test_everyday_calls_pass(arch: str, name: str) -> None:
    """What is not listed is let through."""
    assert answer(arch, name, 1, 2, 3) == 0


def test_every_number_is_looked_at(arch: str) -> None:
    """Of all numbers exactly those that the tables name are refused, with arguments that ask for nothing."""
    column, audit = ARCHES[arch]
    program = seccomp.program(allow_debug=False)
    refused = {n for n in range(512) if bpf.run(program, n, (), audit) != bpf.ALLOW}
    listed = {*seccomp.REFUSED, *seccomp.TRACING, *seccomp.ABSENT, "socket", "socketpair"}
    assert refused == {NUMBERS[name][column] for name in listed} - {None}


def test_what_aarch64_lacks() -> None:
    """A call that no table knows would be left out without a word: the known ones alone are."""
    assert {name for name, numbers in NUMBERS.items() if numbers[1] is None} == {
        *("iopl", "ioperm", "chmod", "mknod", "mkdir", "creat", "open")
    }
    made = {*seccomp.REFUSED, *seccomp.TRACING, *seccomp.ABSENT, *seccomp.MODES, *seccomp.CREATING}
    assert made <= set(NUMBERS)


@pytest.mark.parametrize("bit", seccomp.NAMESPACES, ids=hex)
def test_clone_makes_no_namespace(arch: str, bit: int) -> None:
    """clone(2) makes processes and threads, and no namespace of any kind (escapes 14, 15)."""
    assert answer(arch, "clone", bit | 17) == errno.EPERM
    assert answer(arch, "clone", 17) == 0
    assert answer(arch, "clone", 0x3D0F00) == 0  # what a thread is made with


@given(ARGUMENT)
def test_clone_is_judged_by_its_flags(flags: int) -> None:
    """Any flags with a namespace's bit are refused, and no others."""
    wanted = flags & 0x7E020000
    assert on_x86_64("clone", flags) == (errno.EPERM if wanted else 0)


@given(ARGUMENT, st.sampled_from([*seccomp.TERMINAL, 0x5413, 0x5401, 0x541B]), ARGUMENT)
def test_nothing_is_typed_into_a_terminal(high: int, request: int, rest: int) -> None:
    """TIOCSTI and TIOCLINUX are found by the 32 bits that the kernel looks at (escape 40)."""
    expected = errno.EPERM if request in seccomp.TERMINAL else 0
    assert on_x86_64("ioctl", 0, high & ~INT | request, rest) == expected


def test_terminal_requests(arch: str) -> None:
    """The same on each architecture, and the size of a terminal is still to be had."""
    assert answer(arch, "ioctl", 0, 0x5412) == answer(arch, "ioctl", 0, 0x541C) == errno.EPERM
    assert answer(arch, "ioctl", 0, 0x5413) == 0


@pytest.mark.parametrize("name", seccomp.MODES)
@given(mode=ARGUMENT, other=ARGUMENT)
def test_no_set_uid_bit_is_set(name: str, mode: int, other: int) -> None:
    """No file gets a set-uid or set-gid bit, whatever else is in the argument."""
    args = [other] * 4
    args[seccomp.MODES[name]] = mode
    assert on_x86_64(name, *args) == (errno.EPERM if mode & 0o6000 else 0)


@pytest.mark.parametrize("name", seccomp.CREATING)
@given(flags=ARGUMENT, mode=ARGUMENT)
def test_no_file_is_made_set_uid(name: str, flags: int, mode: int) -> None:
    """A mode counts only where the flags make a file; in other calls it is whatever the register held."""
    at_flags, at_mode = seccomp.CREATING[name]
    args = [0] * 4
    args[at_flags], args[at_mode] = flags, mode
    makes = flags & 0o100 or flags & 0o20000000
    assert on_x86_64(name, *args) == (errno.EPERM if makes and mode & 0o6000 else 0)


@on_each(*seccomp.MODES, *seccomp.CREATING)
def test_modes(arch: str, name: str) -> None:
    """The same on each architecture: ordinary modes pass, the sticky bit too."""
    at = seccomp.MODES.get(name) or seccomp.CREATING[name][1]
    args = [0o101] * 4
    for mode, expected in ((0o755, 0), (0o1777, 0), (0o4755, errno.EPERM), (0o2755, errno.EPERM)):
        args[at] = mode
        assert answer(arch, name, *args) == expected


STREAM, DGRAM, RAW, PACKET, CLOEXEC = 1, 2, 3, 10, 0o2000000


@pytest.mark.parametrize(
    ("family", "kind", "protocol", "passes"),
    [
        *((1, STREAM, 0, True), (1, DGRAM, 0, True), (1, 5, 0, True)),
        *((2, STREAM, 0, True), (2, DGRAM, 17, True), (10, STREAM | CLOEXEC, 6, True), (2, DGRAM, 1, True)),
        *((2, RAW, 1, False), (10, RAW | CLOEXEC, 58, False), (2, PACKET, 3, False)),
        *((16, RAW | CLOEXEC, 0, True), (16, DGRAM, 0, True)),
        *((16, RAW, 4, False), (16, RAW, 12, False), (16, DGRAM, 15, False), (16, RAW, 16, False)),
        *((17, RAW, 0, False), (40, STREAM, 0, False), (38, 5, 0, False), (30, 5, 0, False)),
        *((0, STREAM, 0, False), (29, RAW, 1, False), (31, RAW, 0, False), (44, DGRAM, 0, False)),
    ],
)
def test_sockets(arch: str, family: int, kind: int, protocol: int, passes: bool) -> None:
    """Sockets are local, of IP but raw, or of netlink's routes; no VSOCK (escape 45)."""
    expected = 0 if passes else errno.EPERM
    assert answer(arch, "socket", family, kind, protocol) == expected
    assert answer(arch, "socket", 1 << 40 | family, 1 << 33 | kind, 1 << 50 | protocol) == expected


@given(family=ARGUMENT, kind=ARGUMENT, protocol=ARGUMENT)
def test_sockets_of_any_arguments(family: int, kind: int, protocol: int) -> None:
    """The same for any arguments, of which the kernel looks at 32 bits."""
    passes = (
        family & INT == 1
        or (family & INT == 16 and protocol & INT == 0)
        or (family & INT in (2, 10) and kind & 0xF not in (RAW, PACKET))
    )
    assert on_x86_64("socket", family, kind, protocol) == (0 if passes else errno.EPERM)
    assert on_x86_64("socketpair", family, kind, protocol) == (0 if family & INT == 1 else errno.EPERM)


@given(st.integers(0, INT), st.sampled_from([bpf.I386, bpf.ARM, 0, bpf.AARCH64]))
def test_foreign_calls_end_the_process(number: int, arch: int) -> None:
    """`int 0x80`, and whatever else is not of this machine's own kind, ends with SIGSYS (escape 76)."""
    assert bpf.run(X86_64_PROGRAM, number, (), arch) == bpf.KILL


@given(st.integers(0x40000000, INT - 1))
def test_x32_ends_the_process(number: int) -> None:
    """The numbers of x32, by which the list could be walked around, end with SIGSYS (escape 76)."""
    assert bpf.run(X86_64_PROGRAM, number) == bpf.KILL


def test_numbers_of_x32_alone() -> None:
    """So do those that old kernels take without x32's bit: 514 is ioctl, 521 ptrace, 528 kexec_load there."""
    answers = {number: bpf.run(X86_64_PROGRAM, number) for number in range(505, 556)}
    assert {number for number, given in answers.items() if given == bpf.KILL} == set(range(512, 548))
    assert set(answers.values()) == {bpf.KILL, bpf.ALLOW}


def test_a_skipped_call_passes(arch: str) -> None:
    """The number -1 is that of a call which a tracer has skipped; the kernel itself says ENOSYS."""
    assert bpf.run(seccomp.program(allow_debug=True), -1, (), ARCHES[arch][1]) == bpf.ALLOW


def test_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the numbers of the calls are not known there is no sandbox."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxUnavailable, match="riscv64") as caught:
        seccomp.program(allow_debug=False)
    assert caught.value.reason == "seccomp"


def test_made_once() -> None:
    """The bytes are made once for each kind of filter."""
    assert seccomp.program(allow_debug=False) is seccomp.program(allow_debug=False)
    assert seccomp.program(allow_debug=False) != seccomp.program(allow_debug=True)
