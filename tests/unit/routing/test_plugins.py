"""Policies of other distributions: found by entry point, checked, and never in the way of the others."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

import fairspine as fs
from controller.model.assignment import LOCAL, Assignment
from controller.model.choices.plugin_registry import PluginRegistry
from controller.model.errors import InputError
from controller.routing import BUILT_IN, Policy, Result, registry
from controller.routing.policies import fair
from controller.routing.registry import GROUP

MODULE = "tests_plugin_module"


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    made = types.ModuleType(MODULE)
    sys.modules[MODULE] = made
    yield made
    del sys.modules[MODULE]


def point(name: str, attribute: str = "POLICY") -> EntryPoint:
    return EntryPoint(name, f"{MODULE}:{attribute}", GROUP)


def test_a_plug_in_is_listed_after_the_built_in_policies_and_found_by_name(module: Any) -> None:
    module.POLICY = Policy("mine", "a policy", fair.assign)
    found = PluginRegistry(Policy, GROUP, BUILT_IN, [point("mine")])
    assert list(found) == [*BUILT_IN, "mine"]
    assert found.named("mine") is module.POLICY


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (None, "cannot be loaded: AttributeError"),
        (42, "is a int, not a fairspine.Policy"),
        (Policy("other", "a policy", fair.assign), "has the name 'other', not 'mine'"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_left_out_and_an_error_says_why(
    module: Any, made: object, reason: str
) -> None:
    if made is not None:
        module.POLICY = made
    module.GOOD = Policy("zz", "a policy", fair.assign)
    found = PluginRegistry(Policy, GROUP, BUILT_IN, [point("mine"), point("zz", "GOOD")])
    assert list(found) == [*BUILT_IN, "zz"]
    with pytest.raises(InputError, match=reason):
        found.named("mine")


def test_a_plug_in_never_replaces_a_built_in_policy(module: Any) -> None:
    module.POLICY = Policy("fair", "an impostor", fair.assign)
    assert PluginRegistry(Policy, GROUP, BUILT_IN, [point("fair")]).named("fair") is BUILT_IN["fair"]


def test_an_unknown_name_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(InputError, match="no policy has this name; there are fair, ecmp"):
        PluginRegistry(Policy, GROUP, BUILT_IN, []).named("mine")


def test_what_a_plug_in_returns_is_checked_before_it_is_used(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = fs.clos(leaves=2, spines=2, hosts_per_leaf=2)
    flows = [{"src": "h1", "dst": "h3", "bytes": 1e9}, {"src": "h2", "dst": "h4", "bytes": 1e9}]
    traffic = fs.traffic(fabric, [fs.job("a", flows=flows)])
    good = fair.assign(fabric, traffic).assignment
    twice = Assignment(np.repeat(good.flow, 2), np.tile([0, 1], traffic.n_flows), np.full(2 * traffic.n_flows, 0.5))
    results: dict[str, tuple[object, str]] = {
        "nothing": (None, "returned NoneType"),
        "local": (Result(Assignment.single(np.full(traffic.n_flows, LOCAL))), "no path for hosts of different leaves"),
        "halves": (Result(twice), "does not split flows"),
    }
    for name, (result, _) in results.items():
        setattr(module, name, Policy(name, "a policy", lambda *_, result=result, **__: result))
    found = PluginRegistry(Policy, GROUP, BUILT_IN, [point(name, name) for name in results])
    monkeypatch.setattr(registry, "POLICIES", found)
    for name, (_, reason) in results.items():
        with pytest.raises(InputError, match=reason):
            registry.assign(name, fabric, traffic)
