"""The rules by which the variables of a process are made."""

import subprocess

import pytest

from execzmq.errors import InvalidRequest, LimitExceeded
from execzmq.process.environ import (
    CORE_NAMES,
    MARK_NAME,
    build_env,
    core_only,
)
from execzmq.types.params import SECRET_NAMES, EnvPolicy

BASE = {
    b"HOME": b"/home/ann",
    b"PATH": b"/usr/bin:/bin",
    b"LC_ALL": b"C.UTF-8",
    b"X_API_KEY": b"1",
    b"VIRTUAL_ENV": b"/venv",
    b"LD_LIBRARY_PATH": b"/opt/lib",
    b"XDG_RUNTIME_DIR": b"/run/user/1000",
}


def test_without_policy_the_base_is_taken_as_it_is_x04():
    """No policy means every variable of the base, secrets too: the choice is the client's."""
    assert build_env(BASE, None, None) == BASE


def test_all_inherits_everything_x04():
    """`inherit="all"` is the base."""
    assert build_env(BASE, EnvPolicy(), None) == BASE


def test_core_has_neither_secrets_nor_loader_paths_x04():
    """`inherit="core"` leaves what a program needs to run, nothing that leads to a session or a library."""
    env = build_env(BASE, EnvPolicy(inherit="core"), None)
    assert set(env) == {b"HOME", b"PATH", b"LC_ALL"}


def test_none_inherits_nothing_but_what_is_set_x04():
    """`inherit="none"` starts from nothing."""
    assert build_env(BASE, EnvPolicy(inherit="none", set={b"A": b"1"}), None) == {b"A": b"1"}


def test_empty_env_is_honoured_exactly_x04():
    """An env that was asked to be empty gets no mark."""
    assert build_env({}, None, b"p.1") == {}
    assert build_env(BASE, EnvPolicy(inherit="none"), b"p.1") == {}


def test_mark_is_added_last_and_wins_over_an_inherited_one():
    """The mark of this process replaces that of a process in which the server itself runs."""
    env = build_env({b"A": b"1", MARK_NAME: b"outer.1"}, EnvPolicy(exclude=("EXECZMQ*",)), b"inner.2")
    assert env == {b"A": b"1", MARK_NAME: b"inner.2"}


def test_order_exclude_then_set_then_include_only():
    """What is set survives `exclude`, but not `include_only`."""
    policy = EnvPolicy(exclude=("*KEY*",), set={b"X_API_KEY": b"2", b"B": b"3"}, include_only=("x_*", "HOME"))
    assert build_env(BASE, policy, None) == {b"HOME": b"/home/ann", b"X_API_KEY": b"2"}


def test_patterns_do_not_regard_case():
    """Names and patterns are compared without regard to case, in both directions."""
    env = {b"http_proxy": b"p", b"HTTPS_PROXY": b"q", b"A": b"r"}
    assert build_env(env, EnvPolicy(exclude=("Http*_PROXY",)), None) == {b"A": b"r"}


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "aws_secret_access_key", "GITHUB_TOKEN", "PGPASSWORD", "SSH_AUTH_SOCK", "MYSQL_PWD"],
)
def test_names_that_speak_of_secrets_go_x04(name: str):
    """Likely secrets, and ways to them, are left out."""
    policy = EnvPolicy(exclude=SECRET_NAMES)
    assert build_env({name.encode(): b"1", b"HOME": b"/"}, policy, None) == {b"HOME": b"/"}


def test_no_core_name_counts_as_a_secret():
    """The two tables do not contradict each other; the author of a commit is no secret either."""
    names = {name.replace("*", "ALL").encode(): b"" for name in CORE_NAMES} | {
        b"GIT_AUTHOR_NAME": b"",
        b"PWD": b"",
    }
    assert build_env(names, EnvPolicy(exclude=SECRET_NAMES), None) == names
    assert all(pattern == pattern.upper() for pattern in (*CORE_NAMES, *SECRET_NAMES))


def test_names_that_are_no_text_are_kept():
    """Bytes that are not UTF-8 pass through unchanged and match patterns."""
    env = {b"\xff\xfeKEY": b"\x80", b"\xff": b"\xfe"}
    assert build_env(env, EnvPolicy(), None) == env
    assert build_env(env, EnvPolicy(exclude=SECRET_NAMES), None) == {b"\xff": b"\xfe"}
    assert core_only(env) == {}


@pytest.mark.parametrize(
    ("entry", "shown"),
    [((b"", b"1"), "''"), ((b"A=B", b"1"), "A=B"), ((b"A\0", b"1"), "A"), ((b"A", b"hush\0hush"), "A")],
)
def test_entries_that_no_system_takes_are_refused_by_name(entry: tuple[bytes, bytes], shown: str):
    """The refusal names the entry and never shows its value."""
    with pytest.raises(InvalidRequest) as caught:
        build_env(dict([entry]), None, None)
    assert shown.strip("'") in caught.value.name
    assert "hush" not in str(caught.value)


def test_a_set_entry_is_checked_too():
    """Entries of the policy obey the same rules."""
    with pytest.raises(InvalidRequest, match="'='"):
        build_env({}, EnvPolicy(set={b"A=": b"1"}), None)


def test_a_child_sees_exactly_these_variables_x04():
    """What was built is what a program gets."""
    env = build_env(BASE, EnvPolicy(inherit="none", set={b"A": b"1", b"\xff": b"\xfe"}), b"p.1")
    seen = subprocess.run(
        ["/usr/bin/env", "-0"], env=env, stdout=subprocess.PIPE, check=True, timeout=20
    ).stdout
    assert set(seen.split(b"\0")) == {b"A=1", b"\xff=\xfe", b"EXECZMQ_PROCESS=p.1", b""}


@pytest.mark.parametrize(
    "policy",
    [EnvPolicy(exclude=("*A*B",) * 256), EnvPolicy(include_only=("*" + "?" * 255,)), EnvPolicy("core")],
)
def test_matching_that_would_take_long_is_refused(policy: EnvPolicy):
    """A hundred thousand variables and many patterns would hold the server for minutes."""
    many = {b"VARIABLE_%d" % number: b"" for number in range(100_000)}
    with pytest.raises(LimitExceeded):
        build_env(many, policy, None)


def test_the_longest_matching_is_short():
    """The worst pattern for the longest name that is taken costs well below a second."""
    env = build_env({b"A" * 100_000: b""}, EnvPolicy(exclude=("*" + "?" * 255 + "B",)), None)
    assert len(env) == 1


def test_profile_shapes_what_the_client_leaves_to_it():
    """A profile comes first, but not where the client says itself what is inherited, or has no variables."""
    profile = EnvPolicy("core", set={b"TMPDIR": b"/tmp"})
    base = {b"PATH": b"/bin", b"X": b"1"}
    shaped = {b"PATH": b"/bin", b"TMPDIR": b"/tmp"}
    assert build_env(base, None, None, profile) == shaped
    assert build_env(base, EnvPolicy(set={b"A": b"1"}), None, profile) == {**shaped, b"A": b"1"}
    assert build_env(base, EnvPolicy("all"), None, profile) == base
    assert build_env(base, EnvPolicy("core"), None, profile) == {b"PATH": b"/bin"}
    assert build_env({}, None, None, profile) == {}
    assert build_env(base, EnvPolicy(), None) == base
