"""Router configurations in each language: all of it is there, once, and what cannot be written is refused."""

from __future__ import annotations

import dataclasses
import json
import re
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.host_plan import read_plan
from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Switch
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.files.pod_clos import pod_clos
from controller.southbound.srv6.formats import FORMATS, LAST_METRIC, interface_names, iproute2
from controller.southbound.srv6.router_configuration import (
    CableAddresses,
    RouterConfiguration,
    router_configurations,
)
from controller.southbound.srv6.router_tables import router_tables
from controller.southbound.srv6.segment_ids import SegmentIds
from controller.southbound.srv6.walk import walk
from tests.unit.model.router_files import router_document
from tests.unit.strategies import fabrics, nic_fabrics, plane_fabrics

FABRIC = str(Path(__file__).parents[4] / "examples" / "clos-4x4x4.yaml")


def routers(fabric: Fabric, name: str = "iproute2") -> tuple[RouterConfiguration, ...]:
    """The configurations of a fabric's switches."""
    return router_configurations(SegmentIds(fabric), FORMATS[name].interface)


@given(st.one_of(fabrics(), plane_fabrics(), nic_fabrics()))
def test_each_next_hop_is_the_other_end_of_the_cable_at_its_interface(fabric: Fabric) -> None:
    made = routers(fabric)
    of_address = {str(address.ip): router.name for router in made for _, address in router.interfaces}
    assert len(of_address) == sum(len(router.interfaces) for router in made), "no address is given twice"
    addresses = CableAddresses(fabric)
    of_host = {str(addresses.of_link(host, far=False).ip) for host in range(fabric.n_hosts)}
    assert not of_host & of_address.keys()
    for router in made:
        network = {name: address.network for name, address in router.interfaces}
        for route in router.routes:
            for hop in route.next_hops:
                assert hop.address in network[hop.interface]
                assert of_address.get(str(hop.address), "host") != router.name


@given(st.sampled_from(sorted(FORMATS)), st.one_of(fabrics(max_parallel=2), st.just(pod_clos(2, 2, 2, 1, 1))))
def test_each_language_says_all_interfaces_locators_and_routes(name: str, fabric: Fabric) -> None:
    for router in routers(fabric, name):
        text = FORMATS[name].write(router)
        for interface, address in router.interfaces:
            assert re.search(rf"{re.escape(interface)}\b", text)
            assert str(address) in text
        for prefix in router.locators:
            assert str(prefix) in text
        for route in router.routes:
            assert str(route.prefix) in text
            assert all(str(hop.address) in text for hop in route.next_hops)
        passed_over = [str(prefix) in text for prefix in router.passed_over]
        assert all(passed_over) if name == "iproute2" else not any(passed_over)


@given(fabrics(max_parallel=1), st.booleans())
def test_no_route_of_a_script_replaces_another_one(fabric: Fabric, locators: bool) -> None:
    """The kernel tells routes to a prefix apart by their metrics."""
    if locators:
        fabric = with_locators(fabric)
    for router in routers(fabric):
        rows = re.findall(
            r"^ip -6 route replace (?:unreachable )?(\S+)(?:.* metric (\d+))?", iproute2(router), re.MULTILINE
        )
        assert len(rows) == len(set(rows))
        usual = {prefix for prefix, metric in rows if not metric}
        assert {str(route.prefix) for route in router.routes} <= usual
        assert {(str(prefix), str(LAST_METRIC)) for prefix in router.passed_over} <= set(rows)


def with_locators(fabric: Fabric) -> Fabric:
    """The same fabric, whose file gives each switch a locator."""
    numbers = iter(range(1, 1 + len(fabric.switches)))
    layers = tuple(
        tuple(dataclasses.replace(switch, locator=f"fcbb:bb00:{next(numbers):x}::/48") for switch in layer)
        for layer in fabric.layers
    )
    return Fabric(layers, fabric.hosts, fabric.cables)


def test_the_tables_of_sonic_name_the_locator_of_each_sid_and_as_many_interfaces_as_next_hops() -> None:
    for router in routers(clos(2, 2, 2, parallel=2), "sonic"):
        tables = json.loads(FORMATS["sonic"].write(router))
        locators = tables["SRV6_MY_LOCATORS"]
        for key in tables["SRV6_MY_SIDS"]:
            locator, prefix = key.split("|")
            assert (
                IPv6Network(prefix).network_address == IPv6Network(f"{locators[locator]['prefix']}/48").network_address
            )
        for route in tables["STATIC_ROUTE"].values():
            assert len(route["nexthop"].split(",")) == len(route["ifname"].split(","))
            assert set(route["ifname"].split(",")) <= tables["INTERFACE"].keys()


def export(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[object, str, str]:
    """The exit code, output and errors of ``fairspine export srv6``."""
    with pytest.raises(SystemExit) as end:
        main(["export", "srv6", "--fabric", FABRIC, *options])
    return end.value.code or 0, *capsys.readouterr()


def test_a_file_is_written_for_each_switch_and_one_switch_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert export(capsys, "--format", "sonic", "--out", str(tmp_path / "routers")) == (0, "", "")
    names = sorted(file.name for file in (tmp_path / "routers").iterdir())
    assert names == sorted([f"{kind}{n}.json" for kind in ("leaf", "spine") for n in range(1, 5)])
    printed = export(capsys, "--format", "sonic", "--switch", "leaf2")
    assert printed == (0, (tmp_path / "routers" / "leaf2.json").read_text(), "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "ios", "--out", "x"], "--format: 'ios': is none of iproute2, frr, sonic, cumulus"),
        ([], "--out: give a folder, or a switch by --switch"),
        (["--switch", "leaf9"], "--switch: 'leaf9': no switch of the fabric has this name"),
        (["--switch", "leaf1", "--block", "fcbb::1/32"], "--block: 'fcbb::1/32': is not an IPv6 prefix"),
        (["--switch", "leaf1", "--block", "fcbb::/24"], "block: 'fcbb::/24': a block has 16, 32 or 48 bits"),
        (["--switch", "leaf1", "--cables", "fcbb:bb00::/48"], "cables: 'fcbb:bb00::/48': overlaps the block"),
        (["--switch", "leaf1", "--cables", "fd00::/64"], "cables: 'fd00::/64': needs a prefix of 48 bits or fewer"),
        (["--switch", "leaf1", "--bgp", "--format", "sonic"], "--format: 'sonic': BGP is written for frr and iproute2"),
        (["--switch", "leaf1", "--bgp"], "--out: give a folder: a router has two files"),
        (["--switch", "leaf1", "--controller", "::1"], "--controller: '::1': is for --bgp only"),
        (["--switch", "leaf1", "--bgp", "--controller", "x"], "--controller: 'x': is not ADDRESS or ADDRESS=AS"),
        (["--switch", "leaf1", "--bgp", "--controller", "::1=0"], "--controller: '::1=0': AS numbers are from 1 to"),
        (["--switch", "leaf1", "--interface", "eth{no}"], "--interface: 'eth{no}': needs {port}"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    code, out, errors = export(capsys, *options)
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert message in errors


def test_routers_with_bgp_have_static_routes_to_their_hosts_only_and_hear_nothing_from_the_controller(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("--bgp", "--controller", "fd00::1", "--controller", "192.0.2.1=65000")
    assert export(capsys, "--format", "iproute2", *options, "--out", str(tmp_path)) == (0, "", "")
    assert len(list(tmp_path.iterdir())) == 16
    script, bgp = ((tmp_path / f"leaf1.{suffix}").read_text() for suffix in ("sh", "conf"))
    hops = re.findall(r" via (\S+) dev (\S+)", script)
    assert len(hops) == 8, "one for IPv4 and one for IPv6 in carriers, for each host"
    assert {port for _, port in hops} == {f"eth{port}" for port in range(1, 5)}
    assert " via " not in (tmp_path / "spine1.sh").read_text()
    assert bgp.count("route-map NOTHING in") == 2
    code, whole, errors = export(capsys, "--format", "frr", *options, "--switch", "leaf1")
    assert (code, errors) == (0, "")
    assert whole.endswith(bgp.split("!\n", 1)[1])
    static = re.findall(r"^ipv6 route \S+ (?!reject)(\S+)", whole, re.MULTILINE)
    assert len(static) == 8
    assert not set(static) & set(re.findall(r"interface \S+\n ipv6 address ([^/]+)", whole))


def test_a_cable_without_ports_is_refused() -> None:
    whole = clos(1, 2, 1)
    cables = (Cable("leaf1", "spine1", 100.0), *whole.cables[1:])
    with pytest.raises(InputError, match=r"links: 'leaf1-spine1': neither port nor interface of leaf1 is known"):
        routers(Fabric(whole.layers, whole.hosts, cables))


def test_locators_and_interfaces_of_the_file_come_before_those_of_the_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "fabric.json"
    file.write_text(json.dumps(router_document()))
    with pytest.raises(SystemExit):
        main(
            ["export", "srv6", "--fabric", str(file), "--format", "sonic", "--switch", "spine1", "--block", "fcaa::/32"]
        )
    tables = json.loads(capsys.readouterr().out)
    assert list(tables["SRV6_MY_SIDS"]) == ["fairspine|fcbb:bb00:f00::/48"]
    assert {"Ethernet0", "Ethernet4"} <= tables["INTERFACE"].keys()
    assert {key.split("|")[1] for key in tables["STATIC_ROUTE"]} == {
        *("fcbb:bb00:1::/48", "fcbb:bb00:2::/48"),
        *("fd00:fab:0:1::/64", "fd00:fab:0:2::/64"),
    }


def test_parallel_cables_of_switches_with_locators_are_refused() -> None:
    whole = clos(1, 2, 1, parallel=2)
    layers = tuple(
        tuple(Switch(each.name, each.key, f"fcbb:bb00:{n}{k}::/48") for k, each in enumerate(layer, 1))
        for n, layer in enumerate(whole.layers)
    )
    with pytest.raises(InputError, match=r"links: 'leaf1-spine1:1': has the locator of its switches in common"):
        routers(Fabric(layers, whole.hosts, whole.cables))


def test_names_of_interfaces_follow_a_pattern() -> None:
    assert interface_names("{switch}-eth{port}")("leaf1", 3) == "leaf1-eth3"


def test_what_hosts_do_by_a_plan_takes_its_paths(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job, plan, out = str(Path(FABRIC).with_name("gpt3-a.json")), tmp_path / "plan.json", tmp_path / "hosts"
    both = ["--fabric", FABRIC, "--job", job]
    with pytest.raises(SystemExit):
        main(["plan", *both, "--format", "json"])
    plan.write_text(capsys.readouterr().out)
    with pytest.raises(SystemExit) as end:
        main(["export", "srv6-hosts", *both, "--plan", str(plan), "--epoch", "7", "--out", str(out)])
    assert not end.value.code
    fabric = clos(4, 4, 4)
    ids = SegmentIds(fabric)
    tables, planned = router_tables(ids), {}
    for flow in json.loads(plan.read_text())["flows"]:
        planned[flow["src"], flow["dst"], flow["udp_src"]] = flow["paths"][0]["links"]
    by_ip = {host.ip: n for n, host in enumerate(fabric.hosts)}
    for src, host in enumerate(fabric.hosts):
        document = json.loads((out / f"{host.name}.json").read_text())
        assert read_plan(document).epoch == 7
        for row in document["destinations"]:
            assert walk(ids, fabric, tables, src, IPv6Address(row["carrier"])).host == by_ip[row["dst"]]
        for row in document["flows"]:
            dst = by_ip[row["dst"]]
            ways = [walk(ids, fabric, tables, src, IPv6Address(each)) for each in (row["carrier"], *row["backups"])]
            assert [way.host for way in ways] == [dst] * 3
            links = planned.pop((host.name, fabric.host_names[dst], row["src_port"]))
            assert [fabric.link_ids[link] for link in ways[0].links] == links
            assert len({way.links for way in ways}) == 3
            assert walk(ids, fabric, tables, src, IPv6Address(row["probe"])).host == src
    assert not planned, "each flow is in the file of its sender"


@pytest.mark.parametrize(
    ("job", "options", "message"),
    [
        ({"flows": [{"src": "h1", "dst": "h5", "bytes": 10**9}]}, [], None),
        ({"flows": [{"src": "h1", "dst": "h5", "bytes": 10**9}]}, ["--policy", "split", "-o", "max_splits=9"], None),
        (
            {"ports": "unknown", "flows": [{"src": "h1", "dst": "h5", "bytes": 10**9}]},
            [],
            "its source port is unknown, so a host cannot tell it apart",
        ),
        (
            {"flows": [{"src": f"h{n}", "dst": f"h{4 + n}", "bytes": 10**9} for n in (1, 2, 3)]},
            ["--policy", "split", "-o", "max_splits=9"],
            "is split, and a plan in a file has no source ports of its pieces",
        ),
    ],
)
def test_flows_that_a_host_cannot_tell_apart_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, job: dict[str, object], options: list[str], message: str | None
) -> None:
    files = {name: tmp_path / f"{name}.json" for name in ("fabric", "job", "plan")}
    files["fabric"].write_text(json.dumps(fabric_document(clos(2, 2, 4))))
    files["job"].write_text(json.dumps({"name": "a", **job}))
    both = ["--fabric", str(files["fabric"]), "--job", str(files["job"])]
    with pytest.raises(SystemExit):
        main(["plan", *both, *options, "--format", "json"])
    files["plan"].write_text(capsys.readouterr().out)
    with pytest.raises(SystemExit) as end:
        main(["export", "srv6-hosts", *both, "--plan", str(files["plan"]), "--out", str(tmp_path / "hosts")])
    errors = capsys.readouterr().err
    assert ((tmp_path / "hosts").exists(), end.value.code or 0) == ((True, 0) if message is None else (False, 2))
    assert (message or "") in errors
