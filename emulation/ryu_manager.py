"""The command of a controller, for everything that starts one."""

from __future__ import annotations

import sys
from pathlib import Path

RYU_MANAGER = str(Path(sys.executable).with_name("ryu-manager"))
"""The program of this environment, whatever is first in the path."""


def controller_command(*options: str, openflow_port: int | None = None, http_port: int | None = None) -> list[str]:
    """Return the command that starts a controller with these options.

    Args:
        options: of ``ryu-manager``.
        openflow_port: where it listens for switches; ``None``: at its default.
        http_port: where it listens for requests; ``None``: at its default.
    """
    listen = [] if openflow_port is None else ["--ofp-tcp-listen-port", str(openflow_port)]
    listen += [] if http_port is None else ["--wsapi-port", str(http_port)]
    return [RYU_MANAGER, *options, *listen, "controller.app"]
