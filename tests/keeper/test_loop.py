"""Who is called back for a descriptor, and that nobody is for another's event."""

import os
from collections.abc import Iterator

import pytest

from execzmq.keeper.loop import Loop


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    """Three pipes with a byte in each."""
    pipes = [os.pipe() for _ in range(3)]
    for _, writer in pipes:
        os.write(writer, b"x")
    yield pipes
    for ends in pipes:
        for fd in ends:
            os.close(fd)


def test_all_that_can_be_read_is_served(pipes: list[tuple[int, int]]) -> None:
    """One turn serves them all, and only once."""
    loop, served = Loop(), list[int]()
    for fd, _ in pipes:
        loop.watch(fd, lambda fd=fd: served.append(fd))  # type: ignore[misc]
    loop.serve(0.0)
    assert sorted(served) == [fd for fd, _ in pipes]


def test_no_event_for_who_came_during_the_turn(pipes: list[tuple[int, int]]) -> None:
    """A number that is given back and watched for another, or not at all, has no event of before."""
    loop, served = Loop(), list[str]()
    (first, _), (second, _), (third, _) = pipes

    def change() -> None:
        served.append("first")
        loop.unwatch(second)
        loop.watch(second, lambda: served.append("another"))
        loop.unwatch(third)
        loop.unwatch(third)

    loop.watch(first, change)
    loop.watch(second, lambda: served.append("second"))
    loop.watch(third, lambda: served.append("third"))
    loop.serve(0.0)
    assert served == ["first"]
    loop.unwatch(first)
    loop.serve(0.0)
    assert served == ["first", "another"]


def test_interrupted_turn_is_over(pipes: list[tuple[int, int]]) -> None:
    """What is left comes again."""
    loop, served = Loop(), list[int]()
    for fd, _ in pipes[:2]:

        def serve(fd: int = fd) -> None:
            served.append(fd)
            loop.interrupt()

        loop.watch(fd, serve)
    loop.serve(0.0)
    assert len(served) == 1
