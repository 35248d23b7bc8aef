"""Random fabrics, shared by the tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from hypothesis import strategies as st

from controller.model.fabric import Cable, Fabric, Switch
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos


def with_routers(fabric: Fabric, names: Collection[str] | None = None) -> Fabric:
    """The same fabric where the named switches (all of them, if none is named) speak no OpenFlow."""
    chosen = fabric.layer_of.keys() if names is None else names
    layers = tuple(
        tuple(Switch.router(each.name) if each.name in chosen else each for each in layer) for layer in fabric.layers
    )
    return Fabric(layers, fabric.hosts, fabric.cables)


def with_ipv6(fabric: Fabric, names: Collection[str] | None = None) -> Fabric:
    """The same fabric where the named hosts (all of them, if none is named) have IPv6 addresses."""
    chosen = fabric.host_names if names is None else names
    hosts = tuple(
        dataclasses.replace(host, ip=f"fd00:0:0:{leaf + 1:x}::{seat:x}") if host.name in chosen else host
        for host, leaf, seat in zip(fabric.hosts, fabric.host_leaf.tolist(), fabric.seats, strict=True)
    )
    return dataclasses.replace(fabric, hosts=hosts)


@st.composite
def fabrics(draw: st.DrawFn, *, max_parallel: int = 3, failures: bool = True, min_leaves: int = 1) -> Fabric:
    """A small Clos fabric, with some cables down if ``failures``."""
    fabric = clos(
        draw(st.integers(1, 4)),
        draw(st.integers(min_leaves, 4)),
        draw(st.integers(1, 3)),
        parallel=draw(st.integers(1, max_parallel)),
    )
    if not failures:
        return fabric
    down = draw(st.sets(st.sampled_from(fabric.cable_names), max_size=len(fabric.cable_names) // 2 + 1))
    return fabric.without_links(down)


@st.composite
def pod_fabrics(draw: st.DrawFn, max_parallel: int = 3) -> Fabric:
    """A small fabric of three layers, whole, with parallel cables in some."""
    numbers = [draw(st.integers(1, 3)) for _ in range(5)]
    parallel, core_parallel = (draw(st.integers(1, max_parallel)) for _ in range(2))
    return pod_clos(*numbers, parallel=parallel, core_parallel=core_parallel)


@st.composite
def plane_fabrics(draw: st.DrawFn, *, failures: bool = True, min_planes: int = 2) -> Fabric:
    """A small fabric whose NICs have a port in each of several planes, with some cables down if ``failures``."""
    fabric = clos(
        draw(st.integers(1, 3)),
        draw(st.integers(2, 3)),
        draw(st.integers(1, 3)),
        parallel=draw(st.integers(1, 2)),
        planes=(planes := draw(st.integers(min_planes, 3))),
        bond=planes > 1 and draw(st.booleans()),
    )
    if not failures:
        return fabric
    parts = [*fabric.cable_names, *(f"{host.name}-{host.leaf}" for host in fabric.hosts)]
    return fabric.without_links(draw(st.sets(st.sampled_from(parts), max_size=4)))


@st.composite
def nic_fabrics(draw: st.DrawFn, *, failures: bool = True) -> Fabric:
    """A small fabric whose NICs have several ports: planes, dual-ToR or both, two or three layers, unlike widths.

    In some with planes alone, the ports of a NIC are a bond.
    """
    planes, dual_tor = draw(st.sampled_from([(2, False), (3, False), (1, True), (2, True)]))
    bond = not dual_tor and draw(st.booleans())
    leaves = 2 if dual_tor else draw(st.integers(1, 2))
    if draw(st.booleans()):
        fabric = pod_clos(
            2,
            leaves,
            draw(st.integers(1, 2)),
            draw(st.integers(1, 2)),
            draw(st.integers(1, 2)),
            planes=planes,
            dual_tor=dual_tor,
            bond=bond,
        )
    else:
        fabric = clos(
            draw(st.integers(1, 3)), 2 * leaves, draw(st.integers(1, 2)), planes=planes, dual_tor=dual_tor, bond=bond
        )
        if planes > 1 and draw(st.booleans()):
            # One more spine in the first plane.
            more = Switch("spine-more", 99999)
            wide = tuple(
                Cable(leaf.name, more.name, 100.0, lower_port=90, upper_port=1 + i)
                for i, leaf in enumerate(fabric.leaves[: 2 * leaves])
            )
            fabric = Fabric((fabric.leaves, (*fabric.spines, more)), fabric.hosts, (*fabric.cables, *wide))
    if not failures:
        return fabric
    parts = [*fabric.cable_names, *(f"{host.name}-{host.leaf}" for host in fabric.hosts)]
    return fabric.without_links(draw(st.sets(st.sampled_from(parts), max_size=4)))
