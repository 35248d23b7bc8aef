"""Runs the collectives of jobs on a set of hosts: an agent a host, a common start, one result a collective.

How a process gets onto a host is the caller's business: Mininet's ``popen``, ``ip netns exec``, or simply this machine
with an address of 127.0.0.0/8 for each host.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from controller.model.errors import InputError
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.roce.agent_config import FIRST_QP, AgentConfig, PartConfig, PieceConfig
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle, awaiting, cycles_of
from emulation.roce.launcher import GOODBYE_SECONDS, Launcher, OnEnded, OnTally, Spawn
from emulation.roce.sender import SenderOptions

START_AFTER = 0.3
"""Seconds between the last agent's readiness and the common start: time for the order to reach all of them."""

_FIRST_FLOW_QP = max(FIRST_QP, 0x100)


@dataclass(frozen=True, slots=True)
class PortShare:
    """A UDP source port of a flow, and its share if there are several.

    Attributes:
        paced: as for ``PieceConfig``.
        src, dst: names of the ports of the two NICs, where NICs have several; empty: the only ones.
        name: the same before and after a change of the plan, by which ``Follow`` tells the new way; empty: none.
        pace, dscp: as for ``PieceConfig``.
    """

    udp_src: int
    share: float = 1.0
    paced: bool = True
    src: str = ""
    dst: str = ""
    name: str = ""
    pace: float | None = None
    dscp: int = 0


FlowKey = tuple[str, str, str, str]
"""(job, collective, source host, destination host)."""

Routes = Mapping[FlowKey, Sequence[PortShare]]


class PieceWay(NamedTuple):
    """What a plan says of a piece of a flow.

    Attributes:
        src, dst: names of the ports of the two NICs.
        udp_src: UDP source port; ``None``: as before.
        pace, dscp: as for ``PieceConfig``.
    """

    src: str
    dst: str
    udp_src: int | None
    pace: float | None = None
    dscp: int = 0


Follow = Callable[[], Mapping[str, PieceWay]]
"""Returns what has changed in the plan, by the name of a ``PortShare``. It is called while collectives run, in the
thread that waits for them."""


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """The measurements of a collective.

    Attributes:
        spans: begin and end of each iteration, in seconds since the common start: from the begin of sending until the
            last rank had its complete result and the acknowledgements of all sent messages.
        bytes: payload of all ranks in all iterations, each byte counted once.
        checked: whether every rank had the correct result in every iteration; if not, ``wrong`` describes the error.
        ranks: reports of the ranks' agents, by rank (docs/explanation/roce.md).
    """

    job: str
    name: str
    spans: tuple[tuple[float, float], ...]
    bytes: int
    retransmissions: int
    timeouts: int
    checked: bool
    wrong: tuple[str, ...]
    ranks: tuple[dict[str, Any], ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Duration of each iteration."""
        return tuple(end - begin for begin, end in self.spans)


def agent_configs(
    hosts: Mapping[str, str],
    collectives: Sequence[CollectiveSpec],
    routes: Routes,
    *,
    options: SenderOptions | None = None,
    port: int = ROCE_PORT,
    cycles: Sequence[JobCycle] = (),
    ports_of: Mapping[str, Sequence[str]] = {},
    namespaces: Mapping[str, int] = {},
) -> dict[str, AgentConfig]:
    """Return the configuration of each host that has a rank.

    Queue pairs are numbered in the order of collectives and ranks.

    Args:
        hosts: IPv4 address by name, with its zone (``controller.model.texts.zones``).
        collectives: the collectives; ``ranks`` are names of hosts.
        routes: the UDP source port of every flow, or those of its pieces.
        options: options of every queue pair; ``None``: the defaults.
        port: UDP port of RoCE.
        cycles: when jobs compute and send; a job that is not listed does not compute.
        ports_of: names of the ports of each NIC that has several, whose addresses ``hosts`` has, too.
        namespaces: by name, a process in the network namespace of each port that has one of its own.

    Raises:
        InputError: a host is unknown, a collective occurs twice, a flow has no port, two flows between two hosts have
            the same port, a collective does not fit the cycle of its job, or waits for what it cannot wait for.
    """
    cycle_of = {each.job: each for each in awaiting(cycles_of(collectives, cycles).values(), collectives)}
    parts: dict[str, list[PartConfig]] = {}
    labels: set[str] = set()
    ports: dict[tuple[str, str, int], str] = {}
    qp = _FIRST_FLOW_QP
    for i, spec in enumerate(collectives):
        where = f"collectives[{i}]"
        if spec.label in labels:
            raise InputError("this collective is listed twice", field=where, value=spec.label)
        labels.add(spec.label)
        for host in spec.ranks:
            if host not in hosts:
                raise InputError("no host has this name", field=f"{where}.ranks", value=host)
        addressed = replace(spec, ranks=tuple(hosts[host] for host in spec.ranks))
        sends: list[dict[int, tuple[PieceConfig, ...]]] = [{} for _ in spec.ranks]
        receives: list[dict[int, tuple[int, ...]]] = [{} for _ in spec.ranks]
        for source, destination in spec.flows():
            src, dst = spec.ranks[source], spec.ranks[destination]
            pieces = routes.get((spec.job, spec.name, src, dst), ())
            if not pieces:
                raise InputError("this flow has no UDP source port", field="routes", value=f"{spec.label} {src}->{dst}")
            configs: list[PieceConfig] = []
            for piece in pieces:
                place = (piece.src or src, piece.dst or dst)
                if (*place, piece.udp_src) in ports:
                    both = f"{ports[*place, piece.udp_src]} and {spec.label} both use this port"
                    reason = f"{both} from {' to '.join(place)}"
                    raise InputError(reason, field="routes", value=piece.udp_src)
                ports[*place, piece.udp_src] = spec.label
                ends = (hosts[piece.src] if piece.src else "", hosts[piece.dst] if piece.dst else "")
                configs.append(PieceConfig(qp, piece.udp_src, piece.share, piece.paced, *ends, piece.pace, piece.dscp))
                qp += 1
            sends[source][destination] = tuple(configs)
            receives[destination][source] = tuple(c.qp for c in configs)
        for rank, host in enumerate(spec.ranks):
            parts.setdefault(host, []).append(PartConfig(addressed, rank, sends[rank], receives[rank]))
    return {
        host: AgentConfig(
            host,
            hosts[host],
            tuple(own),
            options or SenderOptions(),
            port,
            cycles=tuple(cycle_of[job] for job in dict.fromkeys(part.collective.job for part in own)),
            addresses={
                hosts[name]: tuple(hosts[port] for port in every)
                for name, every in ports_of.items()
                if name == host or any(hosts[name] in part.collective.ranks for part in own)
            },
            namespaces={hosts[port]: namespaces[port] for port in ports_of.get(host, ()) if port in namespaces},
        )
        for host, own in parts.items()
    }


def run_collectives(
    hosts: Mapping[str, str],
    spawn: Spawn,
    collectives: Sequence[CollectiveSpec],
    routes: Routes,
    *,
    options: SenderOptions | None = None,
    port: int = ROCE_PORT,
    timeout: float = 120.0,
    python: str = sys.executable,
    log_dir: Path | None = None,
    cycles: Sequence[JobCycle] = (),
    tally_seconds: float = 0.0,
    on_tally: OnTally = lambda tally: None,
    ports_of: Mapping[str, Sequence[str]] = {},
    follow: Follow | None = None,
    on_ended: OnEnded = lambda job, stage, at: None,
    namespaces: Mapping[str, int] = {},
) -> list[CollectiveResult]:
    """Run jobs at the same time and return the measurements of their collectives, in their order.

    Args:
        hosts: IPv4 address by name.
        spawn: starts a process on a host.
        collectives: the collectives; ``ranks`` are names of hosts.
        routes: the UDP source port of every flow, or those of its pieces.
        options: options of every queue pair; ``line_rate`` is that of a host's link.
        port: UDP port of RoCE.
        timeout: time limit in seconds, from the first process to the last result.
        python: interpreter of the agents, which has this package.
        log_dir: folder of ``agent-HOST.log`` (standard error of the agents); None: a temporary folder.
        cycles: when jobs compute and send; a job that is not listed does not compute.
        tally_seconds: seconds between two reports of each host of what its queue pairs have sent; 0: none are made.
        on_tally: called with these reports.
        ports_of: as for ``agent_configs``.
        follow: tells the changes of the plan, which queue pairs then follow; None: there are none.
        namespaces: as for ``agent_configs``.
        on_ended: called when a stage of a job but the last one (a phase of an iteration) has ended at all of its hosts.

    Raises:
        InputError: the collectives or routes are invalid; nothing was started.
        EmulationError: an agent failed, or the time limit was exceeded. All agents have ended.
    """
    configs = agent_configs(
        hosts, collectives, routes, options=options, port=port, cycles=cycles, ports_of=ports_of, namespaces=namespaces
    )
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="fairspine-agents-") as temporary:
        folder = log_dir or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with Launcher(folder, on_tally, on_ended) as agents:
            for host, plain in configs.items():
                config = replace(plain, tally_seconds=tally_seconds)
                agents.start(host, spawn, [python, "-m", "emulation.roce", "agent", "--config", "-"], config)
            agents.wait("ready", deadline)
            start_at = time.monotonic() + START_AFTER
            agents.tell({"start_at": start_at})
            followed = None if follow is None else _Followed(hosts, collectives, routes, configs, agents, follow)
            reports = agents.wait("result", deadline, followed)
            agents.dismiss(time.monotonic() + GOODBYE_SECONDS)
    return [_gather(spec, reports, start_at) for spec in collectives]


class _Followed:
    """The named queue pairs of all agents, which follow when the plan has changed their flows."""

    def __init__(
        self,
        hosts: Mapping[str, str],
        collectives: Sequence[CollectiveSpec],
        routes: Routes,
        configs: Mapping[str, AgentConfig],
        agents: Launcher,
        follow: Follow,
    ) -> None:
        self._hosts, self._agents, self._follow = hosts, agents, follow
        self._pairs: dict[str, tuple[str, int, int]] = {}
        parts = {(host, part.collective.label): part for host, config in configs.items() for part in config.parts}
        for spec in collectives:
            for a, b in spec.flows():
                part = parts[spec.ranks[a], spec.label]
                shares = routes[spec.job, spec.name, spec.ranks[a], spec.ranks[b]]
                for share, piece in zip(shares, part.sends[b], strict=True):
                    if share.name:
                        self._pairs[share.name] = (spec.ranks[a], piece.qp, piece.udp_src)

    def __call__(self) -> None:
        """Tell the agents what has changed."""
        moves: dict[str, list[dict[str, Any]]] = {}
        for name, way in self._follow().items():
            if name in self._pairs:
                host, qp, port = self._pairs[name]
                row = {
                    "qp": qp,
                    "src": self._hosts[way.src],
                    "dst": self._hosts[way.dst],
                    "udp_src": way.udp_src or port,
                    "pace": way.pace,
                    "dscp": way.dscp,
                }
                moves.setdefault(host, []).append(row)
        for host, rows in moves.items():
            self._agents.move(host, rows)


def _gather(spec: CollectiveSpec, reports: Mapping[str, dict[str, Any]], start_at: float) -> CollectiveResult:
    ranks = []
    for host in spec.ranks:
        rows = reports[host]["collectives"]
        ranks.append(next(row for row in rows if (row["job"], row["name"]) == (spec.job, spec.name)))
    spans = []
    for i in range(spec.iterations):
        begin = min(row["iterations"][i]["begin"] for row in ranks)
        spans.append((begin - start_at, max(row["iterations"][i]["end"] for row in ranks) - start_at))
    return CollectiveResult(
        job=spec.job,
        name=spec.name,
        spans=tuple(spans),
        bytes=sum(row["bytes_sent"] for row in ranks),
        retransmissions=sum(row["retransmissions"] for row in ranks),
        timeouts=sum(flow["timeouts"] for row in ranks for flow in row["flows"]),
        checked=all(row["checked"] for row in ranks),
        wrong=tuple(f"rank {row['rank']}: {wrong}" for row in ranks for wrong in row["wrong"]),
        ranks=tuple(ranks),
    )
