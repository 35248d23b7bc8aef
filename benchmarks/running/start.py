"""Measure how long the controller takes to start with a large fabric file, and what it needs then.

Starts a real ``ryu-manager`` without switches for each form of the file, the short and the explicit one, and measures
the time from its start until ``/healthz`` knows the fabric (all switches are missing, so it says ``degraded``), and the
largest resident memory of the process. Then it requests the fabric, the links, the metrics and the dashboard, and
``/healthz`` meanwhile, as often as possible: its slowest answer shows how long the event loop was blocked. At last it
pushes a job over some of the hosts, kills the controller with SIGKILL and starts it again with the same store.

Times are of the wall clock; the processor time beside them depends less on what else the machine does.
Usage: ``python -m benchmarks.running.start [--hosts 131072] [--json FILE]``, or ``make bench-start HOSTS=131072``.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.running.event_loop import probed, request
from benchmarks.running.scale import MeasuredController
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document, parse_fabric

FORMS = ("short", "explicit")
HOSTS = 131_072
PODS, LEAVES, AGGS, CORES = 64, 32, 64, 32
"""Pods; leaves and aggregation switches of a pod; cores of an aggregation switch."""

READ = ("/v1/fabric", "/v1/links", "/v1/plan", "/metrics", "/")
RANKS = 1024
"""Hosts of the job that the restarted controller has to plan for, on as many leaves."""

LIMIT = 600.0


@dataclass
class StartRow:
    """The figures of one start: seconds, processor seconds and MiB, the children of the process included."""

    what: str
    seconds: float
    processor: float
    rss: float
    rss_most: float


@dataclass
class ReadRow:
    """The figures of one request: bytes and seconds of its answer, and the slowest ``/healthz`` meanwhile in ms."""

    what: str
    size: int
    seconds: float
    healthz_worst_ms: float


def document_of(hosts: int) -> dict[str, object]:
    """Return the short form of a fabric of three layers with this number of hosts.

    Raises:
        SystemExit: they cannot be spread evenly over the leaves.
    """
    pods = PODS
    while pods > 2 and hosts < pods * LEAVES * LEAVES:
        pods //= 2
    each, rest = divmod(hosts, pods * LEAVES)
    if rest or not each:
        sys.exit(f"--hosts {hosts}: not a multiple of {pods * LEAVES}, the number of leaves")
    shape = {"pods": pods, "leaves": LEAVES, "aggs": AGGS, "cores_per_agg": CORES, "hosts_per_leaf": each}
    return {"three_tier": shape}


def wait_until_known(controller: MeasuredController, what: str, began: float) -> StartRow:
    """Return the figures of a start once the controller knows its fabric."""
    while True:
        code, health = controller.try_to_ask("GET", "/healthz", timeout=LIMIT)
        if code and not any("not known yet" in reason for reason in health["reasons"]):
            break
        if time.monotonic() - began > LIMIT:
            sys.exit(f"{what}: not started within {LIMIT} s\n{controller.log.read_text()[-3000:]}")
        time.sleep(0.02)
    seconds = time.monotonic() - began
    return StartRow(what, seconds, controller.cpu(), *controller.rss())


def job_of(fabric: Fabric) -> bytes:
    """Return a ring over hosts of different leaves, as the body of a request."""
    step = max(1, fabric.n_hosts // RANKS)
    names = list(fabric.nic_names[::step][:RANKS])
    ring = {"name": "ring", "op": "all_reduce", "ranks": list(range(len(names))), "bytes": 10**9}
    return json.dumps({"hosts": names, "collectives": [ring]}).encode()


def measure(form: str, fabric: Fabric, short: dict[str, object]) -> tuple[list[StartRow], list[ReadRow]]:
    """Measure one form of the file."""
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        file = folder / "fabric.json"
        file.write_text(json.dumps(short if form == "short" else fabric_document(fabric)))
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            openflow, port = one.getsockname()[1], other.getsockname()[1]
        controller = MeasuredController(file, folder, openflow, port, [])
        reads, began = [], time.monotonic()
        controller.start(wait=False)
        try:
            starts = [wait_until_known(controller, f"{form} form", began)]
            for path in READ:
                reads.append(_read(port, "GET", path))
            reads.append(_read(port, "PUT", "/v1/jobs/ring", job_of(fabric)))
            starts.append(StartRow(f"{form} form, after these requests", 0.0, controller.cpu(), *controller.rss()))
            controller.kill()
            began = time.monotonic()
            controller.start(wait=False)
            starts.append(wait_until_known(controller, f"{form} form, after kill -9, with a job", began))
        finally:
            controller.stop()
    return starts, reads


def _read(port: int, method: str, path: str, body: bytes | None = None) -> ReadRow:
    def ask() -> tuple[float, int]:
        began = time.monotonic()
        code, answer = request(port, method, path, body)
        if code not in (200, 201):
            sys.exit(f"{method} {path} was answered with {code}: {answer[:500]!r}")
        return time.monotonic() - began, len(answer)

    (seconds, size), took = probed(port, ask)
    return ReadRow(f"{method} {path}", size, seconds, 1e3 * max(took))


def main() -> None:
    """Measure both forms and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=FORMS)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    short = document_of(options.hosts)
    fabric = parse_fabric(short)
    print(f"{fabric.n_hosts:,} hosts, {fabric.size_in_words}, {len(fabric.cables):,} cables", flush=True)
    found: dict[str, list[dict[str, object]]] = {"starts": [], "requests": []}
    for form in options.forms:
        starts, reads = measure(form, fabric, short)
        for row in starts:
            print(
                f"{row.what:45}{row.seconds:7.1f} s, {row.processor:6.1f} s of processor time, "
                f"{row.rss:6.0f} MiB, most {row.rss_most:6.0f} MiB",
                flush=True,
            )
        for read in reads:
            print(
                f"  {read.what:25}{read.size / 1e6:8.2f} MB in {read.seconds:7.2f} s, "
                f"/healthz meanwhile at most {read.healthz_worst_ms:7.0f} ms",
                flush=True,
            )
        found["starts"] += [{**asdict(row), "hosts": options.hosts} for row in starts]
        found["requests"] += [{**asdict(row), "form": form} for row in reads]
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
