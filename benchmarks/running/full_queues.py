"""Count good cables and switches that are reported while packets wait in queues for seconds. Needs root.

Several labs run at once, each in a network namespace of its own: a 2 x 3 Clos of real Open vSwitch switches, a
controller, and a job of one flow between two leaves. Cables between switches carry few packets a second. The flow is
sent in bursts: the queue of one port of its leaf is full at once, becomes empty, and is full again. A
discovery packet waits in it for as long as the burst, and none is lost. Bursts grow slowly until they fill queues for
``--burst`` seconds, so that the controller can learn how long packets wait. Other ports have no queue, so the packets
of their switches are always heard, and one that is missing seems to be lost.

So each cable that is reported as failed or missing is an error, and each switch of which the controller says that
discovery packets do not reach or leave it.

Usage: ``python -m benchmarks.running.full_queues [--labs 4] [--burst 3.5] [--seconds 60] [--out FOLDER]``. Exits 1 if a
cable or a switch is reported, or if no packet waited.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks.running.emulated import Running, plan_events, wait
from benchmarks.running.put_to_active import ask
from controller.model.files.clos import clos
from emulation import isolate
from emulation.lab import Lab
from tests.rig.hosts.streams import lines

FABRIC = clos(2, 3, 2, host_gbps=1600.0, uplink_gbps=100.0)
FABRIC_FILE = "clos: {spines: 2, leaves: 3, hosts_per_leaf: 2, host_gbps: 1600, uplink_gbps: 100}\n"
PATIENCE_SECONDS = 600.0

CABLE_PACKETS = 250
"""Packets of a flow that a cable between switches carries in a second; its queue holds 1,000."""
PACKET_BYTES = 142
"""Of a packet of a flow, with its headers."""
MBPS_PER_GBPS = CABLE_PACKETS * PACKET_BYTES * 8e-6 / 100.0

FIRST_BURST, GROWTH = 0.5, 0.3
"""Seconds for which the first burst fills the queue, and by which each further one fills it longer."""

PAUSE_SECONDS = 0.3
"""From the time at which a queue should be empty to the next burst."""

BURSTS = """
import socket, sys, time
source, destination, port = sys.stdin.readline().split()
packets, seconds, burst, growth, longest, pause = map(float, sys.argv[1:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((source, int(port)))
s.connect((destination, 4791))
print("sending", flush=True)
sent, end = 0, time.monotonic() + seconds
while time.monotonic() < end:
    begun = time.monotonic()
    for _ in range(int(packets * burst)):
        try:
            s.send(bytes(100))
            sent += 1
        except OSError:  # the other host's address is not known at the moment
            time.sleep(0.01)
    time.sleep(max(0.0, begun + burst + pause - time.monotonic()))
    burst = min(longest, burst + growth)
print(sent)
"""
"""Sends so many packets a second of a burst, for some time, in bursts of seconds that grow to the longest."""

DOUBTED = "its cables cannot be checked"
"""End of a reason of ``/healthz`` where the controller doubts a switch."""

LEAST_WAIT = 1.0
"""Seconds for which packets have to wait, or nothing is shown."""
WATCH_SECONDS = 0.3


@dataclass
class Report:
    """The counts of one lab.

    Attributes:
        sent: packets.
        received: packets that came to hosts, as the ports of leaves count them.
        longest_wait: seconds for which the last packet of the longest queue had to wait.
        reported: the cables and switches that were reported, each time or as reasons.
        processor: seconds of the controller.
    """

    sent: int = 0
    received: int = 0
    longest_wait: float = 0.0
    reported: list[str] = field(default_factory=list)
    processor: float = 0.0


def one_flow() -> dict[str, object]:
    """Return a job of a flow between two leaves: all other ports of its switches, and all other leaves, stay quiet."""
    first, last = FABRIC.hosts[0], FABRIC.hosts[-1]
    return {"flows": [{"src": first.name, "dst": last.name, "bytes": 10**9}]}


def run_lab(number: int, burst: float, seconds: float, out: Path, everybody: Barrier, answer: Connection) -> None:
    """Run one lab in a network namespace of its own; all labs begin to send together."""
    isolate.enter()
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(FABRIC, out=out / f"lab{number}", mbps_per_gbps=MBPS_PER_GBPS) as lab,
    ):
        running = Running(lab, Path(folder, "run"), FABRIC_FILE)
        running.controller.start(wait=False)
        running.wait_ready()
        status, said = ask("PUT", "/v1/jobs/one", json.dumps(one_flow()).encode())
        assert status == 201, said
        wait(running.controller.plan_is_active, "the plan is active")
        routes = {host.name: ask("GET", f"/v1/routes?host={host.name}")[1] for host in FABRIC.hosts}
        lab.ping_all()
        lab.prepare_for_load()
        everybody.wait(PATIENCE_SECONDS)
        report = Report()
        before, used = arrived(lab), processor_seconds(running.controller.pid)
        with plan_events(running) as events, sending(lab, routes, seconds, burst) as senders:
            while any(sender.poll() is None for sender in senders):
                watch(report)
            report.sent = sum(int(sender.communicate()[0].split()[-1]) for sender in senders)
            report.reported += [str(data["id"]) for _, kind, data in events if kind == "link" and not data["up"]]
            report.reported += ask("GET", "/v1/fabric")[1]["cabling"]["findings"]
        report.processor = processor_seconds(running.controller.pid) - used
        # Labs that still send need the processor.
        everybody.wait(PATIENCE_SECONDS)
        report.received = arrived(lab) - before
        answer.send(report)


@contextmanager
def sending(
    lab: Lab, routes: Mapping[str, Mapping[str, Any]], seconds: float, burst: float
) -> Iterator[list[subprocess.Popen[str]]]:
    """Send the flows of the job by a process on each of its hosts."""
    numbers = (CABLE_PACKETS, seconds, FIRST_BURST, GROWTH, burst, PAUSE_SECONDS)
    senders: list[subprocess.Popen[str]] = []
    try:
        for name, line in lines(routes).items():
            argv = [sys.executable, "-S", "-c", BURSTS, *map(str, numbers)]
            sender = lab.popen(name, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            senders.append(sender)
            assert sender.stdin is not None
            sender.stdin.write("\n".join(line) + "\n")
            sender.stdin.flush()
        yield senders
    finally:
        for sender in senders:
            sender.kill()
            sender.communicate()


def watch(report: Report) -> None:
    """Note the longest queue and what the controller says of switches, and wait a moment."""
    done = subprocess.run(["tc", "-s", "-j", "qdisc", "show"], capture_output=True, text=True, check=True)
    queues = [row.get("qlen", 0) for row in json.loads(done.stdout) if row["kind"] == "htb"]
    report.longest_wait = max(report.longest_wait, max(queues) / CABLE_PACKETS)
    for reason in ask("GET", "/healthz")[1]["reasons"]:
        if reason.endswith(DOUBTED) and reason not in report.reported:
            report.reported.append(reason)
    time.sleep(WATCH_SECONDS)


def arrived(lab: Lab) -> int:
    """Return how many packets the leaves have passed to their hosts."""
    packets = 0
    for leaf in FABRIC.leaves:
        to_hosts = {host.port for host in FABRIC.hosts if host.leaf == leaf.name}
        packets += sum(counts.tx_packets for port, counts in lab.port_counters(leaf.name).items() if port in to_hosts)
    return packets


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Run the labs and print a line for each; return 1 if something was reported, or no packet waited."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labs", type=int, default=4)
    parser.add_argument("--burst", type=float, default=3.5, help="seconds for which the longest burst fills a queue")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("out/bench-full-queues"), help="logs go here")
    options = parser.parse_args()
    # A namespace is entered by a process that has no threads.
    context = multiprocessing.get_context("spawn")
    everybody = context.Barrier(options.labs)
    labs = []
    for number in range(options.labs):
        near, far = context.Pipe(duplex=False)
        arguments = (number, options.burst, options.seconds, options.out, everybody, far)
        labs.append((context.Process(target=run_lab, args=arguments), near))
        labs[-1][0].start()
        far.close()
    failed = 0
    print(f"{'lab':<6}{'sent/s':>9}{'arrived':>9}{'longest wait':>14}{'controller':>12}  cables and switches reported")
    for number, (process, near) in enumerate(labs):
        try:
            report: Report = near.recv()
        except EOFError:
            process.join()
            print(f"{number:<6}ended with status {process.exitcode}")
            failed += 1
            continue
        process.join()
        failed += len(report.reported) + (report.longest_wait < LEAST_WAIT)
        share, busy = report.received / report.sent, report.processor / options.seconds
        print(
            f"{number:<6}{report.sent / options.seconds:>9.0f}{share:>9.1%}{report.longest_wait:>12.1f} s{busy:>12.1%}"
            f"  {report.reported or 'none'}"
        )
    verdict = "MISSED" if failed else "met"
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; none reported, waits of {LEAST_WAIT:g} s: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
