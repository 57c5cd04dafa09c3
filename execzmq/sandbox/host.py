"""Own what a sandbox takes from this machine besides what is asked for: its base, as data.

The same for every command, so it is looked up once; knows no permissions and no request.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass

from execzmq.sandbox.layers import OWN_FOLDERS, SYSTEM_FOLDERS, is_within
from execzmq.sandbox.model import Mount

_SETTINGS = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "passwd",
    "group",
    "nsswitch.conf",
    "hosts",
    "host.conf",
    "gai.conf",
    "protocols",
    "services",
    "localtime",
    "timezone",
    "locale.alias",
    "locale.conf",
    "os-release",
    "debian_version",
    "mime.types",
    "magic",
    "inputrc",
    "terminfo",
    "fonts",
    "perl",
    "python3*",
    "java-*",
    "ca-certificates",
    "ca-certificates.conf",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "crypto-policies",
)
"""Of `/etc`, what everyday programs read: no password, no key, no id of the machine."""

_RESOLVER = b"/etc/resolv.conf"

_KERNEL = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/fs",
    "/proc/mtrr",
    "/proc/sysrq-trigger",
    "/proc/latency_stats",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
)
"""What the kernel shows to root only, so that there is nothing to hide from anyone else."""


@dataclass(slots=True, frozen=True)
class Host:
    """What of this machine a sandbox is built on.

    Args:
        links: name and target of each system folder that is a link, such as `/bin`.
        folders: system folders.
        settings: files and folders of `/etc`, for the minimal base.
        resolver: the file that says who resolves names, and the path at which it is expected.
        own: those of the folders that a command has for itself which are there, and no links.
        masks: what is hidden from a server that is root.
    """

    links: tuple[tuple[bytes, bytes], ...]
    folders: tuple[bytes, ...]
    settings: tuple[bytes, ...]
    resolver: tuple[bytes, bytes] | None
    own: tuple[bytes, ...]
    masks: tuple[Mount, ...]


def look_up(*, is_root: bool) -> Host:
    """Return what this machine has.

    Args:
        is_root: whether the server's user is root.
    """
    system = [path for path in SYSTEM_FOLDERS if os.path.isdir(path)]
    return Host(
        links=tuple((path, os.readlink(path)) for path in system if os.path.islink(path)),
        folders=tuple(path for path in system if not os.path.islink(path)),
        settings=tuple(os.fsencode(path) for name in _SETTINGS for path in sorted(glob.glob(f"/etc/{name}"))),
        resolver=_resolver(),
        own=tuple(path for path in OWN_FOLDERS if os.path.isdir(path) and not os.path.islink(path)),
        masks=tuple(_mask(path) for path in _KERNEL if is_root and os.path.exists(path)),
    )


def _resolver() -> tuple[bytes, bytes] | None:
    """Return where the resolver's file really is: often below `/run`, which a command does not see."""
    if not os.path.isfile(_RESOLVER):
        return None
    real = os.path.realpath(_RESOLVER)
    return real, real if is_within(real, OWN_FOLDERS) else _RESOLVER


def _mask(path: str) -> Mount:
    return Mount(os.fsencode(path), "deny", os.path.isdir(path))
