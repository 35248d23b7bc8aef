"""Count good cables that are reported as failed while labs send more than their switches can forward. Needs root.

Several labs run at once, each in a network namespace of its own: a 2 x 3 Clos of real Open vSwitch switches, a
controller, and a job of flows between all hosts, which are sent at a rate that fills the queues of ports on a machine
with few cores. Discovery packets wait in these queues, too. No cable fails, so each one that is reported is an error.

Usage: ``python -m benchmarks.running.full_queues [--labs 4] [--rate 8000] [--seconds 60] [--out FOLDER]``. Exits 1 if a
cable is reported as failed or missing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks.running.emulated import Running, plan_events, wait
from benchmarks.running.put_to_active import ask
from controller.model.files.clos import clos
from emulation import isolate
from emulation.lab import Lab
from tests.rig.hosts.streams import streaming

FABRIC, FABRIC_FILE = clos(2, 3, 2), "clos: {spines: 2, leaves: 3, hosts_per_leaf: 2}\n"
PATIENCE_SECONDS = 600.0


@dataclass(frozen=True)
class Report:
    """The counts of one lab.

    Attributes:
        sent: packets.
        received: packets that came to hosts, as the ports of leaves count them.
        failed: the cables that were reported, each time.
        processor: seconds of the controller.
    """

    sent: int
    received: int
    failed: list[str]
    processor: float


def all_pairs() -> dict[str, object]:
    """Return a job of a flow from each host to each other one."""
    names = [host.name for host in FABRIC.hosts]
    flows = [{"src": a, "dst": b, "bytes": 10**9, "collective": "all"} for a in names for b in names if a != b]
    return {"flows": flows}


def run_lab(number: int, rate: float, seconds: float, out: Path, everybody: Barrier, answer: Connection) -> None:
    """Run one lab in a network namespace of its own; all labs begin to send together."""
    isolate.enter()
    with tempfile.TemporaryDirectory() as folder, Lab(FABRIC, out=out / f"lab{number}") as lab:
        running = Running(lab, Path(folder, "run"), FABRIC_FILE)
        running.controller.start(wait=False)
        running.wait_ready()
        status, said = ask("PUT", "/v1/jobs/all", json.dumps(all_pairs()).encode())
        assert status == 201, said
        wait(running.controller.plan_is_active, "the plan is active")
        routes = {host.name: ask("GET", f"/v1/routes?host={host.name}")[1] for host in FABRIC.hosts}
        everybody.wait(PATIENCE_SECONDS)
        before, used = arrived(lab), processor_seconds(running.controller.pid)
        with plan_events(running) as events, streaming(lab, routes, rate=rate) as sent:
            time.sleep(seconds)
            failed = [str(data["id"]) for _, kind, data in events if kind == "link" and not data["up"]]
            failed += ask("GET", "/v1/fabric")[1]["cabling"]["findings"]
        used = processor_seconds(running.controller.pid) - used
        # Labs that still send need the processor.
        everybody.wait(PATIENCE_SECONDS)
        answer.send(Report(sum(sent), arrived(lab) - before, failed, used))


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
    """Run the labs and print a line for each; return 1 if a cable was reported."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labs", type=int, default=4)
    parser.add_argument("--rate", type=float, default=8000, help="packets a second in each lab")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("out/bench-full-queues"), help="logs go here")
    options = parser.parse_args()
    # A namespace is entered by a process that has no threads.
    context = multiprocessing.get_context("spawn")
    everybody = context.Barrier(options.labs)
    labs = []
    for number in range(options.labs):
        near, far = context.Pipe(duplex=False)
        arguments = (number, options.rate, options.seconds, options.out, everybody, far)
        labs.append((context.Process(target=run_lab, args=arguments), near))
        labs[-1][0].start()
        far.close()
    failed = 0
    print(f"{'lab':<6}{'sent/s':>9}{'arrived':>9}{'controller':>12}  cables reported as failed")
    for number, (process, near) in enumerate(labs):
        try:
            report: Report = near.recv()
        except EOFError:
            process.join()
            print(f"{number:<6}ended with status {process.exitcode}")
            failed += 1
            continue
        process.join()
        failed += len(report.failed)
        share, busy = report.received / report.sent, report.processor / options.seconds
        print(f"{number:<6}{report.sent / options.seconds:>9.0f}{share:>9.1%}{busy:>12.1%}  {report.failed or 'none'}")
    load = os.getloadavg()[0]
    print(f"on {os.cpu_count()} cores, load {load:.1f} at the end; target: no cable: {'MISSED' if failed else 'met'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
