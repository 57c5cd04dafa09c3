"""What bubblewrap's words mean on a machine where it can make no sandbox, and what to do about it."""

import pytest

from execzmq.sandbox.remedies import Machine, explain

ROOT = Machine(is_root=True)
USER = Machine()
UBUNTU = Machine(apparmor=1)
OLD_DEBIAN = Machine(userns_clone=0)
DOCKER = Machine(is_container=True)

NO_PERMISSIONS = (
    "No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."
)
LIMIT = "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
PROC = "Can't mount proc on /newroot/proc: Operation not permitted"


@pytest.mark.parametrize(
    ("words", "machine", "reason", "says"),
    [
        (NO_PERMISSIONS, USER, "no_namespaces", "kernel.unprivileged_userns_clone"),
        (NO_PERMISSIONS, OLD_DEBIAN, "no_namespaces", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (NO_PERMISSIONS, DOCKER, "no_namespaces", "--security-opt seccomp="),
        (NO_PERMISSIONS, UBUNTU, "no_namespaces", "apparmor_restrict_unprivileged_userns=0"),
        (LIMIT, Machine(namespaces=0), "too_many_namespaces", "sysctl -w user.max_user_namespaces="),
        (LIMIT, Machine(namespaces=9), "too_many_namespaces", "outside of a sandbox"),
        ("setting up uid map: Operation not permitted", ROOT, "no_uid_map", "SETFCAP"),
        ("setting up uid map: Permission denied", UBUNTU, "no_uid_map", "AppArmor profile"),
        ("setting up uid map: Permission denied", USER, "no_uid_map", "container"),
        ("Creating new namespace failed: Operation not permitted", ROOT, "no_namespaces", "filter"),
        ("Creating new namespace failed: Operation not permitted", DOCKER, "no_namespaces", "unshare"),
        ("Creating new namespace failed: No space left on device", USER, "too_many_namespaces", "raise"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", UBUNTU, "no_network_namespace", "AppArmor"),
        ("loopback: Failed RTM_NEWADDR: File exists", USER, "no_network_namespace", "container"),
        (PROC, ROOT, "no_proc", "systempaths=unconfined"),
        ("prctl(PR_SET_SECCOMP): Invalid argument", USER, "no_filter", "CONFIG_SECCOMP_FILTER"),
        ("Unknown option --bind-fd", USER, "bwrap_too_old", "upgrade"),
        ("execvp /bin/sh: No such file or directory", USER, "no_shell", "install a shell"),
        ("Something quite new", USER, "setup_failed", "by hand"),
    ],
)
def test_meaning(words: str, machine: Machine, reason: str, says: str) -> None:
    """Each of bubblewrap's words is told with its meaning here and a remedy."""
    trouble = explain(f"bwrap: {words}\n", machine)
    assert trouble.reason == reason
    assert words in trouble.text
    assert says in trouble.remedy


def test_last_words_count() -> None:
    """A warning before does not hide why it ended."""
    assert explain(f"bwrap: Something first\nbwrap: {PROC}\n", USER).reason == "no_proc"


@pytest.mark.parametrize(
    ("words", "says"), [("", "without a word"), ("error while loading libcap\n", "libcap")]
)
def test_not_bubblewraps_words(words: str, says: str) -> None:
    """What is not its own is told as it is."""
    trouble = explain(words, USER)
    assert (trouble.reason, says in trouble.text) == ("setup_failed", True)


def test_root_is_not_told_of_settings_for_others() -> None:
    """AppArmor and the setting of Debian restrict ordinary users alone."""
    machine = Machine(is_root=True, apparmor=1, userns_clone=0)
    assert "AppArmor restricts" not in explain(f"bwrap: {NO_PERMISSIONS}", machine).text
    assert "SETFCAP" in explain("bwrap: setting up uid map: Operation not permitted", machine).remedy
