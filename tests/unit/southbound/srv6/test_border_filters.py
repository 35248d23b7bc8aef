"""Filters at the border of routers: which ports are in them, and what cannot be written."""

from __future__ import annotations

import re
from ipaddress import IPv6Network
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.southbound.srv6.border_filters import border_filters
from controller.southbound.srv6.formats import FORMATS
from controller.southbound.srv6.router_configuration import DEFAULT_CABLES, CableAddresses, link_ends
from controller.southbound.srv6.segment_ids import SegmentIds
from tests.unit.strategies import fabrics, plane_fabrics, pod_fabrics

INTERFACE = FORMATS["iproute2"].interface


def elements(text: str, name: str) -> list[str]:
    """The elements of a set."""
    (body,) = re.findall(rf"  set {name} {{(.*?)\n  }}", text, re.DOTALL)
    return re.findall(r'"\S+" \. [0-9a-f:]+', body)


@given(st.one_of(fabrics(), pod_fabrics(), plane_fabrics()), st.data())
def test_each_port_is_a_cable_or_that_of_one_host_and_only_agents_may_send_to_ids(
    fabric: Fabric, data: st.DataObject
) -> None:
    hosts = range(fabric.n_hosts)
    without = data.draw(st.sets(st.sampled_from(hosts))) if hosts else set()
    filters = dict(border_filters(SegmentIds.of(fabric), INTERFACE, DEFAULT_CABLES, without))
    assert list(filters) == [switch.name for switch in fabric.switches]
    ends, addresses = link_ends(fabric, INTERFACE), CableAddresses(fabric)
    for name, text in filters.items():
        (accepted,) = re.findall(r"iifname { (.*) } accept", text)
        own = {link: port for link, (switch, port) in ends.items() if switch == name}
        cables = {port for link, port in own.items() if link >= fabric.first_cable_link}
        assert {port.strip('"') for port in accepted.split(", ")} == {"lo"} | cables
        rows = {
            link - fabric.n_hosts: f'"{port}" . {addresses.of_link(link, far=True).ip}'
            for link, port in own.items()
            if link < fabric.first_cable_link
        }
        assert elements(text, "hosts") == list(rows.values())
        assert elements(text, "agents") == [row for host, row in rows.items() if host not in without]
        assert {str(SegmentIds.of(fabric).block), str(DEFAULT_CABLES)} == set(re.findall(r"[sd]addr (\S+/\d+)", text))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(clos(2, 2, 2))))
    return str(path)


def export(*options: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["export", "srv6-border", *options])
    return int(end.value.code or 0)


def test_the_command_writes_a_file_for_each_router(file: str, tmp_path: Path) -> None:
    out = tmp_path / "borders"
    options = ("--without-agent", "h2", "--cables", "fd00:1::/48", "--interface", "swp{port}")
    assert export("--fabric", file, *options, "--out", str(out)) == 0
    made = dict(
        border_filters(SegmentIds.of(clos(2, 2, 2)), lambda _, port: f"swp{port}", IPv6Network("fd00:1::/48"), {1})
    )
    assert {path.stem: path.read_text() for path in out.iterdir()} == made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--without-agent", "h9"], "--without-agent: 'h9': no host of the fabric has this name"),
        (["--cables", "fd00::/56"], "cables: 'fd00::/56': needs a prefix of 48 bits or fewer"),
        (["--interface", "eth{no}"], "--interface: 'eth{no}': needs {port}"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path, options: list[str], message: str
) -> None:
    assert export("--fabric", file, *options, "--out", str(tmp_path / "out")) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert message in errors
    assert not (tmp_path / "out").exists()
