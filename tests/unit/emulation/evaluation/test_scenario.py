from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from controller.model.errors import InputError
from controller.routing import POLICIES
from emulation.evaluation.cell import key_of
from emulation.evaluation.scenario import ALL_SPLITS, QUICK_EPOCHS, load_scenario, parse_scenario
from emulation.fluid.adaptive import Adaptive
from tests.unit.emulation.evaluation.small import document, scenario

EXAMPLES = Path(__file__).parents[4] / "examples" / "scenarios"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_scenarios(path: Path) -> None:
    made = load_scenario(path)
    assert made.cells()
    assert len({(case.kind, case.name) for case in made.cases}) == len(made.cases)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_quick_form_has_a_case_of_each_kind_every_policy_and_no_judgement(path: Path) -> None:
    whole = load_scenario(path)
    quick = whole.quick()
    assert [case.kind for case in quick.cases] == list(dict.fromkeys(case.kind for case in whole.cases))
    for case in quick.cases:
        same = next(other for other in whole.cases if other.kind == case.kind)
        assert case.name == same.name
        assert [job.epochs for job in case.jobs] == [min(job.epochs, QUICK_EPOCHS) for job in same.jobs]
    assert quick.policies == whole.policies
    assert quick.failures == whole.failures[:2]
    assert {cell.seed for cell in quick.cells()} == {whole.seeds[0]}
    assert (quick.references, quick.targets) == ((), ())
    assert quick.notes[-1].startswith(f"{len(quick.cases)} of {len(whole.cases)} cases")


def test_the_grid_is_the_product_but_for_what_would_be_the_same_twice() -> None:
    made = scenario(
        policies=["ecmp", "greedy", "fair", "fair+split", {"policy": "spray", "allocation": "paced"}],
        failed_spines=[0, 1],
        allocation=["flow", "paced"],
        seeds=[1, 2, 3],
    )
    cells = [(cell.failure.name, cell.policy.name, str(cell.allocation), cell.seed) for cell in made.cells()]
    one = [
        *(("ecmp", "flow", seed) for seed in (1, 2, 3)),
        ("greedy", "flow", 1),
        ("fair", "flow", 1),
        ("fair+split", "flow", 1),
        ("fair+split", "paced", 1),
        ("spray", "paced", 1),
    ]
    assert cells == [(failure, *cell) for failure in ("none", "1 spine") for cell in one]


def test_a_policy_with_an_allocation_of_its_own_is_simulated_with_it_and_no_other() -> None:
    made = scenario(
        policies=["spray", {"policy": "spray", "name": "paced", "allocation": "paced"}],
        failed_spines=[0],
        allocation=["flow"],
    )
    assert [(cell.policy.name, str(cell.allocation)) for cell in made.cells()] == [
        ("spray", "flow"),
        ("paced", "paced"),
    ]


@pytest.mark.parametrize("change", [{"scale": 0.5}, {"at_once": True}])
def test_task_graphs_keep_their_sizes_and_times(change: dict[str, Any]) -> None:
    made = yaml.safe_load((EXAMPLES / "graph.yaml").read_text())
    made["cases"] = [{**made["cases"][0], **change}]
    with pytest.raises(InputError, match="a task graph"):
        parse_scenario(made, EXAMPLES)


def test_a_scaled_case_has_the_ratios_of_the_whole_one() -> None:
    case = {"generated": {"jobs": [2], "rings": [2]}}
    paper = {"clos": {"spines": 32, "leaves": 64, "hosts_per_leaf": 32}}
    (whole,) = scenario(fabric=paper, cases=[case]).cases
    (part,) = scenario(fabric=paper, cases=[{**case, "scale": 0.001, "at_once": True}]).cases
    for before, after in zip(whole.jobs, part.jobs, strict=True):
        assert after.traffic.bytes == pytest.approx(before.traffic.bytes / 1000, rel=0.001)
        assert (after.compute_seconds, after.start) == (0.0, 0.0)


def test_uneven_hosts_are_drawn_by_each_seed_and_are_for_policies_that_plan() -> None:
    cells = scenario(policies=["greedy", "least_loaded"], allocation=["flow", "hosts", "planned"], seeds=[1, 2]).cells()
    got = sorted({(cell.policy.name, str(cell.allocation), cell.seed) for cell in cells})
    drawn = [("greedy", "hosts", seed) for seed in (1, 2)]
    assert got == [("greedy", "flow", 1), *drawn, ("greedy", "planned", 1), ("least_loaded", "flow", 1)]
    with pytest.raises(InputError, match="makes no plans"):
        scenario(policies=[{"policy": "least_loaded", "allocation": "hosts"}])


def test_a_policy_with_triggers_of_its_own_plans_at_those_alone() -> None:
    sending = {"policy": "greedy", "name": "sending", "planned": "sending", "triggers": ["epoch", "epoch_end"]}
    made = scenario(policies=["fair", sending], triggers=["arrival"])
    assert {cell.policy.name: (cell.triggers, cell.policy.planned) for cell in made.cells()} == {
        "fair": (frozenset({"arrival"}), "present"),
        "sending": (frozenset({"epoch", "epoch_end"}), "sending"),
    }


HEDERA = {
    "policy": "first_fit",
    "name": "hedera",
    "planned": "sending",
    "first": "ecmp",
    "triggers": ["arrival", "failure", "period"],
    "options": {"estimate_demand": True},
}


def test_a_policy_may_plan_only_flows_that_send_at_the_end_of_a_period() -> None:
    made = scenario(policies=["fair", HEDERA], period=1.0)
    (cell,) = [cell for cell in made.cells() if cell.policy.name == "hedera"]
    assert (cell.policy.first, cell.policy.planned, cell.period) == ("ecmp", "sending", 1.0)


@pytest.mark.parametrize(
    "wrong", [{"planned": "present"}, {"triggers": ["arrival", "failure"]}, {"triggers": ["epoch", "period"]}]
)
def test_a_first_policy_requires_a_later_one_for_the_flows_that_send(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="first: 'ecmp': requires 'planned: sending' and the trigger 'period'"):
        scenario(policies=["fair", HEDERA | wrong], triggers=["arrival", "period"], period=1.0)


def test_failed_spines_are_those_of_the_highest_numbers() -> None:
    made = scenario(failed_spines=[2])
    live = made.failures[0].on(made.fabric, 0)
    assert live == made.fabric.without_links(["spine3", "spine4"])
    assert made.failures[0].name == "2 spines"


def test_slow_cables_have_a_part_of_their_capacity_by_name_or_by_switch() -> None:
    made = scenario(slow=[{"names": "leaf1-spine2", "part": 0.1}, {"names": ["spine4"], "part": 0.5}])
    gbps = {name: cable.gbps for name, cable in zip(made.fabric.cable_names, made.fabric.cables, strict=True)}
    slow = {"leaf1-spine2": 10.0, **{f"leaf{n}-spine4": 50.0 for n in range(1, 5)}}
    assert gbps == {**dict.fromkeys(gbps, 100.0), **slow}
    rows = zip(made.fabric.link_ids, made.fabric.link_gbps.tolist(), strict=True)
    assert {name: each for name, each in rows if each != 100} == {
        f"{a}->{b}": each for cable, each in slow.items() for a, b in (cable.split("-"), cable.split("-")[::-1])
    }


def test_a_collective_of_messages_to_the_next_rank_is_a_permutation_of_all_hosts() -> None:
    entry = {"collective": {"op": "send_recv", "algorithms": "direct", "bytes": 1000, "order": "random", "seed": 5}}
    (case,) = scenario(cases=[entry]).cases
    traffic = case.jobs[0].traffic
    assert sorted(traffic.src.tolist()) == sorted(traffic.dst.tolist()) == list(range(16))
    assert (traffic.src != traffic.dst).all()
    assert (traffic.bytes == 1000).all()


def test_failures_may_be_named() -> None:
    made = scenario(failed_spines=[0], failed=["spine2", ["spine1", "leaf1-spine3"]])
    assert [failure.name for failure in made.failures] == ["none", "spine2", "spine1, leaf1-spine3"]
    assert made.failures[2].on(made.fabric, 0) == made.fabric.without_links(["spine1", "leaf1-spine3"])


def test_in_three_layers_failed_spines_are_cores_and_hosts_may_take_turns_by_pod() -> None:
    fabric = {"three_tier": {"pods": 4, "leaves": 2, "aggs": 2, "cores_per_agg": 2, "hosts_per_leaf": 2}}
    turns = {"algorithms": ["ring"], "bytes": [1000], "order": "pods_in_turn", "seed": 3}
    made = scenario(fabric=fabric, cases=[{"collective": turns}], failed_spines=[0, 1])
    assert made.failures[1].name == "1 core"
    assert made.failures[1].on(made.fabric, 0) == made.fabric.without_links(["core4"])
    (job,) = made.cases[0].described
    pods = [made.fabric.pod_of_leaf[made.fabric.host_leaf[made.fabric.host_index[name]]] for name in job.job.hosts]
    assert pods == [0, 1, 2, 3] * 4
    assert len(set(job.job.hosts)) == made.fabric.n_hosts


@pytest.mark.parametrize("order", ["in_order", "random"])
def test_a_drawn_collective_has_a_rank_on_each_nic_and_a_stripe_in_each_plane(order: str) -> None:
    fabric = {"clos": {"spines": 2, "leaves": 2, "hosts_per_leaf": 4, "planes": 2}}
    drawn = {"algorithms": ["ring"], "bytes": [1000], "order": order, "seed": 3, "groups": 2}
    made = scenario(fabric=fabric, cases=[{"collective": drawn}])
    (job,) = made.cases[0].described
    assert sorted(job.job.hosts) == [f"h{n}" for n in range(1, 9)]
    traffic = made.cases[0].jobs[0].traffic
    plane = made.fabric.planes.of_host
    assert (plane[traffic.src] == plane[traffic.dst]).all()
    assert np.bincount(plane[traffic.src]).tolist() == [8, 8]


def test_failed_links_are_drawn_by_the_seed_and_every_policy_sees_every_draw() -> None:
    made = scenario(failed_spines=[0], failed_links=[3], seeds=[1, 2], policies=["fair"])
    down = []
    for cell in made.cells()[1:]:
        live = cell.failure.on(cell.fabric, cell.seed)
        assert (~live.link_up).sum() == 6
        assert live == cell.failure.on(cell.fabric, cell.seed)
        down.append(live.version)
    assert len(set(down)) == 2


def test_splitting_as_much_as_is_allowed_has_a_short_name_and_options_a_long_one() -> None:
    made = scenario(policies=["fair+split", {"policy": "fair", "name": "few", "options": {"max_splits": 4}}])
    assert [(p.name, p.policy, p.options.max_splits) for p in made.policies] == [
        ("fair+split", "fair", ALL_SPLITS),
        ("few", "fair", 4),
    ]


def test_cases_of_qps_with_whole_messages_are_not_for_policies_that_cut_flows() -> None:
    (case,) = document()["cases"]
    with pytest.raises(InputError, match=r"cases\[0\].qp_mode: 'round_robin': QPs of .* option max_splits=1000000000"):
        scenario(cases=[case | {"qps": 2, "qp_mode": "round_robin"}], policies=["fair", "fair+split"])
    scenario(cases=[case | {"qps": 2, "qp_mode": "round_robin"}], policies=["fair", "ecmp"])


def test_asked_policies_take_the_scenarios_options_where_it_has_them(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    named = {"policy": "fair", "name": "few", "options": {"max_splits": 4}}
    import orjson

    path.write_bytes(orjson.dumps(document(policies=["ecmp", named])))
    assert [policy.name for policy in load_scenario(path, ["few", "greedy"]).policies] == ["few", "greedy"]
    assert load_scenario(path, ["few"]).policies[0].options.max_splits == 4
    with pytest.raises(InputError, match="no policy has this name"):
        load_scenario(path, ["fairest"])


def test_missing_files_are_left_out_where_they_are_optional_and_reported() -> None:
    gone = {"folder": "nowhere", "optional": True}
    kept = document()["cases"]
    made = scenario(cases=[{"files": gone}, *kept])
    assert len(made.cases) == 1
    assert "nowhere" in made.notes[0]
    with pytest.raises(InputError, match="the files of all cases are missing"):
        scenario(cases=[{"files": gone}])


def test_equal_cells_have_equal_keys_and_whatever_changes_the_outcome_changes_the_key() -> None:
    def keys(**more: Any) -> set[str]:
        return {key_of(cell) for cell in scenario(**more).cells()}

    base = keys()
    assert base == keys()
    assert len(base) == 2
    changes: list[dict[str, Any]] = [
        {"epochs": 3},
        {"seeds": [5]},
        {"failed_spines": [1]},
        {"allocation": "collective"},
        {"triggers": ["arrival"]},
        {"until": 5.0},
        {"clock_error": 0.001},
        {"changes": [{"at": 1.0, "names": ["spine1"]}]},
        {"fabric": {"clos": {"spines": 4, "leaves": 4, "hosts_per_leaf": 4, "uplink_gbps": 50}}},
        {"cases": [{"collective": {"algorithms": ["direct"], "bytes": [10**8], "groups": 4, "order": "random"}}]},
        {"policies": [{"policy": "fair", "name": "ecmp", "options": {"rounds": 1}}]},
        {"policies": [{"policy": name, "triggers": ["arrival"]} for name in ("ecmp", "fair")]},
        {"policies": [{"policy": name, "planned": "sending"} for name in ("ecmp", "fair")]},
    ]
    for more in changes:
        assert not base & keys(**more), more


@pytest.mark.parametrize(
    ("wrong", "field", "reason"),
    [
        ({"polices": []}, "polices", "unknown key"),
        ({"policies": ["fairest"]}, "policies[0]", "no policy has this name"),
        ({"policies": ["greedy+split"]}, "policies[0]", "does not split flows"),
        ({"policies": ["fair", "fair"]}, "policies[1].name", "two policies"),
        ({"policies": [{"name": "a b", "policy": "fair"}]}, "policies[0].name", "must be letters, digits"),
        ({"name": "a/b"}, "name", "must be letters, digits, spaces"),
        ({"policies": [{"policy": "fair", "options": {"max_split": 1}}]}, "policies[0].option", "did you mean"),
        ({"policies": []}, "policies", "at least 1"),
        ({"failed_spines": [0, 4]}, "failed_spines[1]", "one must remain"),
        ({"failed_spines": [-1]}, "failed_spines[0]", "greater than or equal"),
        ({"failed_links": [16]}, "failed_links[0]", "the fabric has 16 cables"),
        ({"failed": ["spine1", ["spine2", "agg1"]]}, "failed[1][1]", "no switch or link has this name"),
        (
            {"cases": [{"collective": {"algorithms": ["ring"], "bytes": [1], "order": "pods_in_turn"}}]},
            "cases[0].collective.order",
            "needs two or more pods",
        ),
        ({"slow": [{"names": ["spine1", "h1-leaf1"], "part": 0.5}]}, "slow[0].names[1]", "no switch or cable"),
        ({"slow": [{"names": "spine1", "part": 1}]}, "slow[0].part", "less than 1"),
        ({"changes": [{"at": 1.0, "names": ["spine9"]}]}, "changes[0].names[0]", "no switch or link"),
        ({"allocation": "fast"}, "allocation", "input should be"),
        ({"triggers": ["period"]}, "", "require each other"),
        ({"policies": [{"policy": "fair", "triggers": ["period"]}]}, "", "require each other"),
        ({"policies": [{"policy": "fair", "triggers": ["begin"]}]}, "policies[0].triggers[0]", "input should be"),
        (
            {"policies": [{"policy": "fair", "planned": "sending"}], "triggers": ["arrival"]},
            "policies[0].planned",
            "requires the trigger 'epoch'",
        ),
        ({"policies": [{"policy": "least_loaded", "planned": "sending"}]}, "policies[0]", "makes no plans"),
        (
            {"fabric": {"clos": {"spines": 0, "leaves": 2, "hosts_per_leaf": 1}}},
            "fabric.clos.spines",
            "greater than or equal",
        ),
        ({"fabric": 7}, "fabric", "a mapping"),
        ({"cases": [{}]}, "cases[0]", "exactly one"),
        ({"cases": document()["cases"] * 2}, "cases[1].name", "of this name"),
        ({"cases": []}, "cases", "at least 1"),
        ({"cases": [{"generated": {"jobs": 1, "rings": 2}}]}, "cases[0].jobs", "too few"),
        (
            {"cases": [{"generated": {"jobs": 1, "rings": 2, "models": ["GPT"]}}]},
            "cases[0].generated.models[0]",
            "must be one of",
        ),
        (
            {"cases": [{"collective": {"algorithms": "chain", "bytes": 1}}]},
            "cases[0].collective.algorithms[0]",
            "all_reduce supports",
        ),
        ({"cases": [{"files": {"folder": "nowhere"}}]}, "cases[0].files.folder", "the folder does not exist"),
        ({"seeds": "many"}, "seeds", "integer"),
    ],
)
def test_errors_are_reported_with_file_and_field(
    wrong: dict[str, Any], field: str, reason: str, tmp_path: Path
) -> None:
    import yaml

    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(document(**wrong)))
    with pytest.raises(InputError) as told:
        load_scenario(path)
    assert told.value.source == str(path)
    assert told.value.field.startswith(field)
    assert reason in told.value.reason
    assert "\n" not in str(told.value)


def test_a_job_file_that_is_wrong_is_reported_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"name": "a", "host": []}')
    with pytest.raises(InputError) as told:
        scenario(tmp_path, cases=[{"jobs": [{"job": "job.json"}]}])
    assert told.value.source == str(tmp_path / "job.json")
    assert told.value.field == "host"


def test_adaptive_baselines_are_the_simulators_alone_and_take_one_option() -> None:
    made = scenario(
        policies=["power_of_two", {"policy": "least_loaded", "name": "stale", "options": {"view_seconds": 0.5}}],
        allocation=["flow", "paced"],
        seeds=[1, 2],
    )
    fresh, stale = made.policies
    assert (fresh.adaptive, stale.adaptive) == (Adaptive("power_of_two"), Adaptive("least_loaded", 0.5))
    # Only what draws is repeated, and nothing is split.
    assert [(cell.policy.name, cell.seed, str(cell.allocation)) for cell in made.cells()] == [
        ("power_of_two", 1, "flow"),
        ("power_of_two", 2, "flow"),
        ("stale", 1, "flow"),
    ]
    assert "least_loaded" not in POLICIES
    for options, field in (({"rounds": 3}, "rounds"), ({"view_seconds": -1.0}, "view_seconds")):
        with pytest.raises(InputError) as error:
            scenario(policies=[{"policy": "least_loaded", "options": options}])
        assert error.value.field == f"policies[0].options.{field}"


def test_a_job_can_stand_in_the_scenario_itself_and_is_reported_by_its_field() -> None:
    job = {"name": "j", "hosts": ["h1", "h5"], "collectives": [{"name": "c", "op": "all_reduce", "ranks": [0, 1]}]}
    with pytest.raises(InputError) as error:
        scenario(cases=[{"jobs": [{"job": job}]}])
    assert error.value.field == "cases[0].jobs[0].job.collectives[0].bytes"
    job["collectives"] = [{"name": "c", "op": "all_reduce", "ranks": [0, 1], "bytes": 1000}]
    (case,) = scenario(cases=[{"jobs": [{"job": job, "compute_seconds": 0.5}]}]).cases
    assert [(each.name, each.compute_seconds, each.traffic.n_flows) for each in case.jobs] == [("j", 0.5, 2)]
