"""What is refused without being tried."""

from typing import Any

import pytest

from execzmq.keeper.launch import MAX_STRING_BYTES, Launch, SpawnError, Tty, check_launch

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
