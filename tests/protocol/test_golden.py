"""Golden frames: what an earlier build wrote is still read, and this build writes the same bytes."""

import pytest

from execzmq.protocol import values
from execzmq.protocol.methods import BROADCASTS, METHODS
from execzmq.protocol.wire import Codec, Message, split
from execzmq.server.requests import Explain, Start, check
from tests.protocol import samples
from tests.protocol.samples import GOLDEN, KEY, SAMPLES, encode, load


def _decode(name: str) -> Message:
    topic, frames = split(load(name))
    assert topic == ([] if SAMPLES[name].topic is None else [SAMPLES[name].topic])
    return Codec(KEY, "any").decode(frames)


def test_every_message_type_has_golden_frames() -> None:
    """No request, reply or broadcast is without golden frames, and no golden frames without a meaning."""
    types = {f"{name}_{way}" for name in METHODS for way in ("request", "reply")} | set(BROADCASTS)
    assert types <= {sample.msg_type for sample in SAMPLES.values()}
    assert {path.stem for path in GOLDEN.iterdir()} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_golden_frames_are_read(name: str) -> None:
    """Golden frames give the values that were written."""
    message = _decode(name)
    assert (message.msg_type, message.content) == (SAMPLES[name].msg_type, SAMPLES[name].content)
    assert message.buffers == SAMPLES[name].buffers
    assert message.header["date"] == samples.DATE


@pytest.mark.parametrize("name", SAMPLES)
def test_golden_frames_are_written(name: str) -> None:
    """The same message gives the same bytes: an older peer reads what this build writes."""
    assert encode(SAMPLES[name]) == load(name)


@pytest.mark.parametrize("name", METHODS)
def test_golden_frames_keep_the_table_of_methods(name: str) -> None:
    """The golden request and reply of a method pass the checks of its table."""
    check(name, _decode(f"{name}_request").content)
    values.check_reply(name, _decode(f"{name}_reply").content)


def test_golden_values() -> None:
    """Golden frames give back the very parameters, page, descriptions, report and error."""
    start, page = _decode("start_request"), _decode("read_reply")
    request = check("start", start.content)
    assert isinstance(request, Start)
    assert request.params(bytes(start.buffers[0])) == samples.PARAMS
    explain = _decode("explain_request")
    explained = check("explain", explain.content)
    assert isinstance(explained, Explain)
    assert explained.params(bytes(explain.buffers[0])) == samples.PROXIED
    assert values.explanation_from_wire(_decode("explain_reply").content)["env"] == [b"HOME", b"PATH"]
    (profile,) = _decode("profiles_reply").content["profiles"]
    assert values.profile_from_wire(profile) == samples.PROFILE
    assert values.read_response_from_wire(page.content, page.buffers) == samples.PAGE
    assert values.process_info_from_wire(_decode("describe_reply").content["process"]) == samples.INFO
    assert values.server_info_from_wire(_decode("info_reply").content) == samples.SERVER_INFO
    assert values.report_from_wire(_decode("terminate_reply").content) == samples.REPORT
    with pytest.raises(type(samples.ERROR), match="no such command") as caught:
        values.check_reply("start", _decode("error_reply").content)
    assert caught.value.details == samples.ERROR.details
