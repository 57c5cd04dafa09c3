"""Own how programs word a refusal: from the ends of two streams to complaints. Pure.

A complaint says which error a line tells, of which paths, and how much speaks for its being why the command
failed. It knows nothing of sandboxes: whose refusal it was is decided elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from execzmq.sandbox.sight import Reach

Stream = Literal["stdout", "stderr"]

_KINDS = {
    "read_only": (
        r"read-only file ?system|\bEROFS\b|\[Errno 30\]|os error 30\b|attempt to write a readonly database"
    ),
    "cross_device": r"cross-device link|\bEXDEV\b|\[Errno 18\]|os error 18\b",
    "busy": r"device or resource busy|\bEBUSY\b|\[Errno 16\]|os error 16\b",
    "no_space": r"no space left on device|\bENOSPC\b|\[Errno 28\]|os error 28\b",
    "unresolved": (
        r"temporary failure (?:in name resolution|resolving)|could(?:n't| not) resolve (?:host|proxy)"
        r"|unable to resolve host|\bEAI_AGAIN\b|\bENOTFOUND\b|UnknownHostException|name or service not known"
        r"|failed to lookup address|no address associated with hostname|\[Errno -[235]\]"
        r"|\blookup \S+(?: on \S+)?: "
    ),
    "proxied": r"execzmq: \S+ is not allowed: |execzmq: \S+ is at \S+, which is ",
    "unreachable": (
        r"network is unreachable|\bENETUNREACH\b|\[Errno 101\]|os error 101\b"
        r"|no route to host|\bEHOSTUNREACH\b"
    ),
    "refused": (
        r"connection refused|\bECONNREFUSED\b|\[Errno 111\]|os error 111\b|failed to connect to \S+ port \d+"
    ),
    "not_permitted": (
        r"operation not permitted|\bEPERM\b|\[Errno 1\]|os error 1\b|must be (?:superuser|root)"
        r"|no new privileges|no permissions to create new namespace"
    ),
    "denied": r"permission denied|\bEACCES\b|\[Errno 13\]|os error 13\b|AccessDeniedException",
    "missing": (
        r"no such file or directory|\bENOENT\b|\[Errno 2\]|os error 2\b|NoSuchFileException|: not found\b"
        r"|cannot find module|does not exist\b"
    ),
    "invalid": r"invalid argument|\bEINVAL\b|\[Errno 22\]|os error 22\b",
    "not_implemented": r"function not implemented|\bENOSYS\b|\[Errno 38\]|os error 38\b",
}
_KIND = re.compile("|".join(f"(?P<{name}>{words})" for name, words in _KINDS.items()), re.IGNORECASE)
_NEEDED = (
    *("read-only", "readonly", "errno", "os error", "cross-device", "busy", "space left", "no such file"),
    *("resol", "name or service", "unknownhost", "lookup", "associated", "unreachable", "no route"),
    *("refused", "connect to", "not permitted", "must be", "no new privileges", "no permissions", "denied"),
    *(
        "execzmq: ",
        "not found",
        "find module",
        "does not exist",
        "invalid argument",
        "not implemented",
        " open",
        " cd to",
    ),
    *("erofs", "exdev", "ebusy", "enospc", "eai_again", "enotfound", "enetunreach", "ehostunreach", "enosys"),
    *("econnrefused", "eperm", "eacces", "enoent", "einval", "nosuchfile"),
)
"""One of these is in every line that a kind matches: looking for words is far cheaper than for patterns."""

_UNOPENED = re.compile(
    r"(?:couldn't|could not|can't|cannot|unable to|failed to) (?:open|cd to)\b", re.IGNORECASE
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PROGRAM = re.compile(r"^\s*\S+: ")
_RETURNS = re.compile(r"\r+\n?")
_FOLDED = re.compile(r" ?\nWarning: (?=[a-z])")
_QUOTED = re.compile(
    r"(?<!\w)'([^']+)'|\"([^\"]+)\"|`([^`']+)[`']|\u2018([^\u2019]+)\u2019|\u201c([^\u201d]+)\u201d"
)
_REMOVES = re.compile(r"remov|unlink|renam|\bmov(?:e|ing)\b|rmdir|delet|replace| -> ", re.IGNORECASE)
_WRITES = re.compile(
    r"creat|touch|mkdir|make dir|writ|append|copy|mknod|save|extract|lock|output|database", re.IGNORECASE
)
_GAVE_UP = re.compile(r"curl: \(23\)|\s*ERROR: Could not find a version .*\(from versions: none\)")
"""What says that the warning before it was why: of curl, and of pip, which only warns of an index."""
_COPIES = re.compile(
    r"\b(?:copy|copying|copyfile|link|symlink)\b.*?(['\"]) (?:to|->) (['\"])([^'\"]+)\2", re.IGNORECASE
)
_WARNS = re.compile(
    r"\bwarn(?:ing)?s?\b|warning:|\bnotice\b|\bnote:|\binfo\b|\bdebug\b|\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b"
    r"|\bdisabled\b|falling back|fallback|\bcontinuing\b|\bretry|\boptional\b|\bnon-fatal\b",
    re.IGNORECASE,
)
_OTHER_END = re.compile(
    r"^(?:E +)?(?:\w+\.)*(?:Assertion|Syntax|Name|Type|Value|Key|Attribute|Import|ModuleNotFound|Index"
    r"|ZeroDivision|Recursion|Unicode\w*|Reference|Range|JSONDecode)Error\b|^(?:E +)?assert "
    r"|(?<!collect2): error: |\bassertion failed|undefined reference|syntax error|\bpanicked at"
    r"|segmentation fault|^FAIL(?:ED|URE)?(?:: | (?!\(errors=))|\bno rule to make",
    re.IGNORECASE,
)
_CHAINED = re.compile(r"^(?:During handling of the above|The above exception was the direct cause)")
_QUOTES_OTHERS = re.compile(r"^(?:[<>|]|[-+](?!-)|\d+[:-])")
_SOURCE_LINE = re.compile(r"^\s+\S")
_PORT = re.compile(r"(?:127\.0\.0\.1|localhost|\[?::1\]?)\W{0,3}(?:port\W{1,3})?(\d{1,5})\b(?!\.\d)")
_CONNECT = re.compile(r"connect to (\S+) port \d+", re.IGNORECASE)
_LOOPBACK = re.compile(r"127\.|localhost|\[?::1\]?")
_URL = re.compile(r"\b(?!file:|unix:)\w+://\S+")
_PATH_WORD = re.compile(r"[\w@%+=.,~-]*/[\w@%+=.,/-]+")
_NEAR_BEFORE, _NEAR_AFTER = 4, 3
_MOST_PATHS = 8
MOST_SHOWN = 200
_SHOWN_AFTER = 60
"""Characters of a line that are shown as evidence, and of these after the error."""
_MOST_LINES = 200
_LONGEST = 1000
_MOST_COMPLAINTS = 24

_OPERATIONS = {
    "namespace": r"\bunshare\b|namespace|CLONE_NEW",
    "trace": r"ptrace|trac(?:e|ing) the inferior|attach to process|process_vm_",
    "io_uring": r"io_uring",
    "mount": r"\b(?:u?mount|umount2|pivot_root|swapon|swapoff|losetup|fsopen|move_mount)\b",
    "owner": r"chown|chgrp|ownership|change owner|preserve owner",
    "mode": r"chmod|(?:chang|preserv|set|sett)(?:e|ing)? permissions|change mode",
    "node": r"mknod|\bspecial file\b|device node",
    "chroot": r"chroot|root directory",
    "hostname": r"sethostname|\bhost ?name: you must|set hostname|hostname:",
    "clock": r"set date|settimeofday|clock_settime|hwclock",
    "user": r"set[erf]{0,3}s?[ug]id|setgroups|initgroups|set groups|set user|set group|no new privileges",
    "network": r"RTNETLINK|iptables|nft\b|netlink|ioctl\(SIOC|SIOCS",
    "raw_socket": r"raw socket|\bping\b|packet socket|tcpdump|SOCK_RAW|AF_PACKET",
    "bind": r"\bbind(?:ing)?\b|\blisten\b|in use or denied",
    "priority": r"\bnice\b|priority|ionice|sched_set|setpriority",
    "modules": r"insmod|modprobe|rmmod|init_module",
    "kernel_log": r"dmesg|kernel buffer|klogctl|syslog",
    "rlimit": r"ulimit|setrlimit|modify limit|prlimit",
    "kill": r"\bkill",
}
_OPERATION = re.compile(
    "|".join(f"(?P<{name}>{words})" for name, words in _OPERATIONS.items()), re.IGNORECASE
)


@dataclass(slots=True, frozen=True)
class Complaint:
    """One line that tells an error.

    Args:
        kind: which error, a key of the table of wordings.
        line: the line as it was written, without escapes of a terminal.
        stream: where it stood.
        paths: what may be a path in it, the likeliest first.
        near: the same of the lines around it, for errors that stand apart from their path.
        operation: what was tried, as far as the words tell; empty = unknown.
        reach: what was done to the path, by the words.
        port: port of this host's loopback that it names; `None` = none.
        doubts: reasons to think that it is not why the command failed.
    """

    kind: str
    line: str
    stream: Stream
    paths: tuple[bytes, ...] = ()
    near: tuple[bytes, ...] = ()
    operation: str = ""
    reach: Reach = "read"
    port: int | None = None
    doubts: tuple[str, ...] = ()


class _Text(NamedTuple):
    stream: Stream
    lines: list[str]
    is_mixed: bool


def complaints(stdout: bytes, stderr: bytes, is_mixed: bool = False) -> list[Complaint]:
    """Return what the ends of both streams complain of, the latest first, stderr before stdout.

    With `is_mixed`, stderr was joined to stdout, or both were a terminal: stdout is then as good as stderr.
    """
    texts = [_Text("stderr", _lines(stderr), False), _Text("stdout", _lines(stdout), is_mixed)]
    return [complaint for text in texts for complaint in _of_text(text)]


def _of_text(text: _Text) -> list[Complaint]:
    found: list[Complaint] = []
    was_overtaken = False
    kinds = {index: kind for index, line in enumerate(text.lines) if (kind := _kind(line))}
    for index in range(len(text.lines) - 1, min(kinds, default=len(text.lines)) - 1, -1):
        line = text.lines[index]
        kind = kinds.get(index, "")
        if kind:
            found.append(_complaint(text, index, kind, was_overtaken))
            if len(found) == _MOST_COMPLAINTS:
                break
        elif _OTHER_END.search(line):
            was_overtaken = True
        elif _CHAINED.search(line):
            was_overtaken = False
    return found


def _kind(line: str) -> str:
    lowered = line.lower()
    if not any(word in lowered for word in _NEEDED):
        return ""
    match = _KIND.search(line)
    if match is None:
        return "unopened" if _UNOPENED.search(line) else ""
    return str(match.lastgroup)


def _complaint(text: _Text, index: int, kind: str, was_overtaken: bool) -> Complaint:
    line = text.lines[index]
    before = text.lines[max(0, index - _NEAR_BEFORE) : index]
    after = text.lines[index + 1 : index + 1 + _NEAR_AFTER]
    # Where nothing is written, a copy is refused for its target, whatever is said of the source.
    copied = _COPIES.search(line) if kind == "read_only" else None
    return Complaint(
        kind=kind,
        line=line.strip(),
        stream=text.stream,
        paths=(os.fsencode(copied[3]),) if copied else tuple(_paths(line))[:_MOST_PATHS],
        near=tuple(path for other in [*reversed(before), *after] for path in _certain(other))[:_MOST_PATHS],
        operation=operation_in(line) or operation_in(_source_in(before)),
        reach="write" if copied else _reach_in(line),
        port=port_in(line),
        doubts=tuple(_doubts(text, line, after, was_overtaken)),
    )


def _reach_in(line: str) -> Reach:
    return "remove" if _REMOVES.search(line) else "write" if _WRITES.search(line) else "read"


def _doubts(text: _Text, line: str, after: list[str], was_overtaken: bool) -> Iterator[str]:
    gave_up = any(map(_GAVE_UP.match, after))
    if (_WARNS.search(line) and not gave_up) or (after and after[0].endswith("(ignored)")):
        yield "warning"
    if was_overtaken:
        yield "overtaken"
    if text.stream == "stdout" and not text.is_mixed:
        yield "stdout"
    if text.stream == "stdout" and _QUOTES_OTHERS.match(line):
        yield "quoted"


def excerpt(line: str) -> str:
    """Return the part of a line that tells the error, where it is too long to be shown whole."""
    error = _KIND.search(line)
    start = max(0, min(error.end() + _SHOWN_AFTER, len(line)) - MOST_SHOWN) if error else 0
    return f"\N{HORIZONTAL ELLIPSIS}{line[start + 1 :][: MOST_SHOWN - 1]}" if start else line[:MOST_SHOWN]


def operation_in(text: str) -> str:
    """Return which operation a text speaks of, empty if it speaks of none."""
    match = _OPERATION.search(text)
    return str(match.lastgroup) if match else ""


def has_other_host(text: str) -> bool:
    """Tell whether a text names whom it could not connect to, and it is not this host's loopback."""
    match = _CONNECT.search(text)
    return match is not None and not _LOOPBACK.match(match[1])


def port_in(text: str) -> int | None:
    """Return the port of this host's loopback that a text names."""
    match = _PORT.search(text)
    return int(match[1]) if match and int(match[1]) < 65536 else None


def paths_in(text: str) -> list[bytes]:
    """Return the words of a command line, or of a script in it, that have a slash."""
    words = dict.fromkeys(_PATH_WORD.findall(_URL.sub(" ", text)))
    return [os.fsencode(word.rpartition("=")[2]) for word in words][:_MOST_PATHS]


def _lines(data: bytes) -> list[str]:
    text = _RETURNS.sub("\n", _ESCAPES.sub("", data.decode("utf-8", "surrogateescape")))
    text = _FOLDED.sub(" ", text)
    lines = [line[:_LONGEST] for line in text.split("\n") if line.strip()]
    return lines[-_MOST_LINES:]


def _source_in(before: list[str]) -> str:
    """Return the lines of a traceback above an error, empty if what is above is none."""
    return "\n".join(line for line in before if _SOURCE_LINE.match(line))


def _paths(line: str) -> Iterator[bytes]:
    """Yield what may be a path: quoted words, words with a slash, then the fields between colons."""
    yield from dict.fromkeys([*_certain(line), *_fields(line)])


def _certain(line: str) -> Iterator[bytes]:
    for match in _QUOTED.finditer(line):
        name = next(group for group in match.groups() if group)
        if "://" not in name:
            yield os.fsencode(name)
    for word in _QUOTED.sub(" ", _without_program(line)).split():
        word = word.strip("()[]{}<>,;").rstrip(":.,;)")
        if "/" in word and "://" not in word:
            yield os.fsencode(word.rpartition("=")[2] if "=/" in word else word)
        elif "unix://" in word:
            yield os.fsencode(word.partition("unix://")[2].rstrip(".?"))


def _without_program(line: str) -> str:
    """Return a line without the name of who speaks: `/bin/sh: 1: cannot create x: …`."""
    match = _PROGRAM.match(line)
    error = _KIND.search(line)
    is_all = match is not None and error is not None and not line[match.end() : error.start()].strip(" :")
    return line[match.end() :] if match and not is_all else line


def _fields(line: str) -> Iterator[bytes]:
    """Yield the last word, and the whole, of each field before the error: `tar: a b: Cannot open: …`."""
    match = _KIND.search(line)
    head = line[: match.start()] if match else line
    for field in [part.strip() for part in head.split(": ")][1:]:
        words = field.rstrip(":").split()
        if words:
            yield os.fsencode(words[-1])
            yield os.fsencode(field.rstrip(":"))
