"""Measure how fast a leader of a cluster reads all switches back after a take-over, and after they reconnect.

Starts PostgreSQL, two replicas of the controller and a process of fake switches (``tests/fake_switch/raw``), each of
which connects to both replicas by TCP, as switches do. A job of all-to-all collectives fills the leaves with rules of
flows. Then one rule of one leaf is changed by hand, and the leader is killed. It measures the time from the kill until
the other replica reports ``ok``: it has read every rule and group of every switch and compared them with its plan, and
each switch has confirmed what was missing. The switches count the rules that they were asked for and the changes that
they got: only the changed rule may be written. The second measurement closes all connections at once.

Meanwhile ``/healthz`` is asked every 50 ms: its latency shows how long the event loop is blocked. Usage: ``python -m
benchmarks.running.readback [LEAVESxSPINESxHOSTS]``, or ``make bench-readback``. Needs PostgreSQL's server, and about 6
GiB of memory for the default size.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.running.scale import MeasuredController
from tests.campaigns.cluster.database import PrivatePostgres
from tests.fake_switch.raw.client import Fakes

SIZE = "1120x2x4"
RANKS = 64
"""Of one all-to-all, each on another leaf."""
FLOWS_A_LEAF = 63
LEASE = 2.0
ASK_EVERY = 0.05
LIMIT = 400.0
TAMPERED = "leaf1"


def _knows(follower: MeasuredController) -> bool:
    """Return whether a follower answers by itself, with the job."""
    code, body = follower.try_to_ask("GET", "/v1/jobs", headers={"Fairspine-At-Least": "1-2"})
    return code == 200 and any(row["active"] is None for row in body["jobs"])


class HealthSample(NamedTuple):
    """One answer of ``/healthz``: when it was asked for (``time.monotonic``), seconds until it came, its content."""

    asked: float
    took: float
    status: str
    role: str


class HealthPoller:
    """A thread that asks one replica for its health.

    Attributes:
        samples: its answers so far.
    """

    def __init__(self, controller: MeasuredController) -> None:
        """Start the thread."""
        self._controller = controller
        self.samples: list[HealthSample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            asked = time.monotonic()
            try:
                code, body = self._controller.try_to_ask("GET", "/healthz")
            except SystemExit:
                return
            took = time.monotonic() - asked
            if code:
                self.samples.append(HealthSample(asked, took, body["status"], body["cluster"]["role"]))
            self._ended.wait(max(0.0, ASK_EVERY - took))

    def leads_well(self, since: float, limit: float) -> float:
        """Return the seconds until the first ``ok`` of a leader that was asked for after ``since``.

        Ends the program where there is none within the limit.
        """
        while time.monotonic() < since + limit:
            for sample in reversed(self.samples):
                if sample.asked < since:
                    break
                if (sample.status, sample.role) == ("ok", "leader"):
                    first = next(each for each in self.samples if each.asked >= since and each[2:] == ("ok", "leader"))
                    return first.asked + first.took - since
            time.sleep(ASK_EVERY)
        code, body = self._controller.try_to_ask("GET", "/healthz")
        sys.exit(f"the controller is not well after {limit:g} s: {code} {body}")

    def latencies(self, since: float) -> np.ndarray[Any, Any]:
        """Return the seconds of each answer that was asked for after a time."""
        return np.array([each.took for each in self.samples if each.asked >= since])


@dataclass(frozen=True)
class ReadbackRow:
    """One measurement: what was done, and its figures in seconds, MiB and numbers."""

    what: str
    seconds: float
    cpu: float
    rules: int
    readings: int
    changes: int
    repaired: bool
    p99: float
    longest: float
    memory: float
    memory_most: float

    def line(self) -> str:
        """Return the row of the table."""
        cells = (
            self.what,
            f"{self.rules:,}",
            f"{self.seconds:.1f} s",
            f"{self.cpu:.1f} s",
            str(self.changes),
            "yes" if self.repaired else "no",
            f"{1e3 * self.p99:.0f} / {1e3 * self.longest:.0f} ms",
            f"{self.memory:,.0f} / {self.memory_most:,.0f} MiB",
        )
        return "| " + " | ".join(cells) + " |"


HEAD = (
    "what",
    "rules read",
    "re-checked after",
    "processor time",
    "changes written",
    "rule changed by hand repaired",
    "/healthz p99 / longest",
    "memory, most",
)


class ReadbackBench:
    """Two replicas, fake switches, and the measurements."""

    def __init__(
        self, size: tuple[int, int, int], flows: int, replicas: list[MeasuredController], fakes: Fakes
    ) -> None:
        """Keep what runs; ``flows``: planned ones that each leaf sends."""
        self.size, self.flows, self.replicas, self.fakes = size, flows, replicas, fakes

    def fill(self) -> None:
        """Have the first replica lead, push the job, and wait until every rule is on the switches and both know it."""
        leaves, _, hosts = self.size
        leader, follower = self.replicas
        leader.start(wait=False)
        self._answers(leader)
        self.fakes.do("connect")
        self._wait("the first replica leads", lambda: self._health(leader) == ("ok", "leader"))
        ranks = min(RANKS, leaves)
        groups = max(1, round(leaves * self.flows / (ranks * (ranks - 1))))
        if groups * ranks > leaves * hosts:
            sys.exit(f"{self.flows} flows from each leaf need more than {hosts} hosts on it")
        # Ranks that follow each other are on different leaves; each host is in one group.
        placed = [f"h{place % leaves * hosts + place // leaves + 1}" for place in range(groups * ranks)]
        body = {
            "hosts": placed,
            "collectives": [
                {
                    "name": f"a2a-{group}",
                    "op": "all_to_all",
                    "bytes": 10**9,
                    "ranks": list(range(group * ranks, (group + 1) * ranks)),
                }
                for group in range(groups)
            ],
        }
        began = time.monotonic()
        code, answer = leader.try_to_ask("PUT", "/v1/jobs/fill", body, timeout=LIMIT)
        if code != 201:
            sys.exit(f"PUT was answered with {code}: {answer}")
        self._wait("the plan is active", lambda: self._health(leader) == ("ok", "leader"))
        say(f"{groups * ranks * (ranks - 1):,} flows active after {time.monotonic() - began:.1f} s")
        follower.start(wait=False)
        self._answers(follower)
        self._wait("all connections are there", lambda: self.fakes.do("state")["connected"] == 2 * sum(self.size[:2]))
        self._wait("the follower knows the job", lambda: _knows(follower))

    def take_over(self) -> ReadbackRow:
        """Kill the leader after a rule was changed by hand, and measure the other one."""
        killed, other = self.replicas
        return self._measured("kill -9 of the leader", other, killed.kill)

    def reconnect(self) -> ReadbackRow:
        """Close all connections of the switches."""
        return self._measured("all switches reconnect", self.replicas[1], lambda: self.fakes.do("reconnect"))

    def _measured(self, what: str, leader: MeasuredController, fault: Callable[[], object]) -> ReadbackRow:
        fakes, n_switches = self.fakes, sum(self.size[:2])
        fakes.do("reset")
        fakes.do("tamper", switch=TAMPERED)
        poller = HealthPoller(leader)
        try:
            cpu, began = leader.cpu(), time.monotonic()
            fault()
            # Not earlier: the first answers may not know yet that connections have ended.
            self._wait("all are read", lambda: fakes.do("state")["readings"] >= n_switches)
            read = time.monotonic()
            seconds = poller.leads_well(read, LIMIT) + read - began
            used, state, latencies = leader.cpu() - cpu, fakes.do("state"), poller.latencies(began)
        finally:
            poller.close()
        now, most = leader.rss()
        return ReadbackRow(
            what,
            seconds,
            used,
            state["read_rules"],
            state["readings"],
            state["mods"],
            fakes.do("repaired", switch=TAMPERED)["repaired"],
            float(np.quantile(latencies, 0.99)),
            float(latencies.max()),
            now,
            most,
        )

    def _health(self, replica: MeasuredController) -> tuple[str, str]:
        code, body = replica.try_to_ask("GET", "/healthz")
        return (body["status"], body["cluster"]["role"]) if code else ("", "")

    def _answers(self, replica: MeasuredController) -> None:
        self._wait("it answers", lambda: replica.try_to_ask("GET", "/healthz")[0] != 0)

    def _wait(self, what: str, ready: Callable[[], Any]) -> None:
        deadline = time.monotonic() + LIMIT
        while not ready():
            if time.monotonic() > deadline:
                health = [each.try_to_ask("GET", "/healthz")[1] for each in self.replicas if each.is_started]
                sys.exit(f"not within {LIMIT:g} s: {what}; {health}; {self.fakes.do('state')}")
            time.sleep(ASK_EVERY)


@contextmanager
def running(size: tuple[int, int, int], flows: int, keep_log: Path | None) -> Iterator[ReadbackBench]:
    """Start the database and the fake switches; end all that runs at the end."""
    leaves, spines, hosts = size
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fabric = folder / "fabric.yaml"
        fabric.write_text(
            f"clos: {{spines: {spines}, leaves: {leaves}, hosts_per_leaf: {hosts}, host_gbps: 100, uplink_gbps: 100}}\n"
        )
        server = PrivatePostgres()
        stack.callback(server.close)
        server.start()
        store = server.url(server.create())
        ports = free_ports(4)
        replicas = []
        for number in range(2):
            place = folder / f"replica{number}"
            place.mkdir()
            options = ["--store", store, "--cluster-name", "bench", "--lease", str(LEASE)]
            options += ["--cluster-url", f"http://127.0.0.1:{ports[number]}"]
            log = None if keep_log is None else keep_log.with_suffix(f".{number}")
            replicas.append(MeasuredController(fabric, place, ports[2 + number], ports[number], options, log))
        fakes = stack.enter_context(Fakes(leaves, spines, hosts, *ports[2:]))
        stack.callback(lambda: [each.stop() for each in replicas if each.is_started])
        yield ReadbackBench(size, flows, replicas, fakes)


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on, no two alike."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


def say(text: str) -> None:
    """Tell people how far it is."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run the benchmark for one size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", default=SIZE, metavar="LEAVESxSPINESxHOSTS", help=f"default: {SIZE}")
    parser.add_argument("--flows", type=int, default=FLOWS_A_LEAF, help="planned flows from each leaf")
    parser.add_argument("--log", type=Path, help="write the replicas' logs to this file, with .0 and .1 behind it")
    options = parser.parse_args()
    leaves, spines, hosts = map(int, options.size.split("x"))
    # The signal must reach the finally blocks, which end the processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with running((leaves, spines, hosts), options.flows, options.log) as bench:
        bench.fill()
        print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)
        print(bench.take_over().line(), flush=True)
        print(bench.reconnect().line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
