"""The built-in profiles."""

from execzmq.process.environ import build_env
from execzmq.sandbox.profiles import TEMPORARY, builtin_profiles
from execzmq.types.params import Limits


def test_built_in_profiles() -> None:
    """Two that confine, differing in roots alone, and one that does not."""
    read_only, workspace, full = builtin_profiles(b"/home/u").values()
    assert (read_only.workspaces, workspace.workspaces) == ((), "any")
    assert (read_only.is_confined, workspace.is_confined, full.is_confined) == (True, True, False)
    for profile in (read_only, workspace):
        assert (profile.read, profile.network.mode, profile.protect_git) == ("host", "none", "all")
        assert {b"/home/u/.ssh", b"/home/u/.config/gcloud"} <= {*profile.denied}
        assert profile.limits == Limits()
        assert profile.description


def test_variables_of_a_sandbox() -> None:
    """A command gets what programs need, a temporary folder that exists, and nothing that leads elsewhere."""
    policy = builtin_profiles(b"/home/u")["workspace-write"].env_policy
    names = (b"PATH", b"HOME", b"LC_ALL", b"TMPDIR", b"TMP", b"GITHUB_TOKEN", b"FOO")
    base = dict.fromkeys(names, b"x")
    assert build_env(base, policy, None) == {
        b"PATH": b"x",
        b"HOME": b"x",
        b"LC_ALL": b"x",
        **TEMPORARY,
    }
