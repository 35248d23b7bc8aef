"""Topologies of containerlab become the same fabrics."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml
from hypothesis import given, settings

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.workload.exporters.containerlab import containerlab_document
from tests.unit.laws import examples
from tests.unit.workload.importers.fabrics.reading import (
    cables,
    fabric,
    fabrics,
    read,
)


@settings(deadline=None, max_examples=examples(15, 90))
@given(one=fabrics)
def test_containerlab_topologies_are_read_back_but_for_their_speeds(one: Fabric) -> None:
    again = fabric(read("containerlab", yaml.safe_dump(containerlab_document(one)), gbps=7.0))
    assert cables(again) == Counter((cable.lower, cable.upper, 7.0) for cable in one.cables)
    assert Counter(host.leaf for host in again.hosts) == Counter(host.leaf for host in one.hosts)
    assert {(host.server, host.leaf) for host in again.hosts} == {(host.server, host.leaf) for host in one.hosts}


def test_servers_of_several_nics_keep_their_rails_in_containerlab() -> None:
    one = clos(2, 4, 2, nics_per_server=4, rail_optimized=True)
    again = fabric(read("containerlab", yaml.safe_dump(containerlab_document(one))))
    assert {(h.server, h.rail, h.leaf) for h in again.hosts} == {(h.server, h.rail, h.leaf) for h in one.hosts}


@pytest.mark.parametrize("image", ["quay.io/frrouting/frr:10.5.1", "docker-sonic-vs", "vyos/vyos:1.5", "my-frr"])
def test_routers_that_containerlab_runs_as_linux_are_switches(image: str) -> None:
    text = f"""
topology:
  kinds: {{linux: {{image: multitool}}}}
  groups: {{routers: {{kind: linux, image: "{image}"}}}}
  nodes: {{leaf1: {{group: routers}}, spine1: {{group: routers}}, pc1: {{kind: linux}}}}
  links:
    - endpoints: [leaf1:eth1, spine1:eth1]
    - endpoints: [pc1:eth1, leaf1:eth2]
"""
    one = fabric(read("containerlab", text))
    assert ([s.name for layer in one.layers for s in layer], [h.name for h in one.hosts]) == (
        ["leaf1", "spine1"],
        ["pc1"],
    )
