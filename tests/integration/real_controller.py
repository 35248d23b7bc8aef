"""A real ``ryu-manager`` on loopback, with a fabric file and no switches: what HTTP alone needs."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.controller_forks import forks
from tests.integration.harness import eventually
from tests.integration.http_client import PATIENCE_SECONDS, ROOT, Server

FABRIC = ROOT / "examples" / "clos-4x4x4.yaml"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@contextmanager
def controller(folder: Path, *options: str, secret: str = "") -> Iterator[tuple[Server, int]]:
    """A controller that has a plan, and its process id; it must end cleanly and without a traceback.

    Args:
        folder: for its log and its store.
        options: besides the ports, the fabric, and a store in that folder.
        secret: of a token, where tokens are needed.
    """
    openflow, port = free_ports(2)
    argv = ["--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(port)]
    argv += ["--fabric", str(FABRIC), "--store", f"sqlite:///{folder / 'store.db'}", *options, "controller/app.py"]
    server = Server(port, folder / "controller.log")
    process = forks().start(argv, server.log_file, env=os.environ | {"HOME": str(folder)}, folder=ROOT)
    try:

        def answers() -> bool:
            assert process.poll() is None, server.log
            try:
                return server.ask("GET", "/v1/plan", headers={"Authorization": f"Bearer {secret}"}).status == 200
            except ConnectionRefusedError:
                return False

        eventually(answers, "the controller has a plan")
        yield server, process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, server.log
        assert "Traceback" not in server.log, server.log
    finally:
        process.kill()
        process.wait()
