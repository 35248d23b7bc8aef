"""One moment of a controller that has something to say about everything, and its metrics."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.metrics_core import Metric

from controller.core.controller_state import ControllerState
from controller.core.ports.enforcer import AgentCounts, EnforcerCounts
from controller.core.ports.host_agents import AgentState, FlowPort, HostReport, NicCounters, PortReport
from controller.core.ports.observer import ObserverCounts
from controller.core.speeds.job_speeds import JobSpeeds
from controller.core.speeds.speeds_now import SpeedsNow
from controller.model.paces import Paces, PacketSize
from controller.model.tenant import Tenant
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.enforcement.registry import compile_rules
from controller.southbound.rollout.rollout import OpenFlowRefusal
from controller.telemetry.counters import PortCounters, SwitchCounters
from controller.telemetry.instruments import Instruments
from controller.telemetry.port_rates import Readings
from controller.telemetry.sample_columns import SampleColumns
from controller.views.cluster import ReplicaCounts
from controller.views.metrics import MetricsSnapshot, families
from tests.unit.service.job_steps import step_of
from tests.unit.workload.documents import FABRIC

Family = Metric | SampleColumns

FLOWS = {"flows": [{"src": FABRIC.hosts[0].name, "dst": FABRIC.hosts[-1].name, "bytes": 10**9}]}
PLANNED = step_of(
    dataclasses.replace(FABRIC, tenants=(Tenant("a", 2.0),)), [FLOWS | {"tenant": "a", "compute_seconds": 0.1}]
)
assert PLANNED.encoding is not None
STEP = dataclasses.replace(
    PLANNED,
    paces=Paces(np.full(len(PLANNED.encoding.flow), 50.0), PacketSize()),
    compiled=compile_rules("per_flow", FABRIC, PLANNED.traffic, PLANNED.encoding),
    names={switch.dpid: switch.name for switch in FABRIC.switches},
)
REFUSAL = OpenFlowRefusal(5, None, FABRIC.leaves[0].dpid, FABRIC.leaves[0].name, "table full", 0, 10, 7, "table full")


def moment(state: ControllerState = STEP, **other: Any) -> MetricsSnapshot:
    """All switches but the last are connected, were read twice, and one of them refuses the plan."""
    switches = [
        SimpleNamespace(key=switch.key, name=switch.name, epoch=5, error="", missing=(), connected=True, waits_for=())
        for switch in FABRIC.switches
    ][:-1]
    readings = Readings()
    for at, octets in ((1.0, 0), (2.0, 1_250_000_000)):
        for switch in switches:
            ports = dict.fromkeys(range(1, 20), PortCounters(1, 1, octets, octets, 2, 3, 4, 5))
            readings.add(SwitchCounters(switch.key, at, ports))
    told = {
        "state": dataclasses.replace(state, speeds=JobSpeeds({job.name: 1.0 for job in state.jobs})),
        "status": "degraded",
        "degraded_service": 1,
        "speeds": SpeedsNow({job.name: 1.0 for job in state.jobs}),
        "switches": switches,
        "expected": FABRIC.n_leaves + FABRIC.n_spines,
        "active": (5, 1.0),
        "computed_at": 1.5,
        "refusal": REFUSAL,
        "counts": EnforcerCounts(3, 1, {"flow_mod_failed": 4}, {"leaf1": 7}, ("leaf1",)),
        "observed": ObserverCounts(2, {"malformed": 5}, {"leaf1": 6}, {"taken": 8, "dropped": 9}),
        "discovery": DiscoveryCounts(100, 90, {"forged": 1}, 0.5, 1.0, 0.01, 1, 2),
        "store_works": True,
        "readings": readings,
        "measured": 2.0,
        "period": 5.0,
        "streams": 1,
        "replica": ReplicaCounts("leader", 3, 1, 2, 1, 0.1, 0.5),
        "agents": AgentCounts(2, 2, 1),
        "hosts": [
            AgentState(
                "h1",
                True,
                1.0,
                5,
                True,
                HostReport(
                    None,
                    counters=NicCounters((1,) * 8, ecn_marked=2, cnp_sent=3, sent_dropped=4),
                    ports=PortReport("active", (FlowPort("10.0.2.1", 1, 50000, 0, 1.0),), moved=1, probes=2),
                ),
            )
        ],
    }
    return MetricsSnapshot(**{**told, **other})


def used_instruments() -> Instruments:
    """Each has measured something."""
    used = Instruments()
    used.planned("fair", 0.01, 3)
    used.active(0.2)
    used.store_failed()
    used.polled(0.02)
    used.poll_skipped()
    used.poll_failed()
    used.request_answered("getPlan", "GET", 200, 0.003)
    used.request_answered("", "BREW", 405, 0.001)
    used.seen("sflow", 5)
    used.sflow_reported({"taken": 1}, {"taken": 7})
    return used


def everything() -> list[Family]:
    """Every family that there is: of links, with those that small fabrics have, and those that large ones have."""
    of_groups = {each.name: each for each in families(moment(most_links=0)) if each.name.startswith("fairspine_links_")}
    small = [of_groups.get(family.name, family) for family in families(moment())]
    return [*small, *used_instruments().collect()]


def names_of(metrics: Iterable[Family]) -> set[str]:
    """Return the names by which samples can be queried."""
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
    return {family.name + suffix for family in metrics for suffix in suffixes.get(family.type, [""])}


def metrics_in(expression: str) -> set[str]:
    """The metrics that a PromQL expression asks for, of those that a controller has."""
    return set(re.findall(r"\b(?:fairspine|process|python)_[a-z0-9_]+", expression))


def promtool(*arguments: str, text: str = "") -> str:
    """What it says; it must be content. Where it is not installed the test is skipped."""
    if shutil.which("promtool") is None:
        lacking = "promtool is not installed (Debian's package prometheus)"
        pytest.fail(lacking) if os.environ.get("CI") else pytest.skip(lacking)
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
