"""The protocol document says what the code does: its tables, its bounds, its example."""

import dataclasses
import re
from pathlib import Path

import pytest

from execzmq import settings
from execzmq.protocol.methods import EVENT_KINDS
from execzmq.protocol.wire import Codec
from execzmq.settings import PROTOCOL_VERSION
from execzmq.types.params import EnvPolicy, Limits, SandboxIntent
from execzmq.types.results import ExitResult, ProcessInfo
from execzmq.types.sharing import ShareInfo
from tests.protocol import document
from tests.protocol.document import MARKED, PAGE, PARTS, ROLES
from tests.protocol.samples import KEY, load

TEXT = PAGE.read_text()


def test_tables_are_those_of_the_code() -> None:
    """Every marked part is what the code gives; `python -m tests.protocol.document` makes it so."""
    pages = TEXT, ROLES.read_text()
    assert {match[1] for page in pages for match in MARKED.finditer(page)} == set(PARTS)
    for page in pages:
        assert document.renewed(page) == page


@pytest.mark.parametrize("cls", [ExitResult, ProcessInfo, EnvPolicy, Limits, SandboxIntent, ShareInfo])
def test_every_field_is_named(cls: type) -> None:
    """No field of a map is missing from the page."""
    missing = [field.name for field in dataclasses.fields(cls) if f"`{field.name}`" not in TEXT]
    assert not missing


def test_every_kind_of_event_is_named() -> None:
    """Each kind has its row in the table of pages."""
    table = TEXT.partition("| kind | what follows |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|\n)", table + "\n")) >= set(EVENT_KINDS)


def test_every_limit_of_a_message_is_in_the_table() -> None:
    """No bound of the settings that a peer can meet is left out."""
    bounds = [name for name in dir(settings) if name.startswith("MAX_")]
    used = Path(document.__file__).read_text()
    assert not [name for name in bounds if f"settings.{name}" not in used]


def test_version_is_the_code_s() -> None:
    """The page speaks of the protocol that the code speaks, and its changes name it."""
    assert f"This is protocol **{PROTOCOL_VERSION}**" in TEXT
    assert f"* **{PROTOCOL_VERSION}**: " in TEXT.partition("## Changes")[2]


def test_times_in_the_text_are_the_settings() -> None:
    """Numbers in sentences follow the settings too."""
    for sentence in (
        f"Answers are kept for {settings.REPLY_KEPT:.0f} seconds",
        f"`lease` with `seconds` up to {settings.LEASE:.0f}",
        f"`read` with `wait` {settings.LONG_POLL:.0f}",
        f"at most {settings.PAGES_PER_CLIENT >> 20} MiB of pages",
        f"Hold at most {settings.HELD_BYTES >> 20} MiB",
        f"more than {settings.LIVE_EVENT >> 10} KiB",
        f"has {settings.STDIN_UNREAD >> 20} MiB to read",
        "the state 0.2, 1 and 5 seconds after",
    ):
        assert sentence in " ".join(TEXT.split())
    assert settings.TAIL_DELAYS == (0.2, 1.0, 5.0)
    assert (settings.RESEND_AFTER, settings.QUIET_AFTER, settings.STARTER_GONE) == (5.0, 5.0, 10.0)


@pytest.mark.parametrize("name", ["signal_request", "signal_reply"])
def test_example_is_a_message(name: str) -> None:
    """The hex of the page decodes, with the key of the page, to the content of the page."""
    block = TEXT.partition(f"`{name}`:\n\n```text\n")[2].partition("```")[0]
    frames = [bytes.fromhex(part.partition("\n")[2]) for part in block.split("# ")[1:]]
    assert frames == load(name)
    assert f"the key `{KEY.decode()}`" in TEXT
    content = Codec(KEY, "any").decode(frames).content
    assert str(content).replace("'", '"') in TEXT
