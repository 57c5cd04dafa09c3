"""The schema, the examples, their description and the code agree on what a connection file holds."""

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from execzmq.connection import ConnectionInfo, load, write_connection_file
from tests.examples import blocks
from tests.sources import ROOT

FOLDER = ROOT / "connection-files"
SCHEMA: dict[str, Any] = json.loads((FOLDER / "connection-file.schema.json").read_text())
EXAMPLES = sorted(path for path in FOLDER.glob("*.json") if path.name != "connection-file.schema.json")
IPC_OWNER: dict[str, Any] = json.loads((FOLDER / "ipc-owner.json").read_text())

validator = jsonschema.Draft202012Validator(SCHEMA)


def _name(path: Path) -> str:
    return path.stem


def test_schema_is_one() -> None:
    """The schema itself is a valid schema."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_schema_has_the_fields_of_the_code() -> None:
    """What the code writes and reads is what the schema describes."""
    assert {field.name for field in dataclasses.fields(ConnectionInfo)} == set(SCHEMA["properties"])


def test_description_names_every_field() -> None:
    """The page that goes with the schema explains each field, and shows the example as it is."""
    page = (FOLDER / "README.md").read_text()
    assert not {name for name in SCHEMA["properties"] if f"| `{name}` |" not in page}
    assert [json.loads(block.text) for block in blocks(page) if block.language == "json"] == [IPC_OWNER]


@pytest.mark.parametrize("path", EXAMPLES, ids=_name)
def test_example_is_valid_and_can_be_read(path: Path, tmp_path: Path) -> None:
    """Each example keeps to the schema, and the client reads from it what it says."""
    content = json.loads(path.read_text())
    validator.validate(content)
    copy = tmp_path / "copy.json"
    shutil.copyfile(path, copy)
    copy.chmod(0o600)
    read = dataclasses.asdict(load(copy))
    assert {name: read[name] for name in content} == content


def test_example_says_where_its_sockets_are(tmp_path: Path) -> None:
    """The page's claim about the path of the shell socket holds."""
    assert ConnectionInfo(**IPC_OWNER).endpoint("shell") == "ipc:///run/user/1000/execzmq/default/s-1"


def test_written_file_keeps_to_the_schema(tmp_path: Path) -> None:
    """What the server writes is valid, and nothing but what it was told."""
    path = tmp_path / "connection.json"
    write_connection_file(path, ConnectionInfo(**IPC_OWNER))
    content = json.loads(path.read_text())
    validator.validate(content)
    assert content == IPC_OWNER


@pytest.mark.parametrize("missing", SCHEMA["required"] + ["epoch", "pid"])
def test_local_file_needs_field(missing: str) -> None:
    """A local file without one of its fields is not valid."""
    assert not validator.is_valid({name: value for name, value in IPC_OWNER.items() if name != missing})


@pytest.mark.parametrize(
    "change",
    [
        {"transport": "udp"},
        {"ip": "relative/path"},
        {"shell_port": 0},
        {"hb_port": 65536},
        {"key": ""},
        {"signature_scheme": "hmac-md5"},
        {"kernel_name": "python3"},
        {"role": "observer"},
        {"pid": 0},
        {"curve_serverkey": "x" * 40},
    ],
    ids=str,
)
def test_local_file_with_bad_value_is_not_valid(change: dict[str, Any]) -> None:
    """The schema refuses values that no local server writes."""
    assert not validator.is_valid({**IPC_OWNER, **change})


def test_unknown_field_is_ignored() -> None:
    """A file of a newer server stays valid."""
    assert validator.is_valid({**IPC_OWNER, "later": True})


def test_network_file_has_all_curve_keys_or_none() -> None:
    """Half a set of keys is no set."""
    content = {name: value for name, value in IPC_OWNER.items() if name not in ("epoch", "pid")}
    content |= {"transport": "tcp", "ip": "192.0.2.7", "key": "", "curve_serverkey": "x" * 40}
    assert not validator.is_valid(content)
    assert validator.is_valid({**content, "curve_publickey": "y" * 40, "curve_secretkey": "z" * 40})


def test_on_a_full_disk_the_old_file_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its owner's own, and nothing of it stays; without one there is nothing to be done."""
    path = tmp_path / "connection.json"
    info = ConnectionInfo(**IPC_OWNER)
    write_connection_file(path, dataclasses.replace(info, hostname="a-much-longer-name" * 9))

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", refuse)
    write_connection_file(path, info)
    assert load(path) == info
    assert os.listdir(tmp_path) == [path.name]
    path.chmod(0o644)
    for refused in (path, tmp_path / "other.json"):
        with pytest.raises(OSError, match="No space"):
            write_connection_file(refused, info)
    assert os.listdir(tmp_path) == [path.name]
