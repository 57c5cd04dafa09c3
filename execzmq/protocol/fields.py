"""Own the checks of what is inside `content`: forms of single values, records of them, and fields of methods.

A form writes a value that this side made, and reads one that the other side sent, which may be anything that
msgpack can carry. Reading raises `RemoteProtocolError` and nothing else; `where` names the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, fields
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, Protocol, TypeVar

from execzmq.errors import RemoteProtocolError

T = TypeVar("T")

_PLAIN_DEPTH = 8
_INT_RANGE = range(-(2**63), 2**64)


class Form(Protocol):
    """How one value looks on the wire."""

    @property
    def optional(self) -> bool:
        """Tell whether the value may be `None`, and its field missing."""

    @property
    def writes_as_is(self) -> bool:
        """Tell whether `write` returns what it is given, so that it need not be called."""

    @property
    def plain_types(self) -> frozenset[type]:
        """Name the types whose every value `read` returns as it is, so that it need not be called."""

    def write(self, value: Any) -> Any:
        """Return what is packed."""

    def read(self, value: object, where: str) -> Any:
        """Return the value that was packed.

        Raises:
            RemoteProtocolError: it is not of this form.
        """


def wrong(where: str, expected: str, value: object) -> RemoteProtocolError:
    """Return the error that says what was expected at a place and what type is there."""
    return RemoteProtocolError(f"{where}: {expected} is expected, not {type(value).__name__}")


class Scalar:
    """A value of exactly one of some types; a bool is no int here.

    Args:
        types: of which every value is right; none where more than the type is to be looked at.
    """

    optional = False
    writes_as_is = True

    def __init__(self, name: str, *types: type) -> None:
        self._name = name
        self.plain_types = frozenset(types)

    def write(self, value: Any) -> Any:
        return value

    def read(self, value: object, where: str) -> Any:
        if type(value) not in self.plain_types:
            raise wrong(where, self._name, value)
        return value


class _Number(Scalar):
    """A finite number; an int is accepted."""

    def read(self, value: object, where: str) -> float:
        if type(value) is float and -math.inf < value < math.inf:
            return value
        if type(value) is int:
            return float(value)
        raise wrong(where, "a finite float", value)


class _Readable(Scalar):
    """Text for people, in which what is not valid Unicode is escaped instead of refused."""

    writes_as_is = False

    def write(self, value: Any) -> Any:
        return readable(value)


class _Plain(Scalar):
    """A map with str keys whose values are whatever they are."""

    writes_as_is = False

    def write(self, value: Any) -> Any:
        return plain(value)

    def read(self, value: object, where: str) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise wrong(where, "a map with str keys", value)
        return value


INTEGER = Scalar("an int", int)
NUMBER = _Number("a float")
BOOLEAN = Scalar("a bool", bool)
TEXT = Scalar("a str", str)
READABLE = _Readable("a str", str)
BYTES = Scalar("bytes", bytes)
LIST = Scalar("a list", list)
MAP = Scalar("a map", dict)
PLAIN = _Plain("a map")

BY_NAME: dict[str, Form] = {
    "str": TEXT,
    "bytes": BYTES,
    "int": INTEGER,
    "float": NUMBER,
    "bool": BOOLEAN,
    "map": MAP,
    "list": LIST,
}
"""The types that the tables of methods and broadcasts name."""


class Optional:
    """`None` or another form; the field may be missing."""

    optional = True

    def __init__(self, form: Form) -> None:
        self._form = form
        self.writes_as_is = form.writes_as_is
        self.plain_types = form.plain_types | {NoneType}

    def write(self, value: Any) -> Any:
        return None if value is None else self._form.write(value)

    def read(self, value: object, where: str) -> Any:
        return None if value is None else self._form.read(value, where)


class OneOf:
    """One of some words."""

    optional = False
    writes_as_is = True
    plain_types: frozenset[type] = frozenset()

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(words)

    def write(self, value: Any) -> Any:
        return value

    def read(self, value: object, where: str) -> Any:
        if type(value) is not str or value not in self._words:
            raise RemoteProtocolError(f"{where}: one of {', '.join(self._words)} is expected")
        return value


class ListOf:
    """A list of one form, read as a tuple."""

    optional = False
    writes_as_is = False
    plain_types: frozenset[type] = frozenset()

    def __init__(self, form: Form) -> None:
        self._form = form

    def write(self, value: Any) -> Any:
        return list(_write_all(self._form, value))

    def read(self, value: object, where: str) -> Any:
        if type(value) is not list:
            raise wrong(where, "a list", value)
        return tuple(_read_all(self._form, value, where))


class PairOf:
    """A list of two, each of its form, read as a tuple."""

    optional = False
    writes_as_is = False
    plain_types: frozenset[type] = frozenset()

    def __init__(self, first: Form, second: Form) -> None:
        self._first = first
        self._second = second

    def write(self, value: Any) -> Any:
        return [self._first.write(value[0]), self._second.write(value[1])]

    def read(self, value: object, where: str) -> Any:
        if type(value) is not list or len(value) != 2:
            raise wrong(where, "a list of two", value)
        return self._first.read(value[0], where), self._second.read(value[1], where)


class MapOf:
    """A map from one form to another."""

    optional = False
    writes_as_is = False
    plain_types: frozenset[type] = frozenset()

    def __init__(self, key: Form, value: Form) -> None:
        self._key = key
        self._value = value

    def write(self, value: Any) -> Any:
        return dict(zip(_write_all(self._key, value), _write_all(self._value, value.values()), strict=True))

    def read(self, value: object, where: str) -> Any:
        if type(value) is not dict:
            raise wrong(where, "a map", value)
        given = value.values()
        keys, items = _read_all(self._key, value, where), _read_all(self._value, given, where)
        return value if keys is value and items is given else dict(zip(keys, items, strict=True))


def _write_all(form: Form, values: Collection[Any]) -> Collection[Any]:
    return values if form.writes_as_is else [form.write(value) for value in values]


def _read_all(form: Form, values: Collection[object], where: str) -> Collection[Any]:
    """Return the values as they are where their types are all that is to be looked at."""
    plain_types = form.plain_types
    for value in values:
        if type(value) not in plain_types:
            return [form.read(value, where) for value in values]
    return values


class Record(Generic[T]):
    """A dataclass as a map of its fields; those that are `None` are left out.

    Args:
        forms: form by field; a field without form does not cross the wire.
    """

    optional = False
    writes_as_is = False
    plain_types: frozenset[type] = frozenset()

    def __init__(self, cls: Callable[..., T], forms: dict[str, Form]) -> None:
        self._cls = cls
        self._forms = forms
        self._values_of = _values_of(*forms)
        self._defaulted = {
            field.name
            for field in fields(cls)  # type: ignore[arg-type]  # a dataclass; Callable says how it is made
            if field.default is not MISSING or field.default_factory is not MISSING
        }

    def write(self, value: T) -> dict[str, Any]:
        written = {}
        for (name, form), item in zip(self._forms.items(), self._values_of(value), strict=True):
            if item is not None:
                written[name] = item if form.writes_as_is else form.write(item)
        return written

    def read(self, value: object, where: str) -> T:
        if type(value) is not dict:
            raise wrong(where, "a map", value)
        try:
            return self._cls(**self._arguments(value))
        except RemoteProtocolError as error:
            # Only an error needs the way to its place, which each record on it adds to.
            raise RemoteProtocolError(f"{where}.{error.message}") from None

    def _arguments(self, value: dict[str, Any]) -> dict[str, Any]:
        arguments = {}
        for name, form in self._forms.items():
            if name in value:
                item = value[name]
                arguments[name] = item if type(item) in form.plain_types else form.read(item, name)
            elif form.optional:
                arguments[name] = None
            elif name not in self._defaulted:
                raise RemoteProtocolError(f"{name} is missing")
        return arguments


def _values_of(*names: str) -> Callable[[object], tuple[Any, ...]]:
    """Return what takes these attributes of an object at once."""
    getter: Callable[[object], Any] = attrgetter(*names)
    return getter if len(names) > 1 else lambda value: (getter(value),)


class Fields:
    """The fields of one reply or broadcast, from lines such as `name?: str`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._forms: dict[str, Form] = {}
        for line in lines:
            name, _, kind = line.partition(": ")
            form = BY_NAME[kind]
            self._forms[name.removesuffix("?")] = Optional(form) if name.endswith("?") else form

    def check(self, content: dict[str, Any], where: str) -> None:
        """Check that every field is there and of its type; fields that are not known are ignored.

        Raises:
            RemoteProtocolError: one is missing or wrong.
        """
        for name, form in self._forms.items():
            if name in content:
                if type(content[name]) not in form.plain_types:
                    form.read(content[name], name)
            elif not form.optional:
                raise RemoteProtocolError(f"{where}: {name} is missing")


def readable(text: str) -> str:
    """Return the text with escapes in place of what is not valid Unicode (lone surrogates)."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def plain(value: object, depth: int = _PLAIN_DEPTH) -> Any:
    """Return the value, or a readable likeness of it, as something that can always be packed."""
    if value is None or isinstance(value, (bool, float, bytes)):
        return value
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, int) and value in _INT_RANGE:
        return int(value)
    if depth > 0 and isinstance(value, dict):
        return {readable(str(key)): plain(item, depth - 1) for key, item in value.items()}
    if depth > 0 and isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value]
    return readable(str(value))
