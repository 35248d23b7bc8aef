"""Random job documents, and a fabric that they fit."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.workload.collectives import ALGORITHMS

FABRIC = clos(2, 3, 3)
HOSTS = [host.name for host in FABRIC.hosts]

# The same with two NICs in each server: h1 and h2 are one machine, h3 and h4 the next.
PAIRED = dataclasses.replace(
    FABRIC,
    hosts=tuple(dataclasses.replace(host, server=f"node{i // 2}") for i, host in enumerate(FABRIC.hosts)),
)

SIZES = st.sampled_from([0, 1, 7, 10**6, 10**9 + 1])


@st.composite
def collectives(draw: st.DrawFn, name: str, n_hosts: int) -> dict[str, Any]:
    """One entry of ``collectives``."""
    op = draw(st.sampled_from(sorted(ALGORITHMS)))
    least = 2 if op == "send_recv" else 1
    most = 2 if op == "send_recv" else n_hosts
    ranks = draw(st.permutations(range(n_hosts)))[: draw(st.integers(least, most))]
    row: dict[str, Any] = {"name": name, "op": op, "ranks": list(ranks), "bytes": draw(SIZES)}
    if draw(st.booleans()):
        row["algorithm"] = draw(st.sampled_from(ALGORITHMS[op]))
    if draw(st.booleans()):
        row["phase"] = draw(st.integers(0, 2))
    if draw(st.booleans()):
        row["channels"] = draw(st.integers(1, 3))
    return row


@st.composite
def flows(draw: st.DrawFn, *, claims: bool) -> list[dict[str, Any]]:
    """``flows``, with or without claimed ports."""
    rows: list[dict[str, Any]] = []
    claimed = set()
    for _ in range(draw(st.integers(0, 8))):
        src, dst = draw(st.permutations(HOSTS[:4]))[:2]
        row: dict[str, Any] = {"src": src, "dst": dst, "bytes": draw(SIZES)}
        if draw(st.booleans()):
            row["collective"] = draw(st.sampled_from(["c0", "x"]))
        port = draw(st.none() | st.integers(49152, 49155))
        if claims and port is not None and (src, dst, port) not in claimed:
            claimed.add((src, dst, port))
            row["udp_src"] = port
        rows.append(row)
    return rows


@st.composite
def jobs(draw: st.DrawFn, *, claims: bool = True, name: str = "a") -> dict[str, Any]:
    """A valid job on ``FABRIC`` with any of the three forms in it."""
    hosts = list(draw(st.permutations(HOSTS)))[: draw(st.integers(2, len(HOSTS)))]
    document: dict[str, Any] = {
        "name": name,
        "hosts": hosts,
        "collectives": [draw(collectives(f"c{k}", len(hosts))) for k in range(draw(st.integers(0, 3)))],
    }
    if draw(st.booleans()):
        document["weight"] = draw(st.sampled_from([0.5, 1, 3]))
    unknown = draw(st.booleans())
    if unknown:
        document["ports"] = "unknown"
    document["flows"] = draw(flows(claims=claims and not unknown))
    if draw(st.booleans()):
        members = list(draw(st.permutations(HOSTS)))[: draw(st.integers(1, 4))]
        document["matrix"] = {
            "hosts": members,
            "bytes": [[0 if i == j else draw(SIZES) for j in range(len(members))] for i in range(len(members))],
        }
    if draw(st.booleans()):
        document["pxn"] = draw(st.booleans())
    described = {row["name"] for row in document["collectives"]}
    given = {row.get("collective", "all") for row in document["flows"]} | ({"all"} if "matrix" in document else set())
    if draw(st.booleans()):
        document["phases"] = {name: draw(st.integers(0, 2)) for name in sorted(given - described)}
    return document
