"""What switches report of their neighbours, in any form and mixture of forms, is the fabric that they are in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.workload.exporters.cabling import CableEnds, cables_of, config_db_documents, ptm_lines
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source
from tests.unit.laws import examples

EXAMPLES = Path(__file__).parents[4] / "examples" / "fabrics"
DOMAIN = ".dc1.example.net"


def port_name(switch: str, port: int) -> str:
    return f"Ethernet{port}"


def imported(kind: str, files: dict[str, str], **request: Any) -> Imported:
    return importer(kind)([text_source(name, text) for name, text in files.items()], ImportRequest(**request))


def fabric(one: Imported) -> Fabric:
    assert one.fabric is not None
    return parse_fabric(dict(one.fabric))


Shape = tuple[Counter[tuple[str, str, str | None, str | None]], Counter[tuple[str, str, str | None]]]


def shape(one: Fabric, *, ports: bool = True) -> Shape:
    """Cables with their interfaces, and the leaves of each server with theirs."""
    return (
        Counter(
            (c.lower, c.upper, c.lower_interface if ports else None, c.upper_interface if ports else None)
            for c in one.cables
        ),
        Counter((host.server, host.leaf, host.interface if ports else None) for host in one.hosts),
    )


def expected(one: Fabric) -> Shape:
    rows = list(cables_of(one, port_name))
    between = rows[one.n_hosts :]
    return (
        Counter((row.node, row.other, row.interface, row.other_interface) for row in between),
        Counter((row.other, row.node, row.interface) for row in rows[: one.n_hosts]),
    )


fabrics = st.one_of(
    st.builds(clos, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), parallel=st.integers(1, 2)),
    st.builds(
        lambda nics, leaves: clos(2, leaves * nics, 2, nics_per_server=nics, rail_optimized=True),
        st.integers(2, 3),
        st.integers(1, 2),
    ),
    st.builds(pod_clos, st.integers(2, 3), *[st.integers(1, 2)] * 4),
)


# -- a file of each form -----------------------------------------------------------------------------------------------

Neighbour = tuple[str, str, str, bool]
"""Own port, neighbour, its port, and whether it is a switch."""


def neighbours(one: Fabric) -> dict[str, list[Neighbour]]:
    """The neighbours of each switch."""
    rows: dict[str, list[Neighbour]] = {switch.name: [] for switch in one.switches}
    for row in cables_of(one, port_name):
        rows[row.node].append((row.interface, row.other, row.other_interface, row.other in rows))
        if row.other in rows:
            rows[row.other].append((row.other_interface, row.node, row.interface, True))
    return rows


def lldpcli(name: str, rows: Iterable[Neighbour]) -> str:
    return json.dumps(
        {
            "lldp": {
                "interface": [
                    {
                        port: {
                            "chassis": {peer: {"descr": "SONiC Software" if is_switch else "Ubuntu 22.04"}},
                            "port": {"id": {"type": "ifname", "value": there}},
                        }
                    }
                    for port, peer, there, is_switch in rows
                ]
            }
        }
    )


def lldpcli_by_address(name: str, rows: Iterable[Neighbour], described: Callable[[str, str], str] | None = None) -> str:
    """As of hosts and routers on Linux, whose ports have addresses as ids, and descriptions."""
    document = json.loads(lldpcli(name, rows))
    for row in document["lldp"]["interface"]:
        for about in row.values():
            (peer,) = about["chassis"]
            port = about["port"]["id"]["value"]
            about["port"] = {
                "id": {"type": "mac", "value": f"address of {peer} {port}"},
                "descr": port if described is None else described(peer, port),
            }
    return json.dumps(document)


def eos(name: str, rows: Iterable[Neighbour]) -> str:
    by_port = {
        port: {
            "lldpNeighborInfo": [
                {
                    "systemName": peer + DOMAIN * is_switch,
                    "chassisId": f"id of {peer}",
                    "systemCapabilities": {"bridge": True, "router": is_switch},
                    "neighborInterfaceInfo": {"interfaceIdType": "interfaceName", "interfaceId": f'"{there}"'},
                }
            ]
        }
        for port, peer, there, is_switch in rows
    }
    return json.dumps({"lldpNeighbors": by_port | {"Ethernet999": {"lldpNeighborInfo": []}}})


def eos_brief(name: str, rows: Iterable[Neighbour]) -> str:
    found = [{"port": port, "neighborDevice": peer, "neighborPort": there, "ttl": 120} for port, peer, there, _ in rows]
    return json.dumps({"jsonrpc": "2.0", "result": [{"lldpNeighbors": found}]})


def openconfig(name: str, rows: Iterable[Neighbour]) -> str:
    interfaces = [
        {
            "name": port,
            "neighbors": {
                "neighbor": [
                    {
                        "id": "1",
                        "state": {
                            "system-name": peer,
                            "system-description": "Arista EOS" if is_switch else "Debian GNU/Linux 12",
                            "port-id": there,
                            "port-id-type": "openconfig-lldp-types:INTERFACE_NAME",
                        },
                        "capabilities": {
                            "capability": [{"name": "openconfig-lldp-types:ROUTER", "state": {"enabled": True}}]
                        },
                    }
                ]
            },
        }
        for port, peer, there, is_switch in rows
    ]
    state = {"enabled": True, "system-name": name}
    return json.dumps({"openconfig-lldp:lldp": {"state": state, "interfaces": {"interface": interfaces}}})


def minigraph(name: str, rows: Iterable[Neighbour]) -> str:
    rows = list(rows)
    devices = "".join(
        f"<Device i:type={quoteattr('LeafRouter' if is_switch else 'Server')}><Hostname>{peer}</Hostname></Device>"
        for _, peer, _, is_switch in rows
    )
    links = "".join(
        f"<DeviceLinkBase><EndDevice>{peer}</EndDevice><EndPort>{there}</EndPort>"
        f"<StartDevice>{name}</StartDevice><StartPort>{port}</StartPort></DeviceLinkBase>"
        for port, peer, there, _ in rows
    )
    return (
        '<DeviceMiniGraph xmlns="Some.Name" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><PngDec>'
        f"<DeviceInterfaceLinks>{links}</DeviceInterfaceLinks><Devices>{devices}</Devices></PngDec>"
        f"<Hostname>{name}</Hostname></DeviceMiniGraph>"
    )


def config_db(name: str, rows: Iterable[Neighbour]) -> str:
    rows = list(rows)
    return json.dumps(
        {
            "DEVICE_METADATA": {"localhost": {"hostname": name}},
            "DEVICE_NEIGHBOR": {port: {"name": peer, "port": there} for port, peer, there, _ in rows},
            "DEVICE_NEIGHBOR_METADATA": {
                peer: {"type": "LeafRouter" if is_switch else "Server"} for _, peer, _, is_switch in rows
            },
        }
    )


FORMS: dict[str, Callable[[str, Iterable[Neighbour]], str]] = {
    "lldpcli": lldpcli,
    "lldpcli_by_address": lldpcli_by_address,
    "eos": eos,
    "eos_brief": eos_brief,
    "openconfig": openconfig,
    "minigraph": minigraph,
    "config_db": config_db,
}


@settings(deadline=None, max_examples=examples(30, 180))
@given(one=fabrics, data=st.data())
def test_switches_in_any_mixture_of_forms_are_the_fabric_that_they_are_in(one: Fabric, data: st.DataObject) -> None:
    files = {}
    order = data.draw(st.permutations(list(neighbours(one).items())))
    for name, rows in order:
        form = data.draw(st.sampled_from(sorted(FORMS)))
        files[f"{name}.json"] = FORMS[form](name, data.draw(st.permutations(rows)))
    assert shape(fabric(imported("lldp", files))) == expected(one)


@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_form_is_known_by_its_beginning(form: str) -> None:
    (name, rows) = next(iter(neighbours(clos(2, 2, 2)).items()))
    (row,) = guess([text_source("x", FORMS[form](name, rows))])
    assert (row.format, "a part of a fabric" in row.holds) == ("lldp", True)


@settings(deadline=None, max_examples=examples(15, 90))
@given(one=fabrics, data=st.data())
def test_reports_of_the_leaves_alone_are_enough_below_two_layers(one: Fabric, data: st.DataObject) -> None:
    leaves = {switch.name for switch in one.layers[0]}
    files = {
        f"{name}.json": FORMS[data.draw(st.sampled_from(sorted(FORMS)))](name, rows)
        for name, rows in neighbours(one).items()
        if name in leaves or len(one.layers) > 2
    }
    full = {name: text.replace(DOMAIN, "") for name, text in files.items()}
    for given_files in (files, full):
        cables, hosts = shape(fabric(imported("lldp", given_files)))
        assert hosts == expected(one)[1]
        # All may call a spine by its full name.
        plain = Counter((a, b.removesuffix(DOMAIN), i, k) for a, b, i, k in cables.elements())
        assert plain == expected(one)[0]


@settings(deadline=None, max_examples=examples(20, 120))
@given(one=fabrics)
def test_cables_of_which_no_end_knows_the_others_port_count_once(one: Fabric) -> None:
    files = {
        f"{name}.json": lldpcli_by_address(name, rows, lambda peer, port: f"a port of {peer}")
        for name, rows in neighbours(one).items()
    }
    assert shape(fabric(imported("lldp", files)), ports=False) == shape(one, ports=False)


# -- whole fabrics in one file -----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(20, 120))
@given(one=fabrics)
def test_exports_for_ptm_and_sonic_are_read_back(one: Fabric) -> None:
    text = "\n".join(ptm_lines(one, port_name))
    assert [row.format for row in guess([text_source("topology.dot", text)])] == ["ptm"]
    assert shape(fabric(imported("ptm", {"topology.dot": text}))) == expected(one)
    documents = config_db_documents(one, port_name)
    again = fabric(imported("lldp", {name: json.dumps(row) for name, row in documents.items()}))
    assert shape(again) == expected(one)
    assert sorted(cable.gbps for cable in again.cables) == sorted(cable.gbps for cable in one.cables)
    assert sorted(host.gbps for host in again.hosts) == sorted(host.gbps for host in one.hosts)


def netq(one: Fabric) -> str:
    switches = {switch.name for switch in one.switches}
    cables = list(cables_of(one, port_name))
    names = dict.fromkeys(name for row in cables for name in (row.node, row.other))
    ids = {name: f"node{i}" for i, name in enumerate(names)}
    nodes = [
        {
            "id": ids[name],
            "name": name,
            "node_type": "device",
            "device_type": "switch" if name in switches else "discovered_via_lldp",
        }
        for name in names
    ]
    pairs: dict[tuple[str, str], list[CableEnds]] = {}
    for row in cables:
        pairs.setdefault((row.node, row.other), []).append(row)
    links = [
        {
            "id": f"{ids[a]}-*-{ids[b]}",
            "compounded_links": [
                {
                    "interfaces": [
                        {"node": ids[a], "interface": row.interface},
                        {"node": ids[b], "interface": row.other_interface},
                    ]
                }
                for row in rows
            ],
        }
        for (a, b), rows in pairs.items()
    ]
    return json.dumps([{"nodes": [{"node_type": "tier", "compounded_nodes": nodes}], "links": links}])


HEADINGS = {
    "netbox": ("side_a_device", "side_a_type", "side_a_name", "side_b_device", "side_b_type", "side_b_name"),
    "netbox table": ("Device A", "Location A", "Termination A", "Device B", "Location B", "Termination B"),
    "avd": ("Node", "Node Type", "Node Interface", "Peer Node", "Peer Type", "Peer Interface"),
}


def table(one: Fabric, form: str, delimiter: str) -> str:
    roles = {switch.name: "l3leaf" if layer == 0 else "spine" for layer, row in enumerate(one.layers) for switch in row}

    def kind(name: str) -> str:
        return roles.get(name, "server") if form == "avd" else "dcim.interface"

    rows = [
        (row.node, kind(row.node), row.interface, row.other, kind(row.other), row.other_interface)
        for row in cables_of(one, port_name)
    ]
    return "".join(delimiter.join(cells) + "\r\n" for cells in [HEADINGS[form], *rows])


@settings(deadline=None, max_examples=examples(20, 120))
@given(one=fabrics, form=st.sampled_from(sorted(HEADINGS)), delimiter=st.sampled_from(",;"))
def test_graphs_of_netq_and_tables_of_cables_are_the_fabric(one: Fabric, form: str, delimiter: str) -> None:
    text = netq(one)
    assert [row.format for row in guess([text_source("x", text)])] == ["netq"]
    assert shape(fabric(imported("netq", {"x": text}))) == expected(one)
    text = table(one, form, delimiter)
    assert [row.format for row in guess([text_source("x.csv", text)])] == ["cabling"]
    assert shape(fabric(imported("cabling", {"x.csv": text}))) == expected(one)


# -- what is no part of a fabric, and what is wrong --------------------------------------------------------------------

MANAGED = """strict graph dc { // a comment
 /* of several
    lines */ node [shape=box]; rankdir = LR
 leaf1 [function=leaf]; "leaf2" [function="leaf", os="CumulusCommunity/cumulus-vx"]
 "spine1" [function="spine"]; gpu1 [function=host]; gpu2 [function=host]
 "oob" [function="oob-switch"]
 "leaf1":"swp51" -- "spine1":"swp1" [left_mac="02:00:00:00:00:01"]
 "leaf2":swp51 -- "spine1":swp2;
 "leaf1":"swp49" -- "leaf2":"swp49"
 "leaf1":"swp45" -- "leaf1":"swp46"
 "leaf1":"eth0" -- "oob":"swp1"
 "gpu1":"eth1" -- "leaf1":"swp1"
 "gpu2":"eth1" -- "leaf2":"swp1"
 "gpu1":"eth0" -- "oob":"swp2"
}
"""


def test_cables_that_carry_no_flows_of_jobs_are_left_out_and_told() -> None:
    one = imported("ptm", {"topology.dot": MANAGED})
    assert shape(fabric(one), ports=False) == (
        Counter({("leaf1", "spine1", None, None): 1, ("leaf2", "spine1", None, None): 1}),
        Counter({("gpu1", "leaf1", None): 1, ("gpu2", "leaf2", None): 1}),
    )
    assert one.warnings == (
        "1 cables between switches of one layer are left out, the first is leaf1 leaf2: plans do not use them",
    )
    assert one.notes[:2] == (
        "2 cables are left out, which lead to nodes for management or outside",
        "1 cables are left out, which connect two ports of one node",
    )


def test_a_network_of_management_that_switches_report_is_left_out() -> None:
    rows = neighbours(clos(1, 2, 1))
    for number, (name, found) in enumerate(rows.items()):
        found.append(("Management1", "oob", f"Ethernet{number + 1}", True))
        if name.startswith("leaf"):
            found.append(("Ethernet48", "oob2", f"Ethernet{number + 1}", True))
    oob = [(f"Ethernet{i}", f"h{i}", "eth9", False) for i in (1, 2)]
    files = {f"{name}.json": eos(name, found) for name, found in rows.items()} | {"oob.json": eos("oob", oob)}
    one = imported("lldp", files)
    assert fabric(one).n_leaves == 2
    assert any("oob has no cable to another switch: it is left out, with 2 cables" in text for text in one.warnings)
    assert any("lead to management ports of switches" in text for text in one.notes)


@pytest.mark.parametrize("speed", ["NaN", "-5", "0", "1e5", "100G", -5, 2**40, True, [1], 1.5])
def test_a_speed_that_is_none_is_refused_with_its_port(speed: object) -> None:
    document = json.loads((EXAMPLES / "sonic" / "leaf1.json").read_text())
    document["PORT"]["Ethernet0"]["speed"] = speed
    with pytest.raises(InputError, match=r"^leaf1.json: PORT.Ethernet0.speed: .*is not a speed in Mbit/s"):
        imported("lldp", {"leaf1.json": json.dumps(document)})


WRONG = [
    ("ptm", "digraph {}", "line 1: .*is not a graph of Graphviz"),
    ("ptm", "graph {\n a:1 -- b:2\n", "line 3: ends too early"),
    ("ptm", 'graph {\n "a" -- "b":"swp1"\n}', "line 2: .*has no port"),
    ("ptm", "graph { subgraph x {} }", "line 1: .*subgraphs are not read"),
    ("ptm", "graph {\n a:1 -- b:2 @ }", "line 2: '@ }': is not of the language of Graphviz"),
    ("netq", "[{}]", r"\[0\].nodes: is not a list"),
    ("netq", '[{"nodes": [], "links": []}]', "has no links with interfaces"),
    ("netq", '[{"nodes": [], "links": [{"interfaces": [{"node": "a"}]}]}]', "are not the two ends of a cable"),
    ("cabling", "a,b\n1,2\n", "line 1: no column has one of the headings side_a_device"),
    ("cabling", "device a,port a,device b,port b\n", "no column has one of the headings side_a_name"),
    ("cabling", "device_a,a_port,device_b,b_port\nleaf1,,spine1,swp1\n", "line 2: .*lacks a port"),
    ("cabling", "device_a,a_port,device_b,b_port,speed\na,swp1,b,swp1,fast\n", "line 2: 'fast': is not a speed"),
    ("lldp", '{"lldpNeighbors": {"Ethernet1": {}}}', r"lldpNeighbors.Ethernet1.lldpNeighborInfo: is not a list"),
    ("lldp", '{"lldpNeighbors": [{"neighborDevice": "x"}]}', r"lldpNeighbors\[0\]: .*has no port"),
    ("lldp", '{"lldp": {"interfaces": {"interface": [{}]}}}', r"interfaces.interface\[0\]: .*has no name"),
    ("lldp", "<DeviceMiniGraph><PngDec>", "is not XML"),
    ("lldp", '<!DOCTYPE x [<!ENTITY a "b">]><DeviceMiniGraph/>', "has a document type declaration"),
    (
        "lldp",
        "<DeviceMiniGraph><DeviceInterfaceLinks><DeviceLinkBase/></DeviceInterfaceLinks></DeviceMiniGraph>",
        r"DeviceLinkBase\[0\]: lacks StartDevice",
    ),
    ("slurm", "- {topology: a, flat: true}\n", r"\[0\]: .*has no tree and no blocks"),
    (
        "slurm",
        "- {topology: a, tree: {switches: [{switch: s, nodes: 'n[2-1]'}]}}\n",
        r"\[0\].tree.switches\[0\]: '2-1'",
    ),
]


@pytest.mark.parametrize(("kind", "text", "reason"), WRONG)
def test_what_is_wrong_is_refused_with_its_place(kind: str, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        imported(kind, {"file": text})
    assert str(error.value).startswith("file: ")
    assert "\n" not in str(error.value)


@settings(deadline=None, max_examples=examples(75, 450))
@given(kind=st.sampled_from([*sorted(FORMS), "ptm", "netq", "cabling"]), data=st.data())
def test_damaged_files_are_read_or_refused_in_one_line(kind: str, data: st.DataObject) -> None:
    one = clos(1, 2, 1)
    texts = {
        "ptm": lambda: "\n".join(ptm_lines(one, port_name)),
        "netq": lambda: netq(one),
        "cabling": lambda: table(one, "avd", ","),
    }
    text = texts[kind]() if kind in texts else FORMS[kind]("leaf1", neighbours(one)["leaf1"])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["", "\n", "9", "[", "{", '"', "x", "\0", "²", "null"]))
            + text[at + 1 :]
        )
    try:
        imported(kind if kind in texts else "lldp", {"leaf1.json": text})
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("kind", "file", "leaves", "spines", "nics", "cables"),
    [
        ("lldp", "eos_lldp_normal.json", 1, 1, 40, 1),
        ("lldp", "sb_sample-arista-7050-t0-minigraph.xml", 1, 4, 24, 4),
        ("ptm", "ptm_topology.dot", 6, 2, 10, 12),
        ("netq", "tg_netq.json", 2, 1, 32, 47),
        ("ibnetdiscover", "tg_ibnet_example.out", 31, 9, 542, 532),
    ],
)
def test_files_of_other_projects_are_the_fabrics_that_they_describe(
    shared_data: Path, kind: str, file: str, leaves: int, spines: int, nics: int, cables: int
) -> None:
    paths = [shared_data / "wave3" / file]
    one = fabric(importer(kind)(open_sources(paths), ImportRequest()))
    assert (one.n_leaves, one.n_spines, one.n_hosts, len(one.cables)) == (leaves, spines, nics, cables)
    assert [row.format for row in guess(open_sources(paths))] == [kind]
