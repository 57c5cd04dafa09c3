"""The corpus: a few hundred failing commands, really run, and how often each rule is right about them."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.cases import User, load
from tests.sources import ROOT

USERS: tuple[User, ...] = ("root", "user")
MOST_FALSE = 0.01
LEAST_HITS = 0.9


def _results(user: User, *options: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what came of the commands of a user, and the tools that are missing: theirs are left out."""
    if user == "root" and os.geteuid():
        pytest.skip("only root can run the half of the corpus that is root's")
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.runs", user, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    answer = json.loads(done.stdout)
    return answer["results"], answer["missing"]


def _name_missing(tools: list[str]) -> None:
    """Say that commands were left out, in the run's last lines; `make` installs the tools where it can."""
    if tools:
        pytest.skip(f"the corpus's commands with {', '.join(tools)}, which are not installed")


def _rates(results: list[dict[str, Any]], part: str, told: str) -> tuple[int, int, int, int]:
    """Return hits, denied, false alarms and own failures of a part, by the rule that `told` names."""
    chosen = [entry for entry in results if part in ("all", entry["part"])]
    denied = [entry[told] for entry in chosen if entry["is_denied"]]
    own = [entry[told] for entry in chosen if not entry["is_denied"]]
    return sum(denied), len(denied), sum(own), len(own)


def _table(results: list[dict[str, Any]]) -> str:
    lines = ["part         rule      hits             false alarms"]
    for part in ("development", "held-out", "all"):
        for rule, told in (("verdict", "is_told"), ("keywords", "keywords")):
            hits, denied, false, own = _rates(results, part, told)
            shares = f"{hits:3}/{denied:3} {hits / denied:6.1%}   {false:3}/{own:3} {false / own:6.1%}"
            lines.append(f"{part:12} {rule:9} {shares}")
    levels = Counter((entry["confidence"] or "none", entry["is_denied"]) for entry in results)
    lines += [
        f"confidence {name:7} denied {levels[name, True]:3}   own {levels[name, False]:3}"
        for name in ("high", "medium", "low", "none")
    ]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("user", USERS)
def test_verdicts_on_corpus(user: User, tmp_path: Path) -> None:
    """Of failures of their own fewer than one in a hundred is told as a denial, of denials most are."""
    results, missing = _results(user)
    table = _table(results)
    (tmp_path / "verdicts.txt").write_text(table + "\n")
    print(f"\n{user}\n{table}")
    assert all(entry["status"] for entry in results), [e["run"] for e in results if not e["status"]]
    for part in ("held-out", "all"):
        hits, denied, false, own = _rates(results, part, "is_told")
        assert false / own < MOST_FALSE, [e["run"] for e in results if e["is_told"] and not e["is_denied"]]
        assert hits / denied > LEAST_HITS, [e["run"] for e in results if e["is_denied"] and not e["is_told"]]
    _name_missing(missing)


@pytest.mark.soak
@pytest.mark.parametrize("user", USERS)
def test_corpus_says_what_is_true(user: User) -> None:
    """Without a sandbox, what is called denied is not refused, and what is called its own fails too."""
    results, missing = _results(user, "check")
    checked = [entry for entry in results if "outside_status" in entry]
    wrong = [
        (entry["run"], entry["outside_output"])
        for entry in checked
        if entry["is_denied"] and entry["outside_status"] and entry["outside_refused"]
    ]
    wrong += [(e["run"], e["output"]) for e in checked if not e["is_denied"] and not e["outside_status"]]
    assert not wrong
    _name_missing(missing)


def test_corpus_is_large() -> None:
    """Both sorts are many, in both parts, and no command stands there twice."""
    counts = Counter((case.part, case.denied) for case in load())
    assert min(counts.values()) >= 45
    assert sum(counts.values()) >= 500
    assert max(Counter((c.run, c.profile, c.network, str(c.files)) for c in load()).values()) == 1
