"""Own the connection file and the folders of a server: where they are, how written, found and checked.

Knows the file system only: no socket, no loop. What is read from a file is not trusted before it is checked,
and its key is never part of an error or a `repr`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import pwd
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from execzmq.errors import ConnectionFailed, InvalidRequest
from execzmq.settings import DEFAULT_NAME, VERSION

Channel: TypeAlias = Literal["shell", "control", "stdin", "iopub", "hb"]

SOCKET_PREFIX = "s"
"""First part of the sockets' file names in their folder; Jupyter's readers append `-PORT`."""

_MAX_FILE = 64 * 1024
_MAX_SOCKET_PATH = 100
"""A Unix socket's path has 108 bytes on Linux, 104 on macOS, and some go to its number."""
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


@dataclass(slots=True, frozen=True)
class ConnectionInfo:
    """What a connection file says; the fields are Jupyter's and ours.

    With transport `ipc`, `ip` is the prefix of the sockets' paths. `epoch` and `pid` are in local files only,
    the `curve_` fields (Z85) in files for tcp only.
    """

    transport: str
    ip: str
    shell_port: int
    control_port: int
    iopub_port: int
    stdin_port: int
    hb_port: int
    key: str = field(repr=False)
    signature_scheme: str = "hmac-sha256"
    kernel_name: str = "execzmq"
    host: str = ""
    hostname: str = ""
    role: str = "owner"
    version: str = VERSION
    curve_serverkey: str = ""
    curve_publickey: str = ""
    curve_secretkey: str = field(default="", repr=False)
    epoch: str = ""
    pid: int = 0

    @property
    def is_plain(self) -> bool:
        """Tell whether the key alone protects the messages on their way over a network."""
        return self.transport == "tcp" and not self.curve_serverkey

    def endpoint(self, channel: Channel) -> str:
        """Return the ZeroMQ address of one of the five sockets."""
        port = getattr(self, f"{channel}_port")
        if self.transport == "ipc":
            return f"ipc://{self.ip}-{port}"
        return f"{self.transport}://{f'[{self.ip}]' if ':' in self.ip else self.ip}:{port}"

    def socket_path(self, channel: Channel) -> str | None:
        """Return the path of one of the sockets, or `None` where the transport has no paths."""
        return self.endpoint(channel).removeprefix("ipc://") if self.transport == "ipc" else None


def share_id_of(publickey: str) -> str:
    """Name the share whose holder has this public key; there is no `-` in it."""
    return hashlib.sha256(publickey.encode()).hexdigest()[:12]


def write_connection_file(path: str | Path, info: ConnectionInfo) -> None:
    """Write `info` as one whole file that only its owner may read; replace what is there.

    Missing parents are made 0700. Readers see the old file or the new one, nothing between; but on a full
    disk the old file is written over, if it has the room.

    Raises:
        ConnectionFailed: the file system does not keep other users from reading it.
        OSError: it could not be written.
    """
    path = Path(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = {name: value for name, value in asdict(info).items() if value not in ("", 0) or name == "key"}
    data = json.dumps(content, indent=2).encode() + b"\n"
    try:
        write_private(path, data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not _write_over(path, data):
            raise


def write_private(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a whole file that only its owner may read; what is there stays until it is replaced.

    Args:
        durable: return when it would survive a loss of power.

    Raises:
        ConnectionFailed: the file system does not keep other users from reading it.
        OSError: it could not be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            _refuse_readable(path, os.fstat(fd))
            file.write(data)
            if durable:
                file.flush()
                os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_over(path: Path, data: bytes) -> bool:
    """Write into the room of the file that is there, if it is its owner's alone; return whether it could."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with open(fd, "wb", buffering=0) as file, contextlib.suppress(OSError):
        status = os.fstat(fd)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
        if is_own and file.write(data) == len(data):
            file.truncate()
            return True
    return False


def remove_connection_file(path: str | Path, *, pid: int, epoch: str) -> bool:
    """Remove the file if it is the one that server `pid` with `epoch` wrote; return whether it was."""
    try:
        info = load(path)
        if (info.pid, info.epoch) != (pid, epoch):
            return False
        os.unlink(path)
    except (ConnectionFailed, FileNotFoundError):
        return False
    return True


def load(path: str | Path) -> ConnectionInfo:
    """Read and check a connection file.

    Raises:
        ConnectionFailed: it is missing, not a regular file of this user's that nobody else may read, too
            large, or not what a connection file holds.
    """
    try:
        # A FIFO would block the open.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConnectionFailed(f"cannot read connection file {path}: {error.strerror}") from None
    try:
        _check_ownership(path, os.fstat(fd))
        content = os.read(fd, _MAX_FILE + 1)
    finally:
        os.close(fd)
    if len(content) > _MAX_FILE:
        raise ConnectionFailed(f"connection file {path} is larger than {_MAX_FILE} bytes")
    return parse(f"connection file {path}", content)


def find(name_or_path: str | Path = DEFAULT_NAME) -> Path:
    """Return the connection file of a server: a path if there is a `/` in it, else that of the name.

    A name is looked for in the state folder of this host first, then in Jupyter's runtime folder: a home may
    be shared by several hosts.

    Raises:
        ConnectionFailed: there is none. InvalidRequest: it is no name, and no path that is told from one.
    """
    text = os.fspath(name_or_path)
    if "/" not in text and "." in text:
        raise InvalidRequest(f"{text!r} is no name: for the connection file of that path write ./{text}")
    if "/" in text:
        candidates = [Path(text).expanduser()]
    else:
        candidates = [state_folder(text) / "connection.json", runtime_file(text)]
    for path in candidates:
        if path.exists():
            return path
    raise ConnectionFailed(f"no server {text!r}: there is no {' and no '.join(map(str, candidates))}")


def runtime_file(name: str) -> Path:
    """Return where the connection file of a server lies among Jupyter's."""
    return jupyter_runtime_folder() / f"execzmq-{check_name(name)}.json"


def state_folder(name: str) -> Path:
    """Return the folder with the state of the server `name` on this host; it is not made."""
    base = _xdg("XDG_STATE_HOME", ".local/state")
    return base / "execzmq" / os.uname().nodename.replace("/", "_") / check_name(name)


def socket_folder(name: str) -> Path:
    """Return the folder for the sockets of the server `name`; it is not made.

    Where there is no runtime folder of this user's, or a path in it would be too long for a socket, it is one
    under /tmp that is named after the state folder.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime) / "execzmq" / check_name(name)
    if os.path.isabs(runtime) and _is_private(runtime) and _fits(folder):
        return folder
    digest = hashlib.sha256(os.fsencode(state_folder(name))).hexdigest()
    return Path("/tmp") / f"execzmq-{os.getuid()}" / digest[:16]


def hidden_folders() -> list[Path]:
    """Return where servers of this user have their sockets, state and connection files: no sandbox sees them.

    Those of other Jupyter kernels are among them, which would run what they are sent, and the usual places of
    servers that were started with other variables.
    """
    sockets, state = socket_folder(DEFAULT_NAME).parent, _xdg("XDG_STATE_HOME", ".local/state") / "execzmq"
    usual = [Path(f"/run/user/{os.getuid()}/execzmq"), Path(f"/tmp/execzmq-{os.getuid()}")]
    for home in dict.fromkeys((Path.home(), Path(os.path.expanduser(f"~{_user_name()}")))):
        usual += [home / ".local/state/execzmq", home / ".local/share/jupyter/runtime"]
    folders = [sockets, state, jupyter_runtime_folder(), *usual]
    return list(dict.fromkeys(folder for folder in folders if folder.is_absolute()))


def _user_name() -> str:
    """Return the name under which the system knows this user, empty where it does not."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def shared_folder() -> Path:
    """Make, and return, a folder that all programs of this user on this machine share.

    Raises:
        ConnectionFailed: it is a link or belongs to somebody else.
    """
    return private_folder(f"/tmp/execzmq-{os.getuid()}")


def private_folder(path: str | Path) -> Path:
    """Make a folder and its missing parents 0700; check that it and its parent are out of others' reach.

    A folder of this user's that is open to others is closed to them.

    Raises:
        ConnectionFailed: it is a link or belongs to somebody else.
    """
    path = Path(path)
    for folder in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    for folder in (path.parent, path):
        if folder == path or folder.name.startswith("execzmq"):
            _close_to_others(folder)
    return path


def jupyter_runtime_folder() -> Path:
    """Return the folder in which Jupyter keeps connection files, without loading Jupyter."""
    if runtime := os.environ.get("JUPYTER_RUNTIME_DIR"):
        return Path(runtime)
    if data := os.environ.get("JUPYTER_DATA_DIR"):
        return Path(data) / "runtime"
    if sys.platform == "darwin":
        return Path.home().resolve() / "Library" / "Jupyter" / "runtime"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home().resolve() / ".local" / "share") / "jupyter" / "runtime"


def host_id() -> str:
    """Name this machine since its boot and the mounts that this process sees.

    Two processes with the same value mean the same file by the same path.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/mnt')}"
    except OSError:
        return os.uname().nodename


def folder_is_ours(path: str | Path) -> bool:
    """Tell whether `path` is a real folder of this user's with mode 0700."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def check_name(name: str) -> str:
    """Return a server's or a process's name if it is one.

    Raises:
        InvalidRequest: it has other characters than letters, digits, `_` and `-`, or not 1 to 64 of them.
    """
    if not 1 <= len(name) <= 64 or not _NAME.issuperset(name):
        raise InvalidRequest(f"{name!r} is no name: 1 to 64 letters, digits, '_' and '-' of ASCII are")
    return name


def _xdg(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    return Path(value) if os.path.isabs(value) else Path.home() / default


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / f"{SOCKET_PREFIX}-65535")) <= _MAX_SOCKET_PATH


def _is_private(folder: str) -> bool:
    try:
        status = os.stat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _close_to_others(folder: Path) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ConnectionFailed(f"{folder} is not a folder of this user's: remove it or have it removed")
    if status.st_mode & 0o077:
        os.chmod(folder, 0o700)


def _refuse_readable(path: Path, status: os.stat_result) -> None:
    if status.st_mode & 0o077:
        remedy = "choose a folder of another one, such as your home"
        raise ConnectionFailed(f"the file system of {path} cannot hide a file from others: {remedy}")


def _check_ownership(path: str | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConnectionFailed(f"connection file {path} is not a regular file")
    if status.st_uid != os.getuid():
        raise ConnectionFailed(f"connection file {path} belongs to user {status.st_uid}, not to this one")
    if status.st_mode & 0o077:
        remedy = "chmod 600 it if it is yours, or copy it to where that has an effect"
        raise ConnectionFailed(f"connection file {path} is open to other users: {remedy}")


def parse(origin: str, content: bytes) -> ConnectionInfo:
    """Check the content of a connection file.

    Args:
        origin: whose content it is, for errors.

    Raises:
        ConnectionFailed: it is not what a connection file holds.
    """
    try:
        loaded = json.loads(content)
    except (ValueError, RecursionError):
        raise ConnectionFailed(f"{origin} is not JSON") from None
    if not isinstance(loaded, dict):
        raise ConnectionFailed(f"{origin} is not a JSON object")
    problem = next(_problems(loaded), None)
    if problem is not None:
        raise ConnectionFailed(f"{origin}: {problem}")
    known = {one.name for one in fields(ConnectionInfo)}
    return ConnectionInfo(**{name: value for name, value in loaded.items() if name in known})


def _problems(loaded: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong, naming fields and never their values."""
    for one in fields(ConnectionInfo):
        wanted = int if one.type == "int" else str
        value = loaded.get(one.name)
        if value is None:
            if one.name in _REQUIRED or one.name in loaded:
                yield f"{one.name} is missing"
        elif not isinstance(value, wanted) or isinstance(value, bool):
            yield f"{one.name} is not {'an integer' if wanted is int else 'a string'}"
        elif isinstance(value, int) and one.name.endswith("_port") and not 0 < value < 65536:
            yield f"{one.name} is not a port"
    if loaded.get("transport") not in ("ipc", "tcp"):
        yield "transport is neither ipc nor tcp"
    if loaded.get("signature_scheme", "hmac-sha256") != "hmac-sha256":
        yield "signature_scheme is not hmac-sha256"
    if loaded.get("kernel_name", "execzmq") != "execzmq":
        yield "it is the file of another kind of kernel"
    yield from _key_problems(loaded)


def _key_problems(loaded: dict[str, Any]) -> Iterator[str]:
    keys = [loaded.get(name, "") for name in _CURVE]
    if any(keys):
        if loaded.get("transport") != "tcp":
            yield "CURVE keys are for tcp alone"
        elif not all(isinstance(key, str) and _Z85.fullmatch(key) for key in keys):
            yield "the three CURVE keys belong together, and each has 40 characters"
    elif loaded.get("transport") == "tcp" and not loaded.get("key"):
        yield "nothing in it says who may speak: it has neither CURVE keys nor a key"


_CURVE = ("curve_serverkey", "curve_publickey", "curve_secretkey")
_Z85 = re.compile(r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")


_REQUIRED = {"transport", "ip", "shell_port", "control_port", "iopub_port", "stdin_port", "hb_port", "key"}
