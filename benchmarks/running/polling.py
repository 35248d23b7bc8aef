"""Measure polling: how long counters of many rules block the controller's event loop, and the time of decoding.

First, the same statistics reply decoded by Ryu's parser and by ours. Then a real ``ryu-manager`` with a 4 x 4 Clos of
Open vSwitch, of which one leaf holds nearly all rules: ``GET /healthz``, which the event loop answers itself, is
requested as often as possible, without polling and with it. Needs root. Usage: ``python -m
benchmarks.running.polling``.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
import time
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from benchmarks.running.event_loop import LatencyProber
from benchmarks.running.put_to_active import FABRIC, active, ask, started
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import FIRST_PORT
from controller.southbound.openflow.enforcing import messages
from controller.telemetry.decoding import FlowCounts
from emulation import isolate
from emulation.lab import Lab

PART_BYTES = 65_000


def reply(flows: int) -> list[bytes]:
    """Return the parts of a reply with the counters of planned rules, as Open vSwitch sends them."""
    parts, entries = [], bytearray()
    instruction = parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [parser.OFPActionGroup(0xFA000001)])
    for n in range(flows):
        match = parser.OFPMatch(
            eth_type=0x800,
            ip_proto=17,
            udp_dst=ROCE_PORT,
            udp_src=FIRST_PORT + n % 16384,
            ipv4_src=f"10.0.1.{n % 250 + 1}",
            ipv4_dst=f"10.0.{n % 60 + 2}.{n // 60 % 250 + 1}",
        )
        rest = bytearray()
        match.serialize(rest, 0)
        instruction.serialize(rest, len(rest))
        head = (ofp.OFP_FLOW_STATS_0_SIZE + len(rest), 0, 1, 0, 2001, 0, 0, 0, messages.OUR_COOKIE, n, n * 1000)
        entries += struct.pack(ofp.OFP_FLOW_STATS_0_PACK_STR, *head) + rest
        if len(entries) > PART_BYTES - 200 or n == flows - 1:
            head_ = struct.pack("!BBHI", 4, ofp.OFPT_MULTIPART_REPLY, 16 + len(entries), 1)
            more = 0 if n == flows - 1 else ofp.OFPMPF_REPLY_MORE
            parts.append(head_ + struct.pack("!HH4x", ofp.OFPMP_FLOW, more) + bytes(entries))
            entries.clear()
    return parts


def decoding(flows: int) -> dict[str, float]:
    """Measure milliseconds for one reply: by Ryu's parser, by ours for the first time, and every time after."""
    parts = reply(flows)
    took = {}
    began = time.perf_counter()
    for part in parts:
        parser.msg_parser(None, 4, ofp.OFPT_MULTIPART_REPLY, len(part), 1, part)
    took["ryu_ms"] = time.perf_counter() - began
    decoder = FlowCounts()
    for name in ("first_ms", "again_ms"):
        began = time.perf_counter()
        assert len(decoder.read(parts)) == flows
        took[name] = time.perf_counter() - began
    return {name: round(1e3 * seconds, 1) for name, seconds in took.items()}


def job(flows: int) -> bytes:
    """Return a job of which nearly all flows begin at the hosts of one leaf."""
    pairs = [(a, b) for a in range(1, 5) for b in range(5, 17)]
    rows = [
        {"src": f"h{a}", "dst": f"h{b}", "bytes": 10**6, "collective": "all"}
        for a, b in (pairs[n % len(pairs)] for n in range(flows))
    ]
    return json.dumps({"flows": rows}).encode()


def polled() -> tuple[int, float]:
    """Return the number of polls and their total seconds, from ``/metrics``."""
    text = str(ask("GET", "/metrics")[1])
    (found,) = (family for family in text_string_to_metric_families(text) if family.name == "fairspine_poll_seconds")
    values = {sample.name.removeprefix("fairspine_poll_seconds_"): sample.value for sample in found.samples}
    return int(values["count"]), values["sum"]


def held(flows: int, period: float, seconds: float) -> dict[str, float]:
    """Measure response times of /healthz and polls of all eight switches."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fabric.yaml")
        path.write_text(FABRIC)
        with Lab(clos(4, 4, 4), out=Path(folder)) as lab:
            started(lab, "--fabric", str(path), "--poll-seconds", str(period), "--store", "memory")
            assert ask("PUT", "/v1/jobs/bench", job(flows))[0] == 201
            while not active():
                time.sleep(0.1)
            time.sleep(2)
            prober = LatencyProber(8080)
            prober.start()
            time.sleep(seconds)
            prober.running = False
            prober.join()
            took = sorted(prober.took)
            polls, seconds_ = polled()
            return {
                "polls": polls,
                "poll_ms": round(1e3 * seconds_ / max(polls, 1), 1),
                "median_ms": round(1e3 * median(took), 2),
                "p99_ms": round(1e3 * took[int(0.99 * len(took))], 1),
                "worst_ms": round(1e3 * took[-1], 1),
            }


def main() -> None:
    """Run the benchmark and print a table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--flows", type=int, default=10_000)
    options.add_argument("--seconds", type=float, default=20.0)
    given = options.parse_args()
    rows = {"decoding": decoding(given.flows)}
    isolate.enter()
    for period in (0.0, 5.0, 1.0):
        rows[f"polled every {period:g} s" if period else "not polled"] = held(given.flows, period, given.seconds)
    for name, row in rows.items():
        print(f"{name:18}" + "".join(f"{key:>12} {value:>7}" for key, value in row.items()))


if __name__ == "__main__":
    main()
