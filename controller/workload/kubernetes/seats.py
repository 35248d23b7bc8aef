"""The pods of a gang in the order of their ranks, and the hosts (NICs) that these ranks have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.model.errors import InputError
from controller.workload.kubernetes.pods import Pod


def present(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a gang's latest attempt that have not ended."""
    running = [pod for pod in pods if not pod.ended]
    latest = max((pod.attempt for pod in running), default=0)
    return [pod for pod in running if pod.attempt == latest]


def in_rank_order(pods: Sequence[Pod], sizes: Mapping[str, int]) -> list[Pod] | None:
    """Return the pods of a gang, one after another by rank; ``None``: some do not exist or have no node yet.

    Args:
        pods: those that are ``present``.
        sizes: the number of pods of each template, in the order of their ranks.

    Raises:
        InputError: there are more pods than the gang has, two pods have one rank, or the pods of the gang name two
            descriptions.
    """
    order = {template: number for number, template in enumerate(sizes)}
    placed = [pod for pod in pods if pod.place.template in order]
    ranked: dict[tuple[int, ...], Pod] = {}
    for pod in placed:
        other = ranked.setdefault((order[pod.place.template], *pod.place.indices), pod)
        if other is not pod:
            raise InputError(f"has the rank of {other.name}", field="pod", value=pod.name)
        if pod.description != placed[0].description:
            text = f"names another description than {placed[0].name}, {placed[0].description}"
            raise InputError(text, field=f"pod {pod.name}", value=pod.description)
    expected = sum(sizes.values())
    if len(placed) > expected:
        raise InputError(f"there are more than the {expected} pods of the job", field="pods", value=len(placed))
    if len(placed) < expected or not placed or not all(pod.node for pod in placed):
        return None
    return [pod for _, pod in sorted(ranked.items(), key=lambda item: item[0])]


def hosts_of_ranks(
    pods: Sequence[Pod], allocatable: Mapping[str, int], nics: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return the hosts of a job's ranks, in order: the NICs of a pod's node, or its part of them.

    Pods of one node share its NICs equally, in the order of their ranks and of the rails. The job must have all
    accelerators of each of its nodes: Kubernetes does not tell which of them, and so which NICs, a pod has.

    Args:
        pods: with nodes, in rank order.
        allocatable: the number of accelerators of each node.
        nics: the hosts of each server of the fabric, by rail. Nodes are servers.

    Raises:
        InputError: a node is no server of the fabric, or the job has a part of it only.
    """
    on_node: dict[str, list[Pod]] = {}
    for pod in pods:
        on_node.setdefault(str(pod.node), []).append(pod)
    for node, members in on_node.items():
        if node not in nics:
            raise InputError("the fabric has no server of this name", field="node", value=node)
        taken = sum(pod.accelerators for pod in members)
        if taken != allocatable[node] and taken:
            text = (
                f"the job has {taken} of its {allocatable[node]} accelerators, and Kubernetes does not tell which, nor "
                "which NICs are near them"
            )
            raise InputError(text, field="node", value=node)
        if len(nics[node]) % len(members) or len({pod.accelerators for pod in members}) > 1:
            text = f"its {len(nics[node])} NICs cannot be shared equally by {len(members)} pods of the job"
            raise InputError(text, field="node", value=node)
    seats: dict[str, list[str]] = {node: list(nics[node]) for node in on_node}
    hosts: list[str] = []
    for pod in pods:
        own = len(nics[str(pod.node)]) // len(on_node[str(pod.node)])
        free = seats[str(pod.node)]
        hosts += free[:own]
        del free[:own]
    return tuple(hosts)
