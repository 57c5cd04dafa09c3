"""Where a folder is seen a second time, as the kernel's list of mounts tells it: pure."""

from execzmq.sandbox.mountinfo import MountTable

LINES = b"""22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:20 / /tmp rw shared:2 - tmpfs tmpfs rw
31 22 254:0 /home/u /mnt/u rw - ext4 /dev/vda rw
32 22 254:0 /home/u/state/in /mnt/in\\040here rw - ext4 /dev/vda rw
33 22 254:16 / /home/v rw - ext4 /dev/vdb rw
cut off
"""


TABLE = MountTable(LINES)


def test_aliases() -> None:
    """A mount of a folder above shows all of it, one of a folder in it that part; names are unescaped."""
    found = set(TABLE.aliases(b"/home/u/state"))
    assert found == {(b"/home/u/state", b"/mnt/u/state"), (b"/home/u/state/in", b"/mnt/in here")}
    assert set(TABLE.aliases(b"/mnt/u/state")) >= {(b"/mnt/u/state", b"/home/u/state")}


def test_no_aliases() -> None:
    """Another file system with the same names is not the same; a line that is none is left out."""
    assert not list(TABLE.aliases(b"/home/v/state"))
    assert not list(TABLE.aliases(b"/tmp/x"))
    assert not list(MountTable(b"cut off\n").aliases(b"/x"))


def test_shared_mounts() -> None:
    """Copies get what is mounted later where a mount is shared, but for where every sandbox has its own."""
    line = b"34 22 0:21 / %b rw %b - tmpfs tmpfs rw\n"
    assert not MountTable(line % (b"/media", b"shared")).are_shared
    assert not MountTable(line % (b"/run/x", b"master:2")).are_shared
    assert MountTable(line % (b"/run/x", b"shared:1") + line % (b"/media", b"shared:3")).are_shared
    assert TABLE.are_shared
