"""A real ``ryu-manager`` on loopback, with a fabric file and no switches: what HTTP alone needs."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from emulation.controller_process import ControllerProcess, controller_command, spawn_to
from tests.documented import ROOT
from tests.rig.controller import forked
from tests.rig.http.client import PATIENCE_SECONDS, Server

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
    store = f"sqlite:///{folder / 'store.db'}"
    command = controller_command(
        "--fabric", str(FABRIC), "--store", store, *options, openflow_port=openflow, http_port=port
    )
    log = folder / "controller.log"
    process = ControllerProcess(
        command, forked(log, {"HOME": str(folder)}, ROOT), http_port=port, token=secret, timeout=PATIENCE_SECONDS
    )
    try:
        process.start(wait=False).wait_until(process.has_plan, "the controller has a plan", PATIENCE_SECONDS)
        server = Server(port, log)
        yield server, process.pid
        assert process.stop(PATIENCE_SECONDS) == 0, server.log
        assert "Traceback" not in server.log, server.log
    finally:
        process.kill()


@contextmanager
def spawned_controller(
    folder: Path,
    store: Path,
    *,
    environment: Mapping[str, str] | None = None,
    inside: Callable[..., list[str]] = lambda *command: [*command],
) -> Iterator[ControllerProcess]:
    """A controller in a process that is not forked off a test's, for what a fork would keep: its clock, its mounts.

    Args:
        folder: for its log.
        store: the file of its store.
        environment: more variables of its environment.
        inside: puts a program before its command.
    """
    openflow, port = free_ports(2)
    command = controller_command(
        "--fabric", str(FABRIC), "--store", f"sqlite:///{store}", openflow_port=openflow, http_port=port
    )
    log = folder / "controller.log"
    spawn = spawn_to(log, env={"HOME": str(folder), **(environment or {})}, folder=ROOT)
    process = ControllerProcess(inside(*command), spawn, http_port=port, timeout=PATIENCE_SECONDS)
    try:
        process.start(wait=False).wait_until(process.has_plan, "the controller has a plan", PATIENCE_SECONDS)
        yield process
        assert process.stop(PATIENCE_SECONDS) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
