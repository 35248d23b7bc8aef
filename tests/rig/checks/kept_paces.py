"""Two jobs whose queue pairs keep the paces of the plan, held against it packet by packet where leaves take them in."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.model.fabric import Fabric
from controller.model.paces import HEADERS
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.experiments.measure import sender_options, spawn_in
from emulation.experiments.networks.network import following
from emulation.experiments.workload import addresses
from emulation.experiments.workload import routes as job_routes
from emulation.lab import Lab
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import run_collectives
from tests.rig.checks.lost_plane import Told
from tests.rig.controller import Controller
from tests.rig.hosts.roce_hosts import PATIENT
from tests.rig.waiting import READY_SECONDS

MBPS_PER_GBPS = 0.04
"""Hosts of 100 Gbit/s send 120 full packets a second, which any machine can."""

WINDOW_SECONDS = 1.5
"""In which a fifth of a host's rate has 36 packets."""

WITHIN = 0.06
"""Part by which the rate of a queue pair may differ in such a time, which a busy machine does not divide evenly."""

ALL_WITHIN = 0.01
"""The same for all queue pairs together. Headers take two per cent: they are not left out, nor counted twice."""

LONG_BYTES = 32 << 20
"""At the rate of a host more than a minute, and queue pairs share it: the jobs do not end before they are stopped."""

UNSEEN = HEADERS - 14 - 20 - 8 - 12 - 4
"""Bytes of a link's time beside a frame as a socket sees it: preamble, check sequence and gap."""

ACK_FRAME = 100
"""Frames above it are data."""

_SO_TIMESTAMPNS, _SO_RCVBUFFORCE, _ETH_P_IP, _OUTGOING = 35, 33, 0x0800, 4

Qp = tuple[str, int]
"""Address and UDP source port of a queue pair."""


@dataclass(frozen=True)
class Kept:
    """What the plan has for a queue pair, in bit/s on this lab: of payload, and with headers."""

    payload: float
    wire: float


class Wire:
    """Data of queue pairs as the ports of leaves take it in from hosts."""

    def __init__(self, interfaces: list[str]) -> None:
        self._sockets = []
        for interface in interfaces:
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_IP))
            made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
            made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            made.bind((interface, _ETH_P_IP))
            made.setblocking(False)
            self._sockets.append(made)
        self._frames: dict[Qp, deque[tuple[float, int]]] = {}

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def rates(self) -> dict[Qp, Kept]:
        """Return the bit/s of each queue pair in the last ``WINDOW_SECONDS``, by the times that packets have."""
        for each in self._sockets:
            self._read(each)
        since = time.time() - WINDOW_SECONDS
        made = {}
        for qp, frames in self._frames.items():
            while frames and frames[0][0] < since:
                frames.popleft()
            if len(frames) < 2 or frames[-1][0] - frames[0][0] < WINDOW_SECONDS / 2:
                continue
            # From the first packet to the last, which is not in that time.
            seconds = frames[-1][0] - frames[0][0]
            wire = sum(size + UNSEEN for _, size in frames) - frames[-1][1] - UNSEEN
            made[qp] = Kept((wire - HEADERS * (len(frames) - 1)) * 8 / seconds, wire * 8 / seconds)
        return made

    def _read(self, sock: socket.socket) -> None:
        while True:
            try:
                frame, ancillary, _, sender = sock.recvmsg(64, 64, socket.MSG_TRUNC)
            except BlockingIOError:
                return
            if sender[2] == _OUTGOING or len(frame) < 42 or frame[23] != socket.IPPROTO_UDP:
                continue
            port, to = struct.unpack_from("!HH", frame, 34)
            (length,) = struct.unpack_from("!H", frame, 16)
            if to != ROCE_PORT or length + 14 <= ACK_FRAME:
                continue
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            qp = socket.inet_ntoa(frame[26:30]), port
            self._frames.setdefault(qp, deque()).append((seconds + nanoseconds / 1e9, length + 14))


class _SeenError(Exception):
    """All was seen that the jobs were run for."""


def check_kept_paces(
    lab: Lab, controller: Controller, fabric: Fabric, jobs: Mapping[str, Mapping[str, Any]], cable: str, leaving: str
) -> None:
    """Run pushed jobs, and wait until rates are the plan's: at first, without a cable, with a job less, with it again.

    Args:
        lab: without limits of links, so that nothing but paces limits a queue pair, and its host's rate one without.
        controller: with the jobs.
        fabric: of the lab.
        jobs: matrices of the jobs, by name.
        cable: a cable that fails.
        leaving: the job that the controller is told to forget.
    """
    told = Told(controller)
    matrices = {"matrix": jobs[leaving]}

    def fail() -> None:
        lab.set_cable(cable, up=False)
        controller.wait_for("the failure is seen", lambda: controller.get("/healthz").body["status"] == "degraded")

    changes: list[Callable[[], Any]] = [
        fail,
        lambda: controller.delete(f"/v1/jobs/{leaving}"),
        lambda: controller.put(f"/v1/jobs/{leaving}", matrices),
    ]

    def plan() -> dict[Qp, Kept]:
        """Return what the plan has for each queue pair with a pace now."""
        made = {}
        for host in fabric.hosts:
            for flow in told.routes(host.name)["flows"]:
                for piece in flow["pieces"]:
                    if piece["pace_gbps"] is not None:
                        rates = piece["pace_gbps"], piece["wire_gbps"]
                        made[host.ip, piece["udp_src"]] = Kept(*(rate * MBPS_PER_GBPS * 1e6 for rate in rates))
        assert made
        return made

    deadline = time.monotonic() + 2 * READY_SECONDS
    wanted = plan()

    def look(_: dict[str, Any]) -> None:
        nonlocal wanted
        rates = wire.rates()
        off = [
            f"{qp}: {rates.get(qp)}, planned {kept}" for qp, kept in wanted.items() if not _near(rates.get(qp), kept)
        ]
        if not off:
            sums = (_sum([rates[qp] for qp in wanted]), _sum(list(wanted.values())))
            off = [] if _near(*sums, ALL_WITHIN) else [f"all: {sums[0]}, planned {sums[1]}"]
        assert time.monotonic() < deadline, (len(changes), off)
        if off:
            return
        if not changes:
            raise _SeenError
        before = wanted
        changes.pop(0)()
        controller.wait_for("the plan is active", controller.plan_is_active)
        wanted = plan()
        assert wanted != before

    named = {row["job"]: row["name"] for row in controller.get("/v1/plan").body["plan"]["collectives"]}
    specs = [_spec(job, named[job], matrix) for job, matrix in jobs.items()]
    ports = job_routes(fabric, specs, {host.name: told.routes(host.name) for host in fabric.hosts}, MBPS_PER_GBPS)
    own = [next(each.b for each in lab.wiring.wires if each.name.startswith(f"{host.name}-")) for host in fabric.hosts]
    wire = Wire([end.interface for end in own])
    try:
        run_collectives(
            addresses(fabric),
            spawn_in(lab),
            specs,
            ports,
            options=replace(sender_options(fabric, MBPS_PER_GBPS), retries=PATIENT),
            timeout=2 * READY_SECONDS,
            tally_seconds=0.5,
            on_tally=look,
            follow=following(told, fabric, MBPS_PER_GBPS),
        )
    except _SeenError:
        return
    finally:
        wire.close()
    raise AssertionError(f"the jobs have ended, and {len(changes)} changes are left")


def _near(rate: Kept | None, kept: Kept, within: float = WITHIN) -> bool:
    if rate is None:
        return False
    return abs(rate.wire / kept.wire - 1) <= within and abs(rate.payload / kept.payload - 1) <= within


def _sum(rates: list[Kept]) -> Kept:
    return Kept(sum(each.payload for each in rates), sum(each.wire for each in rates))


def _spec(job: str, name: str, matrix: Mapping[str, Any]) -> CollectiveSpec:
    rows = tuple(tuple(LONG_BYTES if entry else 0 for entry in row) for row in matrix["bytes"])
    return CollectiveSpec(job, name, tuple(matrix["hosts"]), op="exchange", matrix=rows, dtype="uint8")
