"""Measure the controller with fabrics of many switches: one row of figures a size.

Starts a real ``ryu-manager`` on loopback and one process of fake switches (``tests/fake_switch/raw``) for each size.
It measures, in this order: the time from the moment at which switches begin to connect to the first ``ok`` of
``/healthz``; the processor time of the idle controller; ``kill -9`` and a restart in an unchanged network, with the
rules and groups that it sent to switches; all switches coming back empty at once, until each has its rules again;
20 jobs of 19,840 flows together, and the latency of ``/healthz`` while they are pushed and when they are in force.
Throughout, it counts the cables that the controller reports as down (each of them is good), and checks for packets
between sampled pairs of hosts that would be lost by the rules held.

Every step has a time limit; beyond it the cell says so. Times are of the wall clock, and so depend on what else the
machine does; processor times are from /proc. Usage: ``python -m benchmarks.running.scale [LEAVESxSPINES[xHOSTS] ...]``,
or ``make bench-scale LEAVES=64 SPINES=32``.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from emulation.controller_process import ControllerProcess, controller_command, spawn_to
from emulation.http_client import NoResponseError
from emulation.netns import die_with_parent
from tests.fake_switch.raw.client import Fakes

ROOT = Path(__file__).resolve().parents[2]
SIZES = ("16x8", "32x16", "48x16", "64x16", "128x4", "64x32x32", "512x2")
HOSTS = 4
JOBS, RANKS = 20, 32
"""Each job is an all-to-all, so it has RANKS * (RANKS - 1) flows: together 19,840."""
PAIRS = 56
LIMIT = 60.0
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class ScaleRow:
    """The figures of one size in seconds, cores and MiB. ``None``: not within the limit."""

    size: str
    cables: int
    first_ok: float | None = None
    first_ok_cpu: float = 0.0
    steady: float = 0.0
    steady_fakes: float = 0.0
    rss: float = 0.0
    rss_most: float = 0.0
    restart: float | None = None
    restart_cpu: float = 0.0
    restart_mods: int = 0
    empty: float | None = None
    empty_cpu: float = 0.0
    jobs_pushed: float | None = None
    jobs_active: float | None = None
    p99_pushed: float | None = None
    p99_in_force: float | None = None
    called_down: int = 0
    called_missing: int = 0
    pairs_lost: int = 0
    pairs: int = 0
    unknown: dict[str, int] = field(default_factory=dict)


class MeasuredController(ControllerProcess):
    """A controller with the same store at each start, whose use of the machine is measured."""

    def __init__(
        self,
        fabric: Path,
        folder: Path,
        openflow: int,
        http_port: int,
        options: list[str],
        log: Path | None = None,
    ) -> None:
        """Prepare the command; the controller is not started yet.

        ``options`` may name another store; ``log``: its file, if not one in the folder.
        """
        files = ["--fabric", str(fabric), "--store", f"sqlite:///{folder / 'store.db'}"]
        command = controller_command(*files, *options, openflow_port=openflow, http_port=http_port)
        # The controller ends with this program in any case; the fake switches end with their standard input.
        popen = functools.partial(subprocess.Popen, preexec_fn=lambda: die_with_parent(signal.SIGKILL))
        spawn = spawn_to(log or folder / "controller.log", folder=ROOT, popen=popen)
        super().__init__(command, spawn, http_port=http_port)

    def try_to_ask(
        self,
        method: str,
        target: str,
        document: object = None,
        timeout: float = 30.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a request; return status and body, with status 0 if there is no response.

        Raises:
            SystemExit: the controller has ended.
        """
        if not self.runs:
            sys.exit(f"the controller has ended{self.child.tail()}")
        try:
            response = self.ask(method, target, document, headers=headers, timeout=timeout)
        except NoResponseError:
            return 0, None
        return response.status, response.body

    def cpu(self) -> float:
        """Return the processor seconds of the controller and its child processes."""
        return sum(map(_cpu, [self.pid, *_children(self.pid)]))

    def rss(self) -> tuple[float, float]:
        """Return the resident MiB now, and the maximum so far."""
        found = dict(line.split(":") for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return tuple(int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


class ScaleWatch:
    """Threads that poll /healthz and follow the events.

    Attributes:
        down: cables that the controller reported as down.
        missing: cables that it reported as not seen.
    """

    def __init__(self, controller: MeasuredController) -> None:
        """Start the threads."""
        self._controller = controller
        self.every = 0.25
        self.status = ""
        self.ok_at = 0.0
        """Start time of the last request that was answered ``ok``."""
        self.down: set[str] = set()
        self.missing: set[str] = set()
        self.latencies: list[float] = []
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """End the threads."""
        self._ended = True
        self._thread.join()

    def _listen(self) -> None:
        """Read the events, reconnecting when necessary, and note the cables reported as down."""
        while not self._ended:
            try:
                with self._controller.client() as client:
                    for event in client.events():
                        if event["kind"] == "link" and event["data"].get("up") is False:
                            self.down.add(event["data"]["id"])
            except (NoResponseError, ValueError):
                time.sleep(0.05)

    def _run(self) -> None:
        while not self._ended:
            began = time.monotonic()
            try:
                code, body = self._controller.try_to_ask("GET", "/healthz")
            except SystemExit:
                code, body = 0, None
            took = time.monotonic() - began
            if code:
                self.latencies.append(took)
                self.status = body["status"]
                self.missing |= {text.split(" ")[0] for text in body["reasons"] if " is missing: " in text}
            else:
                self.status = ""
            if self.status == "ok":
                self.ok_at = began
            time.sleep(max(0.0, self.every - took))

    def p99(self) -> float:
        """Return the 99th percentile in milliseconds of the latencies since the last call."""
        taken, self.latencies = self.latencies, []
        return float(np.quantile(taken, 0.99)) * 1e3 if taken else float("nan")


def wait(ready: Callable[[], bool], limit: float) -> bool:
    """Return whether a condition becomes true within the limit."""
    deadline = time.monotonic() + limit
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def wait_ok(watch: ScaleWatch, since: float, limit: float) -> float | None:
    """Return the seconds until the first ok after ``since``."""
    if not wait(lambda: watch.ok_at >= since, limit - (time.monotonic() - since)):
        return None
    return time.monotonic() - since


@contextmanager
def running(size: tuple[int, int, int], folder: Path, options: list[str]) -> Iterator[tuple[MeasuredController, Fakes]]:
    """Start fake switches and a controller for a fabric of this size, and stop them at the end."""
    leaves, spines, hosts = size
    fabric = folder / "fabric.yaml"
    fabric.write_text(
        f"clos: {{spines: {spines}, leaves: {leaves}, hosts_per_leaf: {hosts}, host_gbps: 100, uplink_gbps: 100}}\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        openflow, port = one.getsockname()[1], other.getsockname()[1]
    controller = MeasuredController(fabric, folder, openflow, port, options)
    with Fakes(leaves, spines, hosts, openflow) as fakes:
        controller.start(wait=False)
        try:
            yield controller, fakes
        finally:
            controller.stop()


def measure(
    size: tuple[int, int, int], limit: float, jobs: bool, options: list[str], keep_log: Path | None
) -> ScaleRow:
    """Measure all figures of one size, with the jobs if ``jobs``."""
    leaves, spines, hosts = size
    row = ScaleRow(f"{leaves} x {spines} x {hosts}", leaves * spines)
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        with running(size, folder, options) as (controller, fakes):
            try:
                _measure(row, controller, fakes, limit, jobs, hosts * leaves)
            finally:
                log = controller.log.read_text()
                if keep_log is not None:
                    keep_log.write_text(log)
                if "Traceback" in log:
                    print(f"{row.size}: there are tracebacks in the controller's log", file=sys.stderr)
    return row


def _measure(
    row: ScaleRow, controller: MeasuredController, fakes: Fakes, limit: float, jobs: bool, n_hosts: int
) -> None:
    say = lambda text: print(f"{row.size}: {text}", file=sys.stderr, flush=True)  # noqa: E731
    if not wait(lambda: controller.try_to_ask("GET", "/healthz")[0] != 0, 120):
        sys.exit("the controller does not answer within two minutes")
    watch = ScaleWatch(controller)

    def look_at_pairs() -> None:
        row.pairs_lost = max(row.pairs_lost, len(fakes.do("pairs", count=PAIRS, seed=row.pairs)["lost"]))
        row.pairs += PAIRS

    try:
        cpu, began = controller.cpu(), time.monotonic()
        fakes.do("connect")
        row.first_ok, row.first_ok_cpu = wait_ok(watch, began, limit), controller.cpu() - cpu
        say(f"first ok {row.first_ok}, {row.first_ok_cpu:.1f} s of processor time; {fakes.do('state')}")
        look_at_pairs()
        time.sleep(5)
        fakes.do("reset")
        cpu, fakes_cpu, began = controller.cpu(), fakes.do("state")["cpu"], time.monotonic()
        time.sleep(20)
        seconds, state = time.monotonic() - began, fakes.do("state")
        row.steady = (controller.cpu() - cpu) / seconds
        row.steady_fakes = (state["cpu"] - fakes_cpu) / seconds
        row.rss, _ = controller.rss()
        say(f"steady {row.steady:.2f} cores, {row.rss:.0f} MiB; {state}")
        look_at_pairs()

        fakes.do("reset")
        controller.kill()
        look_at_pairs()
        began = time.monotonic()
        controller.start(wait=False)
        row.restart, row.restart_cpu = wait_ok(watch, began, limit), controller.cpu()
        look_at_pairs()
        time.sleep(5)
        look_at_pairs()
        row.restart_mods = fakes.do("state")["mods"]
        say(f"restart {row.restart}, {row.restart_cpu:.1f} s of processor time, {row.restart_mods} mods")

        cpu, began = controller.cpu(), time.monotonic()
        fakes.do("restart_empty")
        if wait(lambda: _filled(fakes), limit):
            row.empty = time.monotonic() - began
        row.empty_cpu = controller.cpu() - cpu
        say(f"filled {row.empty}, {row.empty_cpu:.1f} s of processor time; {fakes.do('filled')}")
        wait_ok(watch, time.monotonic(), limit)
        look_at_pairs()
        if jobs:
            _with_jobs(row, controller, watch, limit, n_hosts, say)
            look_at_pairs()
    finally:
        row.called_down, row.called_missing = len(watch.down), len(watch.missing)
        row.unknown = fakes.do("state")["unknown"]
        _, row.rss_most = controller.rss()
        watch.close()


def _filled(fakes: Fakes) -> bool:
    return not fakes.do("filled")["lacking"]


def _with_jobs(
    row: ScaleRow,
    controller: MeasuredController,
    watch: ScaleWatch,
    limit: float,
    n_hosts: int,
    say: Callable[[str], None],
) -> None:
    """Push all-to-all jobs among 32 hosts each, together about 20,000 flows."""
    draw = np.random.default_rng(1)
    watch.every = 0.05
    watch.p99()
    began = time.monotonic()
    for number in range(JOBS):
        placed = draw.choice(n_hosts, min(RANKS, n_hosts), replace=False) + 1
        body = {
            "hosts": [f"h{host}" for host in placed.tolist()],
            "collectives": [{"name": "a2a", "op": "all_to_all", "ranks": list(range(len(placed))), "bytes": 10**9}],
        }
        code, answer = controller.try_to_ask("PUT", f"/v1/jobs/job-{number}", body, timeout=120.0)
        if code != 201:
            say(f"PUT was answered with {code}: {answer}")
            return
    row.jobs_pushed = time.monotonic() - began
    if wait_ok(watch, time.monotonic(), limit) is not None:
        row.jobs_active = time.monotonic() - began
    row.p99_pushed = watch.p99()
    time.sleep(15)
    row.p99_in_force = watch.p99()
    _, health = controller.try_to_ask("GET", "/healthz")
    say(f"{health['flows']} flows, pushed in {row.jobs_pushed:.1f} s, active {row.jobs_active}")


COLUMNS: tuple[tuple[str, Callable[[ScaleRow], str]], ...] = (
    ("leaves x spines x hosts a leaf (cables)", lambda row: f"{row.size} ({row.cables:,})"),
    ("first ok", lambda row: _seconds(row.first_ok, row.first_ok_cpu)),
    ("steady, cores", lambda row: f"{row.steady:.2f}"),
    ("RSS, most (MiB)", lambda row: f"{row.rss:.0f}, {row.rss_most:.0f}"),
    ("kill -9 to ok", lambda row: f"{_seconds(row.restart, row.restart_cpu)}, {row.restart_mods} mods"),
    ("empty to filled", lambda row: _seconds(row.empty, row.empty_cpu)),
    ("jobs active", lambda row: "-" if row.jobs_pushed is None else _seconds(row.jobs_active)),
    ("p99 /healthz, pushing / in force", lambda row: _latencies(row)),
    ("working cables reported as down, as missing", lambda row: f"{row.called_down}, {row.called_missing}"),
    ("pairs that lose", lambda row: f"{row.pairs_lost} of {PAIRS}"),
    ("fakes, cores", lambda row: f"{row.steady_fakes:.2f}"),
)


def _seconds(seconds: float | None, cpu: float | None = None) -> str:
    text = "not in time" if seconds is None else f"{seconds:.1f} s"
    return text if cpu is None else f"{text} ({cpu:.1f})"


def _latencies(row: ScaleRow) -> str:
    if row.p99_pushed is None or row.p99_in_force is None:
        return "-"
    return f"{row.p99_pushed:.0f} / {row.p99_in_force:.0f} ms"


def main() -> int:
    """Run the benchmark for the sizes given and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", metavar="LEAVESxSPINES[xHOSTS]", help=f"default: {' '.join(SIZES)}")
    parser.add_argument("--limit", type=float, default=LIMIT, help="time limit of each step in seconds")
    parser.add_argument("--no-jobs", action="store_true", help="do not push jobs")
    parser.add_argument("--option", action="append", default=[], help="of ryu-manager, --option=--poll-seconds=0")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--log", type=Path, help="write the controller's log of the last size to this file")
    options = parser.parse_args()
    # The signal must reach the finally blocks, which end the controller and the fake switches.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    print("| " + " | ".join(name for name, _ in COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    for text in options.sizes or SIZES:
        leaves, spines, hosts = (*map(int, text.split("x")), HOSTS)[:3]
        row = measure((leaves, spines, hosts), options.limit, not options.no_jobs, options.option, options.log)
        rows.append(row)
        print("| " + " | ".join(shown(row) for _, shown in COLUMNS) + " |", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(each) for each in rows], indent=2) + "\n")
    print("In brackets: seconds of the controller's processor time. 'Not in time': not within the limit.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
