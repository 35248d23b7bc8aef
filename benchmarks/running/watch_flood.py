"""Measure ``GET /healthz`` while leaves send ten times the packets that watch windows may send.

Starts a real ``ryu-manager`` with watch windows and one process of fake switches (``tests/fake_switch/raw``). After an
idle time, leaves send packets of new RoCEv2 flows, whether their windows are open or closed: as many as the budget,
and ten times as many, from one leaf and from a quarter of them, with the 128 bytes that are asked for and as whole
packets of 4,170 bytes, which Open vSwitch sends. The event loop answers ``/healthz`` itself, so its latency shows what
the packets cost, and what else the machine does: compare with the idle row, or let the processes of the benchmark go
before others (``--realtime``, as root). ``cores`` is the processor time of the controller a second. Usage:
``python -m benchmarks.running.watch_flood [--size 64x16x8] [--seconds 20] [--realtime]``, or ``make bench-watch``.

Exits 1 where a link is reported as down, a packet is unaccounted for, or more than the budget are taken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.running.event_loop import probed
from benchmarks.running.scale import TICK, MeasuredController, ScaleWatch, running, wait, wait_ok
from controller.southbound.openflow.connections.connection_context import WATCHED_PER_SECOND
from tests.fake_switch.raw.client import Fakes

HEADERS, WHOLE = 128 + 14, 4170
LIMIT = 120.0
TIMES = 10
OPTIONS = ["--learning-watch", "on", "--poll-seconds", "5"]


@dataclass(frozen=True)
class FloodRow:
    """One row: packets a second, what became of them, milliseconds, and the controller's processor time a second."""

    what: str
    per_second: float
    taken: int
    dropped: int
    p50: float
    p99: float
    worst: float
    cores: float
    seconds: float
    probes: int


def counted(controller: MeasuredController) -> dict[str, int]:
    """Return how many packets of watch windows the controller has taken and dropped."""
    _, text = controller.try_to_ask("GET", "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {s.labels["outcome"]: int(s.value) for s in families["fairspine_watch_packets"].samples}


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def measured(
    controller: MeasuredController,
    fakes: Fakes,
    what: str,
    leaves: int,
    per_second: float,
    size: int,
    seconds: float,
) -> FloodRow:
    """Measure one row; with a rate of 0, nothing is sent."""
    before, used, began = counted(controller), _used(controller.pid), time.monotonic()
    packets = int(per_second * seconds)

    def work() -> None:
        if packets:
            fakes.do("flood", leaves=leaves, per_second=per_second, packets=packets, size=size)
            if not wait(lambda: bool(fakes.do("flooded")["over"]), LIMIT):
                sys.exit(f"{what}: the controller does not read what leaves send")
        else:
            time.sleep(seconds)

    _, took = probed(controller.address[1], work)
    passed, used = time.monotonic() - began, _used(controller.pid) - used

    def rise() -> dict[str, int]:
        return {name: value - before[name] for name, value in counted(controller).items()}

    if not wait(lambda: sum(rise().values()) >= packets, LIMIT):
        sys.exit(f"{what}: of {packets} packets, the controller has counted {rise()}")
    p50, p99, worst = (float(np.quantile(took, q)) * 1e3 for q in (0.5, 0.99, 1.0))
    found = rise()
    return FloodRow(
        what,
        packets / passed,
        found["taken"],
        found["dropped"],
        p50,
        p99,
        worst,
        used / passed,
        time.monotonic() - began,
        len(took),
    )


def measure(size: tuple[int, int, int], seconds: float) -> tuple[list[FloodRow], set[str]]:
    """Measure all rows; return them and the links that were reported as down or missing."""
    quarter = max(1, size[0] // 4)
    with tempfile.TemporaryDirectory() as where, running(size, Path(where), OPTIONS) as (controller, fakes):
        if not wait(lambda: controller.try_to_ask("GET", "/healthz")[0] != 0, LIMIT):
            sys.exit("the controller does not answer")
        watch = ScaleWatch(controller)
        watch.every = 1.0
        began = time.monotonic()
        fakes.do("connect")
        if wait_ok(watch, began, LIMIT) is None:
            sys.exit(f"the controller is not well: {controller.try_to_ask('GET', '/healthz')[1]}")
        time.sleep(5)
        budget = float(WATCHED_PER_SECOND)
        rows = [measured(controller, fakes, "idle", 0, 0.0, 0, seconds)]
        for text, leaves, rate, octets in (
            (f"budget, {quarter} leaves", quarter, budget, HEADERS),
            ("ten times, 1 leaf", 1, TIMES * budget, HEADERS),
            (f"ten times, {quarter} leaves", quarter, TIMES * budget, HEADERS),
            (f"ten times, {quarter} leaves, whole packets", quarter, TIMES * budget, WHOLE),
        ):
            rows.append(measured(controller, fakes, text, leaves, rate, octets, seconds))
            print(rows[-1], file=sys.stderr, flush=True)
        rows.append(measured(controller, fakes, "idle again", 0, 0.0, 0, seconds))
        if wait_ok(watch, time.monotonic(), LIMIT) is None:
            sys.exit(f"the controller is not well: {controller.try_to_ask('GET', '/healthz')[1]}")
        watch.close()
        log = controller.log.read_text()
        if "Traceback" in log:
            sys.exit(f"there are tracebacks in the controller's log\n{log[-3000:]}")
        return rows, watch.down | watch.missing


def main() -> int:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="64x16x8", help="leaves x spines x hosts a leaf (default: 64x16x8)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each row (default: 20)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--realtime", action="store_true", help="run under SCHED_RR (as root): for a busy machine")
    options = parser.parse_args()
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    leaves, spines, hosts = map(int, options.size.split("x"))
    rows, lost = measure((leaves, spines, hosts), options.seconds)
    print(f"{options.size}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print("| packets | a second | taken | dropped | healthz p50 | p99 | worst | cores |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        counts = f"{row.per_second:,.0f} | {row.taken:,} | {row.dropped:,}"
        print(f"| {row.what} | {counts} | {row.p50:.2f} ms | {row.p99:.2f} ms | {row.worst:.1f} ms | {row.cores:.2f} |")
    print(f"links reported as down or missing: {len(lost)}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    too_many = [row for row in rows if row.taken > WATCHED_PER_SECOND * (row.seconds + 1)]
    return 1 if lost or too_many else 0


if __name__ == "__main__":
    sys.exit(main())
