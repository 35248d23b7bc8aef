"""A new policy is one file and one line of the registry, or a plug-in: the rest of the program takes it from there."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.model.choices import plugin_registry
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Traffic
from controller.routing import BUILT_IN, POLICIES, Options, Policy, PreviousPlan, Result, registry
from controller.routing.policies import ecmp, spray
from controller.routing.split_check import check_qps
from emulation.experiments.request import ExperimentRequest, load
from emulation.policy_names import HEDERA, SHIFTS, SPLIT
from scripts.man_page import manual_page
from tests.unit.emulation.evaluation.small import scenario

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = ["--fabric", str(EXAMPLES / "clos-4x4x4.yaml"), "--job", str(EXAMPLES / "gpt3-a.json")]
MODULE = "tests_new_policy"


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Spread flows where an option asks for it, else hash them."""
    chosen = spray.assign if options.max_splits else ecmp.assign
    return chosen(fabric, traffic, seed=seed, previous=previous, options=options)


NEW = Policy(
    "mine",
    "a policy of the test",
    assign,
    splits=True,
    split_option="max_splits",
    draws=True,
    advises_shifts=True,
    estimates_demand=True,
)
Register = Callable[[Policy], None]


@pytest.fixture(params=["built in", "plug-in"])
def register(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Register:
    """Return what registers a policy, as a line of the registry or as an entry point."""
    module: Any = types.ModuleType(MODULE)

    def add(policy: Policy) -> None:
        if request.param == "built in":
            monkeypatch.setitem(BUILT_IN, policy.name, policy)
        else:
            module.POLICY = policy
            monkeypatch.setitem(sys.modules, MODULE, module)
            points = [EntryPoint(policy.name, f"{MODULE}:POLICY", registry.GROUP)]
            monkeypatch.setattr(plugin_registry, "entry_points", lambda **_: points)
        monkeypatch.setattr(POLICIES, "_values", None)

    return add


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--format", "json"])
    out, err = capsys.readouterr()
    assert not end.value.code, err
    return json.loads(out)


def test_commands_list_plan_and_compare_it(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(NEW)
    row = next(row for row in said(capsys, "policies")["policies"] if row["name"] == "mine")
    assert (row["description"], row["draws"], row["split_option"]) == (NEW.description, True, "max_splits")
    assert said(capsys, "plan", *FILES, "--policy", "mine")["policy"] == "mine"
    assert [each["policy"] for each in said(capsys, "compare", *FILES, "--policies", "mine,ecmp")["policies"]] == [
        "mine",
        "ecmp",
    ]
    with pytest.raises(InputError, match=r"there are .*mine"):
        POLICIES.named("other")


def test_the_manual_page_needs_no_change(register: Register) -> None:
    register(NEW)
    assert manual_page() == Path("docs/man/fairspine.1").read_text()


def test_its_properties_decide_what_a_scenario_simulates(register: Register) -> None:
    register(NEW)
    policies = ["mine", f"mine{SPLIT}", f"mine{SHIFTS}"]
    made = scenario(policies=policies, allocation=["flow", "paced"], failed_spines=[0], seeds=[1, 2])
    simulated = {(cell.policy.name, str(cell.allocation), cell.seed) for cell in made.cells()}
    assert simulated == {
        *(("mine", "flow", seed) for seed in (1, 2)),
        *((f"mine{SHIFTS}", "flow", seed) for seed in (1, 2)),
        *((f"mine{SPLIT}", allocation, seed) for allocation in ("flow", "paced") for seed in (1, 2)),
    }


def test_experiments_run_it_under_its_short_names(register: Register) -> None:
    register(NEW)
    names = ("mine", f"mine{SHIFTS}", f"{HEDERA}mine")
    made = load(
        ExperimentRequest(EXAMPLES / "clos-4x4x4.yaml", (EXAMPLES / "gpt3-a.json",), policies=names, seeds=(1, 2))
    )
    assert [(draw.policy, draw.seed) for draw in made.draws] == [(name, seed) for name in names for seed in (1, 2)]


def test_it_cuts_no_messages_that_take_turns_on_their_qps_unless_it_is_a_reference(register: Register) -> None:
    register(NEW)
    in_turn = QueuePairs(2, "round_robin")
    check_qps(in_turn, ["mine"], Options())
    with pytest.raises(InputError, match="option max_splits=3 lets mine cut"):
        check_qps(in_turn, ["mine"], Options(max_splits=3))
    register(Policy("mine", "a reference", assign, splits=True, cuts_messages=True))
    check_qps(in_turn, ["mine"], Options(max_splits=3))
