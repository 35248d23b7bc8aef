"""What switches should hold: from what the controller tells hosts, the state of the fabric, and the pure compilers.

The controller's own rules are not asked for. What it tells hosts (``/v1/routes``) says which flow takes which links
from which UDP source port; everything else follows from the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from controller.model.enforcement import Enforcement
from controller.model.fabric import Fabric
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.planning.drain import drain, without_drained
from controller.southbound.base import compile_base
from controller.southbound.compilers import compile_rules
from controller.southbound.rules import RuleSet
from controller.southbound.wire import Wire
from emulation.faults.state import State
from emulation.pings import Pair


@dataclass(frozen=True)
class Piece:
    """A flow, or a piece of one, as a host was told to send it.

    Attributes:
        links: from host to host; four of them where the plan says the path, two within a leaf, none where switches
            spread it themselves.
        udp_src: ``None``: any.
    """

    flow: str
    src: str
    dst: str
    udp_src: int | None
    links: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """What all hosts were told. ``unrouted``: (id, source, destination) of flows that have no path."""

    pieces: tuple[Piece, ...]
    unrouted: tuple[tuple[str, str, str], ...]


def told(documents: Iterable[Mapping[str, Any]]) -> Told:
    """The answers of ``GET /v1/routes`` of all hosts."""
    pieces: list[Piece] = []
    unrouted: list[tuple[str, str, str]] = []
    for document in documents:
        for flow in document["flows"]:
            if not flow["pieces"]:
                unrouted.append((flow["id"], document["host"], flow["dst"]))
            pieces += (
                Piece(flow["id"], document["host"], flow["dst"], piece["udp_src"], tuple(piece["links"]))
                for piece in flow["pieces"]
            )
    return Told(tuple(pieces), tuple(unrouted))


def rules(state: State, pieces: Iterable[Piece]) -> RuleSet:
    """The rules of every switch."""
    fabric = state.fabric
    usable = without_drained(fabric, drain(fabric, state.drained))
    if state.mode == "ecmp":
        return compile_base(fabric, usable=usable)
    steered = [piece for piece in pieces if len(piece.links) == 4]
    n = len(steered)
    traffic = Traffic(
        src=np.array([fabric.host_index[piece.src] for piece in steered], dtype=np.int32),
        dst=np.array([fabric.host_index[piece.dst] for piece in steered], dtype=np.int32),
        bytes=np.ones(n, dtype=np.int64),
        collective=np.zeros(n, dtype=np.int32),
        number=np.arange(n, dtype=np.int32),
        udp_src=np.array([ANY_PORT if p.udp_src is None else p.udp_src for p in steered], dtype=np.int32),
        collectives=(Collective("all", "all"),),
    )
    path = np.array([_path_class(fabric, piece) for piece in steered], dtype=np.int32)
    wire = Wire(np.arange(n, dtype=np.int32), path, np.ones(n), traffic.udp_src)
    return compile_rules(cast(Enforcement, state.enforcement), fabric, traffic, wire, usable=usable)


def _path_class(fabric: Fabric, piece: Piece) -> int:
    leaf = fabric.host_leaf[fabric.host_index[piece.src]]
    (found,) = np.flatnonzero(fabric.up_link[leaf] == fabric.link_index[piece.links[1]])
    return int(found)


def mistakes(state: State, said: Told) -> list[str]:
    """What the controller tells hosts that cannot be right for the fabric as it is.

    Every flow between hosts that the graph joins has a path of links that are up, and none that is drained without
    need; every other flow has none. Within a leaf without power nobody can know.
    """
    fabric = state.fabric
    usable = without_drained(fabric, drain(fabric, state.drained))
    up = dict(zip(usable.link_ids, usable.link_up.tolist(), strict=True))
    found = []
    joined = _joined(fabric)
    dark = {host.name for host in fabric.hosts if host.leaf in state.off}
    for flow, src, dst in said.unrouted:
        if (src, dst) in joined and not {src, dst} <= dark:
            found.append(f"{flow} is unroutable, and there is a way from {src} to {dst}")
    for piece in said.pieces:
        if {piece.src, piece.dst} <= dark:
            continue
        if (piece.src, piece.dst) not in joined:
            found.append(f"{piece.flow} has a path, and there is no way from {piece.src} to {piece.dst}")
        found += [f"{piece.flow} is planned over {link}, which is not in use" for link in piece.links if not up[link]]
    wanted = {name for name, document in state.jobs.items() if document}
    planned = {flow.split("/")[0] for flow in [*(p.flow for p in said.pieces), *(f for f, _, _ in said.unrouted)]}
    if planned != wanted:
        found.append(f"jobs {sorted(planned)} are planned, and {sorted(wanted)} wanted")
    return found


def _joined(fabric: Fabric) -> set[Pair]:
    hosts = [(host.name, leaf) for host, leaf in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True) if host.up]
    return {(a, b) for a, leaf in hosts for b, other in hosts if leaf == other or len(fabric.live_paths(leaf, other))}
