"""A controller that nobody pushes jobs to learns them from sightings, and shows them without changing anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controller.core.errors import ConflictError, PreconditionFailedError
from controller.model.errors import InputError, NotFoundError
from controller.model.files.clos import clos
from controller.rest import schemas
from tests.unit.service.learning.learned_ring import FABRIC, GB, RING, body, learned, learned_document
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC)).planned()
    yield made
    made.close()


def test_a_ring_is_learned_and_nothing_is_planned(world: World) -> None:
    state = world.service.state
    assert world.service.see(body(world.runtime.now())) == {"qps": 6}
    world.until(lambda: bool(learned(world).jobs))
    (job,) = learned(world).jobs
    assert (job.hosts, job.flows, job.groups[0].shape) == (6, 6, "ring")
    assert job.period_seconds == pytest.approx(0.7, rel=0.05)
    assert job.bytes == pytest.approx(6 * GB, rel=0.02)
    assert world.service.state is state


def test_a_host_that_reports_more_than_its_nic_sends_is_learned_with_what_that_sends(world: World) -> None:
    reported = json.loads(body(world.runtime.now()))
    liar = [index for index, row in enumerate(reported["qps"]) if row["src"] == "h1"]
    reported["bytes"] = [
        size * 1000 if qp in liar else size for qp, size in zip(reported["qp"], reported["bytes"], strict=True)
    ]
    world.service.see(json.dumps(reported).encode())
    world.until(lambda: bool(learned(world).jobs))
    (job,) = learned(world).jobs
    flows = learned_document(world, job.name).job["flows"]
    sizes = {row["src"]: row["bytes"] for row in flows}  # type: ignore[attr-defined]
    assert job.period_seconds is not None
    assert sizes["h1"] <= FABRIC.hosts[0].gbps * 1e9 / 8 * job.period_seconds
    assert all(sizes[f"h{number}"] == pytest.approx(GB, rel=0.02) for number in range(2, 7))


def test_adopting_pushes_the_job_under_its_name_once(world: World) -> None:
    world.service.see(body(world.runtime.now()))
    world.until(lambda: bool(learned(world).jobs))
    name = learned(world).jobs[0].name
    document = schemas.LearnedDocument.model_validate(world.read(lambda service: service.learned_job(name))).job
    world.service.adopt(name, ANN)
    traffic = world.service.state.traffic
    assert traffic.jobs == (name,)
    assert sorted(traffic.udp_src.tolist()) == sorted(key.udp_src for key in RING.keys)
    assert len(document["flows"]) == traffic.n_flows  # type: ignore[arg-type]
    assert learned(world).jobs == []
    # What is pushed is not learned again.
    world.service.see(body(world.runtime.now()))
    world.service._learner.look(world.service.state)
    assert learned(world).jobs == []
    with pytest.raises(NotFoundError):
        world.service.adopt(name, ANN)


def test_adopting_succeeds_although_the_learned_job_goes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.service.see(body(world.runtime.now()))
    world.until(lambda: bool(learned(world).jobs))
    name = learned(world).jobs[0].name
    put_job = world.service.put_job

    def put_and_forget(*args: Any) -> Any:
        world.service.forget_learned(name)
        return put_job(*args)

    monkeypatch.setattr(world.service, "put_job", put_and_forget)
    assert world.service.adopt(name, ANN).created
    assert world.service.state.traffic.jobs == (name,)


def test_adopting_never_replaces_a_job(world: World) -> None:
    world.service.see(body(world.runtime.now()))
    world.until(lambda: bool(learned(world).jobs))
    name = learned(world).jobs[0].name
    world.put(name, [flow("h1", "h3")])
    with pytest.raises(PreconditionFailedError):
        world.service.adopt(name, ANN)
    assert world.service.state.traffic.n_flows == 1


def test_a_job_is_forgotten_on_request(world: World) -> None:
    world.service.see(body(world.runtime.now()))
    world.until(lambda: bool(learned(world).jobs))
    name = learned(world).jobs[0].name
    world.service.forget_learned(name)
    assert (learned(world).qps, learned(world).jobs) == (0, [])
    for call in (world.service.forget_learned, world.service.learned_job):
        with pytest.raises(NotFoundError):
            call(name)


def test_hosts_may_be_given_by_address(world: World) -> None:
    sent = json.loads(body(world.runtime.now()))
    address = {host.name: host.ip for host in FABRIC.hosts}
    for qp in sent["qps"]:
        qp["src"], qp["dst"] = address[qp["src"]], address[qp["dst"]]
    world.service.see(json.dumps(sent).encode())
    world.until(lambda: bool(learned(world).jobs))


def changed(sent: dict[str, Any], **members: Any) -> bytes:
    return json.dumps(sent | members).encode()


def test_what_is_wrong_with_sightings_is_named_and_nothing_is_taken(world: World) -> None:
    sent = json.loads(body(world.runtime.now(), 1))
    late = [at - 3600 for at in sent["at"]]
    stranger = [*sent["qps"][:2], sent["qps"][2] | {"dst": "h99"}, *sent["qps"][3:]]
    for wrong, field, value in [
        (changed(sent, qps=stranger), "qps[2].dst", "h99"),
        (changed(sent, at=sent["at"][:-1]), "at", len(sent["at"]) - 1),
        (changed(sent, bytes=[]), "bytes", 0),
        (changed(sent, qp=[*sent["qp"][:-1], 6]), f"qp[{len(sent['qp']) - 1}]", 6),
        (changed(sent, qp=[2**63, *sent["qp"][1:]]), "qp[0]", 2**63),
        (changed(sent, at=late), "at[0]", late[0]),
        (changed(sent, qps=[]), "qps", []),
        (changed(sent, bytes=[-1, *sent["bytes"][1:]]), "bytes[0]", -1),
    ]:
        with pytest.raises(InputError) as error:
            world.service.see(wrong)
        assert (error.value.field, error.value.value) == (field, value)
    assert learned(world).qps == 0


def test_stripes_of_bonds_are_learned_by_the_names_of_their_ports() -> None:
    fabric = clos(2, 3, 2, planes=2, bond=True)
    made = World(fabric, seen(fabric)).planned()
    try:
        sent = json.loads(body(made.runtime.now()))
        qps = [
            qp | {end: f"{qp[end]}.p{plane + 1}" for end in ("src", "dst")} | {"udp_src": qp["udp_src"] ^ plane}
            for plane in (0, 1)
            for qp in sent["qps"]
        ]
        told = {key: sent[key] * 2 for key in ("at", "bytes")}
        told["qp"] = [*sent["qp"], *(qp + len(sent["qps"]) for qp in sent["qp"])]
        assert made.service.see(json.dumps({"qps": qps} | told).encode()) == {"qps": 12}
        # The stripes of a plane are a job of their own, as they are where each port has an address.
        made.until(lambda: len(learned(made).jobs) == 2)
        ends: list[tuple[str, str]] = []
        for name in [job.name for job in learned(made).jobs]:
            flows: Any = learned_document(made, name).job["flows"]
            ends += [(flow["src"], flow["dst"]) for flow in flows]
            made.service.adopt(name, ANN)
        assert sorted(ends) == sorted((qp["src"], qp["dst"]) for qp in qps)
        for job in made.service.state.desired.jobs:
            assert job.traffic is not None
            (plane,) = set(fabric.planes.of_host[job.traffic.src].tolist())
            assert fabric.planes.of_host[job.traffic.dst].tolist() == [plane] * 6
        row = {"src": fabric.hosts[0].ip, "dst": "h2.p1", "udp_src": 50000, "dst_qp": 17}
        with pytest.raises(InputError) as error:
            made.service.see(json.dumps({"qps": [row], "qp": [0], "at": [made.runtime.now()], "bytes": [9]}).encode())
        assert str(error.value) == "qps[0].src: '10.0.1.1': several ports have this address: name one"
    finally:
        made.close()


def test_a_controller_that_does_not_learn_takes_no_sightings() -> None:
    world = World(FABRIC, seen(FABRIC), learning="off").planned()
    try:
        with pytest.raises(ConflictError, match="learning observe"):
            world.service.see(body(world.runtime.now()))
        assert learned(world).learning == "off"
    finally:
        world.close()
