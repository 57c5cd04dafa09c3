"""How many parts the keys of a TOML text have, before anything parses it."""

import time
import tomllib

import pytest

from execzmq.sandbox.toml_keys import long_key
from tests.support import ms

SIZE = 64 * 1024

LONG = [
    "a.b.c.d.e = 1",
    "[a.b.c.d.e]",
    "[[a.b.c.d.e]]",
    "x = { a . b\t.c.d.e = 1 }",
    '\'a\'."b".\'c\'."d\\".".e = 1',
    '"".\'\'.""."".\'\' = 1',
    'y = """\n""\\""""\na.b.c.d.e = 1',
    "z = '''\n''' # it's\na.b.c.d.e = 1",
    'y = """a""""\na.b.c.d.e = 1',
    "z = '''a'''''\na.b.c.d.e = 1",
]
SHORT = [
    "a.b.c.d = 1\n[e.f.g.h]\na.b.c.d = 2",
    'a = \'a.b.c.d.e\'\nb = "a.b.c.d.e \\" a.b.c.d.e"',
    "a = '''\na.b.c.d.e\n'' a.b.c.d.e\n'''",
    'a = """\na.b.c.d.e\n"" a.b.c.d.e \\""" a.b.c.d.e\n"""',
    "# a.b.c.d.e = 1",
    "a = [1.5, 2.5, 3.5]\nb = 07:32:00.999",
]
SLOW = {
    "one key": "a." * (SIZE // 2),
    "header": "[" + ".".join("a" * 8000) + "]\n" + "".join(f"a{n} = 1\n" for n in range(4000)),
    "word": "a" * SIZE,
    "words": "a " * (SIZE // 2),
    "blanks": "a" + " " * SIZE,
    "quotes": '"' * SIZE,
    "escapes": '"' + '\\"' * (SIZE // 2),
    "long text": '"""' + '"" ' * (SIZE // 3),
    "long escapes": '"""' + "\\" * (SIZE - 3),
    "apostrophes": "'" * SIZE,
    "comments": "#\n" * (SIZE // 2),
    "empty names": '"".' * (SIZE // 3),
}


@pytest.mark.parametrize("text", LONG)
def test_long_key_is_found(text: str) -> None:
    """Bare or quoted, of a value, a table or an inline one."""
    tomllib.loads(text)
    found = long_key(text, 4)
    assert found
    assert len(found) <= 40
    assert long_key(text, 5) is None


@pytest.mark.parametrize("text", SHORT)
def test_what_is_no_key_does_not_count(text: str) -> None:
    """Dots in texts, comments and numbers are none between parts."""
    tomllib.loads(text)
    assert long_key(text, 4) is None


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_no_text_takes_long(text: str) -> None:
    """The look takes as long as the text is, whatever stands in it."""
    begun = time.perf_counter()
    long_key(text, 8)
    assert time.perf_counter() - begun < ms(500)
