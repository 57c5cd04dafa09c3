"""Own the plans of earlier views: one is used again where all that it follows from is the same.

That is its wish, and the answers to what was asked of the disk for it. All of these questions are asked again
for each view, and a plan is used only where every answer is what it was: so it is the one that would be made
now, and there is no time for which it is believed. What is saved is the thinking, not the looking. No time
stamp stands for a look: they are coarse, and whoever owns a file can set some of them.

Used by several threads at once, each with a `Disk` of its own; at worst one of them plans for itself.
"""

from __future__ import annotations

from typing import NamedTuple

from execzmq.sandbox.disk import Answers, Disk
from execzmq.sandbox.planning import Plan, Wish, plan_of

MOST_WISHES = 32
"""Wishes whose plans are kept; with one more all are made anew."""
MOST_OF_ONE = 3
"""Plans that are kept of one wish: there are two in turn where sandboxes leave folders that are removed."""
MOST_ANSWERS = 2000
"""Answers, and names in them, upon which a plan may rest that is kept."""
_WORD = 64
"""Bytes of an answer that count as one name."""


class _Kept(NamedTuple):
    plan: Plan
    answers: Answers


class Plans:
    """The plans of one server."""

    def __init__(self) -> None:
        self._of: dict[Wish, tuple[_Kept, ...]] = {}

    def get(self, wish: Wish, disk: Disk) -> Plan:
        """Return the plan for a wish on a disk as it is now.

        Raises:
            As `plan_of`.
        """
        kept = self._of.get(wish, ())
        for one in kept:
            if disk.still_answers(one.answers):
                return one.plan
        answers = disk.begin()
        plan = plan_of(wish, disk)
        if _size_of(answers) <= MOST_ANSWERS:
            self._keep(wish, (_Kept(plan, answers), *kept[: MOST_OF_ONE - 1]))
        return plan

    def _keep(self, wish: Wish, kept: tuple[_Kept, ...]) -> None:
        if len(self._of) >= MOST_WISHES and wish not in self._of:
            self._of = {}
        self._of[wish] = kept


def _size_of(answers: Answers) -> int:
    return sum(1 + _extent_of(answer) for answer in answers.values())


def _extent_of(answer: object) -> int:
    match answer:
        case bytes():
            return len(answer) // _WORD
        case (tuple() as folders, int()):
            return len(folders)
    return 0
