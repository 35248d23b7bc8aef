"""Fabrics of planes with traffic."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job


def traffic_of(fabric: Fabric, order: list[int], op: str = "all_reduce", qps: int | None = None) -> Traffic:
    """One collective of all NICs in some order."""
    call = {"name": "c", "op": op, "ranks": order, "bytes": 720720 * 64} | ({} if qps is None else {"qps": qps})
    return combine([expand(fabric, parse_job({"name": "a", "hosts": list(fabric.nic_names), "collectives": [call]}))])


@st.composite
def cases(draw: st.DrawFn, fabrics: st.SearchStrategy[Fabric]) -> tuple[Fabric, Traffic]:
    """A fabric whose NICs have several ports, and a collective of all its NICs."""
    fabric = draw(fabrics)
    order = draw(st.permutations(range(len(fabric.nic_names))))
    op, qps = draw(st.sampled_from(["all_reduce", "all_to_all"])), draw(st.sampled_from([None, 1, 2, 5]))
    return fabric, traffic_of(fabric, order, op, qps)


def nic_bytes(fabric: Fabric, traffic: Traffic) -> dict[tuple[int, int], int]:
    """The bytes between each two NICs."""
    nic, total = fabric.planes.nic_of_host, defaultdict[tuple[int, int], int](int)
    for src, dst, size in zip(
        nic[traffic.src].tolist(), nic[traffic.dst].tolist(), traffic.bytes.tolist(), strict=True
    ):
        total[src, dst] += size
    return total
