"""Own the plans of earlier views: one is used again where all that it follows from is the same.

That is its wish, and the answers to what was asked of the disk for it. All of these questions are asked again
for each view, and a plan is used only where every answer is what it was: so it is the one that would be made
now, and there is no time for which it is believed. What is saved is the thinking, not the looking. No time
stamp stands for a look: they are coarse, and whoever owns a file can set some of them.

Used by several threads at once, each with a `Disk` of its own; at worst one of them plans for itself.
"""

from __future__ import annotations

from typing import NamedTuple

from execzmq.sandbox.disk import Answers, Disk, Listing
from execzmq.sandbox.planning import Plan, Wish, plan_of, table_of

MOST_WISHES = 32
"""Wishes whose plans are kept; with one more all are made anew."""
MOST_OF_ONE = 3
"""Plans that are kept of one wish: there are two in turn where sandboxes leave folders that are removed."""
MOST_ANSWERS = 2000
"""Answers, and names in them, upon which a plan may rest that is kept."""
MOST_OF_SHORT, MOST_ENTRIES_OF_SHORT = 250, 500
"""Answers upon which a plan rests that is short to look at again, and entries of the folders among them."""
_WORD = 64
"""Bytes of an answer that count as one name."""


class _Kept(NamedTuple):
    """A plan, and what it rests on; `is_short` tells that it takes a millisecond or so to ask that again."""

    plan: Plan
    answers: Answers
    mounts: bytes
    is_short: bool


class Plans:
    """The plans of one server."""

    def __init__(self) -> None:
        self._of: dict[Wish, tuple[_Kept, ...]] = {}

    def get(self, wish: Wish, disk: Disk) -> Plan:
        """Return the plan for a wish on a disk as it is now.

        Raises:
            As `plan_of`.
        """
        plan = self.kept(wish, disk)
        if plan is None:
            answers = disk.begin()
            plan = plan_of(wish, disk)
            if _size_of(answers) <= MOST_ANSWERS:
                self._keep(wish, _Kept(plan, answers, disk.mounts(), _is_short(answers, disk)))
        return plan

    def kept(self, wish: Wish, disk: Disk) -> Plan | None:
        """Return the plan that is kept for a wish and would be made now, `None` where there is none.

        Raises:
            OSError: the disk cannot be looked at now.
        """
        known = self._of.get(wish, ())
        for one in known:
            if disk.still_answers(one.answers):
                if one is not known[0]:
                    self._of[wish] = (one, *(other for other in known if other is not one))
                return one.plan
        return None

    def expected(self, wish: Wish, disk: Disk) -> Plan | None:
        """Return the plan that held when `kept` was asked last, for who will ask that again; else `None`.

        Only where that takes a short time, and asks nothing of a file system that may hang.
        """
        fitting = [one for one in self._of.get(wish, ()) if one.mounts == disk.mounts()]
        return fitting[0].plan if fitting and all(one.is_short for one in fitting) else None

    def _keep(self, wish: Wish, one: _Kept) -> None:
        if len(self._of) >= MOST_WISHES and wish not in self._of:
            self._of = {}
        self._of[wish] = (one, *self._of.get(wish, ()))[:MOST_OF_ONE]


def _size_of(answers: Answers) -> int:
    return sum(1 + _extent_of(answer) for answer in answers.values())


def _extent_of(answer: object) -> int:
    if isinstance(answer, bytes):
        return len(answer) // _WORD
    return len(answer.folders) if isinstance(answer, Listing) else 0


def _is_short(answers: Answers, disk: Disk) -> bool:
    mounts = table_of(disk.mounts())
    entries = sum(answer.entries for answer in answers.values() if isinstance(answer, Listing))
    paths = (about[0] for _, *about in answers if about)
    return (
        len(answers) <= MOST_OF_SHORT
        and entries <= MOST_ENTRIES_OF_SHORT
        and all(mounts.is_local(path) for path in paths)
    )
