"""Run a seccomp filter's classic BPF as the kernel does, to tell what it answers to one call."""

import struct
from collections.abc import Sequence

ALLOW = 0x7FFF0000
KILL = 0x80000000
X86_64, AARCH64, I386, ARM = 0xC000003E, 0xC00000B7, 0x40000003, 0x40000028

_LOAD, _AND, _RETURN, _JUMP = 0x20, 0x54, 0x06, 0x05
_TESTS = {
    0x15: lambda a, k: a == k,
    0x25: lambda a, k: a > k,
    0x35: lambda a, k: a >= k,
    0x45: lambda a, k: bool(a & k),
}
_MOST = 4096
"""Instructions; a longer program is refused by the kernel."""


def errno_of(answer: int) -> int:
    """Return the errno that a filter's answer means: 0 if the call is let through.

    Raises:
        AssertionError: it is neither.
    """
    if answer == ALLOW:
        return 0
    assert answer & 0xFFFF0000 == 0x00050000, hex(answer)
    return answer & 0xFFFF


def run(program: bytes, number: int, args: Sequence[int] = (), arch: int = X86_64) -> int:
    """Return a filter's answer to a call with up to six arguments of 64 bits.

    Raises:
        AssertionError: the kernel would not have taken the program.
    """
    insns = list(struct.iter_unpack("<HBBI", program))
    assert 0 < len(insns) <= _MOST
    filled = [*args, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(arg & (1 << 64) - 1 for arg in filled))
    accumulator = counter = 0
    while True:
        code, yes, no, value = insns[counter]  # an IndexError is a program that runs off its end
        counter += 1
        if code == _RETURN:
            return int(value)
        if code == _LOAD:
            assert value % 4 == 0
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == _AND:
            accumulator &= value
        elif code == _JUMP:
            counter += value
        else:
            counter += yes if _TESTS[code](accumulator, value) else no
