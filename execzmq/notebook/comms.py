"""Own the comm of the hub's widget: what a page sends by it goes where the page says, also while a cell runs.

A kernel's own comms are answered where they were last spoken from. Ours are spoken from by cells and threads,
and what a page says would wait for the cell that runs, although it has another way (a subshell).
"""

from __future__ import annotations

from typing import Any

from comm.base_comm import BaseComm
from ipykernel.kernelbase import Kernel


class PageComm(BaseComm):
    """A comm whose messages belong to no cell."""

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
        **keys: Any,
    ) -> None:
        """Send a message to the pages of the kernel, if there is one."""
        if not Kernel.initialized():
            return
        kernel = Kernel.instance()
        if kernel.session is not None:
            kernel.session.send(
                kernel.iopub_socket,
                msg_type,
                {"data": data or {}, "comm_id": self.comm_id, **keys},
                metadata=metadata or {},
                parent={},
                ident=self.topic,
                buffers=buffers,
            )
