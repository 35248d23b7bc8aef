"""Requests to train are checked before anything is created."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.model.errors import InputError
from emulation.training import training_request
from emulation.training.training_request import TrainingRequest, load
from tests.documented import ROOT

EXAMPLES = ROOT / "examples/training"


@pytest.fixture
def request_(tmp_path: Path) -> TrainingRequest:
    script = tmp_path / "train.py"
    script.touch()
    jobs = tuple(EXAMPLES / f"{name}.json" for name in ("gpt3-a", "llama-b"))
    return TrainingRequest(ROOT / "examples/clos-4x4x4.yaml", jobs, (str(script),))


def test_a_request_is_the_same_after_its_way_into_the_namespaces(request_: TrainingRequest) -> None:
    assert TrainingRequest.from_json(request_.to_json()) == request_


def test_the_jobs_of_the_examples_send_from_each_rank_to_the_one_before_it(request_: TrainingRequest) -> None:
    scenario = load(request_)
    hosts, traffic = scenario.emulated.fabric.host_names, scenario.emulated.traffic
    flows = {(hosts[a], hosts[b]) for a, b in zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True)}
    assert flows == {(job.hosts[rank], job.hosts[rank - 1]) for job in scenario.jobs for rank in range(8)}


def test_the_ideal_step_is_that_of_a_ring_on_the_emulated_links(request_: TrainingRequest) -> None:
    scenario = load(replace(request_, link_mbps=10.0))
    size = {"gpt3-a": 2e6, "llama-b": 2.88e6}
    assert scenario.ideal == pytest.approx({name: 2 * 7 / 8 * bytes_ * 8 / 10e6 for name, bytes_ in size.items()})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"policies": ("fair", "fair")}, "--policies"),
        ({"policies": ("magic",)}, "--policies"),
        ({"jobs": ()}, "--job"),
        ({"scripts": ()}, "--script"),
        ({"scripts": ("a", "b", "c")}, "--script"),
        ({"launches": 0}, "--launches"),
        ({"steps": 1}, "--steps"),
        ({"link_mbps": 1e6}, "--link-mbps"),
        ({"name": "../x"}, "--name"),
        ({"enforcement": "magic"}, "--enforcement"),
        ({"enforcement": "srv6"}, "--enforcement"),
        ({"fabric": ROOT / "examples/two-planes-4x4x4.yaml"}, "--fabric"),
        ({"fabric": ROOT / "examples/routers-4x4x4.yaml"}, "--enforcement"),
        ({"learn": "sflow"}, "--learn"),
        ({"learn": "host", "policies": ("ecmp",)}, "--policies"),
        ({"jobs": (ROOT / "examples/gpt3-a.json",)}, "protocol"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_option(
    request_: TrainingRequest, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InputError) as refused:
        load(replace(request_, **fields))
    assert refused.value.field == field


def test_frameworks_train_on_routers_whose_hosts_write_paths(request_: TrainingRequest) -> None:
    scenario = load(replace(request_, fabric=ROOT / "examples/routers-4x4x4.yaml", enforcement="srv6", learn="host"))
    assert scenario.arms == ("ecmp", "fair", "learned")


def test_the_jobs_for_openmpi_exchange_halves_in_phases(request_: TrainingRequest) -> None:
    jobs = tuple(EXAMPLES / f"mpi/{name}.json" for name in ("gpt3-a", "llama-b"))
    scenario = load(replace(request_, jobs=jobs))
    # Twice all gradients but an eighth, as a ring of eight would send.
    assert scenario.ideal == pytest.approx({"gpt3-a": 7 / 4 * 2e6 * 8 / 20e6, "llama-b": 7 / 4 * 2.88e6 * 8 / 20e6})


def test_ports_that_hosts_choose_are_refused_since_frameworks_choose_them(request_: TrainingRequest) -> None:
    with pytest.raises(InputError, match="for RoCEv2 alone"):
        load(replace(request_, enforcement="source_port"))


def test_too_little_memory_is_refused_before_anything_starts(
    request_: TrainingRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_request, "too_little", lambda ranks: f"{ranks} ranks have no room")
    with pytest.raises(InputError, match="16 ranks have no room"):
        load(request_)


def test_a_job_that_stays_on_its_hosts_is_refused(request_: TrainingRequest, tmp_path: Path) -> None:
    job = tmp_path / "alone.json"
    job.write_text(json.dumps({"name": "a", "protocol": "tcp", "hosts": ["h1"]}))
    with pytest.raises(InputError):
        load(replace(request_, jobs=(job,)))
