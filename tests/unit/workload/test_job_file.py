"""Job documents: what is read from good ones, and what is said about bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.fabric_file import load_fabric
from controller.model.job import Job
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.timing import JobTiming
from controller.workload.expand import expand
from controller.workload.import_form import job_from_body
from controller.workload.job_document import document_of
from controller.workload.job_file import load_job, parse_job
from tests.unit.workload.documents import jobs

FABRIC = clos(1, 1, 1)

EXAMPLES = Path(__file__).parents[3] / "examples"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def collective(**changes: Any) -> dict[str, Any]:
    row = {"name": "dp0", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 100} | changes
    return {"name": "a", "hosts": ["h1", "h2", "h3", "h4"], "collectives": [row]}


def flow(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "flows": [{"src": "h1", "dst": "h2", "bytes": 100} | changes]}


def matrix(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "matrix": {"hosts": ["h1", "h2"], "bytes": [[0, 1], [2, 0]]} | changes}


TWICE = {"src": "h1", "dst": "h2", "bytes": 1, "udp_src": 50000}

BAD = [
    (collective(ranks=[0, 1, 2, 9]), "collectives[0].ranks[3]: 9: there are only 4 hosts"),
    (collective(ranks=[0, 1, 0]), "collectives[0].ranks[2]: 0: this rank is listed twice"),
    (collective(ranks=[-1]), "collectives[0].ranks[0]: -1: "),
    (collective(ranks=[True]), "collectives[0].ranks[0]: True: "),
    (collective(ranks=[]), "collectives[0].ranks: []: "),
    (collective(bytes=-1), "collectives[0].bytes: -1: "),
    (collective(bytes=2**53), "collectives[0].bytes: 9007199254740992: "),
    (collective(bytes=2**53 + 1), "collectives[0].bytes: 9007199254740993: "),
    (collective(bytes="9007199254740992"), "collectives[0].bytes: 9007199254740992: "),
    (collective(bytes=10**400), "collectives[0].bytes: 1000"),
    (collective(bytes=True), "collectives[0].bytes: True: "),
    (collective(bytes="100 b/s"), "collectives[0].bytes: '100 b/s': "),
    (collective(bytes=float("nan")), "collectives[0].bytes: nan: "),
    (collective(bytes=float("inf")), "collectives[0].bytes: inf: "),
    (collective(op="gossip"), "collectives[0].op: 'gossip': "),
    (collective(algorithm="bush"), "collectives[0].algorithm: 'bush': "),
    (
        collective(algorithm="chain"),
        "collectives[0].algorithm: 'chain': all_reduce supports ring, direct, halving_doubling",
    ),
    (
        collective(op="all_gather", algorithm="tree"),
        "collectives[0].algorithm: 'tree': all_gather supports ring, direct",
    ),
    (collective(ranks=[]), "collectives[0].ranks: []: list should have at least 1 item, not 0"),
    (collective(channels=0), "collectives[0].channels: 0: "),
    (collective(channels=1025), "collectives[0].channels: 1025: "),
    (collective(channels=True), "collectives[0].channels: True: "),
    (collective() | {"pxn": 1}, "pxn: 1: "),
    (collective() | {"phases": {"dp0": 1}}, "phases.dp0: 1: this collective already gives its phase"),
    (collective() | {"phases": {"all": 1}}, "phases.all: 1: no flow or matrix belongs to this collective"),
    (collective(op="send_recv"), "collectives[0].ranks: [0, 1, 2, 3]: send_recv must have two ranks"),
    (collective(phase=-1), "collectives[0].phase: -1: "),
    (collective(name="a/b"), "collectives[0].name: 'a/b': "),
    (collective(size=1), "collectives[0].size: 1: unknown key"),
    (collective() | {"collectives": collective()["collectives"] * 2}, "collectives[1].name: 'dp0': "),
    (collective() | {"hosts": ["h1", "h2", "h1", "h4"]}, "hosts[2]: 'h1': this host is listed twice"),
    (collective() | {"weight": 0}, "weight: 0: "),
    (collective() | {"weight": float("nan")}, "weight: nan: "),
    (collective() | {"ports": "known"}, "ports: 'known': "),
    (collective() | {"wieght": 2}, "wieght: 2: unknown key"),
    (collective() | {"name": "a b"}, "name: 'a b': "),
    (collective() | {"name": "a" * 64}, "name: 'aaa"),
    ({"hosts": []}, "name: a job needs a name"),
    (flow(dst="h1"), "flows[0].dst: 'h1': a host cannot send to itself"),
    (flow(bytes=-0.5), "flows[0].bytes: -0.5: must be a whole number of bytes"),
    (flow(bytes=1.5), "flows[0].bytes: 1.5: must be a whole number of bytes"),
    (collective(bytes=1.5), "collectives[0].bytes: 1.5: must be a whole number of bytes"),
    (matrix(bytes=[[0, 1.5], [2, 0]]), "matrix.bytes[0][1]: 1.5: must be a whole number of bytes"),
    (flow(udp_src=0), "flows[0].udp_src: 0: "),
    (flow(udp_src=MAX_PORT + 1), "flows[0].udp_src: 65536: "),
    (flow(udp_src=50000) | {"ports": "unknown"}, "flows[0].udp_src: 50000: the ports of the job are unknown"),
    (flow() | {"phases": {"all": -1}}, "phases.all: -1: "),
    (flow() | {"phases": {"a/b": 1}}, "phases.a/b: 1: no flow or matrix belongs to this collective"),
    (flow() | {"phases": {"every": 0}}, "phases.every: 0: no flow or matrix belongs to this collective"),
    (flow(weight=1), "flows[0].weight: 1: unknown key"),
    ({"name": "a", "flows": [{"src": "h1", "bytes": 1}]}, "flows[0].dst: "),
    ({"name": "a", "flows": [TWICE, TWICE]}, "flows[1].udp_src: 50000: flows[0] from h1 to h2 already has this port"),
    (matrix(bytes=[[0, 1]]), "matrix.bytes: 2 hosts need 2 rows, not 1"),
    (matrix(bytes=[[0, 1], [2]]), "matrix.bytes[1]: 2 hosts need 2 numbers, not 1"),
    (matrix(bytes=[[0, 1], [2, 3]]), "matrix.bytes[1][1]: 3"),
    (matrix(bytes=[[0, -1], [2, 0]]), "matrix.bytes[0][1]: -1: "),
    (matrix(hosts=["h1", "h1"]), "matrix.hosts[1]: 'h1': this host is listed twice"),
    ([], "[]: a job is a mapping"),
    ("a", "'a': a job is a mapping"),
]


@pytest.mark.parametrize(("document", "says"), BAD, ids=[says[:50] for _, says in BAD])
def test_a_bad_document_gives_one_line_with_field_value_and_reason(document: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_job(document, source="job.json")
    assert str(caught.value).startswith(f"job.json: {says}")
    assert "\n" not in str(caught.value)


@given(jobs())
def test_yaml_and_json_files_and_request_bodies_give_the_same_job(document: dict[str, Any]) -> None:
    one = parse_job(document)
    for other in (
        parse_job(yaml.safe_load(yaml.safe_dump(document))),
        parse_job(json.loads(json.dumps(document))),
        job_from_body(orjson.dumps(document), "a", FABRIC),
    ):
        assert repr(other) == repr(one)


@given(JSON)
def test_any_json_is_a_job_or_one_error(document: Any) -> None:
    try:
        assert isinstance(parse_job(document), Job)
    except InputError as error:
        assert len(str(error).splitlines()) == 1


@given(jobs(), st.data())
def test_any_change_of_a_document_leaves_a_job_or_one_error(document: dict[str, Any], data: st.DataObject) -> None:
    place: Any = document
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    try:
        assert isinstance(parse_job(document), Job)
    except InputError as error:
        assert error.field or error.value is not None


@given(st.binary() | st.text().map(str.encode))
def test_a_body_that_is_not_json_is_distinguished_from_a_bad_job_by_its_empty_field(body: bytes) -> None:
    try:
        orjson.loads(body)
    except ValueError:
        with pytest.raises(InputError, match="is not JSON") as caught:
            job_from_body(body, "a", FABRIC)
        assert (caught.value.field, caught.value.value) == ("", None)


def test_the_name_of_the_url_stands_in_for_that_of_the_body_but_may_not_contradict_it() -> None:
    assert job_from_body(b"{}", "a", FABRIC).name == "a"
    assert job_from_body(b'{"name": "a"}', "a", FABRIC).name == "a"
    with pytest.raises(InputError) as caught:
        job_from_body(b'{"name": "b"}', "a", FABRIC)
    assert (caught.value.field, caught.value.value) == ("name", "b")


@given(st.floats(0, 2**53 - 1))
def test_a_kept_document_with_a_part_of_a_byte_is_read_as_before(size: float) -> None:
    def read(document: dict[str, Any]) -> Job:
        return job_from_body(orjson.dumps(document), "a", FABRIC, kept=True)

    whole = int(size) + (size > int(size))
    assert read(collective(bytes=size)).collectives[0].bytes == whole
    assert read(flow(bytes=size)).flows.bytes.tolist() == [whole]
    sent = read(matrix(bytes=[[0, size], [0, 0]])).matrix
    assert sent is not None
    assert sent.bytes.tolist() == [[0, whole], [0, 0]]


def test_a_file_that_cannot_be_read_is_bad_input_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}/no.json: "):
        load_job(tmp_path / "no.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match=f"^{tmp_path}/bad.json: .*neither JSON nor YAML"):
        load_job(tmp_path / "bad.json")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.name)
def test_every_example_job_runs_on_the_example_fabric(path: Path) -> None:
    assert expand(load_fabric(EXAMPLES / "clos-4x4x4.yaml"), load_job(path)).n_flows > 0


# -- times ----------------------------------------------------------------------------------------------------------


def computing(**more: Any) -> dict[str, Any]:
    ring = {"op": "all_reduce", "ranks": [0, 1], "bytes": 1000}
    calls = [{"name": "a", "phase": 1, **ring}, {"name": "b", "phase": 4, **ring}]
    return {"name": "j", "hosts": ["h1", "h2"], "collectives": calls, **more}


@pytest.mark.parametrize(
    ("said", "timing"),
    [
        ({}, None),
        ({"compute_seconds": 0.25}, JobTiming(((1, 0.25),))),
        ({"compute_seconds": {"4": 0.5, "1": 0.25}}, JobTiming(((1, 0.25), (4, 0.5)))),
        ({"period_seconds": 1.5}, JobTiming(period_seconds=1.5)),
    ],
)
def test_a_job_says_how_it_computes_and_is_written_out_with_it(said: dict[str, Any], timing: JobTiming | None) -> None:
    job = parse_job(computing(**said))
    assert job.timing == timing
    assert parse_job(document_of(job)).timing == timing


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"compute_seconds": -1.0}, "compute_seconds"),
        ({"compute_seconds": {"2": 1.0}}, "compute_seconds"),
        ({"compute_seconds": {"1": float("nan")}}, "compute_seconds"),
        ({"compute_seconds": 0.1, "period_seconds": 1.0}, "period_seconds"),
        ({"period_seconds": 0}, "period_seconds"),
    ],
)
def test_times_that_cannot_be_are_refused_by_their_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job(computing(**said))
    assert error.value.field.startswith(field)
