"""``fairspine replay``: simulation of another tool's task graph on a fabric."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.local.importing import placement_of
from controller.cli.shared.output import Printer, plural, seconds
from controller.cli.shared.policy_help import POLICIES_TEXT
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.model.dag import Dag
    from controller.model.fabric import Fabric
    from controller.model.job import Job
    from controller.workload.importers.base import Imported


DEFAULT_GBPS = 100.0


def replay(
    kind: Annotated[str, typer.Argument(metavar="FORMAT", help="goal, taskgraph or chakra.", show_default=False)],
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of this format.", show_default=False)],
    fabric: Annotated[
        Path | None,
        typer.Option("--fabric", metavar="FILE", help="The fabric; default: one switch without bottlenecks."),
    ] = None,
    gbps: Annotated[
        float | None,
        typer.Option(
            "--gbps",
            min=1e-3,
            max=1e6,
            show_default="that of the fabric's fastest NIC; 100 without a fabric",
            help="Rate of each rank on one switch without bottlenecks, in Gbit/s.",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            show_default="fair,ecmp; on optical circuits: totient,search,search+split",
            help=f"Policies, separated by commas; {POLICIES_TEXT}.",
        ),
    ] = None,
    placement: Annotated[
        str | None, typer.Option("--placement", metavar="P", help="As for import.", show_default=False)
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of a random placement and of randomised policies.")
    ] = 0,
    *,
    output: Printer,
) -> None:
    """Play a graph of computations and messages, and print its time under each policy.

    A task begins when all its predecessors have ended. Messages in progress share links max-min fairly; latency and
    protocols are not modelled. On a fabric of optical circuits (docs/reference/topology.md), the order of all-reduces
    in graphs of the format taskgraph is the planned one, and a fat tree of equal cost is played, too.
    """
    from controller.model.files.fabric_file import OpticalFabricError, load_fabric
    from controller.workload.importers.base import ImportRequest
    from controller.workload.importers.registry import importer
    from controller.workload.importers.streams import open_sources

    imported = importer(kind)(open_sources(files), ImportRequest(graph=True))
    if imported.dag is None:
        raise InputError("contains no task graph: use goal, taskgraph or chakra .et files", source=str(files[0]))
    try:
        place = None if fabric is None else load_fabric(fabric)
    except OpticalFabricError as error:
        for name, value in (("--placement", placement), ("--gbps", gbps)):
            if value is not None:
                raise InputError("cannot be used on optical circuits", source=error.source, field=name) from None
        # For this, rings are collectives of the job.
        with_rings = importer(kind)(open_sources(files), ImportRequest())
        rows = _on_circuits(imported.dag, with_rings, Path(error.source), policies, seed)
    else:
        rows = _ideal(imported.dag, gbps or (DEFAULT_GBPS if place is None else _fastest_nic(place)))
        if place is not None:
            rows += _on_fabric(imported.dag, imported, place, (policies or "fair,ecmp").split(","), placement, seed)
    if not output.is_table:
        output.document({"tasks": imported.dag.n_tasks, "runs": rows, "warnings": list(imported.warnings)})
        return
    for warning in imported.warnings:
        typer.echo(f"warning: {warning}")
    output.table(
        f"{imported.job.name}, {plural(imported.dag.n_tasks, 'task')}",
        ("paths", "time>", "busiest link", "its use>"),
        [(row["paths"], seconds(row["seconds"]), row["link"], f"{row['use']:.1%}") for row in rows],
    )


def _fastest_nic(fabric: Fabric) -> float:
    """Return the rate of the fastest NIC with all its ports, in Gbit/s."""
    import numpy as np

    rates = np.bincount(fabric.planes.nic_of_host, weights=[host.gbps for host in fabric.hosts])
    return float(rates.max())


def _ideal(dag: Dag, gbps: float, name: str = "one ideal switch") -> list[dict[str, Any]]:
    from emulation.fluid.dag import ideal_switch, run

    outcome = run(dag, ideal_switch(dag, gbps))
    names = [f"rank{i}->" for i in range(dag.n_ranks)] + [f"->rank{i}" for i in range(dag.n_ranks)]
    return [_row(name, outcome, names, [gbps] * len(names))]


def _on_fabric(
    dag: Dag, imported: Imported, place: Fabric, policies: list[str], placement: str | None, seed: int
) -> list[dict[str, Any]]:
    from controller.workload.importers.placing import on_fabric
    from emulation.fluid.dag import run
    from emulation.fluid.dag_stripes import striped

    job = on_fabric(imported, place, placement_of(placement), seed)
    rows = []
    dag = striped(_on_the_network(dag, place, job), place.planes.count)
    for policy in policies:
        network = _network(place, job, policy.strip(), seed)
        outcome = run(dag, network)
        rows.append(_row(policy.strip(), outcome, list(place.link_ids), place.link_gbps.tolist()))
    return rows


def _on_circuits(
    dag: Dag, imported: Imported, fabric_file: Path, policies: str | None, seed: int
) -> list[dict[str, Any]]:
    """Play a graph on the ideal switch, on a fat tree of equal cost, and on circuits planned by each policy.

    Raises:
        InputError: the file, a policy or the number of ranks cannot be used.
    """
    import time

    from controller.circuits.fabric.optical_file import load_optical_fabric
    from controller.circuits.planning.comparison import COMPARED, FAT_TREE_OF_EQUAL_COST, compared
    from emulation.circuits.graphs import on_circuits
    from emulation.circuits.network import CircuitNetwork
    from emulation.fluid.dag import run

    fabric = load_optical_fabric(fabric_file)
    whole = fabric.gbps * fabric.nics
    rows = _ideal(dag, whole) + _ideal(dag, whole / FAT_TREE_OF_EQUAL_COST, "fat tree of equal cost")
    job = imported.job
    names = COMPARED if policies is None else [name.strip() for name in policies.split(",")]
    for name, plan in compared(fabric, [(job.name, job)], names, seed=seed, clock=time.perf_counter):
        (shard,) = plan.shards
        # The job has no placement, so its ranks are on the first servers in order.
        placed = dataclasses.replace(job, hosts=tuple(fabric.servers[server] for server in shard.shard.servers))
        cut = on_circuits(dag, imported.rings, placed, shard, fabric.servers)
        outcome = run(cut, CircuitNetwork(shard).ways(fabric.gbps))
        d, m = shard.succ.shape
        links = [f"{placed.hosts[u]} NIC {int(shard.ends.sender[k, u])}" for k in range(d) for u in range(m)]
        rows.append(_row(name, outcome, links, [fabric.gbps] * len(links)))
    return rows


def _on_the_network(dag: Dag, fabric: Fabric, job: Job) -> Dag:
    """Return the graph with messages within a server set to 0 bytes, since they do not use the network."""
    import numpy as np

    servers = [fabric.hosts[fabric.host_index[host]].server for host in job.hosts]
    number = {server: i for i, server in enumerate(dict.fromkeys(servers))}
    of_rank = np.array([number[server] for server in servers])
    within = dag.is_message & (of_rank[dag.rank] == of_rank[dag.peer])
    return dataclasses.replace(dag, bytes=np.where(within, 0, dag.bytes))


def _network(fabric: Fabric, job: Job, policy: str, seed: int) -> Any:
    """Return the path of each pair of ranks, from the policy's plan for all messages together.

    Where NICs have several ports, each stripe of a pair has its own, and ranks are as in ``striped``.

    Raises:
        InputError: the policy splits flows, or no live path joins two hosts.
    """
    import numpy as np

    from controller.model.assignment import UNROUTABLE
    from controller.planning.live_traffic import live_traffic
    from controller.routing.registry import assign
    from controller.workload.expand import expand
    from emulation.fluid.dag import NO_LINK, DagNetwork

    traffic = live_traffic(fabric, [expand(fabric, job)])
    assignment = assign(policy, fabric, traffic, seed=seed).assignment
    if assignment.is_split():
        raise InputError("splits flows; in this command a message uses one path", field="policies", value=policy)
    nic_of_host, stripes = fabric.planes.nic_of_host.tolist(), fabric.planes.count
    rank = {nic_of_host[fabric.host_index[host]]: i for i, host in enumerate(job.hosts)}
    links = np.full((traffic.n_flows, 2 * len(fabric.layers)), NO_LINK, dtype=np.int32)
    pair = {}
    for flow, path in zip(assignment.flow.tolist(), assignment.path.tolist(), strict=True):
        src, dst = int(traffic.src[flow]), int(traffic.dst[flow])
        if path == UNROUTABLE:
            ends = f"{fabric.host_names[src]} {fabric.host_names[dst]}"
            raise InputError("no live path connects these hosts", source=policy, value=ends)
        way = fabric.flow_links(src, dst, path)
        links[flow, : len(way)] = way
        port = int(traffic.number[flow]) % stripes * len(job.hosts)
        pair[rank[nic_of_host[src]] + port, rank[nic_of_host[dst]] + port] = flow
    return DagNetwork(links, fabric.link_gbps.astype(np.float64), pair)


def _row(paths: str, outcome: Any, names: list[str], gbps: list[float]) -> dict[str, Any]:
    use = [
        gbit / (speed * outcome.seconds) if outcome.seconds else 0.0
        for gbit, speed in zip(outcome.gbit, gbps, strict=True)
    ]
    busiest = max(range(len(use)), key=lambda i: use[i])
    return {"paths": paths, "seconds": outcome.seconds, "link": names[busiest], "use": float(use[busiest])}
