"""What a sandbox makes of the variables of a command: pure."""

import pytest

from execzmq.sandbox.variables import changed, changes_of

GERMAN = {b"LC_ALL": b"de_DE.UTF-8", b"LC_TIME": b"C", b"A": b"1"}


def test_messages_are_in_english() -> None:
    """What a command says of a refusal is evidence in English; all else stays in the user's language."""
    changes = changes_of(GERMAN, (), "none")
    assert changes == {b"LC_ALL": None, b"LC_TIME": None, b"LANG": b"de_DE.UTF-8", b"LC_MESSAGES": b"C"}
    assert changed(GERMAN, changes) == {b"A": b"1", b"LANG": b"de_DE.UTF-8", b"LC_MESSAGES": b"C"}
    assert changes_of({b"LANG": b"fr_FR"}, (), "none") == {b"LC_MESSAGES": b"C"}


@pytest.mark.parametrize(
    "env",
    [
        {b"A": b"1"},
        {b"LANG": b"C.UTF-8"},
        {b"LC_ALL": b"C", b"LANG": b"fr_FR", b"LC_TIME": b"fr_FR"},
        {b"LC_MESSAGES": b"POSIX", b"LANG": b"fr_FR"},
        {b"TMPDIR": b"/tmp"},
        {},
    ],
)
def test_what_is_right_stays(env: dict[bytes, bytes]) -> None:
    """Nothing is added that changes nothing, and no variables at all stay none."""
    assert changes_of(env, (), "none") == {}


def test_another_language_by_name() -> None:
    """`LANGUAGE` wins over a locale, but for the one that is called C."""
    assert changes_of({b"LANG": b"C.UTF-8", b"LANGUAGE": b"fr"}, (), "none") == {b"LC_MESSAGES": b"C"}
    assert changes_of({b"LANG": b"C", b"LANGUAGE": b"fr"}, (), "none") == {}


def test_what_was_set_on_purpose_stays() -> None:
    """The client's word holds, and a profile's."""
    assert changes_of(GERMAN, {b"LC_ALL"}, "none") == {}
    assert changes_of({b"LANG": b"fr", b"LC_MESSAGES": b"fr"}, {b"LC_MESSAGES"}, "none") == {}
    env = {b"TMPDIR": b"/ws", b"http_proxy": b"http://x"}
    assert changes_of(env, {b"TMPDIR"}, "none") == {}
    assert changes_of(env, (), "none") == {b"TMPDIR": b"/tmp"}
    assert b"http_proxy" not in changes_of(env, {b"http_proxy"}, "proxy")


def test_proxy_is_named() -> None:
    """Programs find the proxy by the usual variables, in both cases; without any variables not even these."""
    changes = changes_of({b"A": b"1", b"HTTPS_PROXY": b"http://corp"}, (), "proxy")
    assert changes[b"HTTPS_PROXY"] == changes[b"all_proxy"] == b"http://127.0.0.1:3128"
    assert changes[b"no_proxy"] == b"localhost,127.0.0.1,::1"
    assert changes_of({}, (), "proxy") == {}
