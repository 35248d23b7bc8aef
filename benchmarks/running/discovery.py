"""Processor time of link discovery in the controller, for one probe from the schedule to its evidence.

No switch and no socket take part: messages are encoded, turned round, and passed to the handler of packets.
Also: the time until a silent cable failure is noticed, with switches that answer in 1 to 20 ms (simulated
time). Usage: ``python -m benchmarks.running.discovery [LEAVESxSPINES ...]``.
"""

from __future__ import annotations

import argparse
import random
import statistics
import struct
import time
from types import SimpleNamespace
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402 (Ryu after what makes it importable)
from ryu.ofproto import ofproto_v1_3_parser as parser  # noqa: E402

from controller.model.files.clos import clos  # noqa: E402
from controller.model.network_state import PortId  # noqa: E402
from controller.model.switch_key import SwitchKey, shown  # noqa: E402
from controller.southbound.openflow.connections import packet_in  # noqa: E402
from controller.southbound.openflow.observing.discovery import Discovery  # noqa: E402
from controller.southbound.openflow.observing.prober import Prober  # noqa: E402
from tests.fake_switch.encode import packet_in as packet_in_message  # noqa: E402
from tests.unit.southbound.discovery_world import World, cable_ports  # noqa: E402

SIZES = ("16x8", "64x32")
FAILURES = 40


class Datapath:
    """A connection that keeps all data sent."""

    ofproto, ofproto_parser = ofp, parser

    def __init__(self, dpid: int) -> None:
        """Create a connection to the switch ``dpid`` with nothing sent."""
        self.id, self.waiting_bytes, self.xid, self.sent = dpid, 0, 0, bytearray()

    def set_xid(self, message: Any) -> int:
        """Give the message the next transaction id and return it."""
        self.xid += 1
        message.set_xid(self.xid)
        return self.xid

    def offer(self, data: bytes) -> bool:
        """Keep the data; the result is always ``True``."""
        self.sent += data
        return True


def cost(leaves: int, spines: int, seconds: float = 20.0) -> tuple[int, float, float, float]:
    """Measure probes: their number, CPU microseconds for sending and for receiving one, and the period in seconds."""
    fabric, now = clos(spines, leaves, 1), [100.0]
    wires = cable_ports(fabric)
    discovery = Discovery(lambda: now[0], fabric)
    prober = Prober(discovery, changed=lambda: None, noticed=lambda: None, name=shown, clock=lambda: now[0])
    datapaths: dict[SwitchKey, Datapath] = {dpid: Datapath(dpid) for dpid in fabric.datapath_ids}
    for datapath in datapaths.values():
        dpid = datapath.id
        ports = [port.port for port in wires if port.switch == dpid]
        discovery.switch_entered(dpid, [SimpleNamespace(port_no=n, config=0, state=0, curr_speed=0) for n in ports])
        prober.connected(datapath)
        prober.listens(dpid)
    probes, sending, receiving = 0, 0.0, 0.0
    for tick in range(int(seconds / 0.05)):
        now[0] += 0.05
        begin = time.process_time()
        prober._tick()
        # The first second builds templates and finds every cable.
        steady = tick > 60
        sending += (time.process_time() - begin) * steady
        messages, answers = [], []
        for datapath in datapaths.values():
            data, datapath.sent = bytes(datapath.sent), bytearray()
            at = 0
            while at < len(data):
                kind, length, xid = struct.unpack_from("!xBHI", data, at)
                if kind == ofp.OFPT_PACKET_OUT:
                    (port,) = struct.unpack_from("!I", data, at + 28)
                    to = wires[PortId(datapath.id, port)]
                    messages.append((datapaths[to.switch], to, data[at + 40 : at + length]))
                else:
                    answers.append((datapath, xid))
                at += length
        raw = [(dp, bytes(_packet_in(frame, to.port))) for dp, to, frame in messages]
        begin = time.process_time()
        for dp, message in raw:
            packet = packet_in.decode(message)
            assert packet is not None
            prober.packet(dp.id, packet)
        for dp, xid in answers:
            prober.answered(dp, xid)
        receiving += (time.process_time() - begin) * steady
        probes += len(raw) * steady
    assert discovery.evidence.links == wires
    return probes, sending / probes * 1e6, receiving / probes * 1e6, discovery.evidence.schedule.period


def _packet_in(frame: bytes, port: int) -> bytes:
    return packet_in_message(frame, port, SimpleNamespace(table=0, cookie=0))  # type: ignore[arg-type]


def detection(leaves: int, spines: int, failures: int) -> list[float]:
    """Return the seconds until each of some silent failures is noticed."""
    wires, draw = cable_ports(clos(spines, leaves, 1)), random.Random(1)
    world = World(wires, expected=wires, delay=lambda: draw.uniform(0.001, 0.02), shuffle=draw)
    world.run(5)
    found = []
    for _ in range(failures):
        world.run(draw.uniform(0, 1))
        port, begin = draw.choice(sorted(wires)), world.now
        world.dead = {port}
        while port not in world.evidence.silent:
            world.run(0.05)
        found.append(world.now - begin)
        world.dead = set()
        while world.evidence.links != wires:
            world.run(0.05)
    return found


def main() -> None:
    """Run the benchmark for the sizes given and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("sizes", nargs="*", default=SIZES, metavar="LEAVESxSPINES")
    print("| leaves x spines | cables | round | sending a probe | receiving it | silent: median, worst |")
    print("|---|---|---|---|---|---|")
    for size in options.parse_args().sizes:
        leaves, spines = map(int, size.split("x"))
        _, sending, receiving, period = cost(leaves, spines, 20.0)
        times = detection(leaves, spines, FAILURES if leaves * spines < 1000 else 5)
        print(
            f"| {size} | {leaves * spines:,} | {period:.1f} s | {sending:.1f} us | {receiving:.1f} us "
            f"| {statistics.median(times):.1f}, {max(times):.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
