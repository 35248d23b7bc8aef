"""``python -m tests.campaigns.cluster.demo``: the leader of three replicas is killed while two jobs send; one table."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import load_fabric
from controller.workload.load import load_jobs
from emulation.errors import LabError
from emulation.experiments.measure import namespaces_of, sender_options, spawn_in
from emulation.experiments.workload import addresses, ports_of, routes
from emulation.http_client import NoResponseError, ask
from emulation.lab import Lab
from emulation.pings import Pair
from emulation.processes import POLL_SECONDS, Popen
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import CollectiveResult, run_collectives
from emulation.socket_buffers import enlarge_packet_buffers
from tests.campaigns.cluster.campaign import HARMLESS
from tests.campaigns.cluster.command import check_lease
from tests.campaigns.cluster.database import PrivatePostgres
from tests.campaigns.cluster.replicas import Replica, Replicas
from tests.campaigns.cluster.rule_changes import RuleChanges
from tests.campaigns.command import Say, begin, carry_out, complain
from tests.campaigns.faults.world import Broken

T = TypeVar("T")

PROGRAM, PACKAGE = "cluster-demo", "tests.campaigns.cluster.demo"
FABRIC, JOBS = Path("examples/clos-4x4x4.yaml"), (Path("examples/gpt3-a.json"), Path("examples/llama-b.json"))

LINK_MBPS = 5.0
"""Of the emulated hosts' links, in place of the Gbit/s of the fabric."""

ITERATION_SECONDS = 1.0
ITERATIONS = 16
KILLED_AFTER = 6.0
"""Seconds of sending before the leader is killed."""

TALLY_SECONDS = 0.5
"""Between two reports of the hosts; the first one tells that they send."""

PATIENCE_SECONDS = 120.0

PING_SECONDS = 20.0
"""A ping that a busy machine delays is not lost."""

WIDTH = 110
"""Columns of the table."""


class Shown:
    """What happened, with seconds since the kill."""

    def __init__(self, killed: Replica, term: int) -> None:
        """Begin the table at the moment of the kill."""
        self._since = time.monotonic()
        self._table = Table(box=SIMPLE_HEAD, pad_edge=False)
        self._table.add_column("after", justify="right")
        self._table.add_column("what")
        self.add(f"kill -9 of {killed.name}, the leader of term {term}")

    def add(self, what: str) -> None:
        """Add a line with the time now."""
        self._table.add_row(f"{time.monotonic() - self._since:.2f} s", what)

    def add_sum(self, what: str) -> None:
        """Add a line without a time."""
        self._table.add_row("", what)

    def print(self) -> None:
        """Print the table."""
        Console(width=WIDTH).print(self._table)


def main(arguments: Sequence[str], popen: Popen = subprocess.Popen) -> int:
    """Run the demo; return 0, 1 if something was lost or did not work, 2 for invalid input, 130 if interrupted.

    ``popen``: starts the processes of replicas.
    """
    made = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description="Kill the leader of three controllers.")
    made.add_argument("--fabric", type=Path, default=FABRIC, help=f"a fabric file (default: {FABRIC})")
    made.add_argument("--lease", type=float, default=1.0, help="seconds, the option of the controller")
    made.add_argument("--out", type=Path, default=Path("out/cluster-demo"), help="logs go here")
    made.set_defaults(rounds=1, parallel=1)
    options = made.parse_args(arguments)
    return carry_out(PROGRAM, PACKAGE, arguments, options, partial(_run, popen=popen), _check)


def _check(options: argparse.Namespace) -> None:
    check_lease(options)
    load_jobs(load_fabric(options.fabric), JOBS)


def _run(fabric: Fabric, options: argparse.Namespace, popen: Popen = subprocess.Popen) -> int:
    say = begin(options.out)
    server = PrivatePostgres()
    try:
        server.start()
        say(f"{fabric.size_in_words}, {fabric.n_hosts} hosts on Open vSwitch; PostgreSQL; three replicas ...")
        with (
            Lab(fabric, out=options.out, mbps_per_gbps=_scale(fabric)) as lab,
            Replicas(lab, fabric, server, lease=options.lease, popen=popen) as replicas,
        ):
            wrong = _show(lab, fabric, replicas, say)
            wrong += lab.problems(harmless=HARMLESS)
    except Broken as error:
        raise LabError(str(error)) from None
    finally:
        server.close()
    return complain(PROGRAM, "\n".join(wrong), 1) if wrong else 0


def _show(lab: Lab, fabric: Fabric, replicas: Replicas, say: Say) -> list[str]:
    """Run the jobs, kill the leader amid them, and print the table; return what went wrong."""
    leader = _eventually(replicas.leader)
    documents = [json.loads(path.read_text()) for path in JOBS]
    for document in documents:
        # A follower passes it on.
        _push(next(replica for replica in replicas.all if replica is not leader), document)
    told = _eventually(lambda: _routes(leader, fabric))
    _eventually(lambda: _holds(not lab.ping_all(), "some hosts do not reach each other"))
    # Only now has every switch sent something, and so opened the socket by which it sends.
    enlarge_packet_buffers(lab.ovs.daemon.pid)
    changes = RuleChanges(lab)
    changes.start()
    say(f"{leader.name} leads; {len(documents)} jobs send ...")
    with ThreadPoolExecutor(1) as pool, lab.pinging(_pairs(fabric), interval=0.1, timeout=PING_SECONDS) as tally:
        running = _Running(lab, fabric, [_spec(document) for document in documents], told)
        results = pool.submit(running.run)
        followers = [each.meter() for each in replicas.all if each is not leader]
        running.wait(results)
        used = [follower.read() for follower in followers]
        shown = _kill(replicas, leader, documents[0], len(fabric.switches))
        measured = results.result()
    lost, changed = sum(tally.lost.values()), changes.new()
    shown.add_sum(f"{lost} of {sum(tally.sent.values())} pings were lost; {changed} rules were changed")
    for result in measured:
        shown.add_sum(_iterations(result))
    most = f"{max(each.core for each in used):.1%} of a core and {max(each.memory for each in used) / 2**20:.0f} MiB"
    shown.add_sum(f"before, a follower used at most {most}")
    shown.print()
    wrong = [f"{lost} pings were lost"] if lost else []
    wrong += [f"{changed} rules were changed"] if changed else []
    return wrong + [line for result in measured for line in result.wrong]


def _kill(replicas: Replicas, leader: Replica, document: Mapping[str, Any], switches: int) -> Shown:
    """Kill the leader, follow what happens, and start it again."""
    term = leader.term
    others = [replica for replica in replicas.all if replica is not leader]
    replicas.kill(leader)
    shown = Shown(leader, term)
    new = _eventually(lambda: _later(others, term))
    shown.add(f"{new.name} leads term {new.term}")
    _eventually(lambda: _holds(new.has_taken_over(term), "not all switches are read back"))
    shown.add(f"it has read back all {switches} switches, which have confirmed their rules")
    _push(new, document)
    shown.add("a job is pushed to it and acknowledged")
    replicas.start(leader)
    _eventually(lambda: _holds(leader.term == new.term, f"{leader.name} does not follow"))
    shown.add(f"{leader.name}, started again, follows")
    return shown


class _Running:
    """The jobs' collectives on the lab."""

    def __init__(
        self, lab: Lab, fabric: Fabric, specs: Sequence[CollectiveSpec], told: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._lab, self._fabric, self._specs, self._told = lab, fabric, specs, told
        self._sends = threading.Event()

    def run(self) -> list[CollectiveResult]:
        """Run them all to their end."""
        return run_collectives(
            addresses(self._fabric),
            spawn_in(self._lab),
            self._specs,
            routes(self._fabric, self._specs, self._told),
            options=sender_options(self._fabric, _scale(self._fabric)),
            log_dir=self._lab.out / "logs",
            tally_seconds=TALLY_SECONDS,
            on_tally=lambda tally: self._sends.set(),
            ports_of=ports_of(self._fabric),
            namespaces=namespaces_of(self._lab),
        )

    def wait(self, results: Future[list[CollectiveResult]]) -> None:
        """Wait until the jobs are in the middle of it, or have failed."""
        while not self._sends.wait(POLL_SECONDS):
            if results.done():
                results.result()
        time.sleep(KILLED_AFTER)


def _scale(fabric: Fabric) -> float:
    """Return the Mbit/s in the emulation for each Gbit/s of a host's link."""
    return LINK_MBPS / max(host.gbps for host in fabric.hosts)


def _spec(document: Mapping[str, Any]) -> CollectiveSpec:
    """Return the first collective of a job, with as many bytes as take ``ITERATION_SECONDS`` on an idle ring of NICs.

    That is of NICs with one port; with P ports it takes less, down to 1/P where the machine can keep up.
    """
    call = document["collectives"][0]
    ranks = tuple(document["hosts"][rank] for rank in call["ranks"])
    word = 4 * len(ranks)
    size = ITERATION_SECONDS * LINK_MBPS * 1e6 / 8 * len(ranks) / (2 * (len(ranks) - 1))
    return CollectiveSpec(
        document["name"], call["name"], ranks, bytes=max(1, round(size / word)) * word, iterations=ITERATIONS
    )


def _pairs(fabric: Fabric) -> list[Pair]:
    """Each host and the one as far from the end of its network as that is from the begin: on other leaves."""
    pairs: list[Pair] = []
    of_host = fabric.planes.network_of_plane[fabric.planes.of_host]
    for network in range(fabric.planes.n_networks):
        names = [fabric.host_names[host] for host in np.flatnonzero(of_host == network).tolist()]
        pairs += zip(names, reversed(names), strict=True)
    return pairs


def _push(replica: Replica, document: Mapping[str, Any]) -> None:
    def pushed() -> None:
        answer = ask(replica.address, "PUT", f"/v1/jobs/{document['name']}", document)
        _holds(200 <= answer.status < 300, f"{answer.status}: {answer.body}")

    _eventually(pushed)


def _routes(leader: Replica, fabric: Fabric) -> dict[str, Any]:
    """Return the routes of all hosts, once the switches have the rules of all jobs."""
    plan = leader.get("/v1/plan").body
    _holds(plan.get("active") is not None and plan["active"]["epoch"] == plan["computed"]["epoch"], "no plan is active")
    return {host.name: leader.get(f"/v1/routes?host={host.name}").body for host in fabric.hosts}


def _later(replicas: Sequence[Replica], term: int) -> Replica:
    """Return the one that leads a later term than this."""
    found = [each for each in replicas if (told := each.cluster()) and told["role"] == "leader" and told["term"] > term]
    _holds(bool(found), "no replica leads")
    return found[0]


def _holds(so: bool, otherwise: str) -> None:
    if not so:
        raise Broken(otherwise)


def _eventually(what: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return what()
        except (Broken, NoResponseError) as error:
            if time.monotonic() > deadline:
                raise LabError(f"not within {PATIENCE_SECONDS:g} s: {error}") from None
        time.sleep(POLL_SECONDS)


def _iterations(result: CollectiveResult) -> str:
    seconds = result.seconds
    right = "all results correct" if result.checked else "wrong results"
    return (
        f"{result.job}: {len(seconds)} all-reduces of {fmean(seconds):.2f} s, {min(seconds):.2f} to "
        f"{max(seconds):.2f} s; {result.retransmissions} packets sent again, {right}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
