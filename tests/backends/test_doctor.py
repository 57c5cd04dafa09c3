"""The look at what a server stands on."""

import asyncio
import os
import resource
import threading
from pathlib import Path

import pytest

from execzmq.backends import doctor
from execzmq.backends.doctor import Examiner, examine
from execzmq.keeper import landlock
from execzmq.process.journal import Journal
from execzmq.types.finding import Finding
from tests.support import deadline


def find(folder: Path, name: str) -> Finding:
    """Return one finding."""
    (found,) = (finding for finding in examine(folder) if finding.name == name)
    return found


def test_good_folder(short_tmp: Path) -> None:
    """A private folder is well, and the versions are named."""
    assert find(short_tmp, "state folder").ok
    assert "libzmq" in find(short_tmp, "versions").text


def test_folder_that_others_can_read(short_tmp: Path) -> None:
    """A folder that others can read is not, and it is said what to do."""
    short_tmp.chmod(0o755)
    finding = find(short_tmp, "state folder")
    assert not finding.ok
    assert "chmod 700" in finding.remedy
    assert finding.to_dict()["ok"] is False


def test_missing_folder(short_tmp: Path) -> None:
    """A folder that is not there is told, and breaks nothing else."""
    missing = short_tmp / "no"
    assert not find(missing, "state folder").ok
    assert not find(missing, "disk").ok


def test_little_disk(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with little room is told."""
    monkeypatch.setattr(doctor, "_FREE", 1 << 62)
    finding = find(short_tmp, "disk")
    assert not finding.ok
    assert finding.remedy


def test_journal(short_tmp: Path) -> None:
    """Damaged lines are told; a torn last one is none, since a server that is killed leaves it."""
    assert find(short_tmp, "journal").ok
    path = short_tmp / "journal"
    written = Journal(path)
    for number in range(3):
        written.append({"kind": "start", "process_id": "p", "instance": number})
    written.close()
    assert find(short_tmp, "journal").text == "3 records"
    data = path.read_bytes()
    path.write_bytes(data + data[:10])
    assert find(short_tmp, "journal").ok
    path.write_bytes(b"x" + data)
    finding = find(short_tmp, "journal")
    assert (finding.ok, finding.text) == (False, "1 damaged lines beside 2 records")
    assert finding.remedy
    path.unlink()
    path.mkdir()
    assert not find(short_tmp, "journal").ok


@pytest.mark.parametrize(
    ("limits", "ok"),
    [((1024, 4096), True), ((256, 256), False), ((1024, resource.RLIM_INFINITY), True)],
)
def test_descriptors(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], ok: bool
) -> None:
    """What counts for descriptors is how far the limit can be raised."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    assert find(short_tmp, "descriptors").ok is ok


@pytest.mark.parametrize(("limit", "ok"), [(resource.RLIM_INFINITY, True), (512, True), (100, False)])
def test_processes(short_tmp: Path, monkeypatch: pytest.MonkeyPatch, limit: int, ok: bool) -> None:
    """Too few processes allowed are told."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert find(short_tmp, "processes").ok is ok


def test_a_file_system_that_hangs_does_not_hold_up_the_end_of_the_loop(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does who asks again meanwhile cost another thread."""
    hangs = threading.Event()
    begun = threading.Semaphore(0)

    def hang(_: Path) -> list[Finding]:
        begun.release()
        hangs.wait()
        return []

    monkeypatch.setattr(doctor, "examine", hang)

    async def ask() -> None:
        examiner = Examiner(short_tmp)
        asking = [asyncio.ensure_future(examiner.examine()) for _ in range(3)]
        await asyncio.sleep(0)
        begun.acquire()
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)

    try:
        ended = threading.Thread(target=asyncio.run, args=(ask(),))
        ended.start()
        ended.join(deadline(10).left())
        assert not ended.is_alive()
        assert not begun.acquire(blocking=False)
    finally:
        hangs.set()


async def test_the_examiner_tells_what_was_found_and_what_failed(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To whoever waits, and looks anew for who comes later."""
    examiner = Examiner(short_tmp)
    assert [finding.name for finding in await examiner.examine()][:2] == ["versions", "state folder"]
    monkeypatch.setattr(doctor, "examine", lambda folder: [][0])
    with pytest.raises(IndexError):
        await examiner.examine()


async def test_the_examiner_looks_at_what_else_it_is_given(short_tmp: Path) -> None:
    """What a server adds, as the look at its sandbox, comes last."""
    further = Finding("sandbox: start", False, "none", "do this")
    assert (await Examiner(short_tmp, lambda: [further]).examine())[-1] == further


@pytest.mark.parametrize(("abi", "says"), [(0, "not there: with"), (5, "ABI 5: with"), (6, "ABI 6: also")])
def test_landlock(short_tmp: Path, monkeypatch: pytest.MonkeyPatch, abi: int, says: str) -> None:
    """Whether abstract sockets are held back in the host's network is told; it is no fault of the machine."""
    monkeypatch.setattr(landlock, "abi", lambda: abi)
    found = find(short_tmp, "Landlock")
    assert found.ok
    assert found.text.startswith(says)


@pytest.mark.parametrize(
    ("shared", "can", "says"),
    [
        (False, "", "this host hands none on"),
        (True, "True", "a sandbox sees what was there at its start, and nothing"),
        (True, "False", "a sandbox sees what is mounted while its command runs"),
        (True, "1/0", "a sandbox sees what is mounted while its command runs"),
    ],
)
def test_later_mounts(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, can: str, says: str
) -> None:
    """Where a start falls back to the weaker way it is told; it is no fault of the machine."""
    monkeypatch.setattr(doctor, "mounts_are_shared", lambda: shared)
    monkeypatch.setattr(doctor, "_DETACH", f"import sys; sys.exit(not {can})")
    found = find(short_tmp, "later mounts")
    assert found.ok
    assert found.text.startswith(says)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can in any case")
def test_mounts_of_ones_own_are_tried(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The try is the step of a real start, and changes nothing for who tries."""
    before = os.readlink("/proc/self/ns/mnt")
    monkeypatch.setattr(doctor, "mounts_are_shared", lambda: True)
    assert "nothing that comes later" in find(short_tmp, "later mounts").text
    assert os.readlink("/proc/self/ns/mnt") == before


@pytest.mark.parametrize(("uid", "says"), [(0, "root without any capability"), (1000, "user 1000")])
def test_user(short_tmp: Path, monkeypatch: pytest.MonkeyPatch, uid: int, says: str) -> None:
    """What a sandbox of root's still lets through is said plainly."""
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert says in find(short_tmp, "user").text
