"""From jobs to flows and their UDP source ports."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.fabric_file import parse_fabric
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import ANY_PORT
from controller.workload.collectives import flows_of
from controller.workload.expand import ExpandedJobs, JobTraffic, combine, expand
from controller.workload.job_file import parse_job
from controller.workload.source_ports import ports
from controller.workload.source_ports.ports import FIRST, LAST, N_PORTS, NoPortLeft, assign_ports, first_choice
from tests.unit.workload.documents import FABRIC, HOSTS, PAIRED, jobs


def arrays(traffic: JobTraffic) -> list[list[int]]:
    return [getattr(traffic, name).tolist() for name in ("src", "dst", "bytes", "collective", "number", "udp_src")]


@given(jobs())
def test_all_bytes_between_servers_are_sent_and_no_others(document: dict[str, Any]) -> None:
    job = parse_job(document)
    server = {host.name: host.server for host in PAIRED.hosts}
    wanted: Counter[tuple[str, str, str]] = Counter()
    for call in job.collectives:
        own = [server[job.hosts[rank]] for rank in call.ranks]
        flows = flows_of(call, np.unique(own, return_inverse=True)[1].astype(np.int32))
        for src, dst, size in zip(flows.src.tolist(), flows.dst.tolist(), flows.bytes.tolist(), strict=True):
            wanted[call.name, own[src], own[dst]] += size
    for row in document["flows"]:
        wanted[row.get("collective", "all"), server[row["src"]], server[row["dst"]]] += row["bytes"]
    matrix = document.get("matrix", {"hosts": [], "bytes": []})
    for src, sizes in zip(matrix["hosts"], matrix["bytes"], strict=True):
        for dst, size in zip(matrix["hosts"], sizes, strict=True):
            wanted["all", server[src], server[dst]] += size
    found: Counter[tuple[str, str, str]] = Counter()
    traffic = expand(PAIRED, job)
    assert (traffic.bytes > 0).all()
    for flow in range(traffic.n_flows):
        name = traffic.collectives[traffic.collective[flow]].name
        found[name, server[HOSTS[traffic.src[flow]]], server[HOSTS[traffic.dst[flow]]]] += int(traffic.bytes[flow])
    assert found == {key: size for key, size in wanted.items() if size and key[1] != key[2]}


@given(jobs())
def test_flows_are_in_order_of_collectives_and_keep_their_ids_wherever_servers_are(document: dict[str, Any]) -> None:
    job = parse_job(document)
    alone, paired = expand(FABRIC, job), expand(PAIRED, job)
    for traffic in (alone, paired):
        assert (np.diff(traffic.collective) >= 0).all()
        assert len({traffic.flow_id(flow) for flow in range(traffic.n_flows)}) == traffic.n_flows
    # Trees are formed, and the NICs of channels chosen, by servers.
    by_server = {call.name for call in job.collectives if call.channels or call.algorithm == "tree"}
    ends = {alone.flow_id(flow): (alone.src[flow], alone.dst[flow]) for flow in range(alone.n_flows)}
    for flow in range(paired.n_flows):
        if paired.collectives[paired.collective[flow]].name not in by_server:
            assert ends[paired.flow_id(flow)] == (paired.src[flow], paired.dst[flow])
    assert alone.collectives == paired.collectives
    phases = {row["name"]: row.get("phase", 0) for row in document["collectives"]} | document.get("phases", {})
    for row in alone.collectives:
        assert (row.job, row.weight, row.phase) == (job.name, job.weight, phases.get(row.name, 0))


@given(st.lists(jobs(claims=False), max_size=4), jobs())
def test_every_flow_has_a_port_that_no_other_flow_between_its_hosts_has(
    documents: list[dict[str, Any]], claiming: dict[str, Any]
) -> None:
    admitted: list[JobTraffic] = []
    for i, document in enumerate([claiming, *documents]):
        admitted.append(expand(FABRIC, parse_job(document | {"name": f"job{i}"}), admitted))
    traffic = combine(admitted)
    known = traffic.udp_src != ANY_PORT
    ends = list(zip(traffic.src[known], traffic.dst[known], traffic.udp_src[known], strict=True))
    assert len(set(ends)) == len(ends)
    assert ((traffic.udp_src[known] >= FIRST) & (traffic.udp_src[known] <= LAST)).all()
    unknown = {f"job{i}" for i, document in enumerate([claiming, *documents]) if "ports" in document}
    for flow in range(traffic.n_flows):
        assert (traffic.collectives[traffic.collective[flow]].job in unknown) == (not known[flow])


@given(jobs(name="a"), jobs(name="b", claims=False), jobs(name="c", claims=False))
def test_ports_depend_on_the_job_and_on_those_before_it_only(
    one: dict[str, Any], other: dict[str, Any], third: dict[str, Any]
) -> None:
    first = expand(FABRIC, parse_job(one))
    second = expand(FABRIC, parse_job(other), [first])
    assert arrays(expand(FABRIC, parse_job(one))) == arrays(first)
    after = expand(FABRIC, parse_job(third), [first, second])
    assert arrays(expand(FABRIC, parse_job(third), [second, first])) == arrays(after)


@given(jobs())
def test_a_claimed_port_is_the_flows_port(document: dict[str, Any]) -> None:
    claims = {
        (row["src"], row["dst"], row["udp_src"]) for row in document["flows"] if "udp_src" in row and row["bytes"]
    }
    traffic = expand(FABRIC, parse_job(document))
    ends = zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True)
    assert claims <= {(HOSTS[src], HOSTS[dst], port) for src, dst, port in ends}


@given(jobs(), st.lists(jobs(claims=False), max_size=2))
def test_a_job_can_have_its_old_ports_again_whatever_came_before_it_then(
    document: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    job = parse_job(document)
    first = expand(PAIRED, job)
    later: list[JobTraffic] = [first]
    for i, other in enumerate(others):
        later.append(expand(PAIRED, parse_job(other | {"name": f"job{i}"}), later))
    assert arrays(expand(PAIRED, job, later[1:], ports=first.udp_src)) == arrays(first)


def test_old_ports_that_cannot_be_had_again_are_refused() -> None:
    ring: dict[str, Any] = {"name": "a", "hosts": ["h1", "h4"]}
    ring["collectives"] = [{"name": "dp", "op": "all_reduce", "ranks": [0, 1], "bytes": 8, "channels": 2}]
    job, other = parse_job(ring), parse_job(ring | {"name": "b"})
    there = expand(FABRIC, job)

    def again(old: list[int], **document: Any) -> str:
        with pytest.raises(InputError) as caught:
            expand(FABRIC, parse_job(ring | document), [elsewhere], ports=np.array(old, dtype=np.int32))
        return str(caught.value)

    elsewhere = expand(FABRIC, other, [there])
    taken = int(elsewhere.udp_src[0])
    mine = there.udp_src.tolist()
    assert again(mine[:3]) == "ports: the job has 4 flows and 3 ports"
    assert again([0, *mine[1:]]) == "ports[0]: 0: a port must be 1 to 65535"
    assert again([*mine[:3], MAX_PORT + 1]) == "ports[3]: 65536: a port must be 1 to 65535"
    assert again([taken, *mine[1:]]).startswith(f"ports[0]: {taken}: another job's flow between the same hosts")
    assert again([*mine[:2], mine[0], mine[3]]).startswith(f"ports[2]: {mine[0]}: another flow of the job between")
    assert again(mine, ports="unknown").startswith(f"ports[0]: {mine[0]}: the ports of the job are unknown")
    claim = [{"src": "h1", "dst": "h5", "bytes": 1, "udp_src": 60000}]
    assert again([60001], collectives=[], flows=claim) == "ports[0]: 60001: the flow specifies another port"


def test_a_claim_of_a_port_that_another_job_has_names_both_flows() -> None:
    ring: dict[str, Any] = {"name": "a", "hosts": ["h1", "h4"]}
    ring["collectives"] = [{"name": "dp", "op": "all_reduce", "ranks": [0, 1], "bytes": 8}]
    there = expand(FABRIC, parse_job(ring))
    port = int(there.udp_src[0])
    claim = {"src": "h1", "dst": "h4", "bytes": 1, "udp_src": port}
    for src, dst in (("h1", "h5"), ("h2", "h4"), ("h4", "h1")):
        if (src, dst) != ("h4", "h1") or int(there.udp_src[1]) != port:
            expand(FABRIC, parse_job({"name": "b", "flows": [claim | {"src": src, "dst": dst}]}), [there])
    with pytest.raises(InputError) as caught:
        expand(FABRIC, parse_job({"name": "b", "flows": [claim | {"dst": "h5"}, claim]}), [there])
    assert str(caught.value) == f"flows[1].udp_src: {port}: a/dp/0 from h1 to h4 already has this port"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hosts": ["h1", "h2", "nobody"]}, "hosts[2]"),
        ({"flows": [{"src": "nobody", "dst": "h1", "bytes": 1}]}, "flows[0].src"),
        ({"flows": [{"src": "h1", "dst": "nobody", "bytes": 0}]}, "flows[0].dst"),
        ({"matrix": {"hosts": ["h1", "nobody"], "bytes": [[0, 0], [0, 0]]}}, "matrix.hosts[1]"),
    ],
)
def test_a_host_that_the_fabric_lacks_is_bad_input(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(FABRIC, parse_job({"name": "a"} | change))
    assert (caught.value.field, caught.value.value) == (field, "nobody")


def test_more_flows_than_there_is_room_for_are_refused_before_they_are_made() -> None:
    call = {"name": "x", "op": "all_to_all", "ranks": list(range(9)), "bytes": 9}
    job = parse_job({"name": "a", "hosts": HOSTS, "collectives": [call]})
    assert expand(FABRIC, job, max_flows=72).n_flows == 72
    with pytest.raises(InputError, match="the number of its flows is 72; at most 71 more are allowed") as caught:
        expand(FABRIC, job, max_flows=71)
    assert caught.value.field == "collectives"


def test_as_many_flows_between_two_hosts_as_there_are_ports_are_possible_and_not_one_more() -> None:
    rows = [{"src": "h1", "dst": "h9", "bytes": 1, "udp_src": 50000}] + [{"src": "h1", "dst": "h9", "bytes": 1}] * (
        N_PORTS - 1
    )
    full = expand(FABRIC, parse_job({"name": "a", "flows": rows}))
    assert sorted(full.udp_src.tolist()) == list(range(FIRST, LAST + 1))
    one = {"name": "b", "flows": [{"src": "h1", "dst": "h9", "bytes": 1}]}
    with pytest.raises(InputError, match="there are more flows from h1 to h9 than UDP source ports"):
        expand(FABRIC, parse_job(one), [full])
    assert expand(FABRIC, parse_job(one | {"ports": "unknown"}), [full]).udp_src.tolist() == [ANY_PORT]


def single(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Number and block of connections that have one QP each."""
    return np.arange(n, dtype=np.int32), np.ones(n, dtype=np.int32)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=60), st.sets(st.integers(0, N_PORTS - 1)))
def test_preferred_ports_are_used_if_free_and_conflicts_get_unique_ports(
    wishes: list[tuple[int, int]], used: set[int]
) -> None:
    pair = np.array([end << 16 for end, _ in wishes], dtype=np.int64)
    choice = np.array([wish for _, wish in wishes], dtype=np.int32)
    taken = np.sort(np.array([FIRST + port for port in used], dtype=np.int64))
    port = assign_ports(pair, choice, taken, *single(len(pair)))
    keys = (pair | port).tolist()
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set(taken.tolist())
    alone = {wish for wish in set(wishes) if wishes.count(wish) == 1}
    for i, (end, wish) in enumerate(wishes):
        others_near = any((end, near) in wishes for near in range(wish))
        if (end, wish) in alone and not others_near and (end or wish not in used):
            assert port[i] == FIRST + wish


def test_a_pair_without_a_free_port_is_distinguished_from_one_that_has_some() -> None:
    full = np.arange(FIRST, LAST + 1, dtype=np.int64)
    wish = np.array([5, 5], dtype=np.int32)
    assert assign_ports(np.array([1 << 16]), wish[:1], full, *single(1)).tolist() == [FIRST + 5]
    with pytest.raises(NoPortLeft) as caught:
        assign_ports(np.array([1 << 16, 0]), wish, full, *single(2))
    assert caught.value.flow == 1


def test_wishes_are_spread_evenly_over_ports_and_over_their_low_bits() -> None:
    collective = np.repeat(np.arange(16, dtype=np.int32), 4096)
    number = np.tile(np.arange(4096, dtype=np.int32), 16)
    wish = first_choice([f"job/c{k}" for k in range(16)], np.ones(16, dtype=np.int32), collective, number)
    assert wish.min() >= 0
    assert wish.max() < N_PORTS
    for counts in (np.bincount(wish % 64, minlength=64), np.bincount(wish // 256, minlength=64)):
        # 65,536 draws into 64 boxes: 1024 each, standard deviation 32; five of them is beyond chance.
        assert abs(counts - 1024).max() < 160


def test_another_process_gives_the_same_ports() -> None:
    code = (
        "from controller.workload.source_ports.ports import first_choice; import numpy as np;"
        "one = np.arange(5, dtype=np.int32); print(first_choice(['gpt3-a/dp0'], one[1:2], one * 0, one).tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"}
    )
    one = np.arange(5, dtype=np.int32)
    assert run.stdout.strip() == str(first_choice(["gpt3-a/dp0"], one[1:2], one * 0, one).tolist())


NICS = {"clos": {"spines": 2, "leaves": 2, "hosts_per_leaf": 2, "planes": 2}}


@st.composite
def many_jobs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Jobs of one to ten names, some with QPs; jobs of equal names have collectives with equal wishes for ports."""
    documents = []
    for n in range(draw(st.integers(1, 6))):
        document = draw(jobs(name=f"j{n}"))
        if draw(st.booleans()):
            document |= {"flows": [], "qps": draw(st.integers(1, 3))}
            document.pop("matrix", None)
            document.pop("phases", None)
        documents.append(document)
    return documents


def outcome(expanding: Any) -> Any:
    try:
        return expanding()
    except InputError as error:
        return str(error)


@given(many_jobs(), st.booleans(), st.booleans())
def test_jobs_expanded_together_are_the_same_as_one_after_the_other(
    documents: list[dict[str, Any]], few_ports: bool, alike: bool
) -> None:
    parsed = [parse_job(document) for document in documents]
    if alike:
        # Equal names make equal wishes, so all ports of a pair of hosts collide.
        parsed = [dataclasses.replace(job, name="a") for job in parsed]
    with pytest.MonkeyPatch.context() as patch:
        if few_ports:
            patch.setattr(ports, "N_PORTS", 8)
        together, apart = ExpandedJobs(PAIRED), ExpandedJobs(PAIRED)
        first = outcome(lambda: together.expand(parsed, QueuePairs(2)))
        second = outcome(
            lambda: [apart.add(expand(PAIRED, job, apart, default_qps=QueuePairs(2))) for job in parsed] and None
        )
    assert first == second
    assert len(together.jobs) == len(apart.jobs)
    for one, other in zip(together.jobs, apart.jobs, strict=True):
        assert arrays(one) == arrays(other)
        assert (one.name, one.weight, one.collectives, one.own_port) == (
            other.name,
            other.weight,
            other.collectives,
            other.own_port,
        )
    assert together.taken.tolist() == apart.taken.tolist()


def test_jobs_on_several_planes_expanded_together_are_the_same() -> None:
    fabric = parse_fabric(NICS)
    calls = [{"name": "r", "op": "all_reduce", "ranks": [0, 1], "bytes": 10**9}]
    parsed = [
        parse_job({"name": f"j{n}", "hosts": ["h1", "h3"] if n % 2 else ["h2", "h4"], "collectives": calls})
        for n in range(5)
    ]
    together, apart = ExpandedJobs(fabric), ExpandedJobs(fabric)
    together.expand(parsed)
    for job in parsed:
        apart.add(expand(fabric, job, apart))
    assert [arrays(job) for job in together.jobs] == [arrays(job) for job in apart.jobs]
    assert [job.n_flows for job in together.jobs] == [4] * 5


@given(st.lists(jobs(claims=False), max_size=3))
def test_combined_jobs_keep_their_flows_in_their_order(documents: list[dict[str, Any]]) -> None:
    parts = [expand(FABRIC, parse_job(document | {"name": f"job{i}"})) for i, document in enumerate(documents)]
    traffic = combine(parts)
    ids = [part.flow_id(flow) for part in parts for flow in range(part.n_flows)]
    assert [traffic.flow_id(flow) for flow in range(traffic.n_flows)] == ids
    assert traffic.collectives == tuple(row for part in parts for row in part.collectives)
    assert int(traffic.bytes.sum()) == sum(int(part.bytes.sum()) for part in parts)
