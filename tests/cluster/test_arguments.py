"""What the calls of a cluster take, and what they refuse before Dask hears of it."""

from typing import Any

import pytest

from execzmq.cluster.arguments import commands_of, resources_of
from execzmq.errors import InvalidRequest


def test_what_is_taken() -> None:
    """Names with numbers, nothing, and whatever has several commands."""
    assert resources_of({"GPU": 1, "MEM": 0.5}) == {"GPU": 1, "MEM": 0.5}
    assert resources_of(None) is None
    assert commands_of(word for word in ("a", "b")) == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (["GPU"], TypeError, 'such as {"GPU": 1}, not list'),
        ("GPU", TypeError, "not str"),
        ({1: 1}, TypeError, "a name in resources must be a str"),
        ({"GPU": "1"}, TypeError, r"resources\['GPU'\] must be a number, not str"),
        ({"GPU": True}, TypeError, "must be a number, not bool"),
        ({"GPU": -1}, InvalidRequest, r"resources\['GPU'\] is -1: give a number of 0 or more"),
        ({"GPU": float("nan")}, InvalidRequest, "is nan"),
        ({"GPU": float("inf")}, InvalidRequest, "is inf"),
    ],
)
def test_resources_that_are_none(value: Any, error: type[Exception], words: str) -> None:
    """Dask would drop such a task without a word to whoever waits for it."""
    with pytest.raises(error, match=words):
        resources_of(value)


@pytest.mark.parametrize("value", ["rm old", b"rm old", 3])
def test_one_command_is_not_many(value: Any) -> None:
    """The characters of a line are no commands."""
    with pytest.raises(TypeError, match=r"must be a list of commands, not .*: run takes one"):
        commands_of(value)
