"""A real ``ryu-manager`` on loopback, with a fabric file and no switches: what HTTP alone needs."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.documented import ROOT
from tests.rig.forks import forks
from tests.rig.http.client import PATIENCE_SECONDS, Server
from tests.rig.waiting import eventually

FABRIC = ROOT / "examples" / "clos-4x4x4.yaml"


_candidates = itertools.cycle(range(10_000 + os.getpid() % 20_000, 32_000))


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens; no port is returned twice for a long time.

    They are below the range from which the kernel takes the ports of connections, so that no client has one before
    the server that it is meant for listens on it.
    """
    found: list[int] = []
    for port in _candidates:
        if len(found) == count:
            break
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.append(port)
    return found


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
