"""Paths for which agents find no source port: plans leave them, once, and for as long as that holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState
from controller.core.reconcile import reconcile
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState, PortlessPath
from controller.planning.around_barred import STATUS
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.probed_ports.port_maps import map_name
from controller.workload.expand import expand
from controller.workload.job_file import parse_job
from tests.rig.routers.answering_routers import addressed

FABRIC = addressed(clos(4, 2, 4))
SETTINGS = Settings(policy="greedy", enforcement="probed_port")
FLOWS = [{"src": f"h{n + 1}", "dst": f"h{n + 5}", "bytes": 10**9} for n in range(4)]
JOB = expand(FABRIC, parse_job({"name": "job", "flows": FLOWS}), [])
DESIRED = DesiredState(
    (AdmittedJob("job", b"{}", "r1", 0, 7.5, "ann", JOB.udp_src, JOB),), enforcement=SETTINGS.enforcement
)
LEARNED = DesiredState(learning="act", learned=(JOB,), enforcement=SETTINGS.enforcement)
NAME = map_name(FABRIC, 0, 1)


def step(
    before: ControllerState, portless: frozenset[PortlessPath], desired: DesiredState = DESIRED, **more: Any
) -> ControllerState:
    unobserved = frozenset(switch.key for switch in FABRIC.switches)
    network = NetworkState(unobserved=unobserved, portless=portless)
    return reconcile(SETTINGS, FABRIC, network, desired, before, lambda: 0.0, HostCompiler(SETTINGS), **more)


def paths(state: ControllerState) -> list[int]:
    assert state.candidate is not None
    return [*state.candidate.plan.assignment.path.tolist()]


def portless(of: dict[int, frozenset[int]], name: str = NAME) -> frozenset[PortlessPath]:
    rows = ((src, path) for src, several in of.items() for path in several)
    return frozenset(PortlessPath(f"h{src + 1}", FABRIC.hosts[src + 4].ip, name, path) for src, path in rows)


barred = st.dictionaries(st.integers(0, 3), st.frozensets(st.integers(0, 3)))


@given(st.lists(barred, max_size=4), st.sampled_from([DESIRED, LEARNED]))
def test_a_new_plan_leaves_portless_paths_and_none_is_made_where_no_flow_is_on_one(
    steps: list[dict[int, frozenset[int]]], desired: DesiredState
) -> None:
    state = step(ControllerState(), frozenset(), desired)
    for of in steps:
        before, old = state, paths(state)
        state = step(before, portless(of), desired)
        new = paths(state)
        bad = {src for src in range(4) if old[src] in of.get(src, ()) and len(of[src]) < 4}
        assert (state.epoch > before.epoch) == bool(bad)
        for src in range(4):
            assert new[src] not in of.get(src, ()) or len(of[src]) == 4
        if not bad:
            assert new == old
        again = step(state, portless(of), desired)
        assert (again.epoch, paths(again)) == (state.epoch, new)


def test_learned_flows_end_with_the_enforcement_by_whose_ports_they_are_known() -> None:
    assert LEARNED.in_mode("ecmp", None).learned == (JOB,)
    assert LEARNED.in_mode(None, "srv6").learned == ()
    assert LEARNED.learned_traffic == [JOB]
    by_programs = DesiredState(learning="act", learned=(JOB,), enforcement="source_port")
    assert by_programs.learned_traffic == []


def test_what_was_learned_in_another_state_of_the_cables_does_not_count() -> None:
    state = step(ControllerState(), frozenset())
    of = {src: frozenset({path}) for src, path in enumerate(paths(state))}
    assert step(state, portless(of, "0" * 16)).epoch == state.epoch
    assert step(state, portless(of)).epoch == state.epoch + 1


def test_after_a_restart_the_plan_stays_as_it_was_before_agents_have_reported_again() -> None:
    state = step(ControllerState(), frozenset())
    state = step(state, portless({src: frozenset({path}) for src, path in enumerate(paths(state))}))
    assert state.candidate is not None
    assert state.candidate.plan.status == STATUS
    restarted = ControllerState(epoch=state.epoch, applied=state.applied, desired=DESIRED)
    again = step(restarted, frozenset())
    assert (again.epoch, paths(again)) == (state.epoch, paths(state))


def test_speeds_and_bounds_are_of_the_paths_that_are_taken() -> None:
    free = step(ControllerState(), frozenset())
    assert free.candidate is not None
    assert free.candidate.plan.objective.min_speed == 1.0
    # All flows have but one spine.
    state = step(free, portless(dict.fromkeys(range(4), frozenset({0, 1, 2}))))
    assert state.candidate is not None
    plan = state.candidate.plan
    assert paths(state) == [3, 3, 3, 3]
    assert np.isclose(plan.objective.min_speed, 0.25)
    assert plan.bound.split is None or plan.bound.split >= plan.objective.min_level
