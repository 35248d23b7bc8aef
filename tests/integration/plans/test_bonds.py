"""Bonds, whose ports in two planes share one address, on real switches: plans in every enforcement, a lost plane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.southbound.enforcement.registry import rule_enforcements
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, routes, started_with_ring
from tests.rig.checks.lost_plane import lose_second_plane
from tests.rig.hosts.streams import check_counted, enforce

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2, planes=2, bond=True)
PODS = pod_clos(2, 1, 1, 2, 2, planes=2, bond=True)
DISCOVERED = replace(FABRIC, hosts=tuple(replace(host, port=None) for host in FABRIC.hosts))
"""The same, of which the file tells no port of a host."""


@pytest.mark.parametrize(
    ("fabric", "told"), [(FABRIC, FABRIC), (FABRIC, DISCOVERED), (PODS, PODS)], ids=["planes", "discovered", "pods"]
)
def test_every_stripe_is_counted_on_its_links_and_on_no_other_in_each_enforcement(
    bench: Bench, fabric: Fabric, told: Fabric, tmp_path: Path
) -> None:
    lab, controller = started_with_ring(bench, fabric, tmp_path, told=told)
    for enforcement in rule_enforcements():
        enforce(controller, enforcement)
        ports = routes(fabric, controller)
        pieces = [piece for body in ports.values() for flow in body["flows"] for piece in flow["pieces"]]
        assert len(pieces) == fabric.n_hosts
        packets = {
            (body["ip"], flow["dst_ip"], piece["udp_src"])
            for body in ports.values()
            for flow in body["flows"]
            for piece in flow["pieces"]
        }
        assert len(packets) == len(pieces)
        check_counted(lab, fabric, controller, enforcement, one_each=True)


def test_a_plane_that_fails_under_a_job_hands_its_stripes_over_and_the_job_goes_on(
    bench: Bench, tmp_path: Path
) -> None:
    lab, controller = started_with_ring(bench, FABRIC, tmp_path)
    sources = lose_second_plane(lab, controller, FABRIC)
    # The address of a port in the second plane has a zone.
    assert sources <= {host.ip for host in FABRIC.hosts}
    assert {flow["src"][-2:] for flow in active(controller)["flows"]} == {"p1"}
