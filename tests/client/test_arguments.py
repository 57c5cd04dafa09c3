"""What the keywords of `start` and `run` become, and what is taken from the caller's own process."""

import os
import re
import threading
from collections.abc import Mapping

import pytest

from execzmq.client.arguments import START_DEFAULTS, StartOptions, start_params, this_process
from execzmq.client.plan import (
    RUN_DEFAULTS,
    SUBPROCESS_DEFAULTS,
    RunOptions,
    SubprocessOptions,
    popen_plan,
    run_plan,
)
from execzmq.errors import InvalidRequest
from execzmq.types.params import Limits


def test_variables_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are there, as bytes, as they are at that moment; the copy is the caller's."""
    monkeypatch.setenv("EXECZMQ_TEST", "ä")
    monkeypatch.delenv("HOME")
    caller = this_process()
    assert caller.env == dict(os.environb)
    caller.env[b"EXECZMQ_MORE"] = b""
    assert "EXECZMQ_MORE" not in os.environ


@pytest.mark.parametrize("stored", [None, {"HOME": b"/"}, {b"HOME": "/"}, [b"HOME"]])
def test_variables_of_a_python_that_keeps_them_otherwise(
    monkeypatch: pytest.MonkeyPatch, stored: object
) -> None:
    """Where the mapping is not made as expected it is asked as any mapping is."""

    class Variables(dict[bytes, bytes]):
        _data = stored

    monkeypatch.setattr(os, "environb", Variables({b"A": b"b"}))
    assert this_process().env == {b"A": b"b"}


def test_variables_while_another_thread_changes_them() -> None:
    """A thread that sets and removes variables makes no call fail."""
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            os.environ["EXECZMQ_TEST"] = "x"
            del os.environ["EXECZMQ_TEST"]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(2_000):
            this_process()
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("keywords", "defaults"),
    [(StartOptions, START_DEFAULTS), (RunOptions, RUN_DEFAULTS), (SubprocessOptions, SUBPROCESS_DEFAULTS)],
)
def test_each_keyword_has_a_default(keywords: type, defaults: Mapping[str, object]) -> None:
    """A keyword that has none would be refused as unknown."""
    assert defaults.keys() == keywords.__annotations__.keys()


def test_defaults_ask_for_what_always_holds() -> None:
    """No default is a keyword that cannot cross."""
    assert run_plan(["true"], RUN_DEFAULTS, None) == run_plan(["true"], {}, None)
    assert popen_plan(["true"], SUBPROCESS_DEFAULTS, None) == popen_plan(["true"], {}, None)
    assert start_params(["true"], START_DEFAULTS, None) == start_params(["true"], {}, None)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(memory="1.5G"), "the limit of memory is '1.5G': give a whole number of bytes"),  # type: ignore[arg-type]  # that it is wrong
        (Limits(file_size=1.5e9), "the limit of file_size is 1500000000.0: give a whole number of bytes"),  # type: ignore[arg-type]  # that it is wrong
        (Limits(cpu=True), "the limit of cpu is True: give a whole number of seconds"),
        (Limits(processes=0), "with processes=0 no command can run: ask for at least 1"),
        (Limits(memory=64 << 10), "with memory=65536 no command can run: ask for at least 4194304"),
        (Limits(cpu=0), "with cpu=0 no command can run: ask for at least 1"),
        (Limits(descriptors=-1), "with descriptors=-1 no command can run: ask for at least 0"),
    ],
)
def test_limits_that_are_none(limits: Limits, told: str) -> None:
    """A limit that no command can run with, or that is no number, is told before anything is asked for."""
    with pytest.raises(InvalidRequest, match=re.escape(told)) as caught:
        start_params("true", {**START_DEFAULTS, "limits": limits}, None)
    assert caught.value.details["field"].startswith("limits.")
