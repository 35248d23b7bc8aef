"""Configurations of agents: made for a set of collectives, written, read back, and refused where they make no sense."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.timing import IterationGrid
from emulation.roce import agent_config
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle, awaiting
from emulation.roce.run import PortShare, agent_configs
from emulation.roce.sender import SenderOptions
from tests.roce_routes import numbered_routes

HOSTS = {f"h{i}": f"10.0.0.{i}" for i in range(1, 7)}


def collectives() -> st.SearchStrategy[list[CollectiveSpec]]:
    ranks = st.permutations(list(HOSTS)).flatmap(lambda names: st.integers(1, 6).map(lambda n: tuple(names[:n])))
    kinds = st.sampled_from(("all_reduce", "all_gather", "all_to_all"))
    one = st.tuples(
        ranks, kinds, st.sampled_from(("ring", "direct")), st.integers(0, 50), st.booleans(), st.sets(st.integers(1, 3))
    )
    return st.lists(one, min_size=1, max_size=4).map(
        lambda rows: [
            CollectiveSpec(
                "job",
                f"c{i}",
                names,
                op=op,
                algorithm=algorithm,
                bytes=4 * elements,
                overlaps=overlaps,
                after=tuple(f"c{i - back}" for back in sorted(before) if back <= i),
            )
            for i, (names, op, algorithm, elements, overlaps, before) in enumerate(rows)
        ]
    )


def cycles() -> st.SearchStrategy[JobCycle]:
    grids = st.builds(IterationGrid, st.floats(0.1, 9.0), st.floats(0.0, 9.0), st.booleans())
    return st.builds(
        JobCycle, st.just("job"), st.just(1), st.tuples(st.tuples(st.just(0), st.floats(0.0, 9.0))), st.none() | grids
    )


@given(collectives(), cycles())
def test_every_configuration_survives_writing_and_reading(specs: list[CollectiveSpec], cycle: JobCycle) -> None:
    made = agent_configs(HOSTS, specs, numbered_routes(specs), options=SenderOptions(window=9), cycles=[cycle])
    for config in made.values():
        assert config.cycles == awaiting([cycle], specs)
        document = json.loads(json.dumps(agent_config.to_document(config)))
        assert agent_config.parse(document) == config


@given(collectives())
def test_both_ends_of_a_flow_know_its_queue_pair_and_no_two_flows_share_one(specs: list[CollectiveSpec]) -> None:
    configs = agent_configs(HOSTS, specs, numbered_routes(specs))
    sent = {
        (part.collective.label, part.rank, peer, piece.qp)
        for config in configs.values()
        for part in config.parts
        for peer, pieces in part.sends.items()
        for piece in pieces
    }
    received = {
        (part.collective.label, peer, part.rank, qp)
        for config in configs.values()
        for part in config.parts
        for peer, qps in part.receives.items()
        for qp in qps
    }
    assert sent == received
    assert len({qp for *_, qp in sent}) == len(sent) == sum(len(spec.flows()) for spec in specs)


def test_the_pieces_of_a_split_flow_have_queue_pairs_ports_and_shares_of_their_own() -> None:
    spec = CollectiveSpec("a", "c", ("h1", "h2"), bytes=80)
    split = (PortShare(50000, 0.25), PortShare(50001, 0.75, pace=2e6, dscp=24))
    routes = {**numbered_routes([spec]), ("a", "c", "h1", "h2"): split}
    config = agent_configs(HOSTS, [spec], routes)["h1"]
    assert agent_config.parse(json.loads(json.dumps(agent_config.to_document(config)))) == config
    pieces = config.parts[0].sends[1]
    shown = [(piece.udp_src, piece.share, piece.pace, piece.dscp) for piece in pieces]
    assert shown == [(50000, 0.25, None, 0), (50001, 0.75, 2e6, 24)]
    assert len({piece.qp for piece in pieces}) == 2


def test_collectives_that_cannot_be_run_are_refused_before_anything_starts() -> None:
    spec = CollectiveSpec("a", "c", ("h1", "h2"), bytes=80)
    other = CollectiveSpec("b", "c", ("h1", "h2"), bytes=80)
    routes = numbered_routes([spec])
    with pytest.raises(InputError, match="h1->h2"):
        agent_configs(HOSTS, [spec], {})
    with pytest.raises(InputError, match="twice"):
        agent_configs(HOSTS, [spec, spec], routes)
    with pytest.raises(InputError, match="no host"):
        agent_configs({"h1": "10.0.0.1"}, [spec], routes)
    clash = routes | {("b", *key[1:]): pieces for key, pieces in routes.items()}
    with pytest.raises(InputError, match="both use this port"):
        agent_configs(HOSTS, [spec, other], clash)


def good() -> dict[str, Any]:
    specs = [CollectiveSpec("a", "c", ("h1", "h2", "h3"), bytes=120)]
    document = agent_config.to_document(agent_configs(HOSTS, specs, numbered_routes(specs))["h2"])
    return dict(json.loads(json.dumps(document)))


def _set(*path: Any, value: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        at: Any = document
        for key in path[:-1]:
            at = at[key]
        if value is KeyError:
            del at[path[-1]]
        else:
            at[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_set("ip", value=KeyError), "ip"),
        (_set("ip", value=5), "ip"),
        (_set("colectives", value=[]), "colectives"),
        (_set("collectives", value={}), "collectives"),
        (_set("collectives", 0, value=7), "collectives[0]"),
        (_set("collectives", 0, "rank", value=3), "collectives[0].rank"),
        (_set("collectives", 0, "rank", value=True), "collectives[0].rank"),
        (_set("collectives", 0, "op", value="gossip"), "collectives[0].op"),
        (_set("collectives", 0, "job", value=KeyError), "collectives[0].job"),
        (_set("collectives", 0, "matrix", value=[1]), "collectives[0].matrix"),
        (_set("collectives", 0, "qp_mode", value="at_random"), "collectives[0].qp_mode"),
        (_set("collectives", 0, "sends", 0, "pieces", 0, "pace", value=0), "collectives[0].sends[0].pieces[0].pace"),
        (_set("collectives", 0, "message_bytes", value=0), "collectives[0].message_bytes"),
        (_set("collectives", 0, "overlaps", value="compute"), "collectives[0].overlaps"),
        (_set("collectives", 0, "after", value="c"), "collectives[0].after"),
        (_set("collectives", 0, "after", value=[3]), "collectives[0].after[0]"),
        (_set("jobs", 0, "awaited", value=[3]), "jobs[0].awaited[0]"),
        (_set("collectives", 0, "sends", 0, "pieces", 0, "dscp", value=64), "collectives[0].sends[0].pieces[0].dscp"),
        (_set("collectives", 0, "sends", 0, "pieces", 0, "paced", value=1), "collectives[0].sends[0].pieces[0].paced"),
        (_set("collectives", 0, "sends", value=[]), "collectives[0].sends"),
        (_set("collectives", 0, "receives", 0, "peer", value=2), "collectives[0].receives"),
        (_set("collectives", 0, "receives", 0, "qps", value=["x"]), "collectives[0].receives[0]"),
        (_set("collectives", 0, "sends", 0, "pieces", 0, "qp", value=1), "collectives[0].sends[0].pieces[0]"),
        (_set("collectives", 0, "sends", 0, "pieces", 0, "share", value=0.5), "collectives[0].sends[0].pieces"),
        (_set("collectives", 0, "sends", 0, "pieces", 0, "port", value=1), "collectives[0].sends[0].pieces[0].port"),
        (_set("jobs", 0, "compute", 0, "seconds", value="long"), "jobs[0].compute[0].seconds"),
        (_set("jobs", 0, "compute", 0, "seconds", value=-1.0), "jobs[0].compute"),
        (_set("jobs", 0, "shift", value=1.0), "jobs[0].shift"),
        (_set("jobs", 0, "period_seconds", value=0.0), "jobs[0].period_seconds"),
        (_set("jobs", 0, "compute", 0, "phase", value=5), "phase"),
        (_set("options", "windows", value=3), "options.windows"),
        (_set("options", "mtu", value=1500), "mtu"),
        (_set("start_at", value="now"), "start_at"),
    ],
)
def test_a_configuration_with_a_mistake_is_refused_by_field(change: Any, field: str) -> None:
    document = copy.deepcopy(good())
    change(document)
    with pytest.raises(InputError) as caught:
        agent_config.parse(document)
    assert caught.value.field == field


def test_without_a_launcher_ranks_that_wait_for_nobody_run_once() -> None:
    spec = CollectiveSpec("a", "c", ("h1", "h2"), op="exchange", matrix=((0, 4), (0, 0)), iterations=2)
    config = agent_configs(HOSTS, [spec], numbered_routes([spec]))["h1"]
    document = json.loads(json.dumps(agent_config.to_document(config)))
    agent_config.parse(document)
    with pytest.raises(InputError, match=r"collectives\[0\].iterations: 2"):
        agent_config.parse(document | {"start_at": 5.0})


def test_without_a_launcher_a_rank_waits_for_collectives_of_its_host_only() -> None:
    specs = [
        CollectiveSpec("a", "x", ("h2", "h3"), bytes=80),
        CollectiveSpec("a", "y", ("h1", "h2"), bytes=80, after=("x",)),
    ]
    configs = agent_configs(HOSTS, specs, numbered_routes(specs))
    documents = {host: json.loads(json.dumps(agent_config.to_document(config))) for host, config in configs.items()}
    agent_config.parse(documents["h2"] | {"start_at": 5.0})
    agent_config.parse(documents["h1"])
    with pytest.raises(InputError, match=r"collectives\[0\].after: 'x'"):
        agent_config.parse(documents["h1"] | {"start_at": 5.0})


def test_a_queue_pair_of_two_flows_is_refused() -> None:
    document = good()
    document["collectives"].append(copy.deepcopy(document["collectives"][0]))
    with pytest.raises(InputError, match="two flows"):
        agent_config.parse(document)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.json"):
        agent_config.read(str(tmp_path / "missing.json"))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(InputError, match=r"broken\.json.*not JSON"):
        agent_config.read(str(broken))
    broken.write_text("[]")
    with pytest.raises(InputError, match=r"broken\.json.*must be an object"):
        agent_config.read(str(broken))


PORTS = {f"h{n}": (f"h{n}.p1", f"h{n}.p2") for n in range(1, 4)}
ADDRESSES = {f"h{n}.p{p}": f"10.0.{p}.{n}" for n in range(1, 4) for p in (1, 2)}
ADDRESSES |= {nic: ADDRESSES[ports[0]] for nic, ports in PORTS.items()}


def striped(spec: CollectiveSpec) -> dict[tuple[str, str, str, str], tuple[PortShare, ...]]:
    """Return a stripe in each of two planes for each flow, all from one UDP source port."""
    return {
        key: tuple(PortShare(port.udp_src, 0.5, False, f"{key[2]}.p{p}", f"{key[3]}.p{p}") for p in (1, 2))
        for key, (port,) in numbered_routes([spec]).items()
    }


def test_stripes_have_the_addresses_of_their_ports_at_both_ends() -> None:
    spec = CollectiveSpec("job", "c", ("h1", "h2", "h3"), bytes=1200)
    configs = agent_configs(ADDRESSES, [spec], striped(spec), ports_of=PORTS)
    for host, config in configs.items():
        assert agent_config.parse(json.loads(json.dumps(agent_config.to_document(config)))) == config
        assert config.addresses_of(config.ip) == tuple(ADDRESSES[port] for port in PORTS[host])
        (part,) = config.parts
        for peer, pieces in part.sends.items():
            there = config.addresses_of(part.collective.ranks[peer])
            assert [(piece.src, piece.dst) for piece in pieces] == list(
                zip(config.addresses_of(config.ip), there, strict=True)
            )


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("src", "10.0.1.9", r"collectives\[0\].sends.src: '10.0.1.9': queue pair 256: the host has 10.0.1.1, 10.0.2.1"),
        ("dst", "10.0.2.3", r"collectives\[0\].sends.dst: '10.0.2.3': queue pair 256: the host has 10.0.1.2, 10.0.2.2"),
    ],
)
def test_a_queue_pair_at_an_address_of_another_host_is_refused(key: str, value: str, reason: str) -> None:
    spec = CollectiveSpec("job", "c", ("h1", "h2", "h3"), bytes=1200)
    config = agent_configs(ADDRESSES, [spec], striped(spec), ports_of=PORTS)["h1"]
    document = json.loads(json.dumps(agent_config.to_document(config)))
    document["collectives"][0]["sends"][0]["pieces"][0][key] = value
    with pytest.raises(InputError, match=reason):
        agent_config.parse(document)


@pytest.mark.parametrize("value", ["10.0.1.1", ["10.0.2.1"], ["10.0.1.1", 2]])
def test_addresses_are_lists_that_have_the_one_of_the_rank(value: Any) -> None:
    spec = CollectiveSpec("job", "c", ("h1", "h2", "h3"), bytes=1200)
    config = agent_configs(ADDRESSES, [spec], striped(spec), ports_of=PORTS)["h1"]
    document = json.loads(json.dumps(agent_config.to_document(config)))
    document["addresses"]["10.0.1.1"] = value
    with pytest.raises(InputError, match=r"addresses.10.0.1.1: .*must be a list of addresses that has this one"):
        agent_config.parse(document)


def test_the_ports_of_a_bond_are_told_apart_by_their_zones_and_are_in_namespaces_of_their_own() -> None:
    hosts = {f"h{n}{p}": f"10.0.0.{n}{zone}" for n in (1, 2) for p, zone in (("", ""), (".p1", ""), (".p2", "%1"))}
    spec = CollectiveSpec("job", "c", ("h1", "h2"), bytes=800)
    stripes = {
        ("job", "c", a, b): tuple(PortShare(49152 + i, 0.5, src=f"{a}.p{i + 1}", dst=f"{b}.p{i + 1}") for i in (0, 1))
        for a, b in (("h1", "h2"), ("h2", "h1"))
    }
    made = agent_configs(
        hosts,
        [spec],
        stripes,
        ports_of={n: (f"{n}.p1", f"{n}.p2") for n in ("h1", "h2")},
        namespaces={"h1.p1": 11, "h1.p2": 12, "h2.p1": 21, "h2.p2": 22},
    )
    assert made["h2"].namespaces == {"10.0.0.2": 21, "10.0.0.2%1": 22}
    assert [(p.src, p.dst) for p in made["h1"].parts[0].sends[1]] == [
        ("10.0.0.1", "10.0.0.2"),
        ("10.0.0.1%1", "10.0.0.2%1"),
    ]
    document = json.loads(json.dumps(agent_config.to_document(made["h1"])))
    assert agent_config.parse(document) == made["h1"]
    document["namespaces"]["10.0.0.1"] = "11"
    with pytest.raises(InputError) as error:
        agent_config.parse(document)
    assert str(error.value) == "namespaces.10.0.0.1: '11': must be the number of a process"
