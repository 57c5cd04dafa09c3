"""The check of what comes in."""

import typing
from typing import Any

import pytest
from pydantic import ValidationError

from execzmq.errors import InvalidRequest
from execzmq.protocol.methods import METHODS
from execzmq.protocol.values import params_to_wire
from execzmq.server import requests
from execzmq.types.params import EnvPolicy, ExecParams, Limits, SandboxIntent, TtySize

KINDS = {
    "str": (str,),
    "bytes": (bytes,),
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "map": (dict, requests.Request),
    "list": (list,),
}

RICH = ExecParams(
    argv=(b"a\xff", b""),
    process_id="p",
    name="n",
    cwd=b"/\xfe",
    env={b"A": b"\xff"},
    env_policy=EnvPolicy("core", ("X*",), {b"B": b"1"}, ("A", "B")),
    stdin="data",
    stdin_data=b"in",
    tty=True,
    tty_size=TtySize(1, 65535),
    tty_echo=False,
    merge_stderr=True,
    timeout=1.5,
    timeout_grace=0.0,
    lifetime="client",
    backpressure="pause",
    log_budget=1 << 20,
    drain_limit=0.0,
    umask=0o22,
    arg0=b"z",
    limits=Limits(1, 2, 3, 4, 5),
    sandbox=SandboxIntent("read-only", (b"/w",), "proxy", ("a.example",)),
)


def fields_of(method: str) -> dict[str, tuple[bool, str]]:
    """Return the fields of a request by the table: whether one may be missing, and its type."""
    found = {}
    for field in METHODS[method].request:
        name, _, kind = field.partition(": ")
        found[name.removesuffix("?")] = (name.endswith("?"), kind)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_the_models_have_the_fields_of_the_table(method: str) -> None:
    """Neither more nor fewer, with the same types, and the same ones may be missing."""
    model = requests.MODELS[method]
    table = fields_of(method)
    assert set(model.model_fields) == set(table)
    hints = typing.get_type_hints(model)
    for name, field in model.model_fields.items():
        optional, kind = table[name]
        assert (not field.is_required()) == optional, name
        assert _fits(hints[name], KINDS[kind]), (name, hints[name])


def _fits(hint: Any, kinds: tuple[type, ...]) -> bool:
    if typing.get_origin(hint) is typing.Annotated:
        return _fits(typing.get_args(hint)[0], kinds)
    if typing.get_origin(hint) is typing.Literal:
        return all(isinstance(value, kinds) for value in typing.get_args(hint))
    arguments = [one for one in typing.get_args(hint) if one is not type(None)]
    if len(arguments) == 1 and type(None) in typing.get_args(hint):
        return _fits(arguments[0], kinds)
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, kinds)


@pytest.mark.parametrize("params", [ExecParams(argv=(b"true",)), RICH])
def test_parameters_survive_the_way(params: ExecParams) -> None:
    """What a client writes is what the server reads."""
    content, buffers = params_to_wire(params)
    for method, model, more in (
        ("start", requests.Start, {"epoch": "e"}),
        ("explain", requests.Explain, {}),
    ):
        request = requests.check(method, {**more, **content})
        assert isinstance(request, model)
        assert request.params(bytes(buffers[0]) if buffers else b"") == params


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"argv": []}, "argv"),
        ({"argv": ["text"]}, "argv.0"),
        ({"process_id": "a.b"}, "process_id"),
        ({"process_id": "a\n"}, "process_id"),
        ({"process_id": ""}, "process_id"),
        ({"process_id": "x" * 65}, "process_id"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"merge_stderr": 1}, "merge_stderr"),
        ({"umask": 0o1000}, "umask"),
        ({"sandbox": {"profile": "p", "network": "lan"}}, "sandbox.network"),
        ({"sandbox": {"profile": "p", "allowed_hosts": ["a"] * 257}}, "sandbox.allowed_hosts"),
        ({"sandbox": {"profile": "p", "workspace_roots": ["a"]}}, "sandbox.workspace_roots.0"),
        ({"env_policy": {"inherit": "some"}}, "env_policy.inherit"),
        ({"tty": {"rows": 0, "cols": 80}}, "tty.rows"),
        ({"tty": {"rows": 24, "cols": 70000}}, "tty.cols"),
        ({"log_budget": 1}, "log_budget"),
        ({"surprise": 1}, "surprise"),
        ({"stdin": "inherit"}, "stdin"),
    ],
)
def test_what_is_wrong_is_named_without_its_value(change: dict[str, Any], named: str) -> None:
    """A field, and what is the matter with it; never what was sent."""
    content, _ = params_to_wire(ExecParams(argv=(b"true",)))
    with pytest.raises(InvalidRequest) as caught:
        requests.check("start", {"epoch": "e", **content, **change})
    assert named in caught.value.fields
    assert caught.value.message.startswith("start: ")


def test_a_secret_value_is_not_repeated() -> None:
    """Errors travel and are logged."""
    content, _ = params_to_wire(ExecParams(argv=(b"true",)))
    with pytest.raises(InvalidRequest) as caught:
        requests.check("start", {"epoch": "e", **content, "env": {b"TOKEN": "hunter2"}})
    assert "hunter2" not in str(caught.value) + str(caught.value.details)


@pytest.mark.parametrize(
    ("method", "change", "named"),
    [
        ("start", {"argv": ["text"] * 200_000}, "argv"),
        ("start", {"env": {str(n): b"" for n in range(200_000)}}, "env"),
        ("start", {str(n): 1 for n in range(200_000)}, "200"),
        ("start", {"tty": {str(n): 1 for n in range(200_000)}}, "tty"),
        ("lease", {"cursors": {str(n): "text" for n in range(200_000)}}, "cursors"),
        ("lease", {"open": [1] * 200_000}, "open"),
    ],
)
def test_very_many_mistakes_are_one(method: str, change: dict[str, Any], named: str) -> None:
    """An error for each of them would hold up all other clients for seconds, and take a gigabyte."""
    content, _ = params_to_wire(ExecParams(argv=(b"true",)))
    with pytest.raises(ValidationError) as caught:
        requests.MODELS[method].model_validate(
            {"epoch": "e", **content, **change}
            if method == "start"
            else {"seconds": 1.0, "cursors": {}, "open": [], **change}
        )
    assert caught.value.error_count() == 1
    assert named in str(caught.value)
