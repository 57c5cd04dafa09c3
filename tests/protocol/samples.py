"""One message of each type and direction, with fixed ids, as the golden frames hold them.

Run as a program it writes the golden frames that are missing; those that exist are never changed, since
they are what a released version has written.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from execzmq.errors import CommandNotFound
from execzmq.protocol import values
from execzmq.protocol.methods import METHODS
from execzmq.protocol.wire import Codec
from execzmq.settings import PROTOCOL_VERSION
from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Notice, Output, Started
from execzmq.types.params import EnvPolicy, ExecParams, Limits, SandboxIntent, TtySize
from execzmq.types.results import (
    ExitResult,
    ProcessInfo,
    ProcessRef,
    ProfileInfo,
    ReadResponse,
    Screen,
    ServerInfo,
    TerminateReport,
)
from execzmq.types.sharing import ShareInfo, ShareTerms
from tests.protocol.writing import broadcast_of, page_of

GOLDEN = Path(__file__).parent / "golden" / f"v{PROTOCOL_VERSION}"
KEY = b"0123456789abcdef0123456789abcdef"
DATE = "2026-01-02T03:04:05.678900Z"
CLIENT = "c1ie47c1ie47c1ie"
SERVER = "5e72e75e72e75e72"
EPOCH = "e90c4e90c4e90c41"
PROCESS = "k3v9x0qa-7"
INSTANCE = 0x0123456789ABCDEF

PARAMS = ExecParams(
    argv=(b"make", b"-j4", b"caf\xe9"),
    process_id=PROCESS,
    name="build",
    cwd=b"/src/\xff",
    env={b"LANG": b"C", b"ODD": b"\xfe"},
    env_policy=EnvPolicy("core", ("*SECRET*",), {b"A": b"1"}, ("LANG", "A")),
    stdin="data",
    stdin_data=b"y\n\x00\xff",
    tty=True,
    tty_size=TtySize(40, 132),
    tty_echo=False,
    merge_stderr=True,
    timeout=600.0,
    timeout_grace=2.5,
    lifetime="client",
    backpressure="pause",
    log_budget=1 << 26,
    drain_limit=1.0,
    umask=0o22,
    arg0=b"-make",
    limits=Limits(memory=1 << 30, descriptors=256),
    sandbox=SandboxIntent("workspace-write", (b"/src",)),
)
PROXIED = replace(
    PARAMS, sandbox=SandboxIntent("read-only", (b"/w",), "proxy", ("index.example:443", "*.a.example"))
)
PROFILE = ProfileInfo("lab", "trainings", True, {"confined": True, "writable": [b"/lab"], "tmp": 1 << 30})
RESULT = ExitResult(
    exit_code=None,
    signal=9,
    cause="timed_out",
    asked_by="time limit",
    started_at=1767323045.25,
    ended_at=1767323645.5,
    rusage={"user": 1.5, "system": 0.25, "max_rss": 1048576.0},
    output_bytes={"stdout": 11, "stderr": 2},
    dropped_bytes={"stdout": 4},
    held_open_by=((4321, "sleep 60"),),
    confidence="high",
    evidence=("EPERM from mount",),
)
INFO = ProcessInfo(
    process_id=PROCESS,
    name="build",
    instance=INSTANCE,
    argv=PARAMS.argv,
    cwd=b"/src/\xff",
    state="closed",
    pid=4242,
    started_at=1767323045.25,
    exited=True,
    closed=True,
    result=RESULT,
    last_seq=9,
    output_bytes={"stdout": 11, "stderr": 2},
    tty=True,
    keyboard=CLIENT,
    sandbox={"profile": "workspace-write"},
)
SERVER_INFO = ServerInfo(
    pid=4000,
    epoch=EPOCH,
    version="0.1.0",
    name="default",
    host="b007b007",
    role="owner",
    started_at=1767323000.0,
    statistics={"processes_started": 7},
)
ERROR = CommandNotFound("make: no such command", errno=2, reason="not found", filename=b"mak\xe9")
EVENTS: tuple[Event, ...] = (
    Started(1, 4242, 1767323045.25),
    Output(2, "stdout", 0, b"one\n", 1767323045.5),
    Gap(3, 4, 4, 1767323046.0),
    Output(5, "stderr", 0, b"\xff\n", 1767323046.25),
    Notice(6, "degraded", {"reason": "disk full"}, 1767323046.5),
    Output(7, "stdout", 8, b"two", 1767323046.75),
    Exited(8, RESULT, 1767323645.5),
    Closed(9, RESULT, 1767323645.75),
)
PAGE = ReadResponse(
    process_id=PROCESS,
    instance=INSTANCE,
    chunks=EVENTS,
    next_seq=9,
    first_seq=1,
    last_seq=9,
    exited=True,
    closed=True,
    signal=9,
    dropped_bytes={"stdout": 4},
)
SCREEN = Screen(INSTANCE, 9, 24, 80, b"\x1b[?2004h\x1b[1mready\x1b[0m\x1b[m\x1b[1;6H", is_cut=True)
REPORT = TerminateReport(
    signalled=(ProcessRef(4242, "make -j4"), ProcessRef(4243, "cc1")),
    ended=(ProcessRef(4242, "make -j4"),),
    survivors=(ProcessRef(4243, "cc1"),),
    unattributed=(ProcessRef(4300, "sleep 60"),),
)
KEYS = ("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7")
"""Public keys of a share and of a server, as the standard of CURVE has them for examples."""
TERMS = ShareTerms(
    "operator", (PROCESS,), 28800.0, SandboxIntent("workspace-write", (b"/src",), "proxy", ("a.example",))
)
SHARE = ShareInfo(
    "0a1b2c3d4e5f", "operator", (PROCESS,), 1767323045.25, 1767351845.25, TERMS.sandbox, KEYS[0]
)


@dataclass(frozen=True)
class Sample:
    """One message before it is packed; `topic` is of a broadcast only."""

    msg_type: str
    content: dict[str, Any]
    buffers: list[bytes] = field(default_factory=list)
    topic: bytes | None = None


def _requests() -> list[Sample]:
    start, data = values.params_to_wire(PARAMS)
    explain, _ = values.params_to_wire(PROXIED)
    process = {"process_id": PROCESS}
    epoch = {"epoch": EPOCH}
    contents: dict[str, dict[str, Any]] = {
        "start": {**start, **epoch},
        "explain": explain,
        "describe": {"id_or_name": "build"},
        "read": {
            **process,
            "instance": INSTANCE,
            "after_seq": 4,
            "max_bytes": 65536,
            "wait": 30.0,
            "open": ["a-1"],
        },
        "wait": {**process, "instance": INSTANCE, "until": "exited", "timeout": 30.0},
        "screen": {**process, "instance": INSTANCE},
        "forget": {**process, "instance": INSTANCE},
        "signal": {**epoch, **process, "signal": 2},
        "terminate": {**epoch, **process, "grace": 5.0},
        "resize": {**epoch, **process, "rows": 40, "cols": 132},
        "claim_keyboard": {**process, "take_over": True},
        "release_keyboard": process,
        "lease": {"seconds": 30.0, "cursors": {PROCESS: [INSTANCE, 7]}, "open": ["a-1", "a-2"]},
        "share": {"publickey": KEYS[0], **values.terms_to_wire(TERMS)},
        "revoke": {"share_id": SHARE.share_id},
        "shutdown": epoch,
        "write": {**epoch, **process, "offset": 4096, "end": True},
    }
    given = [bytes(buffer) for buffer in data]
    buffers = {"start": given, "explain": given, "write": [b"ls\n\x04\xff"]}
    return [Sample(f"{name}_request", contents.get(name, {}), buffers.get(name, [])) for name in METHODS]


def _replies() -> list[Sample]:
    page, data = page_of(PAGE)
    contents: dict[str, dict[str, Any]] = {
        "kernel_info": {
            "protocol_version": "5.4",
            "implementation": "execzmq",
            "implementation_version": "0.1.0",
            "language_info": {
                "name": "execzmq",
                "version": "0.1.0",
                "mimetype": "text/plain",
                "file_extension": "",
            },
            "banner": "execzmq 0.1.0",
            "help_links": [],
            "execzmq": {
                "protocol": 1,
                "epoch": EPOCH,
                "host": "b007b007",
                "name": "default",
                "role": "owner",
                "features": [],
            },
        },
        "info": values.server_info_to_wire(SERVER_INFO),
        "start": {
            "process_id": PROCESS,
            "instance": INSTANCE,
            "pid": 4242,
            "repeated": False,
            "sandbox": {"profile": "workspace-write"},
        },
        "explain": {
            "argv": [b"/usr/bin/bwrap", b"--args", b"3", b"--", b"make"],
            "arguments": [b"--unshare-user", b"--ro-bind", b"/", b"/"],
            "cwd": b"/w",
            "env": [b"HOME", b"PATH"],
            "sandbox": {"profile": "read-only"},
        },
        "profiles": {"profiles": [values.profile_to_wire(PROFILE)]},
        "list": {"processes": [values.process_info_to_wire(INFO)]},
        "describe": {"process": values.process_info_to_wire(INFO)},
        "read": page,
        "wait": {"process": values.process_info_to_wire(INFO)},
        "screen": values.screen_to_wire(SCREEN),
        "doctor": {"findings": [{"name": "state folder", "ok": True, "text": "0700", "remedy": ""}]},
        "terminate": values.report_to_wire(REPORT),
        "lease": {"epoch": EPOCH},
        "share": {
            "share": values.share_to_wire(SHARE),
            "ip": "192.0.2.7",
            "shell_port": 40001,
            "control_port": 40002,
            "stdin_port": 40003,
            "iopub_port": 40004,
            "hb_port": 40005,
            "serverkey": KEYS[1],
            "host": "b007b007",
            "hostname": "desk",
        },
        "shares": {"shares": [values.share_to_wire(SHARE)]},
        "write": {"offset": 4101},
    }
    buffers = {"read": [bytes(buffer) for buffer in data], "screen": [SCREEN.data]}
    return [
        Sample(f"{name}_reply", {"status": "ok", **contents.get(name, {})}, buffers.get(name, []))
        for name in METHODS
    ]


def _broadcasts() -> list[Sample]:
    failure = {name: value for name, value in values.error_content(ERROR).items() if name != "status"}
    events = [EVENTS[0], EVENTS[1], EVENTS[4], EVENTS[6], EVENTS[7], Failed(2, failure, 1767323045.5)]
    messages = [
        *(broadcast_of(PROCESS, INSTANCE, event) for event in events),
    ]
    samples = [
        Sample(msg_type, content, [bytes(buffer) for buffer in buffers], topic)
        for msg_type, topic, content, buffers in messages
    ]
    tail = {"process_id": PROCESS, "instance": INSTANCE, "seq": 9, "state": "closed"}
    samples.append(Sample("process_tail", tail, [], f"p.{PROCESS}.tail".encode()))
    tails = {"tails": [list(tail.values()), ["p-2", INSTANCE, 3, "running"]]}
    samples.append(Sample("process_tails", tails, [], b"p.p-*"))
    welcome = "w.0123456789abcdef"
    samples.append(Sample("iopub_welcome", {"subscription": welcome}, [], welcome.encode()))
    samples.append(Sample("server_status", {"epoch": EPOCH, "status": "stopping"}, [], b"s.status"))
    return samples


REQUESTS = _requests()
REPLIES = _replies()
BROADCASTS = _broadcasts()
FAILURE = Sample("start_reply", values.error_content(ERROR))
BEHIND = Sample(
    "process_output",
    {
        "process_id": PROCESS,
        "instance": INSTANCE,
        "seq": 7,
        "time": 1767323046.75,
        "stream": "stdout",
        "offset": 8,
        "behind": True,
    },
    [],
    f"p.{PROCESS}.stdout".encode(),
)
SAMPLES: dict[str, Sample] = {
    **{sample.msg_type: sample for sample in [*REQUESTS, *REPLIES, *BROADCASTS]},
    "error_reply": FAILURE,
    "process_output_behind": BEHIND,
}


def encode(sample: Sample) -> list[bytes]:
    """Return all frames of a sample, the topic of a broadcast first."""
    is_request = sample.msg_type.endswith("_request")
    codec = Codec(KEY, CLIENT if is_request else SERVER, "golden", digests=False)
    parent = None
    if sample.msg_type.endswith("_reply"):
        request = Sample(sample.msg_type.replace("_reply", "_request"), {})
        parent = codec.decode(encode(request)).header
    frames = codec.encode(
        sample.msg_type,
        sample.content,
        parent=parent,
        buffers=sample.buffers,
        msg_id="golden-1" if is_request else "golden-2",
        date=DATE,
    )
    topic = [] if sample.topic is None else [sample.topic]
    return [*topic, *(bytes(frame) for frame in frames)]


def load(name: str) -> list[bytes]:
    """Return the golden frames of that name."""
    return [bytes.fromhex(frame) for frame in json.loads((GOLDEN / f"{name}.json").read_text())["frames"]]


def write_missing() -> None:
    """Write the golden frames that do not exist yet."""
    for name, sample in SAMPLES.items():
        path = GOLDEN / f"{name}.json"
        if not path.exists():
            golden = {"key": KEY.decode(), "frames": [frame.hex() for frame in encode(sample)]}
            path.write_text(json.dumps(golden, indent=1) + "\n")
            print("written:", path.name)


if __name__ == "__main__":
    write_missing()
