"""Enforcements by name, what plug-ins return, and what the documents say of the built-in ones."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.config import Settings, settings_from
from controller.core.desired_state import DesiredState
from controller.core.saved.restore import restore
from controller.core.saved.saved_state import ModeSetting, SavedState
from controller.model.assignment import Assignment
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS, DEFAULT_ENFORCEMENT
from controller.model.choices.plugin_registry import PluginRegistry
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.southbound.enforcement import registry
from controller.southbound.enforcement.base import Enforcement
from controller.southbound.enforcement.registry import (
    BUILT_IN,
    ENFORCEMENTS,
    GROUP,
    compile_rules,
    encode_flows,
    rule_enforcements,
)
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.southbound.plans import traffic_of

MODULE = "tests_enforcement_module"
FABRIC = clos(2, 2, 1)
TRAFFIC = traffic_of([(0, 1, 50000)])
ROWS = Assignment.single(np.array([0]))
USUAL = BUILT_IN[DEFAULT_ENFORCEMENT]
NOTHING: Any = lambda *_: None  # noqa: E731


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Register an object as the enforcement ``mine`` of another distribution."""
    module: Any = types.ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)

    def register(made: object) -> None:
        module.ENFORCEMENT = made
        points = [EntryPoint("mine", f"{MODULE}:ENFORCEMENT", GROUP)]
        monkeypatch.setattr(registry, "ENFORCEMENTS", PluginRegistry(Enforcement, GROUP, BUILT_IN, points))

    return register


@pytest.mark.parametrize(
    "use",
    [
        lambda name: compile_rules(name, FABRIC, TRAFFIC, encode_flows(FABRIC, TRAFFIC, ROWS, DEFAULT_ENFORCEMENT)),
        lambda name: encode_flows(FABRIC, TRAFFIC, ROWS, name),
        lambda name: DesiredState(enforcement=name).chooses_ports,
        lambda name: settings_from(dataclasses.asdict(Settings(enforcement=name))),
        lambda name: restore(SavedState(mode=ModeSetting("planned", 1.0, "ann", name, "x")), None, "x"),
    ],
    ids=["compile_rules", "encode_flows", "desired state", "options", "store"],
)
def test_an_unknown_name_is_refused_with_the_names_that_there_are(use: Callable[[str], object]) -> None:
    with pytest.raises(InputError, match=f"no enforcement has this name; there are {', '.join(ENFORCEMENTS)}") as error:
        use("telepathy")
    assert (error.value.field, error.value.value) == ("enforcement", "telepathy")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (42, "is a int, not a fairspine.Enforcement"),
        (dataclasses.replace(USUAL, name="other"), "has the name 'other', not 'mine'"),
        (dataclasses.replace(USUAL, name="mine", encode=NOTHING), "encode returned NoneType"),
        (dataclasses.replace(USUAL, name="mine", compile=NOTHING), "compile returned NoneType, not RuleSet"),
        (dataclasses.replace(USUAL, name="mine", compile=lambda _: RuleSet({})), "no rules for leaf1"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_refused_with_the_reason(
    plug_in: Callable[[object], None], made: object, reason: str
) -> None:
    plug_in(made)
    with pytest.raises(InputError, match=reason):
        compile_rules("mine", FABRIC, TRAFFIC, encode_flows(FABRIC, TRAFFIC, ROWS, "mine"))


def test_a_plug_in_whose_ports_are_of_other_rows_is_refused(plug_in: Callable[[object], None]) -> None:
    def encode(*arguments: Any) -> Any:
        encoding = USUAL.encode(*arguments)
        return dataclasses.replace(encoding, path=encoding.path + 1)

    plug_in(dataclasses.replace(USUAL, name="mine", encode=encode))
    with pytest.raises(InputError, match="the column path of encode's result is not that of the assignment"):
        encode_flows(FABRIC, TRAFFIC, ROWS, "mine")


def test_an_option_that_the_controller_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match="needs the option no_such_option"):
        dataclasses.replace(USUAL, options=("no_such_option",)).options_of(Settings())


@pytest.mark.parametrize("name", [name for name in BUILT_IN_ENFORCEMENTS if name in rule_enforcements()])
def test_packets_grow_by_their_labels(name: str) -> None:
    labels = BUILT_IN[name].labels(FABRIC, 0, 1, 0, {})
    assert 4 * len(labels) == BUILT_IN[name].growth


def test_the_table_of_the_documents_says_what_hosts_must_do_and_how_packets_grow() -> None:
    text = (Path(__file__).parents[4] / "docs/explanation/enforcement.md").read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    begin = lines.index(["", *(f"`{name}`" for name in BUILT_IN_ENFORCEMENTS)])
    rows = {cells[0]: cells[1:] for cells in lines[begin + 2 : begin + 9]}
    for cell, name in zip(rows["growth of packets"], BUILT_IN_ENFORCEMENTS, strict=True):
        growth = BUILT_IN[name].growth
        assert cell.startswith(f"{growth} bytes" if growth else "none")
    said = [BUILT_IN[name].hosts.replace("/v1/routes", "`/v1/routes`") for name in BUILT_IN_ENFORCEMENTS]
    assert said[1] == said[0]
    assert rows["hosts must"] == [said[0], "the same", said[2].replace(said[0], "the same"), *said[3:]]
    refuses = ["refused" if BUILT_IN[name].chooses_ports else "" for name in BUILT_IN_ENFORCEMENTS]
    assert ["refused" if cell == "refused" else "" for cell in rows["flows with unknown ports"]] == refuses
