"""Learned TCP under enforcements by which agents find ports: all that a host sends another has one path."""

from __future__ import annotations

from ipaddress import IPv4Address

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.reconcile import reconcile
from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.qp_ports import in_order, is_open
from controller.learning.sightings import tcp_key
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState
from controller.service.reconciling.admission import admit_learned
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import HostPlans
from tests.rig.routers.answering_routers import addressed

FABRIC = addressed(clos(2, 2, 2))
SETTINGS = Settings(enforcement="probed_port")


def test_hosts_are_asked_for_ports_of_connections_of_a_learned_job() -> None:
    h1, h3 = (int(IPv4Address(FABRIC.hosts[FABRIC.host_index[name]].ip)) for name in ("h1", "h3"))
    group = LearnedGroup(0, "ring", (tcp_key(h1, h3), tcp_key(h3, h1)), (10**9, 10**9))
    job = in_order(LearnedJob(1.0, 3, (group,), (0.0,), 1.0, 0.0, 0.0))
    assert is_open(job, {})
    traffic = admit_learned(job, FABRIC, [], 100, SETTINGS.enforcement)
    desired = DesiredState(learning="act", learned=(traffic,), enforcement=SETTINGS.enforcement)
    network = NetworkState(unobserved=frozenset(switch.key for switch in FABRIC.switches))
    state = reconcile(SETTINGS, FABRIC, network, desired, ControllerState(), lambda: 0.0, HostCompiler(SETTINGS))
    plans = state.compiled
    assert isinstance(plans, HostPlans)
    for name, other in (("h1", "h3"), ("h3", "h1")):
        (row,) = plans.content(FABRIC.host_index[name])["connections"]
        assert (row["dst"], row["comes_back"]) == (FABRIC.hosts[FABRIC.host_index[other]].ip, True)
        assert row["path"] in FABRIC.live_paths(0, 1).tolist()
