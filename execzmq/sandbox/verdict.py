"""Own the decision whether a failed command was refused something by its sandbox. Pure.

Words alone do not tell: an ordinary file of mode 000 is answered with the same `Permission denied`. So what a
program complains of is compared twice: with what the sandbox shows at the path, or lets through of the
operation, and with what the host says would be possible without it. Only a refusal that the sandbox made, and
that the host would not have made, is the sandbox's.

Confidence, with the numbers measured on the corpus (640 denials, 651 failures of their own that look alike):

* `high`: the error fits a path and its place in the sandbox, and the host would have allowed it; or the proxy
  refused what the output names. Told as a cause from here on: 69 % of denials, no false alarm.
* `medium`: the operation is one that the sandbox always refuses and this user could do outside; or a path is
  known, but one thing speaks against its being why the command failed. From here on: 96 %, 0.3 % false.
* `low`: the words fit and nothing proves them. From here on: 97 %, 4.8 % false; so it is never a cause, and
  only the evidence is told.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator

from execzmq.sandbox.ending import Confidence, Ending, Evidence, Verdict
from execzmq.sandbox.rules import RULES, Case, Finding
from execzmq.sandbox.sight import Outside
from execzmq.sandbox.wordings import Complaint, complaints

__all__ = ["Ending", "Evidence", "Verdict", "judge"]

_LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")
_TOLD = 5
_SPEECHLESS = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGKILL,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGXCPU,
    signal.SIGXFSZ,
}
"""Signals whose end is explained by themselves: what was printed before is not why."""

_OF_NETWORK = ("proxied", "unresolved", "unreachable", "refused")
_SHELLS = (b"sh", b"bash", b"dash", b"zsh", b"ksh")


def judge(ending: Ending, outside: Outside) -> Verdict:
    """Return whether the sandbox is why a command failed.

    Success is never a denial, nor is an end that somebody asked for; what the limits have counted is told of
    each. `outside` is asked at most some fifty times, and only about paths and operations that the sandbox
    refuses.
    """
    if ending.was_asked or (ending.exit_code == 0 and ending.signal is None):
        return Verdict(None, "", tuple(_counted(ending)))
    if ending.oom_kills:
        return Verdict("oom", "", tuple(_counted(ending)))
    case = Case(ending, outside)
    findings = sorted(_findings(case), key=lambda finding: -_LEVELS.index(finding.confidence))
    evidence = tuple(_distinct(finding.evidence for finding in findings))[:_TOLD]
    limits = tuple(_limits(ending))
    if not findings:
        return Verdict(None, "", limits)
    best = findings[0].confidence
    return Verdict(None if best == "low" else "sandbox_denied", best, evidence + limits)


def _distinct(evidence: Iterable[Evidence]) -> Iterable[Evidence]:
    """Return of each thing that was seen the first and strongest: programs say the same often."""
    found: dict[tuple[str, str], Evidence] = {}
    for one in evidence:
        found.setdefault((one.rule, one.subject), one)
    return found.values()


def _findings(case: Case) -> Iterator[Finding]:
    ending = case.ending
    found = complaints(ending.stdout, ending.stderr, ending.is_mixed)
    if ending.killed_by == signal.SIGSYS:
        yield Finding(_filter_confidence(ending), Evidence("killed_by_filter", "SIGSYS", "status"))
    yield from _of_proxy(ending, found)
    if ending.killed_by in _SPEECHLESS:
        return
    for complaint in found:
        finding = RULES[complaint.kind](case, complaint)
        if finding is not None:
            yield _doubted(finding, complaint)


def _filter_confidence(ending: Ending) -> Confidence:
    """A shell says `Bad system call` of its commands; without it the code may be its own `exit 159`."""
    is_shell = ending.argv[0].rpartition(b"/")[2] in _SHELLS
    return "low" if is_shell and b"bad system call" not in ending.stderr.lower() else "medium"


def _doubted(finding: Finding, complaint: Complaint) -> Finding:
    """Lower the confidence by what speaks against the line's being why the command failed."""
    if {"warning", "quoted", "overtaken"} & set(complaint.doubts):
        return finding._replace(confidence="low")
    level = _LEVELS.index(finding.confidence) - len(complaint.doubts)
    return finding._replace(confidence=_LEVELS[max(0, level)])


def _of_proxy(ending: Ending, found: list[Complaint]) -> Iterator[Finding]:
    """What the proxy refused is certain; that it mattered is as certain as the output makes it."""
    output = ending.stdout + ending.stderr
    about_network = [complaint for complaint in found if complaint.kind in _OF_NETWORK]
    for host in ending.refused_hosts:
        name = host.rpartition(":")[0]
        finding = Finding("high", Evidence("proxy_refused", host, "proxy"))
        naming = [complaint for complaint in about_network if name in complaint.line]
        if naming:
            doubted = (_doubted(finding, complaint) for complaint in naming)
            yield max(doubted, key=lambda one: _LEVELS.index(one.confidence))
        elif about_network or name.encode() in output or not output.strip():
            yield finding
        else:
            yield finding._replace(confidence="medium")


def _limits(ending: Ending) -> Iterator[Evidence]:
    """Tell which limits were met: they are no refusals, but whoever reads the result wants to know."""
    limits = ending.permissions.limits
    if ending.killed_by == signal.SIGXFSZ and limits.file_size is not None:
        yield Evidence("limit", f"file_size={limits.file_size}", "status")
    if ending.killed_by in (signal.SIGXCPU, signal.SIGKILL) and limits.cpu is not None:
        yield Evidence("limit", f"cpu={limits.cpu}", "status")
    yield from _counted(ending)


def _counted(ending: Ending) -> Iterator[Evidence]:
    """Tell what the kernel has counted: it happened, whatever became of the command."""
    if ending.oom_kills:
        yield Evidence("oom", f"{ending.oom_kills} killed", "limits")
    if ending.forks_refused:
        yield Evidence("limit", f"processes={ending.permissions.limits.processes}", "limits")
