"""Agents of hosts that know followers of a cluster only: these send to the leader what agents ask for and report."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.connection.carrier_conversation import CarrierConversation
from agent.connection.controller_connection import ControllerConnection, access
from agent.plans.host_plan import HostPlan
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from tests.rig.bench import Bench
from tests.rig.cluster import LEASE, REPLICAS, role
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(2, 2, 2))
JOB = {
    "hosts": ["h1", "h3", "h2", "h4"],
    "collectives": [{"name": "dp", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 10**6}],
}


WAIT_SECONDS = 3
"""Agents wait longer for a plan, and report meanwhile; what these hosts hold is told with their next request."""


class Impatient(ControllerConnection):
    """A connection whose requests for plans are held for a short time only."""

    def plan(
        self,
        after: tuple[int, str] | None,
        wait_seconds: int = WAIT_SECONDS,
        destinations: str = "",
        report: Any = None,
        *,
        changes: bool = False,
    ) -> Any | None:
        return super().plan(after, wait_seconds, destinations, report, changes=changes)


class Host:
    """What an agent asks and reports, on a kernel that takes every plan."""

    def __init__(self, name: str, replicas: list[Controller]) -> None:
        """Begin; it knows these replicas."""
        self.plans: list[HostPlan] = []
        known = access(",".join(f"http://127.0.0.1:{each.http_port}" for each in replicas), None, None, None, None)
        self._talk = CarrierConversation(name, Impatient(name, known), ControllerConnection(name, known), self._take)
        self._talk.start(None)

    def _take(self, plan: HostPlan, _document: Any) -> None:
        self.plans.append(plan)
        self._talk.report({"epoch": plan.epoch, "digest": plan.digest})

    def close(self) -> None:
        """End it."""
        self._talk.close()


@pytest.fixture
def replicas(bench: Bench, tmp_path: Path, postgres_url: str) -> list[Controller]:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    ports = free_ports(2 * REPLICAS)
    options = ("--fabric", str(file), "--enforcement", "srv6", "--store", postgres_url, "--cluster-name", "agents")
    made = []
    for number in range(REPLICAS):
        openflow, http = ports[2 * number : 2 * number + 2]
        own = ("--lease", str(LEASE), "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http))
        made.append(
            bench.controller(*options, *own, "controller.app", http_port=http, wait=False, name=f"replica{number}")
        )
    for each in made:
        each.wait_for("it answers", each.answers)
    return made


def leader_of(replicas: list[Controller]) -> Controller:
    found: list[Controller] = []

    def leads() -> bool:
        found[:] = [each for each in replicas if role(each) == "leader"]
        return len(found) == 1

    eventually(leads, "one replica leads", shown=lambda: [role(each) for each in replicas])
    return found[0]


def active(leader: Controller) -> int | None:
    """Return the epoch of the newest plan if all agents have confirmed it."""
    health, plan = leader.get("/healthz").body, leader.get("/v1/plan")
    if plan.status != 200:
        # It has just become the leader.
        return None
    newest = plan.body["computed"]["epoch"]
    return newest if health["active_epoch"] == newest and health["agents"]["expected"] else None


def answered(replica: Controller, operation: str) -> int:
    """Return how many requests of an operation a replica has answered with success."""
    rows = re.findall(r"^fairspine_http_requests_total\{(.*)\} (\S+)", str(replica.get("/metrics").body), re.MULTILINE)
    wanted = (f'operation="{operation}"', 'status="2xx"')
    return int(sum(float(number) for labels, number in rows if all(each in labels for each in wanted)))


def test_agents_that_know_followers_only_get_plans_and_confirm_them_and_go_on_when_the_leader_is_killed(
    replicas: list[Controller],
) -> None:
    leader = leader_of(replicas)
    followers = [each for each in replicas if each is not leader]
    with ExitStack() as stack:
        hosts = {name: Host(name, followers) for name in FABRIC.host_names}
        for host in hosts.values():
            stack.callback(host.close)
        # A follower learns from the store who leads; until then it refuses changes, and nothing happens.
        eventually(lambda: followers[0].put("/v1/jobs/ring", JOB).status == 201, "a follower passes the job on")
        eventually(
            lambda: active(leader) is not None, "all agents have confirmed", shown=lambda: leader.get("/healthz").body
        )
        # A plan of another number that says the same to a host does not come to it.
        assert {host.plans[-1].mode for host in hosts.values()} == {"planned"}
        # What the agents have said has come with that of others, and the leader has answered no agent by itself.
        assert answered(leader, "relayHosts")
        assert answered(leader, "postHostReport") == answered(leader, "getSegments") == 0
        leader.kill()
        leader = leader_of(followers)
        # Its agents report again, since their connections have ended; those of the other one ask again.
        eventually(lambda: active(leader) is not None, "they confirm to the next leader")
        link, before = FABRIC.cable_names[0], {host.plans[-1].digest for host in hosts.values()}
        eventually(lambda: leader.put(f"/v1/fabric/links/{link}", {"drained": True}).status == 200, "the leader drains")
        second = leader.get("/v1/plan").body["computed"]["epoch"]
        eventually(lambda: active(leader) == second, "the drain is confirmed")
        assert not before & {host.plans[-1].digest for host in hosts.values()}
        assert all(plan.destinations for host in hosts.values() for plan in host.plans)
