"""What is remembered of a start."""

import json

from execzmq.process.spec import ProcessSpec, key_of, spec_from_record, spec_of, spec_to_record
from execzmq.types.params import EnvPolicy, ExecParams


def spec(**more: object) -> ProcessSpec:
    """Return the spec of a start."""
    params = ExecParams(argv=(b"cat", b"-\xff"), env={b"SECRET": b"s3cret"}, **more)  # type: ignore[arg-type]  # fields
    return spec_of(params, "p", 0xAB, b"/d\xff", 1000, "session", "digest", 5.0)


def test_survives_the_journal() -> None:
    """A spec is the same after a way through the journal, bytes that are no text too."""
    made = spec(name="n", tty=True, timeout=1.5, drain_limit=0.5, lifetime="client", backpressure="pause")
    record = json.loads(json.dumps(spec_to_record(made)))
    assert spec_from_record(record) == made
    assert spec_from_record(record | {"new": 1}) == made


def test_values_of_variables_are_not_kept() -> None:
    """No value of a variable stands in the journal."""
    assert "s3cret" not in json.dumps(spec_to_record(spec()))


def test_key_names_one_life() -> None:
    """The key holds id and instance, and the id can be read from it."""
    assert spec().key == key_of("p", 0xAB) == "p.00000000000000ab"
    assert spec().key.partition(".")[0] == "p"


def test_mark() -> None:
    """A command is marked, but for one whose environment is to be empty."""
    assert spec().mark == b"p.00000000000000ab"
    empty = spec_of(ExecParams(argv=(b"x",), env={}), "p", 1, b"/", 1, "s", "d", 0.0)
    assert empty.mark is None
    chosen = ExecParams(argv=(b"x",), env={}, env_policy=EnvPolicy())
    assert spec_of(chosen, "p", 1, b"/", 1, "s", "d", 0.0).mark is not None
