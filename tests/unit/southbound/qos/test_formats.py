"""Queues of switches for classes of priority, in each language."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.priority import CLASSES, DSCP, SHARE
from controller.southbound.qos.formats import QOS_FORMATS
from controller.southbound.qos.outputs import SwitchOutputs, switch_outputs
from tests.unit.laws import examples
from tests.unit.strategies import fabrics, plane_fabrics, pod_fabrics

FABRICS = st.one_of(fabrics(), pod_fabrics(), plane_fabrics())
FLOOR = 1 / SHARE


def outputs(fabric: Fabric, language: str) -> tuple[SwitchOutputs, ...]:
    return switch_outputs(fabric, QOS_FORMATS[language].interface)


@settings(max_examples=examples(10, 100), deadline=None)
@given(fabric=FABRICS)
def test_each_end_of_a_link_at_a_switch_is_an_output_with_the_rate_of_its_link(fabric: Fabric) -> None:
    ends = [(host.leaf, host.gbps) for host in fabric.hosts]
    ends += [(end, cable.gbps) for cable in fabric.cables for end in (cable.lower, cable.upper)]
    made = outputs(fabric, "ovs")
    assert sorted((each.switch, one.gbps) for each in made for one in each.outputs) == sorted(ends)
    for each in made:
        assert len({one.interface for one in each.outputs}) == len(each.outputs)


@settings(max_examples=examples(10, 100), deadline=None)
@given(fabric=FABRICS)
def test_open_vswitch_has_a_line_with_rate_and_floor_for_each_output(fabric: Fabric) -> None:
    for each in outputs(fabric, "ovs"):
        text = QOS_FORMATS["ovs"].write(each)
        lines = re.findall(r"^port (\S+) (\d+) (\d+)$", text, re.MULTILINE)
        assert [name for name, *_ in lines] == [one.interface for one in each.outputs]
        for (_, rate, floor), one in zip(lines, each.outputs, strict=True):
            assert int(rate) == pytest.approx(one.gbps * 1e9)
            assert int(floor) == pytest.approx(one.gbps * 1e9 * FLOOR, abs=1)


@settings(max_examples=examples(10, 100), deadline=None)
@given(fabric=FABRICS)
def test_sonic_leads_each_dscp_to_the_queue_of_its_class_at_each_output(fabric: Fabric) -> None:
    for each in outputs(fabric, "sonic"):
        tables: dict[str, dict[str, Any]] = json.loads(QOS_FORMATS["sonic"].write(each))
        assert set(tables["PORT_QOS_MAP"]) == {one.interface for one in each.outputs}
        for one in each.outputs:
            maps = tables["PORT_QOS_MAP"][one.interface]
            to_class = tables["DSCP_TO_TC_MAP"][maps["dscp_to_tc_map"]]
            to_queue = tables["TC_TO_QUEUE_MAP"][maps["tc_to_queue_map"]]
            queues = {point: int(to_queue[to_class[point]]) for point in to_class}
            assert queues == {str(n): DSCP.index(n) if n in DSCP else 0 for n in range(64)}
            for queue in range(CLASSES):
                scheduler = tables["SCHEDULER"][tables["QUEUE"][f"{one.interface}|{queue}"]["scheduler"]]
                assert scheduler["type"] == "STRICT"
                assert int(scheduler["cir"]) == pytest.approx(one.gbps * 1e9 * FLOOR / 8, abs=1)


def test_eos_trusts_dscp_and_has_strict_queues() -> None:
    (leaf, *_) = outputs(clos(2, 1, 1), "eos")
    lines = QOS_FORMATS["eos"].write(leaf).splitlines()
    for each, code_point in enumerate(DSCP):
        assert f"qos map dscp {code_point} to traffic-class {each}" in lines
        assert f"qos map traffic-class {each} to tx-queue {each}" in lines
    assert [line for line in lines if line.startswith("interface ")] == [
        f"interface Ethernet{port}" for port in (1, 2, 3)
    ]
    assert lines.count("   qos trust dscp") == 3
    assert lines.count("      priority strict") == 3 * CLASSES


def export(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[object, str, str]:
    """The exit code, output and errors of the command."""
    with pytest.raises(SystemExit) as end:
        main(["export", "qos", *options])
    return end.value.code or 0, *capsys.readouterr()


def test_the_command_writes_a_file_for_each_switch_or_prints_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fabric, out = tmp_path / "fabric.json", tmp_path / "out"
    fabric.write_text(json.dumps(fabric_document(clos(2, 2, 1))))
    given_options = ("--fabric", str(fabric))
    assert export(capsys, *given_options, "--out", str(out)) == (0, "", "")
    assert {file.name for file in out.iterdir()} == {f"{name}.sh" for name in ("leaf1", "leaf2", "spine1", "spine2")}
    _, text, _ = export(capsys, *given_options, "--switch", "leaf1", "--interface", "swp{port}")
    assert "\nport swp1 100000000000 1000000000\n" in text
    for options, reason in {
        ("--format", "ios"): "--format: 'ios': is none of ovs, sonic, eos",
        ("--switch", "leaf9"): "--switch: 'leaf9': no switch with links has this name",
        (): "--out: give a folder, or a switch by --switch",
    }.items():
        assert export(capsys, *given_options, *options, *(["--switch", "leaf1"] if "ios" in options else []))[2] == (
            f"fairspine: {reason}\n"
        )
