"""Pods as a job needs them: their gang, their rank's place in it, their node, and their accelerators."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.errors import InputError
from controller.workload.kubernetes.gangs import KINDS, TOTAL, Gang, RankPlace, number

ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")
"""Names of the resources that are accelerators, unless others are given."""


@dataclass(frozen=True)
class Pod:
    """A pod of a gang.

    Attributes:
        name: the name.
        gang: what the pod belongs to.
        place: the place of its ranks.
        description: the value of the label by which its job is described.
        node: where the scheduler has put it; ``None``: nowhere yet.
        ended: it has ended, or is about to.
        accelerators: how many accelerators it has.
        attempt: the restart of the gang that it belongs to.
        total: the number of pods of the gang, if the pod knows it.
    """

    name: str
    gang: Gang
    place: RankPlace
    description: str
    node: str | None
    ended: bool
    accelerators: int
    attempt: int = 0
    total: int | None = None


def read_pod(document: Mapping[str, Any], label: str, accelerators: Collection[str] = ACCELERATORS) -> Pod:
    """Read a pod of the API.

    Args:
        document: the pod, a v1.Pod as JSON.
        label: the label that names the description of its job.
        accelerators: names of the resources that are accelerators.

    Raises:
        InputError: the pod belongs to none of ``KINDS``, or does not tell its rank.
    """
    metadata = document["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    # Both are used for the same facts, by version of what creates the pod.
    labels = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    kind = next((kind for kind in KINDS.values() if labels.get(kind.label)), None)
    if kind is None:
        wanted = ", ".join(kind.label for kind in KINDS.values())
        raise InputError(f"belongs to no job: it has none of the labels {wanted}", field="pod", value=name)
    spec, status = document.get("spec") or {}, document.get("status") or {}
    try:
        place = kind.place(labels)
        attempt = number(labels, kind.attempt) if kind.attempt in labels else 0
        total = number(labels, TOTAL) if kind.api is None else None
        taken = sum(accelerators_of(container, accelerators) for container in spec.get("containers") or [])
    except InputError as error:
        raise error.with_source(f"pod {name}") from None
    return Pod(
        name=metadata["name"],
        gang=Gang(kind.name, metadata["namespace"], labels[kind.label]),
        place=place,
        description=labels[label],
        node=spec.get("nodeName") or None,
        ended="deletionTimestamp" in metadata or status.get("phase") in ("Succeeded", "Failed"),
        accelerators=taken,
        attempt=attempt,
        total=total,
    )


def accelerators_of(container: Mapping[str, Any], names: Collection[str]) -> int:
    """Return how many accelerators a container has: as many as its limits say, or its requests."""
    resources = container.get("resources") or {}
    given = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return accelerators_in(given, names)


def accelerators_in(quantities: Mapping[str, Any], names: Collection[str]) -> int:
    """Return how many accelerators are among some quantities of resources.

    Raises:
        InputError: a quantity is not a whole number.
    """
    count = 0
    for name, quantity in quantities.items():
        if name in names:
            if not re.fullmatch(r"[0-9]{1,9}", str(quantity)):
                raise InputError("must be a whole number", field=name, value=quantity)
            count += int(quantity)
    return count
