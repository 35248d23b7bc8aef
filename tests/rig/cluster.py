"""Three replicas of a controller on one PostgreSQL and one lab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.waiting import eventually

FABRIC = clos(2, 2, 2)


REPLICAS = 3


LEASE = 5.0
"""Seconds. On a busy machine, a leader may not get to beat for a second or more."""


@pytest.fixture
def fabric_file(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    return path


class Cluster:
    """Replicas with ports of their own, and a lab whose switches connect to all of them."""

    def __init__(self, bench: Bench, fabric: Fabric, file: Path, store: str, *options: str) -> None:
        self.lab: Lab = bench.lab(fabric)
        for n in range(1, REPLICAS):
            self._connect(6653 + n)
        self.replicas = [
            bench.controller(
                "--fabric",
                str(file),
                "--store",
                store,
                "--cluster-name",
                "lab",
                "--lease",
                str(LEASE),
                "--ofp-tcp-listen-port",
                str(6653 + n),
                "--wsapi-port",
                str(8080 + n),
                *options,
                "controller.app",
                http_port=8080 + n,
                wait=False,
                name=f"replica{n}",
            )
            for n in range(REPLICAS)
        ]
        for replica in self.replicas:
            replica.wait_for("it answers", replica.answers)

    def _connect(self, port: int) -> None:
        """Have every switch connect to one more controller."""
        arguments: list[str] = []
        for switch in self.lab.wiring.switches:
            row = f"@{switch.bridge}"
            arguments += ["--", f"--id={row}", "create", "controller", f'target="tcp:127.0.0.1:{port}"']
            arguments += ["max_backoff=1000", "--", "add", "bridge", switch.bridge, "controller", row]
        self.lab.ovs.vsctl(*arguments)

    def disconnect(self, replica: Controller) -> None:
        """Have every switch connect to this replica no longer."""
        port = 6653 + self.replicas.index(replica)
        for switch in self.lab.wiring.switches:
            rows = self.lab.ovs.vsctl("get", "bridge", switch.bridge, "controller").strip("[]\n ").split(", ")
            assert len(rows) == REPLICAS
            for row in rows:
                if self.lab.ovs.vsctl("get", "controller", row, "target").strip().endswith(f':{port}"'):
                    self.lab.ovs.vsctl("remove", "bridge", switch.bridge, "controller", row)

    def leaders(self, replicas: Sequence[Controller]) -> list[Controller]:
        return [each for each in replicas if role(each) == "leader"]

    def leader(self, *, after: int = 0) -> Controller:
        """The leader of a term after this one, once its plan is active and the other replicas know it."""
        found: list[Controller] = []

        def leads() -> bool:
            found[:] = self.leaders(self.replicas)
            return len(found) == 1 and term(found[0]) > after

        eventually(leads, "one replica leads", shown=lambda: [role(each) for each in self.replicas])
        eventually(found[0].is_well, "all is well", shown=lambda: found[0].get("/healthz").body)
        eventually(lambda: all(knows(each, found[0]) for each in self.replicas), "all replicas know the leader")
        return found[0]


def role(replica: Controller) -> str:
    try:
        return str(replica.get("/v1/cluster").body["role"])
    except OSError:
        return "none"


def knows(replica: Controller, leader: Controller) -> bool:
    """Return whether a replica, if it works, has heard who leads: with its next beat, which a busy machine delays."""
    try:
        return bool(replica.get("/healthz").body["cluster"]["leader"] == f"http://127.0.0.1:{leader.http_port}")
    except OSError:
        return True


def term(replica: Controller) -> int:
    return int(replica.get("/v1/cluster").body["term"])


def cluster_of(bench: Bench, file: Path, store: str, *options: str) -> Cluster:
    """Replicas with these options, and what they may say."""
    stale = "a follower asks for its role with the term that it has read, while the leader becomes master"
    bench.harmless.append(("OFPRRFC_STALE", stale))
    bench.harmless.append(("OFPBRC_IS_S", "a leader that was stopped goes on with what it was about to send"))
    bench.harmless.append(("no response to inactivity probe", "switches notice a leader that was stopped for long"))
    return Cluster(bench, FABRIC, file, store, *options)


@pytest.fixture
def cluster(bench: Bench, fabric_file: Path, postgres_url: str) -> Cluster:
    return cluster_of(bench, fabric_file, postgres_url)
