"""Expected rules of switches, from the hosts' routes, the state of the fabric, and the pure compilers.

The controller is not asked for its rules. The hosts' routes (``/v1/routes``) give the links and the UDP source port of
each flow; everything else follows from the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.model.fabric import Fabric
from controller.model.paths.path_numbers import PathNumbers
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.planning.drain import drain, without_drained
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import compile_rules
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.rule_set import RuleSet
from emulation.pings import Pair
from tests.campaigns.faults.state import ExpectedPiece, FaultState


@dataclass(frozen=True)
class PublishedRoutes:
    """The routes of all hosts. ``unrouted``: (id, source, destination) of flows without a path."""

    pieces: tuple[ExpectedPiece, ...]
    unrouted: tuple[tuple[str, str, str], ...]


def told(documents: Iterable[Mapping[str, Any]]) -> PublishedRoutes:
    """Combine the answers of ``GET /v1/routes`` for all hosts."""
    pieces: list[ExpectedPiece] = []
    unrouted: list[tuple[str, str, str]] = []
    for document in documents:
        for flow in document["flows"]:
            if not flow["pieces"]:
                unrouted.append((flow["id"], document["host"], flow["dst"]))
            pieces += (
                ExpectedPiece(flow["id"], document["host"], flow["dst"], piece["udp_src"], tuple(piece["links"]))
                for piece in flow["pieces"]
            )
    return PublishedRoutes(tuple(pieces), tuple(unrouted))


def rules(state: FaultState, pieces: Iterable[ExpectedPiece]) -> RuleSet:
    """Return the expected rules of every switch; in mode ``frozen`` those of the state that was frozen.

    The hosts' routes then have other flows once a job is pushed or deleted, and the rules stay.
    """
    frozen = state.frozen
    if frozen is not None:
        state, pieces = frozen, frozen.routes
    fabric = state.fabric
    usable = without_drained(fabric, drain(fabric, state.drained))
    if state.mode == "ecmp":
        return compile_base(fabric, usable=usable, ecmp_action=state.ecmp_action)
    steered = [piece for piece in pieces if len(piece.links) > 2]
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
    numbers = PathNumbers.of(fabric)
    path = np.array([numbers.number(piece.links) for piece in steered], dtype=np.int32)
    wire = FlowEncoding(np.arange(n, dtype=np.int32), path, np.ones(n), traffic.udp_src)
    return compile_rules(state.enforcement, fabric, traffic, wire, usable=usable, ecmp_action=state.ecmp_action)


def mistakes(state: FaultState, said: PublishedRoutes) -> list[str]:
    """Return the errors in the hosts' routes for the present state of the fabric.

    Every flow between connected hosts must have a path of links that are up and not drained unnecessarily; every other
    flow must have none. Hosts at a leaf without power are not checked, unless their NICs have other ports. Flows of
    these avoid ports in drained planes and on drained leaves where they can.
    """
    fabric = state.fabric
    aside = drain(fabric, state.drained)
    usable = without_drained(fabric, aside)
    up = dict(zip(usable.link_ids, usable.link_up.tolist(), strict=True))
    found = []
    joined = _joined(fabric)
    dark = {host.name for host in fabric.hosts if host.leaf in state.off and host.nic is None}
    avoided = set(itertools.compress(fabric.host_names, aside.ports.of_hosts(fabric).tolist()))
    nic = {host.name: host.nic for host in fabric.hosts}
    free = {(nic[a], nic[b]) for a, b in joined if a not in avoided and b not in avoided}
    for flow, src, dst in said.unrouted:
        if (src, dst) in joined and not {src, dst} <= dark:
            found.append(f"{flow} is unroutable, but there is a path from {src} to {dst}")
    for piece in said.pieces:
        if {piece.src, piece.dst} <= dark:
            continue
        if (piece.src, piece.dst) not in joined:
            found.append(f"{piece.flow} has a path in the plan, but there is none from {piece.src} to {piece.dst}")
        if not avoided.isdisjoint((piece.src, piece.dst)) and (nic[piece.src], nic[piece.dst]) in free:
            found.append(
                f"{piece.flow} is planned from {piece.src} to {piece.dst}, although other ports are not drained"
            )
        found += [f"{piece.flow} is planned over {link}, which is not in use" for link in piece.links if not up[link]]
    wanted = {name for name, document in state.jobs.items() if document}
    planned = {flow.split("/")[0] for flow in [*(p.flow for p in said.pieces), *(f for f, _, _ in said.unrouted)]}
    if planned != wanted:
        found.append(f"jobs {sorted(planned)} are planned instead of {sorted(wanted)}")
    return found


def _joined(fabric: Fabric) -> set[Pair]:
    hosts = [(host.name, leaf) for host, leaf in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True) if host.up]
    return {(a, b) for a, leaf in hosts for b, other in hosts if leaf == other or len(fabric.live_paths(leaf, other))}
