"""Two servers with one hostname: distinguished by the log's content, or refused."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from tests.unit.laws import examples
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Cluster, Style, clusters, logs, pointer, prefix
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL, run, sent


def same_name(cluster: Cluster, texts: list[str]) -> list[str]:
    """The logs as they are where every server is called ``ubuntu``."""
    return [text.replace(f"{cluster.server(rank)}:", "ubuntu:") for rank, text in enumerate(texts)]


def told(cluster: Cluster, rank: int, text: str, line: str) -> str:
    """The log with one more line before its communicator is made."""
    return f"{prefix(cluster, rank)}{line}\n{text}"


def ways(flows: Counter[tuple[str, str, str, int]]) -> Counter[tuple[str, str, str, int]]:
    return Counter(
        {(a.replace("ubuntu.1", "node0"), b.replace("ubuntu.1", "node0"), c, d): n for (a, b, c, d), n in flows.items()}
    )


@settings(deadline=None, max_examples=examples(20, 120))
@given(cluster=clusters(least=2, own_nics=True), style=st.sampled_from(STYLES[:4]))
def test_servers_are_distinguished_by_the_positions_of_their_gpus(cluster: Cluster, style: Style) -> None:
    texts = logs(cluster, style)
    imported = run(same_name(cluster, texts))
    assert sent(imported.job) == sent(run(texts).job)
    assert any("hostname ubuntu stands for" in note for note in imported.notes)


@settings(deadline=None, max_examples=examples(20, 120))
@given(cluster=clusters(least=2, own_nics=True))
def test_servers_are_distinguished_by_the_addresses_of_their_processes(cluster: Cluster) -> None:
    texts = logs(cluster, NEWEST)
    with_address = [
        told(cluster, rank, text, f"Bootstrap : Using eth0:10.0.0.{rank // cluster.gpus}<0>")
        for rank, text in enumerate(texts)
    ]
    # GPUs that say nothing about where they are: each server has others.
    for rank, text in enumerate(with_address):
        with_address[rank] = text.replace("busId 1", f"busId {rank // cluster.gpus + 2}")
    assert sent(run(same_name(cluster, with_address)).job) == sent(run(texts).job)


def without_a_hint(cluster: Cluster) -> list[str]:
    """Logs of one hostname with ``nNodes`` and connections over the network, and nothing that tells servers apart."""
    texts = []
    for rank, text in enumerate(logs(cluster, NEWEST)):
        line = f"comm {pointer(rank)} rank {rank} nRanks {cluster.n} nNodes {cluster.servers}"
        text = text.replace(" - Init START\n", f" - Init START\n{prefix(cluster, rank)}{line}\n")
        rows = [row for row in text.splitlines(keepends=True) if "via P2P" not in row]
        texts.append("".join(rows).replace("busId 1", f"busId {rank + 2}"))
    return same_name(cluster, texts)


def test_consecutive_ranks_are_a_server_if_only_the_number_of_servers_is_known() -> None:
    assert sent(run(without_a_hint(SMALL)).job) == sent(run(logs(SMALL, NEWEST)).job)


def test_a_hostname_of_several_servers_that_cannot_be_distinguished_is_refused() -> None:
    texts = [text.replace("nNodes 2", "nNodes 3") for text in without_a_hint(SMALL)]
    with pytest.raises(
        InputError, match=r"^rank0.log:\d+: 'ubuntu': this hostname is used by several servers \(nNodes"
    ):
        run(texts)


def test_network_connections_within_one_server_are_a_warning() -> None:
    one = dataclasses.replace(SMALL, servers=1, gpus=4, nics=4)
    texts = [text.replace("via P2P/IPC/read", "[send] via NET/Socket/0") for text in logs(one, NEWEST)]
    imported = run(texts)
    assert not imported.job.flows.src
    assert "8 of 8 network connections are between ranks of one server" in imported.warnings[0]
