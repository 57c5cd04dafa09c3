"""Own the look at the keys of a TOML text before it is parsed, which takes the square of their parts. Pure.

It need not tell what is TOML: in what is none the parser gets no further than this has looked.
"""

from __future__ import annotations

import re

_TEXT_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"{3,5}|.*\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*(?:"|.*\Z)'
    r"|'[^'\n]*(?:'|.*\Z)"
    r"|#[^\n]*",
    re.DOTALL,
)
"""A text without an end takes all that follows: each character is looked at once."""
_SHOWN = 40
_PART = r'(?:[\w-]++|"")'


def long_key(text: str, most: int) -> str | None:
    """Return the beginning of a dotted key that has more than so many parts; `None` if there is none."""
    bare = _TEXT_OR_COMMENT.sub(lambda match: "" if match[0].startswith("#") else '""', text)
    # Only at the beginning of a word: else each of its characters would be tried.
    found = re.search(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{most}}}", bare)
    return None if found is None else found[0][:_SHOWN]
