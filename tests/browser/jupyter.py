"""A Jupyter server of the tests' own, with JupyterLab and Notebook 7. Knows nothing of browsers.

Its kernels are given the folders of the test that is running, so that what a notebook starts is that test's,
and is found by it: `execzmq.connect()` in the test reaches the server that the notebook uses.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import deadline, wait_until

KERNEL = "tested"
"""The name of the kernel whose folders are those of the test."""

_FOLDERS = {
    "HOME": "h",
    "XDG_CONFIG_HOME": "c",
    "XDG_DATA_HOME": "x",
    "XDG_CACHE_HOME": "k",
    "JUPYTER_RUNTIME_DIR": "j",
    "JUPYTER_DATA_DIR": "d",
    "JUPYTER_CONFIG_DIR": "f",
    "JUPYTERLAB_SETTINGS_DIR": "l",
    "JUPYTERLAB_WORKSPACES_DIR": "w",
    "JUPYTER_PATH": "p",
    "IPYTHONDIR": "i",
}
_NOTIFICATIONS = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
_START_SECONDS = 40.0
_END_SECONDS = 20.0


class JupyterServer:
    """A running server: its `url`, its `token`, and `root`, the folder of its notebooks."""

    def __init__(self, home: Path) -> None:
        self.root = home / "n"
        self.root.mkdir(mode=0o700)
        self.token = secrets.token_hex(16)
        self._home = home
        self._log = home / "jupyter.log"
        self._env = {**os.environ, **{name: str(home / folder) for name, folder in _FOLDERS.items()}}
        for folder in _FOLDERS.values():
            (home / folder).mkdir(mode=0o700)
        self._configure()
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab"],
                env=self._env,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.url = self._wait_ready()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _configure(self) -> None:
        """Write the settings; the token is in a file, so that no command line and no kernel has it."""
        config = {
            "ServerApp": {
                "ip": "127.0.0.1",
                "port": 0,
                "open_browser": False,
                "allow_root": True,
                "root_dir": str(self.root),
            },
            "IdentityProvider": {"token": self.token},
            "LabApp": {
                "expose_app_in_browser": True,
                "news_url": None,
                "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
                "extension_manager": "readonly",
            },
            "JupyterNotebookApp": {"expose_app_in_browser": True},
        }
        _write(self._home / "f" / "jupyter_server_config.json", config)
        _write(self._home / "l" / _NOTIFICATIONS, {"fetchNews": "false", "checkForUpdates": False})

    def _wait_ready(self) -> str:
        """Return the address once the server has written it down, which it does when it listens."""
        file = self._home / "j" / f"jpserver-{self._process.pid}.json"

        def is_ready() -> bool:
            return self._process.poll() is not None or bool(_read(file))

        with contextlib.suppress(TimeoutError):
            wait_until(is_ready, _START_SECONDS)
        info = _read(file)
        assert info, f"the Jupyter server does not start: {self._log.read_text()[-4000:]}"
        return f"http://127.0.0.1:{info['port']}"

    def let_kernels_have(self, env: Mapping[str, str]) -> None:
        """Give the kernels that start from now on these variables."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "env": dict(env), "display_name": "tested", "language": "python"}
        _write(self._home / "p" / "kernels" / KERNEL / "kernel.json", spec)

    def close(self) -> None:
        """End the server; idempotent."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(deadline(_END_SECONDS).left())
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise AssertionError(
                    f"the Jupyter server does not end: {self._log.read_text()[-4000:]}"
                ) from None


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(json.dumps(content))
    path.chmod(0o600)


def _read(path: Path) -> dict[str, Any]:
    """Return what a file says, nothing while it is missing or half written."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    assert isinstance(found, dict)
    return found


@contextlib.contextmanager
def running(home: Path) -> Iterator[JupyterServer]:
    """Run a Jupyter server meanwhile, with `home` for all its folders."""
    server = JupyterServer(home)
    try:
        yield server
    finally:
        server.close()
