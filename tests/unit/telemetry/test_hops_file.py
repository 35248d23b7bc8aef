"""Traces from elsewhere: read whole, or refused by line and column."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.rest.schemas.trace import TraceBody
from controller.telemetry.hops_file import read_hops
from controller.telemetry.trace import cable_ports
from controller.telemetry.trace_summary import summary

FABRIC = clos(2, 3, 2)
PORT_OF = {link: at for at, link in cable_ports(FABRIC).items()}
a_file = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

paths = st.tuples(
    st.integers(0, FABRIC.n_hosts - 1), st.integers(0, FABRIC.n_hosts - 1), st.integers(0, FABRIC.n_paths - 1)
).filter(lambda each: each[0] != each[1])


def links_of(src: int, dst: int, path: int) -> list[int]:
    """What switches send on: all but the host's own link."""
    local = FABRIC.host_leaf[src] == FABRIC.host_leaf[dst]
    return list(FABRIC.flow_links(src, dst, -1 if local else path)[1:])


@a_file
@given(st.lists(paths, min_size=1, max_size=12), st.randoms(use_true_random=False), st.booleans())
def test_hops_in_any_order_are_the_paths_that_they_were_made_of(
    tmp_path: Path, made: list[Any], random: Random, with_bytes: bool
) -> None:
    rows = []
    for n, each in enumerate(made):
        for hop, link in enumerate(links_of(*each), 1):
            switch, port = PORT_OF[link]
            row = {"port": str(port), "switch": switch, "hop": str(hop), "flow": f"job/dp/{n}"}
            rows.append(row | ({"bytes": str(1000 + n)} if with_bytes else {}))
    random.shuffle(rows)
    path = tmp_path / "hops.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    links, flows = read_hops(path, FABRIC)
    found = {flow["id"]: flow["real"] for flow in flows}
    assert found == {f"job/dp/{n}": [FABRIC.link_ids[link] for link in links_of(*each)] for n, each in enumerate(made)}
    assert {(flow["job"], flow["collective"]) for flow in flows} == {("job", "dp")}
    whole = summary(links, flows)
    TraceBody.model_validate({"flows": flows, **whole})
    assert [layer["links"] for layer in whole["layers"]] == [6, 6]
    assert all((layer["bytes"] is not None) == with_bytes for layer in whole["layers"])
    # Without a fabric the same flows meet on the same links, but links that nobody takes are not known.
    seen = summary(*read_hops(path))
    used = [
        [row["flows"] for row in whole["links"] if row["layer"] == layer["layer"] and row["flows"]]
        for layer in whole["layers"]
    ]
    assert [layer["links"] for layer in seen["layers"]] == [len(each) for each in used]
    assert sorted(row["flows"] for row in seen["links"]) == sorted(many for each in used for many in each)


def test_paths_of_three_layers_are_read_by_tier_and_the_names_of_links_are_checked(tmp_path: Path) -> None:
    fabric = pod_clos(2, 2, 2, 2, 1)
    port_of = {link: at for at, link in cable_ports(fabric).items()}
    ends = [(0, 2), (0, 1), (3, 0)]
    path = tmp_path / "hops.csv"
    lines, expected = ["flow,hop,switch,port,bytes"], {}
    for n, (src, dst) in enumerate(ends):
        way = fabric.flow_links(
            src, dst, int(fabric.live_paths(int(fabric.host_leaf[src]), int(fabric.host_leaf[dst]))[-1])
        )
        expected[f"f{n}"] = [fabric.link_ids[link] for link in way[1:]]
        for hop, link in enumerate(way[1:], 1):
            switch, port = port_of[link]
            lines.append(f"f{n},{hop},{switch},{port},10")
    path.write_text("\n".join(lines) + "\n")
    links, flows = read_hops(path, fabric)
    assert {flow["id"]: flow["real"] for flow in flows} == expected
    whole = summary(links, flows)
    TraceBody.model_validate({"flows": flows, **whole})
    assert [(layer["layer"], layer["links"]) for layer in whole["layers"]] == [
        ("leaf uplinks", 8),
        ("aggregation uplinks", 8),
        ("aggregation downlinks", 8),
        ("leaf downlinks", 8),
    ]
    # Without a fabric the links that flows take are known, and the longest path tells that there are three layers.
    seen = summary(*read_hops(path))
    assert [(layer["layer"], layer["links"]) for layer in seen["layers"]] == [
        ("leaf uplinks", 2),
        ("aggregation uplinks", 2),
        ("aggregation downlinks", 2),
        ("leaf downlinks", 3),
    ]
    path.write_text(HEAD + "a,1,leaf1,2,\na,2,agg1,3,\na,3,core1,2,\n")
    with pytest.raises(InputError, match="hop 2 of 3 is agg1->core1"):
        read_hops(path, fabric)
    path.write_text(HEAD + "a,6,leaf1,2,\n")
    with pytest.raises(InputError, match="must be 1 to 5 in a fabric of 3 layers"):
        read_hops(path, fabric)


HEAD = "flow,hop,switch,port,bytes\n"


@pytest.mark.parametrize(
    ("text", "line", "field", "what"),
    [
        ("", 1, "flow", "does not name this column"),
        ("flow,hop,switch\n", 1, "port", "does not name this column"),
        ("flow,hop,switch,port,colour\n", 1, "colour", "unknown column"),
        ("flow,hop,switch,port,hop\n", 1, "hop", "occurs twice"),
        (HEAD + "a,1,leaf1\n", 2, "", "has 3 columns"),
        (HEAD + "a,one,leaf1,3,\n", 2, "hop", "must be an integer"),
        (HEAD + "a,4,leaf1,3,\n", 2, "hop", "must be 1 to 3"),
        (HEAD + "a,1,,3,\n", 2, "switch", "must not be empty"),
        (HEAD + "a,1,leaf1,3,\na,1,leaf1,4,\n", 3, "hop", "already has this hop"),
        (HEAD + "a,1,leaf1,3,5\na,2,spine1,2,6\n", 3, "bytes", "the flow has 5"),
        (HEAD + "a,1,leaf1,3,-5\n", 2, "bytes", "must be an integer"),
        (HEAD + "b,2,spine1,2,\n", 2, "hop", "lacks hop 1"),
        (HEAD + "a,1,leaf9,3,\n", 2, "switch", "no switch of this name"),
        (HEAD + "a,1,leaf1,77,\n", 2, "port", "nothing is connected to this port"),
        (HEAD + "a,1,leaf1,1,\na,2,spine1,2,\n", 2, "port", "hop 1 of 2 is leaf1->h1"),
        (HEAD, 0, "", "has no flows"),
        (HEAD + 'a,1,"leaf1,3,\n', 2, "", "is not CSV"),
    ],
)
def test_bad_files_are_refused_by_line_and_column(tmp_path: Path, text: str, line: int, field: str, what: str) -> None:
    path = tmp_path / "hops.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_hops(path, FABRIC)
    assert error.value.source == (f"{path}:{line}" if line else str(path))
    assert (error.value.field, what in error.value.reason) == (field, True)


def test_a_link_has_one_layer_and_files_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "hops.csv"
    path.write_text("flow,hop,switch,port\na,1,s1,3\na,2,s2,1\nb,1,s2,1\nb,2,s1,3\n")
    with pytest.raises(InputError, match="is one of the downlinks in one line and of the uplinks in another"):
        read_hops(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_hops(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_hops(tmp_path / "nothing.csv")
