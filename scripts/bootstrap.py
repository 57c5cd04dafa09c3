"""Make the virtual environment with nothing but an interpreter at hand, and find the tools that tests use.

Runs under whatever `python3` is found: the syntax is that of 3.7, so that an old one reaches the message on
its version. Which index the packages come from is the machine's own affair: pip's settings are left alone.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
TOOLS = {
    "bwrap": "bubblewrap",
    "bzip2": "bzip2",
    "chromium google-chrome google-chrome-stable chrome": "chromium",
    "curl": "curl",
    "gcc": "gcc libc6-dev",
    "git": "git",
    "ip": "iproute2",
    "less": "less",
    "make": "make",
    "nft": "nftables",
    "node": "nodejs",
    "npm": "npm",
    "nsenter": "util-linux",
    "patch": "patch",
    "perl": "perl",
    "python3": "python3",
    "script": "bsdutils",
    "slirp4netns": "slirp4netns",
    "sqlite3": "sqlite3",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "strace": "strace",
    "systemd-analyze": "systemd",
    "tmux": "tmux",
    "top": "procps",
    "unshare": "util-linux",
    "unzip": "unzip",
    "vim": "vim",
    "wget": "wget",
    "xz": "xz-utils",
    "zip": "zip",
}
"""What tests use and the commands that they confine, one of the names each, by package."""
LISTENING = ("openssh-server",)
"""Packages whose service begins to listen where systemd runs: that is for the machine's owner to decide."""
PLAYWRIGHTS = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", os.path.expanduser("~/.cache/ms-playwright"))
"""The folder of the browsers that Playwright has downloaded: its Chromium there is called `chrome`."""
TOOLS_PATH = os.pathsep.join(
    (
        os.environ.get("PATH", ""),
        "/usr/sbin",
        "/sbin",
        *glob.glob(os.path.join(PLAYWRIGHTS, "chromium-*", "chrome-linux*")),
    )
)
TOOLS_TIMEOUT = 300
VERSION_CHECK = "import sys; sys.exit(sys.version_info < (3, 11))"


def main(venv: str, stamp: str) -> None:
    """Create `venv` where it is missing or broken, install the project into it and touch `stamp`."""
    if sys.version_info < OLDEST:
        reexec_under_newer(venv, stamp)
    with open("pyproject.toml") as lock:  # two `make` at once take turns on a file that is always there
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = os.path.join(venv, "bin", "python")
        if not is_usable(python):
            create(venv)
        install(python)
        find_tools()
        with open(stamp, "w"):
            pass


def reexec_under_newer(venv: str, stamp: str) -> None:
    """Run this script again under the newest interpreter on PATH, or say that none is new enough."""
    for minor in range(19, OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and is_usable(found):
            os.execv(found, [found, os.path.abspath(__file__), venv, stamp])
    have = f"{sys.executable} is {sys.version_info[0]}.{sys.version_info[1]}"
    sys.exit(f"execzmq needs Python 3.11 or newer; {have}. Run make with PYTHON=/path/to/a/newer/one.")


def is_usable(python: str) -> bool:
    """Tell whether `python` runs and is new enough."""
    try:
        return subprocess.call([python, "-c", VERSION_CHECK], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def create(venv: str) -> None:
    """Create the environment; without ensurepip it is made bare, and filled by this interpreter's own pip."""
    make = [sys.executable, "-m", "venv", "--clear", venv]
    done = subprocess.run(make, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return
    if not has_pip(sys.executable):
        sys.exit(
            f"{done.stdout.decode(errors='replace')}\n"
            "No virtual environment can be made: this Python has no working ensurepip and no pip. "
            "On Debian and Ubuntu: apt-get install python3-venv. Then run make again."
        )
    run([*make, "--without-pip"])


def install(python: str) -> None:
    """Install the project, editable, with its development tools."""
    pip = [python, "-m", "pip"] if has_pip(python) else [sys.executable, "-m", "pip", "--python", python]
    options = ["--quiet", "--disable-pip-version-check", "--no-input"]
    run([*pip, "install", *options, "--editable", ".[dev]"])
    # A checkout has no compiled modules, and where none are written each start would compile them anew.
    run([python, "-m", "compileall", "-q", "execzmq"])


def find_tools() -> None:
    """Install the tools that are missing, where root can; else say which tests will be skipped."""
    if wanted_packages() and os.geteuid() == 0 and shutil.which("apt-get"):
        add = ["install", "--yes", "--no-install-recommends"]
        if not apt_get([*add, *wanted_packages()]):  # where no lists of packages are there, or old ones
            apt_get(["update"])
            for name in wanted_packages():  # one that is not to be had keeps no other away
                apt_get([*add, name])
    if missing_packages():
        print(f"tests will skip what needs these packages, which are not installed: {missing_packages()}")


def missing_packages() -> list[str]:
    """Return the packages of the tools that are not here."""
    missing = (names for tools, names in TOOLS.items() if not any(map(find_tool, tools.split())))
    return sorted({name for names in missing for name in names.split()})


def find_tool(name: str) -> str | None:
    """Return the path of a command, also where its folder is on nobody's PATH but root's."""
    return shutil.which(name, path=TOOLS_PATH)


def wanted_packages() -> list[str]:
    """Return those of the missing packages that may be installed unasked."""
    has_services = os.path.isdir("/run/systemd/system")
    return [name for name in missing_packages() if not has_services or name not in LISTENING]


def apt_get(words: list[str]) -> bool:
    """Run apt-get without a word; return whether it did its work."""
    try:
        done = subprocess.run(
            ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60", *words],
            env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TOOLS_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def has_pip(python: str) -> bool:
    """Tell whether an interpreter has a pip."""
    return subprocess.call([python, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0


def run(argv: list[str]) -> None:
    """Run one step; end with its status when it fails, as its own message has said why."""
    status = subprocess.call(argv, stdin=subprocess.DEVNULL)
    if status:
        sys.exit(f"{' '.join(argv)} failed (status {status})")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
