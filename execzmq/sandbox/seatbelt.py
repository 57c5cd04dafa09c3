"""Own what macOS is told of a sandbox: the text of a profile, and the command line that applies it. Pure.

No path is ever part of the text: each is a parameter, so that none can add a rule. Where rules differ the
later one wins. There are no mounts and no namespaces on macOS: a folder for temporary files has to be made,
and what leaves its process group has to be found by whoever ends a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from execzmq.sandbox.model import Mount, Network, Permissions, View

PROGRAM = b"/usr/bin/sandbox-exec"


class Profile(NamedTuple):
    """A profile and its parameters.

    Attributes:
        text: in the language of sandbox(7); ASCII.
        parameters: name to path.
    """

    text: str
    parameters: dict[str, bytes]


def command(profile: Profile, argv: Sequence[bytes]) -> list[bytes]:
    """Return the command line that runs a command under a profile."""
    given = [b"-D%b=%b" % (name.encode(), path) for name, path in profile.parameters.items()]
    return [PROGRAM, b"-p", profile.text.encode(), *given, b"--", *argv]


def profile(permissions: Permissions, view: View, *, tmp: bytes, proxy_port: int | None = None) -> Profile:
    """Return what enforces permissions.

    Args:
        permissions: what the command may do.
        view: its places, outer before inner, with symlinks resolved (`/tmp` is `/private/tmp`).
        tmp: a folder of the command's own for temporary files.
        proxy_port: where this host's proxy listens, with the network `proxy`.
    """
    names = _Parameters()
    sections = [
        _BASE,
        _reads(permissions, view.mounts, names),
        _writes(view.mounts, tmp, names),
        _denied(view.mounts, names),
        _kept(view.mounts, names),
        _network(permissions.network, proxy_port),
    ]
    return Profile("\n".join(section for section in sections if section), dict(names.paths))


class _Parameters:
    """Gives each path a name, always the same for the same path."""

    def __init__(self) -> None:
        self.paths: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}

    def of(self, path: bytes, kind: str) -> str:
        """Return how a rule names a path; a path that was named before keeps the kind that it had."""
        if path not in self._names:
            number = sum(name.startswith(f"{kind}_") for name in self.paths)
            self._names[path] = f"{kind}_{number}"
            self.paths[self._names[path]] = path
        return f'(param "{self._names[path]}")'


def _reads(permissions: Permissions, mounts: Sequence[Mount], names: _Parameters) -> str:
    if permissions.read == "host":
        return "; reads\n(allow file-read*)"
    shown = [_whole(names.of(mount.path, _KIND[mount.access])) for mount in mounts if mount.access != "deny"]
    return f"; reads\n(allow file-read*\n{_SYSTEM}\n{_lines(shown)})"


def _writes(mounts: Sequence[Mount], tmp: bytes, names: _Parameters) -> str:
    """Let roots be written but for what is kept in them, as a name too, else a missing one could be made."""
    rules = ["; writes", f"(allow file-read* file-write*\n{_lines([_whole(names.of(tmp, 'TMP'))])})"]
    for root in (mount for mount in mounts if mount.access == "write"):
        kept = [names.of(one.path, _KIND[one.access]) for one in mounts if _is_kept_in(one, root)]
        wanted = [f"(subpath {names.of(root.path, _KIND['write'])})"]
        wanted += [f"(require-not ({how} {name}))" for name in kept for how in ("literal", "subpath")]
        rules.append(f"(allow file-write* (require-all\n{_lines(wanted)}))")
    return "\n".join(rules)


def _denied(mounts: Sequence[Mount], names: _Parameters) -> str:
    """Deny in the order of the view; what is shown inside of a denied place comes after it."""
    rules = []
    for mount in mounts:
        if mount.access == "deny":
            denied = _whole(names.of(mount.path, _KIND["deny"]))
            rules.append(f"(deny file-read* file-write*\n{_lines([denied])})")
        elif any(one.access == "deny" and _is_below(mount.path, one.path) for one in mounts):
            shown = _whole(names.of(mount.path, _KIND[mount.access]))
            rules.append(f"(allow file-read*\n{_lines([shown])})")
    return "\n".join(["; denied", *rules]) if rules else ""


def _kept(mounts: Sequence[Mount], names: _Parameters) -> str:
    """Keep what is protected, and the folders above it, from being moved for another to take its place."""
    roots = [mount for mount in mounts if mount.access == "write"]
    stay = {
        path: None for root in roots for one in mounts if _is_kept_in(one, root) for path in _up_to(one, root)
    }
    if not stay:
        return ""
    places = [f"(literal {names.of(path, 'KEPT')})" for path in sorted(stay)]
    return f"; kept in their place\n(deny file-write-unlink\n{_lines(places)})"


def _network(network: Network, proxy_port: int | None) -> str:
    if network.mode == "none":
        return ""
    if network.mode == "proxy":
        port = 0 if proxy_port is None else int(proxy_port)
        return (
            f'; network: the proxy\n(allow network-outbound (remote ip "localhost:{port}"))' if port else ""
        )
    rules = [f"; network: {network.mode}", _INTERNET]
    if network.mode == "internet":
        rules.append('(deny network-outbound (remote ip "localhost:*"))')
    else:
        rules.append('(allow network-bind network-inbound (local ip "*:*"))')
    return "\n".join(rules)


_KIND = {"write": "WRITABLE_ROOT", "read": "READABLE", "deny": "DENIED"}


def _is_kept_in(mount: Mount, root: Mount) -> bool:
    return mount.access != "write" and _is_below(mount.path, root.path)


def _is_below(path: bytes, above: bytes) -> bool:
    return path != above and path.startswith(above.rstrip(b"/") + b"/")


def _up_to(mount: Mount, root: Mount) -> Iterable[bytes]:
    """Return a path and those above it, the root itself as the last."""
    path = mount.path
    while path != root.path:
        yield path
        path = path.rpartition(b"/")[0] or b"/"
    yield path


def _whole(name: str) -> str:
    return f"(literal {name}) (subpath {name})"


def _lines(filters: Iterable[str]) -> str:
    return "\n".join(f"  {one}" for one in filters)


_SYSTEM = _lines(
    [
        *(
            f'(literal "{path}")'
            for path in ("/", "/private", "/private/var", "/var", "/tmp", "/etc", "/dev")
        ),
        *(f'(subpath "{path}")' for path in ("/usr", "/bin", "/sbin", "/System", "/Library/Apple")),
        *(f'(subpath "{path}")' for path in ("/Library/Developer", "/opt", "/private/etc")),
        *(f'(subpath "{path}")' for path in ("/private/var/db/timezone", "/private/var/db/dyld")),
        *(f'(subpath "{path}")' for path in ("/private/var/select",)),
    ]
)
_SYSCTLS = _lines(
    [
        *(f'(sysctl-name-prefix "{prefix}")' for prefix in ("hw.", "machdep.cpu.", "net.routetable.")),
        *(f'(sysctl-name "kern.{name}")' for name in ("argmax", "hostname", "maxfilesperproc", "maxproc")),
        *(
            f'(sysctl-name "kern.{name}")'
            for name in ("osproductversion", "osrelease", "ostype", "osversion")
        ),
        *(f'(sysctl-name "kern.{name}")' for name in ("osvariant_status", "secure_kernel", "usrstack64")),
        *(f'(sysctl-name "kern.{name}")' for name in ("version", "boottime", "ngroups", "proc.all")),
        '(sysctl-name "sysctl.proc_cputype")',
        '(sysctl-name "vm.loadavg")',
    ]
)
_BASE = f"""\
(version 1)
(deny default)
; processes: those of the sandbox
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
; what programs ask of the system
(allow sysctl-read
{_SYSCTLS})
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.cfprefsd.agent")
  (global-name "com.apple.cfprefsd.daemon")
  (global-name "com.apple.PowerManagement.control"))
(allow ipc-posix-sem)
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* file-write-data (subpath "/dev/fd"))
; terminals
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl
  (literal "/dev/ptmx") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))"""
_INTERNET = """\
(allow network-outbound (remote ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd.agent"))"""
