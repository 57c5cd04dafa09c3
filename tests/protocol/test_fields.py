"""Forms of single values and records: each reads what it writes and refuses all else by its place."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from execzmq.errors import RemoteProtocolError
from execzmq.protocol import fields as forms
from execzmq.protocol.fields import Fields, Form, ListOf, MapOf, OneOf, Optional, PairOf, Record


@dataclass(frozen=True)
class Thing:
    """A record with a field of each sort."""

    name: str
    size: int | None
    tags: tuple[str, ...] = ()
    more: dict[str, int] = field(default_factory=dict)


THING = Record(
    Thing,
    {
        "name": forms.TEXT,
        "size": Optional(forms.INTEGER),
        "tags": ListOf(forms.TEXT),
        "more": MapOf(forms.TEXT, forms.INTEGER),
    },
)


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (forms.INTEGER, [0, -1, 2**64 - 1], [True, 1.0, "1", None]),
        (forms.NUMBER, [1.5, 2], [True, "1", None, float("nan"), float("-inf")]),
        (forms.BOOLEAN, [True], [1, None, "true"]),
        (forms.TEXT, ["", "a"], [b"a", None]),
        (forms.BYTES, [b""], ["a", bytearray(b"a")]),
        (forms.LIST, [[1]], [(), None, {}]),
        (forms.MAP, [{b"a": 1}], [[], None]),
        (forms.PLAIN, [{"a": [1]}], [{b"a": 1}, [], None]),
        (Optional(forms.TEXT), [None, "a"], [1]),
        (OneOf(("a", "b")), ["a"], ["c", None, ["a"], b"a"]),
        (ListOf(forms.TEXT), [["a"]], [["a", 1], "a", None]),
        (PairOf(forms.INTEGER, forms.TEXT), [[1, "a"]], [[1], [1, "a", 2], ["a", 1], None]),
        (MapOf(forms.BYTES, forms.TEXT), [{b"a": "b"}], [{"a": "b"}, {b"a": 1}, []]),
        (THING, [{"name": "a"}], [{}, {"name": 1}, [], None, {"name": "a", "tags": "b"}]),
    ],
)
def test_forms_read_the_right_and_refuse_the_wrong(form: Form, right: list[Any], wrong: list[Any]) -> None:
    """A value of a wrong type is refused with the place where it was found."""
    for value in right:
        form.read(value, "place")
    for value in wrong:
        with pytest.raises(RemoteProtocolError, match="place"):
            form.read(value, "place")


def test_number_is_a_float() -> None:
    """An integer that is sent for a float is read as one."""
    assert isinstance(forms.NUMBER.read(2, "x"), float)


def test_record_round_trip() -> None:
    """`None` is left out and comes back; a missing field takes its default; a new one is ignored."""
    thing = Thing("a", None, ("b",), {"c": 1})
    written = THING.write(thing)
    assert written == {"name": "a", "tags": ["b"], "more": {"c": 1}}
    assert THING.read({**written, "new": 1}, "x") == thing
    assert THING.read({"name": "a", "size": 3}, "x") == Thing("a", 3)


def test_place_is_named_to_the_field() -> None:
    """The message says where in the record the fault is."""
    with pytest.raises(RemoteProtocolError, match=r"reply\.name: a str is expected, not int"):
        THING.read({"name": 1}, "reply")
    with pytest.raises(RemoteProtocolError, match=r"reply\.name is missing"):
        THING.read({}, "reply")


def test_place_is_named_to_the_field_of_an_inner_record() -> None:
    """The way to it is told too, and which part of a map is wrong does not change it."""
    outer = Record(
        Thing, {"name": forms.TEXT, "size": Optional(THING), "tags": MapOf(forms.TEXT, forms.NUMBER)}
    )
    with pytest.raises(RemoteProtocolError, match=r"^reply\.size\.more: an int is expected, not str$"):
        outer.read({"name": "a", "size": {"name": "b", "size": 1, "more": {"c": 1, "d": "e"}}}, "reply")
    with pytest.raises(RemoteProtocolError, match=r"^reply\.size\.name is missing$"):
        outer.read({"name": "a", "size": {"size": 1}}, "reply")
    with pytest.raises(RemoteProtocolError, match=r"^reply\.tags: a finite float is expected, not float$"):
        outer.read({"name": "a", "tags": {"b": 1.5, "c": float("inf")}}, "reply")


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (forms.INTEGER, [1]),
        (forms.BYTES, [b"a"]),
        (forms.READABLE, ["a"]),
        (forms.NUMBER, [1.5]),
        (forms.PLAIN, [{"a": 1}]),
        (Optional(forms.TEXT), [None, "a"]),
        (Optional(forms.PLAIN), [None, {"a": 1}]),
        (OneOf(("a", "b")), ["a"]),
        (ListOf(forms.TEXT), [["a"]]),
    ],
)
def test_what_is_left_out_would_change_nothing(form: Form, values: list[Any]) -> None:
    """Where a form says that it need not be called for a value, calling it returns that value."""
    for value in values:
        if form.writes_as_is:
            assert form.write(value) is value
        if type(value) in form.plain_types:
            assert form.read(value, "x") is value


def test_a_type_whose_values_differ_is_not_plain() -> None:
    """What is looked at closer than by its type is always looked at."""
    for form in (forms.NUMBER, forms.PLAIN, OneOf(("a",)), ListOf(forms.TEXT), MapOf(forms.TEXT, forms.TEXT)):
        assert not form.plain_types


def test_record_of_one_field() -> None:
    """It is written as one of many is."""
    assert Record(Thing, {"name": forms.TEXT}).write(Thing("a", 1)) == {"name": "a"}


def test_fields_of_a_table() -> None:
    """Lines such as `name?: str` are what content is checked by."""
    lines = Fields(("a: int", "b?: bytes"))
    lines.check({"a": 1}, "x")
    lines.check({"a": 1, "b": None, "new": 2}, "x")
    for content in ({}, {"a": None}, {"a": 1, "b": "text"}):
        with pytest.raises(RemoteProtocolError):
            lines.check(content, "x")


def test_plain_keeps_what_can_travel() -> None:
    """Plain values are as they were; what is too deep or cannot travel becomes text."""
    value = {"a": [1, None, True, b"\xff", 1.5, (2,)], "b": {"c": "d"}}
    assert forms.plain(value) == {"a": [1, None, True, b"\xff", 1.5, [2]], "b": {"c": "d"}}
    deep: Any = "end"
    for _ in range(100):
        deep = [deep]
    assert "end" in str(forms.plain(deep))
    assert forms.plain({1: 2**64}) == {"1": str(2**64)}
