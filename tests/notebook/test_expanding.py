"""Python's values in the line of a magic."""

import pytest

from execzmq.notebook.expanding import ExpansionError, end_of_braces, expand

NAMES = {"x": 3, "name": "a b", "d": {"k": "v", "}": 1}, "pi": 3.14159}


def _expand(text: str) -> str:
    return expand(text, lambda expression: eval(expression, dict(NAMES)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo {x}", "echo 3"),
        ("{x}{x}", "33"),
        ("{ x + 1 }", "4"),
        ("{name}", "a b"),
        ("{name!r:>7}", "  'a b'"),
        ("{pi:.2f} {x:03d}", "3.14 003"),
        ("{d['}']} {d[\"k\"]}", "1 v"),
        ("{[n for n in range(x)]}", "[0, 1, 2]"),
        ("{(lambda n: n + x)(1)}", "4"),
        ("{'a:b' * x:>12}", "   a:ba:ba:b"),
        ("$x ${x} ${x:-{x}} $$", "$x ${x} ${x:-{x}} $$"),
        ("{{x}} }} {{", "{x} } {"),
        ("find . -exec ls {} +", "find . -exec ls {} +"),
        ("a } b", "a } b"),
        ("", ""),
        ("${unfinished", "${unfinished"),
    ],
)
def test_what_is_put_in(text: str, expected: str) -> None:
    """Expressions are Python's and as in an f-string; what is a shell's own stays."""
    assert _expand(text) == expected


@pytest.mark.parametrize(
    ("text", "named", "why"),
    [
        ("echo {nope} {x}", "{nope}", "NameError: name 'nope' is not defined"),
        ("{d['z']}", "{d['z']}", "KeyError: 'z'"),
        ("{pi:zz}", "{pi:zz}", "ValueError"),
        ("awk '{print $1}'", "{print $1}", "is no Python expression"),
        ("echo {x", "{x", "is no Python expression"),
        ("grep -E 'a{3}'", "{3}", "is a constant"),
        ("grep -E 'a{1,3}'", "{1,3}", "is a constant"),
        ("curl -d '{\"a\":1}'", '{"a":1}', "is a constant"),
        ("{1..3}", "{1..3}", "is no Python expression"),
        (f"{{{'-' * 200_000}x}}", "{--", "is no Python expression"),
        (f"{{x{'.x' * 100_000}}}", "{x.x", "is no Python expression"),
        ("{x\0}", "{x\0}", "is no Python expression"),
    ],
)
def test_what_cannot_be_put_in(text: str, named: str, why: str) -> None:
    """One line names the expression, says why, and how braces are written."""
    with pytest.raises(ExpansionError) as caught:
        _expand(text)
    message = str(caught.value)
    assert message.startswith(named)
    assert why in message
    assert "{{ and }}" in message
    assert "\n" not in message


def test_interrupt_of_an_expression_is_none_of_its_errors() -> None:
    """What is no `Exception` passes through."""

    def interrupted(expression: str) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        expand("{x}", interrupted)


@pytest.mark.parametrize(
    ("text", "end"), [("{x} y", 3), ("{d['} ']} y", 9), ("{{ y", 2), ("{} y", 2), ("{print x", 1)]
)
def test_where_braces_end(text: str, end: int) -> None:
    """An expression is one piece, whatever stands in it."""
    assert end_of_braces(text, 0) == end
