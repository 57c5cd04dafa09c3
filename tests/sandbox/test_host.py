"""What this machine offers as the base of a sandbox."""

import os

from execzmq.sandbox import host


def test_facts() -> None:
    """System folders are folders or links, settings exist, and nothing secret is among them."""
    found = host.look_up(is_root=True)
    assert b"/usr" in found.folders
    assert all(os.readlink(path) == target for path, target in found.links)
    assert b"/etc/passwd" in found.settings
    assert not {b"/etc/shadow", b"/etc/ssl", b"/etc/ssl/private", b"/etc/ssh"} & set(found.settings)
    assert b"/tmp" in found.own
    assert all(mask.path.startswith((b"/proc/", b"/sys/")) for mask in found.masks)


def test_only_root_has_something_to_mask() -> None:
    """The kernel hides from others what is masked for root."""
    assert host.look_up(is_root=False).masks == ()


def test_resolver(monkeypatch) -> None:
    """A resolver's file below `/run` is shown where it is; any other where it is expected."""
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    monkeypatch.setattr(os.path, "realpath", lambda path: b"/run/x/stub.conf")
    assert host.look_up(is_root=False).resolver == (b"/run/x/stub.conf", b"/run/x/stub.conf")
    monkeypatch.setattr(os.path, "realpath", lambda path: b"/etc/resolv.real")
    assert host.look_up(is_root=False).resolver == (b"/etc/resolv.real", b"/etc/resolv.conf")
    monkeypatch.setattr(os.path, "isfile", lambda path: False)
    assert host.look_up(is_root=False).resolver is None
