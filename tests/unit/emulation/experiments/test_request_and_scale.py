"""Requests of experiments, and their scaling."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.planning.make_plan import make_plan
from emulation.experiments.request import Draw, ExperimentRequest, load
from emulation.experiments.scale import EFFICIENCY, TOTAL_MBPS, Scale, longest_job, phase_sums, scale_for
from tests.unit.emulation.experiments.made import ring, scenario_of, scenario_of_routers, scenario_on
from tests.unit.strategies import with_routers

SMALL = "{spines: 2, leaves: 2, hosts_per_leaf: 2}"


def test_jobs_that_compute_run_several_iterations_and_others_one(tmp_path: Path) -> None:
    job = ring("a", ["h1", "h3"])
    assert scenario_of(tmp_path, SMALL, [job]).iterations == {"a": 1}
    assert scenario_of(tmp_path, SMALL, [job], iterations=(3,)).iterations == {"a": 3}
    job["compute_seconds"] = 0.1
    assert scenario_of(tmp_path, SMALL, [job, ring("b", ["h2", "h4"])]).iterations == {"a": 10, "b": 10}


def test_a_policy_with_shifts_is_the_policy_with_an_option(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path, SMALL, [ring("a", ["h1", "h3"])], policies=("fair", "fair+shifts"))
    assert [(draw.routing, draw.options) for draw in scenario.draws] == [("fair", ()), ("fair", ("shifts=advise",))]


def test_a_paced_policy_is_the_policy_whose_paces_hosts_keep(tmp_path: Path) -> None:
    policies = ("fair", "fair+paced", "fair+shifts+paced", "ecmp+paced", "fair+windows", "fair+shifts+windows")
    scenario = scenario_of(tmp_path, SMALL, [ring("a", ["h1", "h3"])], policies=policies, seeds=(1,))
    assert [(draw.routing, draw.options, draw.paced, draw.windows) for draw in scenario.draws] == [
        ("fair", (), False, False),
        ("fair", (), True, False),
        ("fair", ("shifts=advise",), True, False),
        ("ecmp", (), True, False),
        ("fair", (), True, True),
        ("fair", ("shifts=advise",), True, True),
    ]


def test_a_request_survives_the_way_into_another_process() -> None:
    request = ExperimentRequest(
        Path("f.yaml"),
        (Path("a.json"), Path("b.json")),
        ("ecmp", "fair"),
        seeds=(7,),
        link_mbps=12.5,
        iterations=(2, 3),
    )
    assert ExperimentRequest.from_json(request.to_json()) == request


def test_policies_that_leave_it_to_chance_are_drawn_several_times_and_others_once(tmp_path: Path) -> None:
    scenario = scenario_of(
        tmp_path, SMALL, [ring("a", ["h1", "h3"])], policies=("ecmp", "greedy", "random"), seeds=(5, 6)
    )
    assert scenario.draws == (
        Draw("ecmp", 5),
        Draw("ecmp", 6),
        Draw("greedy", 5),
        Draw("random", 5),
        Draw("random", 6),
    )


@pytest.mark.parametrize("flow", [{"udp_src": 50000}, {}])
def test_a_job_that_keeps_its_ports_cannot_run_by_source_port(tmp_path: Path, flow: dict[str, Any]) -> None:
    job = {"name": "a", "flows": [{"src": "h1", "dst": "h3", "bytes": 1000} | flow]}
    if not flow:
        job["ports"] = "unknown"
    scenario_of(tmp_path, SMALL, [job], enforcement="segment_routing")
    with pytest.raises(InputError, match=r"job0.json: (flows.0..udp_src: 50000|ports: 'unknown')"):
        scenario_of(tmp_path, SMALL, [job], enforcement="source_port")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"enforcement": "openflow"}, "--enforcement: 'openflow'"),
        ({"policies": ("ecmp", "spray")}, "--policies: 'spray': switches cannot follow it"),
        ({"policies": ("ecmp", "ecmp")}, "listed twice"),
        ({"policies": ()}, "at least one"),
        ({"policies": ("greedy+shifts",)}, "--policies: 'greedy+shifts': only fair advises shifts"),
        ({"policies": ("hedera-annealing+paced",)}, "--policies: 'hedera-annealing+paced': no plan of Hedera"),
        ({"policies": ("hedera-fair",)}, "--policies: 'hedera-fair': switches cannot follow it"),
        ({"policies": ("nope",)}, "no policy has this name; the supported policies are fair, "),
        ({"policies": ("nope+shifts",)}, "--policies: 'nope+shifts': no policy has this name"),
        ({"policies": ("hedera-nope",)}, "--policies: 'hedera-nope': no policy has this name"),
        ({"policies": ("fair+paced+windows",)}, "--policies: 'fair+paced+windows': no policy has this name"),
        ({"policies": ("ecmp", "fair+paced"), "learn": "host"}, "--policies: 'fair+paced': flows of learned jobs"),
        ({"iterations": (0,)}, "--iterations: 0"),
        ({"seeds": ()}, "--draws: 0"),
        ({"seconds": 0.0}, "--seconds: 0.0"),
        ({"seconds": math.nan}, "--seconds: nan"),
        ({"jobs": ()}, "--job"),
        ({"name": "../x"}, "--name: '../x'"),
        ({"replans": 3}, "--learn: '': one feeder is needed"),
        ({"replans": 3, "learn": "host,sflow"}, "--learn: 'host,sflow': one feeder is needed"),
        ({"learn": "host,gossip"}, "--learn: 'gossip': must be one of"),
        ({"learn": "host, host"}, "--learn: 'host': this feeder is listed twice"),
        ({"replans": -1, "learn": "host"}, "--replans: -1"),
        ({"replans": 101, "learn": "host"}, "--replans: 101"),
    ],
)
def test_what_makes_no_sense_is_one_clear_error(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    scenario = scenario_of(tmp_path, SMALL, [ring("a", ["h1", "h3"])])
    with pytest.raises(InputError) as caught:
        load(replace(scenario.request, **change))
    assert words in str(caught.value)


def test_what_is_not_learned_is_refused_before_a_lab_is_built(tmp_path: Path) -> None:
    bonds = "{spines: 2, leaves: 2, hosts_per_leaf: 2, planes: 2, bond: true}"
    scenario = scenario_of(tmp_path, bonds, [ring("a", ["h1", "h3"])])
    load(replace(scenario.request, learn="host", policies=("ecmp", "fair")))
    with pytest.raises(InputError, match="--learn: 'host,sflow': only hosts tell which port of a bond sends a flow"):
        load(replace(scenario.request, learn="host,sflow", policies=("ecmp", "fair")))


def test_jobs_that_do_not_fit_name_their_file(tmp_path: Path) -> None:
    for jobs, words in (
        ([ring("a", ["h1", "h99"])], "job0.json: hosts[1]: 'h99': the fabric has no host of this name"),
        ([ring("a", ["h1", "h3"]), ring("a", ["h2", "h4"])], "job1.json: name: 'a': a previous job has this name"),
        ([ring("a", ["h1"])], "no job sends data over the network"),
    ):
        with pytest.raises(InputError) as caught:
            scenario_of(tmp_path, SMALL, jobs)
        assert str(caught.value).endswith(words)


@given(st.floats(1e-6, 1e6), st.floats(0.1, 600), st.floats(1, 1000))
def test_what_takes_the_ideal_time_on_the_fabric_takes_the_seconds_asked_for(
    ideal: float, seconds: float, link_mbps: float
) -> None:
    scale = scale_for(clos(2, 2, 2), ideal, seconds=seconds, link_mbps=link_mbps)
    assert scale.time * ideal == pytest.approx(seconds)
    # The same in another way: bytes on the wire over the rate of the link.
    real_bytes = ideal * 100e9 / 8
    assert real_bytes * scale.bytes / EFFICIENCY * 8 / (link_mbps * 1e6) == pytest.approx(seconds)


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from([25.0, 100.0, 400.0]), st.sampled_from([50.0, 400.0]))
def test_all_hosts_together_never_get_more_than_two_cores_carry(
    leaves: int, hosts: int, host_gbps: float, uplink_gbps: float
) -> None:
    fabric = clos(2, leaves, hosts, host_gbps=host_gbps, uplink_gbps=uplink_gbps)
    try:
        scale = scale_for(fabric, 1.0, seconds=5.0)
    except InputError as error:
        assert "too large" in str(error)
        assert leaves * hosts > 100
    else:
        assert leaves * hosts * host_gbps * scale.mbps_per_gbps <= TOTAL_MBPS * (1 + 1e-9)


def test_rates_that_cannot_be_had_are_one_clear_error() -> None:
    for rate in (0.0, -1.0, math.nan, 1001.0):
        with pytest.raises(InputError, match="--link-mbps"):
            scale_for(clos(2, 2, 2), 1.0, seconds=5.0, link_mbps=rate)


def test_phases_of_a_job_add_up_and_collectives_of_one_phase_do_not(tmp_path: Path) -> None:
    job = ring("a", ["h1", "h3"])
    call = job["collectives"][0]
    job["collectives"] += [{**call, "name": "same", "bytes": 10**8}, {**call, "name": "later", "phase": 1}]
    scenario = scenario_of(tmp_path, SMALL, [job, ring("b", ["h2", "h4"], 10**8)])
    plan = make_plan(scenario.fabric, scenario.traffic, policy="greedy", clock=lambda: 0.0)
    alone = dict(zip([row.name for row in scenario.traffic.collectives], plan.objective.ideal_seconds, strict=True))
    sums = phase_sums(scenario.traffic, plan.objective.ideal_seconds)
    assert sums["a"] == pytest.approx(2 * 10**9 * 8 / 100e9)
    assert sums["b"] == pytest.approx(alone["dp0"])
    assert longest_job(scenario.traffic, plan, {"b": 0.01}) == sums["a"]


def test_a_scale_of_one_for_one_is_real_time_but_for_headers() -> None:
    assert Scale(1000.0, 1.0).time == pytest.approx(1 / EFFICIENCY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"enforcement": "per_flow"}, r"--enforcement: 'per_flow': the switches are routers; needs one of srv6"),
        ({"learn": "host"}, "--learn: 'host': routers do not count flows"),
        ({"policies": ("ecmp", "hedera-annealing")}, "--policies: 'hedera-annealing': routers do not count flows"),
    ],
)
def test_what_routers_cannot_do_is_refused_before_a_lab_is_built(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    scenario = scenario_of_routers(clos(2, 2, 2), tmp_path, [ring("a", ["h1", "h3"])])
    assert scenario.fabric.routers
    with pytest.raises(InputError, match=words):
        load(replace(scenario.request, **change))


def test_enforcement_by_hosts_needs_routers_and_no_other_switch(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--enforcement: 'srv6': needs a fabric of routers"):
        scenario_of(tmp_path, SMALL, [ring("a", ["h1", "h3"])], enforcement="srv6")
    mixed = with_routers(clos(2, 2, 2), ["leaf1"])
    (tmp_path / "fabric.yaml").write_text(yaml.safe_dump(fabric_document(mixed)))
    with pytest.raises(InputError, match="has both routers and OpenFlow switches"):
        scenario_on(tmp_path / "fabric.yaml", [ring("a", ["h1", "h3"])], enforcement="srv6")


def test_jobs_that_overlap_with_computing_are_run_but_not_learned(tmp_path: Path) -> None:
    job = ring("a", ["h1", "h3"])
    job["collectives"][0]["overlap"] = "compute"
    assert scenario_of(tmp_path, SMALL, [job]).iterations == {"a": 1}
    with pytest.raises(InputError) as caught:
        scenario_of(tmp_path, SMALL, [job], learn="host")
    assert caught.value.field == "overlap"
    assert str(caught.value.source).endswith("job0.json")


def test_collectives_that_span_phases_are_not_run(tmp_path: Path) -> None:
    job = ring("a", ["h1", "h3"])
    job["flows"] = [{"src": "h1", "dst": "h3", "bytes": 9, "collective": "x"}]
    job |= {"phases": {"x": 1}, "until": {"x": 1}}
    assert scenario_of(tmp_path, SMALL, [job]).iterations == {"a": 1}
    job["collectives"][0]["until"] = "end"
    with pytest.raises(InputError, match="end each phase with its own collectives") as caught:
        scenario_of(tmp_path, SMALL, [job])
    assert caught.value.field == "until"
