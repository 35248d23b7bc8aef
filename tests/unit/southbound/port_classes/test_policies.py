"""Policies of routers by source ports: packets of each planned flow take its path, and no others are touched."""

from __future__ import annotations

import itertools
import json
import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import FIRST_PORT, LAST_PORT
from controller.southbound.enforcement.registry import encode_flows
from controller.southbound.port_classes.class_policies import ClassPolicy, RouterPolicies, router_policies
from controller.southbound.port_classes.formats import POLICY_FORMATS
from controller.southbound.port_classes.next_hops import of_cables
from tests.unit.southbound.plans import assignments, patchy_fabrics, patient, traffics
from tests.unit.strategies import plane_fabrics, pod_fabrics

FABRICS = st.one_of(patchy_fabrics(), pod_fabrics(max_parallel=1), plane_fabrics()).filter(
    lambda fabric: bool(fabric.cables) and not fabric.cable_number.any()
)


def policies(fabric: Fabric) -> dict[str, RouterPolicies]:
    """The policies of each router; the address of a next hop is the number of the link to it."""
    interface = POLICY_FORMATS["iproute2"].interface
    made = router_policies(fabric, interface, lambda _switch, _port, link: IPv4Address(link))
    return {each.name: each for each in made}


def chosen(router: RouterPolicies, port: int, dst: str) -> ClassPolicy | None:
    """The policy that a router applies to a packet."""
    fits = [
        each
        for each in router.classes
        if each.first <= port <= each.last and any(IPv4Address(dst) in prefix for prefix in each.prefixes)
    ]
    assert len(fits) <= 1
    return fits[0] if fits else None


@patient
@given(data=st.data())
def test_the_port_of_each_planned_flow_and_piece_selects_its_uplinks(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    traffic = data.draw(traffics(fabric, "source_port"))
    assignment = data.draw(assignments(fabric, traffic))
    made, encoding = policies(fabric), encode_flows(fabric, traffic, assignment, "source_port")
    for flow, path, port in zip(encoding.flow.tolist(), encoding.path.tolist(), encoding.udp_src.tolist(), strict=True):
        if path < 0:
            continue
        src, dst = int(traffic.src[flow]), int(traffic.dst[flow])
        links = fabric.flow_links(src, dst, path)[1:-1]
        for link in links[: len(links) // 2]:
            router = made[fabric.cables[(link - fabric.first_cable_link) // 2].lower]
            policy = chosen(router, port, fabric.hosts[dst].ip)
            assert policy is not None
            assert policy.next_hop.address == IPv4Address(link)


@patient
@given(data=st.data())
def test_a_policy_is_for_just_those_leaves_that_its_uplink_leads_to(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    made = policies(fabric)
    for leaf, switch in enumerate(fabric.leaves):
        for policy in made[switch.name].classes:
            (link,) = {int(policy.next_hop.address)}
            reached = {
                prefix
                for other in range(fabric.n_leaves)
                if other != leaf
                for path in fabric.ways.between(leaf, other).tolist()
                if fabric.ways.links_of(leaf, other, path)[0] == link
                for prefix in fabric.leaf_prefixes[other]
            }
            assert set(policy.prefixes) == reached
            assert set(made[switch.name].missed(policy)) == set(made[switch.name].others) - reached


@patient
@given(data=st.data())
def test_no_port_has_two_policies_at_a_router_and_none_is_for_hosts_below_it(data: st.DataObject) -> None:
    for router in policies(data.draw(FABRICS)).values():
        ranges = [(each.first, each.last) for each in router.classes]
        assert ranges == sorted(ranges)
        assert all(last < first for (_, last), (first, _) in itertools.pairwise(ranges))
        assert all(FIRST_PORT <= first <= last <= LAST_PORT for first, last in ranges)
        assert not any(set(each.prefixes) & set(router.own) for each in router.classes)


CABLES = {"iproute2": "fd00:fab::/48", "sonic": "10.200.0.0/20", "eos": "10.200.0.0/20"}


@pytest.mark.parametrize("fabric", [clos(3, 3, 2), pod_clos(2, 2, 2, 2, 1)], ids=["two layers", "three layers"])
@pytest.mark.parametrize("language", POLICY_FORMATS)
def test_each_language_says_all_classes_next_hops_and_what_is_below(language: str, fabric: Fabric) -> None:
    chosen_format = POLICY_FORMATS[language]
    for router in router_policies(fabric, chosen_format.interface, of_cables(fabric, CABLES[language])):
        text = chosen_format.write(router)
        for policy in router.classes:
            assert re.search(rf"\b{policy.first}[- ]{policy.last}\b", text)
            assert str(policy.next_hop.address) in text
            assert policy.next_hop.interface in text
        if language != "iproute2":
            assert all(str(prefix) in text and name in text for prefix in router.own for name in router.inward)


def test_what_an_uplink_misses_is_routed_before_its_class_is_asked() -> None:
    whole = clos(3, 3, 2)
    kept = (each for each in whole.cables if (each.lower, each.upper) != ("leaf2", "spine1"))
    fabric = Fabric(whole.layers, whole.hosts, tuple(kept))
    leaf1 = router_policies(fabric, POLICY_FORMATS["sonic"].interface, of_cables(fabric, CABLES["sonic"]))[0]
    rules = json.loads(POLICY_FORMATS["sonic"].write(leaf1))["ACL_RULE"]
    (missed,) = (row for name, row in rules.items() if "MISSED" in name)
    to_spine1 = rules["FAIRSPINE|CLASS_1"]
    assert missed["DST_IP"] == str(fabric.leaf_prefixes[1][0])
    assert missed["L4_SRC_PORT_RANGE"] == to_spine1["L4_SRC_PORT_RANGE"]
    assert int(missed["PRIORITY"]) > int(to_spine1["PRIORITY"])
    eos = POLICY_FORMATS["eos"].write(leaf1)
    assert eos.index("class FAIRSPINE-MISSED-1\n") < eos.index("      set nexthop recursive 100.127.0.1\n")


def export(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[object, str, str]:
    """The exit code, output and errors of the command."""
    with pytest.raises(SystemExit) as end:
        main(["export", "port-classes", *options])
    return end.value.code or 0, *capsys.readouterr()


def test_next_hops_are_those_of_a_file_or_of_cables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fabric, hops = tmp_path / "fabric.json", tmp_path / "hops.json"
    fabric.write_text(json.dumps(fabric_document(clos(2, 2, 1))))
    hops.write_text(json.dumps({"leaf1": {"Ethernet4": "10.9.0.1", "Ethernet8": "10.9.0.3"}}))
    given_options = ("--fabric", str(fabric), "--format", "sonic")
    code, _, error = export(capsys, *given_options, "--next-hops", str(hops), "--out", str(tmp_path / "out"))
    assert (code, error) == (2, f"fairspine: {hops}: leaf2.Ethernet4: has no address of the other end\n")
    assert not (tmp_path / "out").exists()
    hops.write_text(json.dumps({n: {"Ethernet4": "10.9.0.1", "Ethernet8": "10.9.0.3"} for n in ("leaf1", "leaf2")}))
    code, text, _ = export(capsys, *given_options, "--next-hops", str(hops), "--switch", "leaf2")
    targets = [row["REDIRECT_ACTION"] for row in json.loads(text)["ACL_RULE"].values() if "REDIRECT_ACTION" in row]
    assert (code, targets) == (0, ["10.9.0.1@Ethernet4", "10.9.0.3@Ethernet8"])
    assert export(capsys, *given_options, "--cables", "10.0.0.0/24", "--out", str(tmp_path / "out"))[0] == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["leaf1.json", "leaf2.json"]


@pytest.mark.parametrize(
    ("parallel", "options", "message"),
    [
        (1, ["--format", "cumulus", "--out", "x"], "--format: 'cumulus': is none of iproute2, sonic, eos"),
        (1, [], "--out: give a folder, or a switch by --switch"),
        (1, ["--switch", "spine1"], "--switch: 'spine1': no switch with uplinks has this name"),
        (1, ["--switch", "leaf1", "--cables", "x"], "--cables: 'x': is not an IP prefix"),
        (1, ["--switch", "leaf1", "--cables", "10.0.0.0/30"], "--cables: '10.0.0.0/30': has no room for 4 cables"),
        (1, ["--switch", "leaf1", "--format", "sonic"], "is an IPv6 address, and policies of IPv4 packets need IPv4"),
        (1, ["--switch", "leaf1", "--next-hops", "/no/such"], "/no/such: "),
        (2, ["--switch", "leaf1"], "links: 'leaf1-spine1:1': is parallel to another cable"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, parallel: int, options: list[str], message: str
) -> None:
    fabric = tmp_path / "fabric.json"
    fabric.write_text(json.dumps(fabric_document(clos(2, 2, 1, parallel=parallel))))
    code, out, errors = export(capsys, "--fabric", str(fabric), *options)
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_addresses_of_cables_are_those_of_the_other_exports() -> None:
    fabric = clos(2, 2, 1)
    hop = of_cables(fabric, CABLES["iproute2"])
    link = fabric.first_cable_link
    assert hop("leaf1", "eth2", link) == IPv6Address("fd00:fab::1")
    assert of_cables(fabric, "10.0.0.0/24")("leaf1", "eth2", link + 2) == ip_address("10.0.0.3")
