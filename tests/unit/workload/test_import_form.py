"""Other tools' files in a request body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.service.reconciling.admission import admit
from controller.workload.import_form import job_from_body
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Call, Cluster, logs

FABRIC = clos(2, 2, 4)
CLUSTER = Cluster(2, 2, 2, ((0, 1, 2, 3), (1, 0, 3, 2)), ((-1, 0, 0, 2), (1, -1, 1, 2)), (Call("AllReduce", 1024),))
FILES = [{"name": f"rank{i}.log", "text": text} for i, text in enumerate(logs(CLUSTER, STYLES[3]))]


def body(form: dict[str, Any] | None = None, **more: Any) -> bytes:
    return json.dumps({"import": {"format": "nccl", "files": FILES} | (form or {})} | more).encode()


def test_files_in_a_body_are_a_job_on_the_controllers_fabric() -> None:
    traffic = admit("logged", body(weight=2.0), FABRIC, [], 1000)
    assert (traffic.name, traffic.weight, traffic.n_flows) == ("logged", 2.0, 4)
    assert {row.name for row in traffic.collectives} == {"c0-all_reduce"}
    assert job_from_body(body(tenant="a"), "logged", FABRIC).tenant == "a"
    with pytest.raises(InputError, match="tenant: 'a': the fabric has no such tenant"):
        admit("logged", body(tenant="a"), FABRIC, [], 1000)


@pytest.mark.parametrize(
    ("said", "timing"),
    [
        ({}, None),
        ({"compute_seconds": 0.25}, JobTiming(((0, 0.25),))),
        ({"compute_seconds": {"0": 0.5}}, JobTiming(((0, 0.5),))),
        ({"period_seconds": 1.5}, JobTiming(period_seconds=1.5)),
    ],
)
def test_times_beside_the_files_are_the_jobs(said: dict[str, Any], timing: JobTiming | None) -> None:
    assert job_from_body(body(**said), "a", FABRIC).timing == timing


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"compute_seconds": {"7": 0.5}}, "compute_seconds"),
        ({"compute_seconds": -1.0}, "compute_seconds"),
        ({"compute_seconds": 1.0, "period_seconds": 2.0}, "period_seconds"),
    ],
)
def test_times_beside_the_files_that_cannot_be_are_refused_by_their_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        job_from_body(body(**said), "a", FABRIC)
    assert error.value.field.startswith(field)


def test_stated_times_replace_those_of_the_files() -> None:
    rows = "x -1 1000 ALLREDUCE 8 2000 NONE 0 4000 NONE 0 0"
    text = f"HYBRID_TRANSFORMER model_parallel_NPU_group: 2 all_gpus: 4\n1\n{rows}\n"
    form = {"format": "aicb", "files": [{"name": "w.txt", "text": text}]}
    own = job_from_body(body(form), "a", FABRIC).timing
    assert own is not None
    assert dict(own.compute) == pytest.approx({0: 7e-6})
    assert job_from_body(body(form, period_seconds=2.0), "a", FABRIC).timing == JobTiming(period_seconds=2.0)


@pytest.mark.parametrize(
    ("form", "hosts"),
    [
        ({}, ("h1", "h2", "h3", "h4")),
        ({"placement": "in-order"}, ("h1", "h2", "h3", "h4")),
        ({"placement": ["h5", "h6", "h1", "h2"]}, ("h5", "h6", "h1", "h2")),
        ({"inventory": {"node0": ["h1", "h2"], "node1": {"mlx5_0": "h7", "1": "h8"}}}, ("h1", "h2", "h7", "h8")),
    ],
)
def test_ranks_go_where_the_body_says(form: dict[str, Any], hosts: tuple[str, ...]) -> None:
    assert job_from_body(body(form), "a", FABRIC).hosts == hosts


@pytest.mark.parametrize("placement", ["packed", "scattered", "random"])
def test_a_computed_placement_uses_hosts_of_the_fabric_once_each(placement: str) -> None:
    hosts = job_from_body(body({"placement": placement, "seed": 3}), "a", FABRIC).hosts
    assert len(set(hosts)) == 4
    assert set(hosts) <= set(FABRIC.host_names)


def test_a_body_without_import_is_a_job_as_ever() -> None:
    job = job_from_body(b'{"flows": [{"src": "h1", "dst": "h2", "bytes": 5}]}', "a", FABRIC)
    assert job.flows.bytes.tolist() == [5]


def test_the_protocol_beside_the_files_is_the_jobs() -> None:
    assert job_from_body(body(), "a", FABRIC).protocol == "roce"
    assert job_from_body(body(protocol="tcp"), "a", FABRIC).protocol == "tcp"


def test_ports_may_be_unknown() -> None:
    assert not job_from_body(body(ports="unknown"), "a", FABRIC).ports_known
    assert job_from_body(body(), "a", FABRIC).ports_known


BROKEN = [*FILES[:1], {"name": "rank1.log", "text": FILES[1]["text"].replace("nranks 4", "nranks 5")}, *FILES[2:]]


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"{", r"^is not JSON"),
        (body({"format": "foo"}), r"^import.format: 'foo': no format has this name; there are nccl, "),
        (body({"format": "chakra"}), r"^import.format: 'chakra': files of this format are not text"),
        (body({"files": []}), r"^import.files: \[\]: "),
        (body({"files": [{"name": "x"}]}), r"^import.files\[0\].text: "),
        (body({"more": 1}), r"^import.more: 1: unknown key$"),
        (body(flows=[]), r"^flows: \[\]: unknown key$"),
        (body(protocol="sctp"), r"^protocol: 'sctp': "),
        (body(protocol="tcp", qps=4), r"^qps: 4: connections of the protocol tcp have no queue pairs$"),
        (body(name="b"), r"^name: 'b': the name in the request is 'a'$"),
        (body({"placement": "best"}), r"^import.placement: 'best': "),
        (body({"placement": ["h1", "x", "h2", "h3"]}), r"^import.placement\[1\]: 'x': the fabric has no host"),
        (body({"placement": ["h1"]}), r"^import.placement: 4 ranks need as many hosts, not 1$"),
        (body({"inventory": {"node0": 7}}), r"^import.inventory.node0: 7: a NIC must be given as the name of a host$"),
        (
            body({"inventory": {"node0": "h99"}}),
            r"^import.inventory.node0: 'h99': the fabric has no host of this name$",
        ),
        (body({"files": BROKEN}), r"^import.files\[1\].text: 'nranks 5': rank1.log:3: communicator c0 had 4 ranks"),
        (body({"files": [{"name": "x", "text": "y"}]}), r"^import.files\[0\].text: x: has no lines of NCCL"),
    ],
)
def test_errors_are_reported_with_its_field(sent: bytes, error: str) -> None:
    with pytest.raises(InputError, match=error):
        job_from_body(sent, "a", FABRIC)


def test_files_that_describe_a_fabric_are_no_job() -> None:
    files = [{"name": "topology.conf", "text": "SwitchName=l Nodes=a\nSwitchName=s Switches=l\n"}]
    with pytest.raises(InputError, match=r"import.files\[0\].text: topology.conf: describes a fabric, not a job"):
        job_from_body(body({"format": "slurm", "files": files}), "x", FABRIC)


def test_a_warning_is_accepted_or_the_job_is_refused() -> None:
    quiet = [{"name": row["name"], "text": row["text"].replace("AllReduce: opCount", "x")} for row in FILES]
    form = {"files": quiet, "bytes": 4096}
    with pytest.raises(InputError, match=r"import: the operation is unknown.*'accept_warnings': true"):
        job_from_body(body(form), "x", FABRIC)
    assert job_from_body(body(form | {"accept_warnings": True}), "x", FABRIC).flows.src
