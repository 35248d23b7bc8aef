"""Placement of an imported job on a fabric's hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.workload.importers.base import Imported, provisional_hosts
from controller.workload.placement.placement import Method as Computed
from controller.workload.placement.placement import moved, place, rename_hosts

Method = Literal["in-order"] | Computed

METHODS: tuple[Method, ...] = ("in-order", "packed", "scattered", "random")


def on_fabric(imported: Imported, fabric: Fabric, placement: Method | Sequence[str] | None, seed: int = 0) -> Job:
    """Place an imported job on hosts of the fabric.

    Args:
        imported: the result of an importer.
        fabric: the fabric that has the hosts.
        placement: hosts by rank (in the order of the job's provisional hosts), or the method; ``None``: as the
            input says or, where it does not, rank i on the fabric's i-th host.
        seed: the seed of the method ``random``.

    Raises:
        InputError: there are too few hosts, or the input itself has the hosts of its ranks and a placement is given.
    """
    if imported.placed:
        if placement is not None:
            raise InputError("the input already gives the hosts of its ranks", field="placement", value=placement)
        return imported.job
    # Where several ranks share NICs, the NICs are placed, not the ranks.
    made_up = imported.job.hosts or provisional_hosts(imported.ranks)
    match placement:
        case "packed" | "scattered" | "random":
            return moved(imported.job, place(fabric, imported.job, placement, seed))
        case None | "in-order":
            hosts: Sequence[str] = fabric.nic_names
        case str():
            raise InputError(
                f"must be a list of hosts or one of {', '.join(METHODS)}", field="placement", value=placement
            )
        case _:
            hosts = placement
            _check(fabric, hosts)
    if len(hosts) < len(made_up):
        what = "ranks" if len(made_up) == imported.ranks else "NICs"
        raise InputError(f"{len(made_up)} {what} need as many hosts, not {len(hosts)}", field="placement")
    return rename_hosts(imported.job, dict(zip(made_up, hosts, strict=False)))


def _check(fabric: Fabric, hosts: Sequence[str]) -> None:
    seen: set[str] = set()
    for i, host in enumerate(hosts):
        if host not in fabric.host_index:
            raise InputError("the fabric has no host of this name", field=f"placement[{i}]", value=host)
        if host in seen:
            raise InputError("this host is listed twice", field=f"placement[{i}]", value=host)
        seen.add(host)
