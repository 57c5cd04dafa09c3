"""What is refused without being tried."""

from typing import Any

import pytest

from execzmq.keeper.launch import (
    MAX_STRING_BYTES,
    Environment,
    Launch,
    SpawnError,
    Tty,
    check_launch,
    entries_of,
)

GOOD = Launch(process_id="p", argv=(b"true",), env={b"A": b"1"})


@pytest.mark.parametrize(
    ("change", "reason", "entry"),
    [
        ({"argv": ()}, "empty_argv", None),
        ({"argv": (b"",)}, "empty_program", None),
        ({"argv": (b"printf", b"a\0b")}, "nul_in_name", "argv[1]"),
        ({"cwd": b"/a\0b"}, "nul_in_name", "cwd"),
        ({"folder": b"/a\0b"}, "nul_in_name", "folder"),
        ({"arg0": b"\0"}, "nul_in_name", "arg0"),
        ({"env": {b"A": b"\0"}}, "nul_in_name", "env A"),
        ({"env": {b"A\0": b""}}, "nul_in_name", "env A\0"),
        ({"argv": (b"true", b"x" * (MAX_STRING_BYTES + 1))}, "argument_too_long", "argv[1]"),
        ({"env": {b"A": b"x" * (MAX_STRING_BYTES - 1)}}, "argument_too_long", "env A"),
    ],
)
def test_wrong_strings_are_named_c27_c29_c45(change: dict[str, Any], reason: str, entry: str | None) -> None:
    """A refusal says which string is wrong."""
    with pytest.raises(SpawnError) as refused:
        check_launch(GOOD._replace(**change))
    assert refused.value.reason == reason
    assert refused.value.details.get("entry") == entry


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"env": {b"": b"1"}}, "invalid_env_name"),
        ({"env": {b"A=B": b"1"}}, "invalid_env_name"),
        ({"limits": {"nosuch": (1, 1)}}, "invalid_limit"),
        ({"limits": {"cpu": (2, 1)}}, "invalid_limit"),
        ({"limits": {"cpu": (None, 1)}}, "invalid_limit"),
        ({"limits": {"cpu": (-1, None)}}, "invalid_limit"),
        ({"tty": Tty(0, 0)}, "invalid_terminal_size"),
        ({"tty": Tty(70_000, 1)}, "invalid_terminal_size"),
        ({"passed": {"a": 2}}, "invalid_descriptor"),
        ({"passed": {"a": 3, "b": 3}}, "invalid_descriptor"),
        ({"passed": {"pidfd": 3}}, "invalid_descriptor"),
    ],
)
def test_wrong_values_are_refused_c38_c45(change: dict[str, Any], reason: str) -> None:
    """Env names, limits, sizes and descriptor numbers that cannot be are refused by name."""
    with pytest.raises(SpawnError) as refused:
        check_launch(GOOD._replace(**change))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "change",
    [
        {"argv": (b"true", b"x" * MAX_STRING_BYTES)},
        {"env": {b"A": b"x" * (MAX_STRING_BYTES - 2), b"\xfe": b"="}},
        {"env": {}},
        {"limits": {"cpu": (1, 2), "core": (0, None), "stack": (None, None)}},
        {"tty": Tty(65_535, 1)},
        {"passed": {"a": 3, "b": 9}},
    ],
)
def test_the_utmost_is_allowed_c29(change: dict[str, Any]) -> None:
    """What is just possible passes."""
    check_launch(GOOD._replace(**change))


def test_descriptors_travel_in_order() -> None:
    """The descriptors' names are stdin first, then the passed ones as they were given."""
    assert GOOD._replace(stdin="fd", passed={"b": 5, "a": 4}).descriptor_names == ("stdin", "b", "a")
    assert GOOD.descriptor_names == ()


def test_environment_in_one_block() -> None:
    """A block is a mapping like any other, and its entries are as exec takes them."""
    env = Environment(b"A=1\0B=x=y\0C=\0AB=2")
    assert env == {b"A": b"1", b"B": b"x=y", b"C": b"", b"AB": b"2"}
    assert (len(env), env.get(b"C"), env.get(b"D")) == (4, b"", None)
    assert entries_of(env) == entries_of(dict(env)) == [b"A=1", b"B=x=y", b"C=", b"AB=2"]
    assert Environment(b"") == {}


@pytest.mark.parametrize("block", [b"A", b"=1", b"A=1\0", b"A=1\0\0B=2"])
def test_environment_of_wrong_entries(block: bytes) -> None:
    """Each entry has a name."""
    with pytest.raises(ValueError, match="entry"):
        Environment(block)
