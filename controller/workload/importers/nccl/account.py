"""Comparison of the job with the log: its servers, and its connections over the network."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from controller.model.errors import InputError
from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.flows import Flow
from controller.workload.importers.nccl.topology import NcclTopology
from controller.workload.importers.nccl.work import CommunicatorWork
from controller.workload.importers.notes import Notes


def account(
    one: Communicator, work: CommunicatorWork, ways: NcclTopology, flows: Mapping[Flow, Fraction], notes: Notes
) -> None:
    """Compare one communicator's flows with its lines in the log.

    A warning names connections without a flow.

    Raises:
        InputError: its ranks are on several servers, it sends over the network, and there is no flow.
    """
    servers = {member.host for member in one.members.values()}
    if one.n_servers and not one.missing and len(servers) != one.n_servers:
        notes.warn(f"{one.name}: its ranks report {one.n_servers} servers (nNodes), but have {len(servers)} hostnames")
    sent = {
        (link.channel, rank, link.peer)
        for rank, member in one.members.items()
        for link in member.sends
        if link.kind == 0 and 0 <= link.peer < one.n_ranks
    }
    within = {edge for edge in sent if one.share_a_server(edge[1], edge[2])}
    has_bytes = any(work.collectives.values()) or any(work.pairs.values())
    if sent and not flows and has_bytes and one.n_servers > 1:
        raise InputError(
            f"communicator {one.name} has {len(sent)} connections over the network between {one.n_servers} servers "
            "(nNodes), but no flows: its ranks seem to be on one server",
            source=one.first.where,
        )
    if within:
        notes.warn(
            f"{one.name}: {len(within)} of {len(sent)} network connections are between ranks of one server; they are "
            "left out"
        )
    if not any(kind.op not in ("all_to_all", "gather", "scatter") for kind in work.collectives):
        return
    # Trees, NVLS and PAT use the channels of the rings.
    channels = {channel for channel, _, _ in sent - within}
    lost = sorted(channels - ways.rings.keys())
    if lost:
        notes.warn(
            f"{one.name}: {len(channels)} channels have connections over the network, and the rings of {len(lost)} of "
            f"them (the first is {lost[0]}) are incomplete; the bytes are divided among the others"
        )
