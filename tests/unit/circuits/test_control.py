"""The controller's side of circuits: rules, tables of servers, and plans of jobs that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controller.circuits.control.job_plans import (
    WORTH_A_CHANGE,
    NamedJob,
    plan_jobs,
    served,
    way_to,
    with_circuits,
)
from controller.circuits.control.panel_rules import circuits_in, rules_of, without_conflicts
from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning import circuit_plan
from controller.circuits.planning.search import search
from controller.circuits.southbound.server_table import ServerTable, table_rounds, whole_table
from controller.model.errors import InputError
from controller.workload.job_file import parse_job

FABRIC = parse_optical_fabric({"optical": {"servers": 6, "nics": 2}})
OPTIONS: dict[str, Any] = {"seed": 0, "effort": 0.02, "paths": 2}


def named(name: str, servers: Sequence[int], size: int = 1000) -> NamedJob:
    ranks = list(range(len(servers)))
    calls = [
        {"name": "dp", "op": "all_reduce", "ranks": ranks, "bytes": size},
        {"name": "mp", "op": "all_to_all", "ranks": ranks, "bytes": size},
    ]
    job = parse_job({"name": name, "hosts": [f"h{i + 1}" for i in servers], "collectives": calls})
    return NamedJob(f"{name}-{size}", job)


def test_rules_of_circuits_are_read_as_the_same_circuits() -> None:
    made = plan_jobs(FABRIC, [named("a", range(6))], {}, clock=lambda: 0.0, **OPTIONS)
    circuits = frozenset(made.plan.shards[0].circuits)
    rules = rules_of(FABRIC, circuits)
    assert circuits_in(FABRIC, rules) == circuits
    assert list(rules) == list(FABRIC.dpids)
    assert circuits_in(FABRIC, rules_of(FABRIC, ())) == frozenset()
    assert without_conflicts(circuits, circuits) == circuits


def test_a_job_that_comes_or_goes_leaves_the_circuits_of_others_alone() -> None:
    clock = lambda: 0.0  # noqa: E731
    first = plan_jobs(FABRIC, [named("a", range(3))], {}, clock=clock, **OPTIONS)
    lit = with_circuits(FABRIC, first.plan.shards[0].circuits)
    both = plan_jobs(lit, [named("a", range(3)), named("b", range(3, 6))], first.shards, clock=clock, **OPTIONS)
    assert both.plan.shards[0] is first.plan.shards[0]
    assert both.plan.removed == ()
    stages, lossy = way_to(both.plan, 0)
    assert (len(stages), lossy) == (2, "") or len(stages) == 1
    gone = plan_jobs(lit, [named("b", range(3, 6))], both.shards, clock=clock, **OPTIONS)
    assert gone.plan.shards[0] is both.plan.shards[1]
    # A plan follows from the file and the jobs alone.
    again = plan_jobs(FABRIC, [named("b", range(3, 6))], {}, clock=clock, **OPTIONS)
    assert again.plan.shards[0].circuits == gone.plan.shards[0].circuits
    with pytest.raises(InputError, match="no server of the fabric has this name"):
        plan_jobs(FABRIC, [named("a", [0, 17])], {}, clock=clock, **OPTIONS)


def test_routes_lead_around_a_failed_circuit_and_what_is_cut_off_is_said() -> None:
    made = plan_jobs(FABRIC, [named("a", range(6))], {}, clock=lambda: 0.0, **OPTIONS)
    (plan,) = made.plan.shards
    usable = frozenset(plan.circuits)
    assert served(FABRIC, [plan], usable, 0).shards == (plan,)
    around = served(FABRIC, [plan], usable - {plan.circuits[0]}, 0)
    assert around.cut_off == ()
    assert plan.circuits[0] not in around.shards[0].circuits
    assert around.shards[0].seconds >= plan.seconds
    # Nothing leads into the first server any more.
    into = {each for each in usable if FABRIC.ends(each)[1][0] == 0}
    cut = served(FABRIC, [plan], usable - into, 0)
    assert (cut.shards, [shard.jobs for shard in cut.cut_off]) == ((), [("a",)])


def test_the_rounds_of_a_change_end_in_the_whole_table() -> None:
    options = {**OPTIONS, "paths": 2}
    old, new = (
        plan_jobs(FABRIC, [named("a", range(6), size)], {}, clock=lambda: 0.0, **{**options, "seed": seed})
        for size, seed in ((1000, 0), (5000, 3))
    )
    before, after = old.plan.shards[0], new.plan.shards[0]
    for server in range(6):
        table = ServerTable().after(whole_table(before, server))
        for turn in table_rounds(after):
            table = table.after(turn[server])
        wanted = ServerTable().after(whole_table(after, server))
        assert wanted.routes.items() <= table.routes.items()
        assert wanted.neighbours.items() <= table.neighbours.items()


def test_circuits_are_planned_anew_without_a_dead_port_only_if_that_pays() -> None:
    job, clock = [named("a", range(6))], lambda: 0.0
    first = plan_jobs(FABRIC, job, {}, clock=clock, **OPTIONS)
    (plan,) = first.plan.shards
    for nic in [(server, number) for server in range(6) for number in range(2)]:
        dead = frozenset({nic})
        made = plan_jobs(FABRIC, job, first.shards, clock=clock, dead=dead, **OPTIONS)
        (chosen,) = made.plan.shards
        usable = frozenset(each for each in plan.circuits if nic not in FABRIC.ends(each))
        around = served(FABRIC, [plan], usable, 0).shards
        if chosen is plan:
            anew = made.shards[chosen.shard.servers, (("a", "a-1000"),), (nic,)]
            assert around
            assert anew.seconds > WORTH_A_CHANGE * around[0].seconds
        else:
            assert all(nic not in FABRIC.ends(each) for each in chosen.circuits)
            assert not around or chosen.seconds <= WORTH_A_CHANGE * around[0].seconds
        # A controller that begins with the port down makes the same, and one whose port is back the first.
        again = plan_jobs(FABRIC, job, {}, clock=clock, dead=dead, **OPTIONS)
        assert again.plan.shards[0].circuits == chosen.circuits
        assert plan_jobs(FABRIC, job, made.shards, clock=clock, **OPTIONS).plan.shards == (plan,)


def test_a_server_that_a_dead_port_cuts_off_gets_other_circuits() -> None:
    """Between pairs that send nearly all, both NICs of a server lead to one other server."""
    calls = [{"name": "dp", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 3000}]
    flows = [{"src": f"h{a}", "dst": f"h{b}", "bytes": 10**9} for a, b in ((1, 2), (2, 1), (3, 4), (4, 3))]
    job = parse_job({"name": "a", "hosts": ["h1", "h2", "h3", "h4"], "collectives": calls, "flows": flows})
    named_job, clock = [NamedJob("1", job)], lambda: 0.0
    first = plan_jobs(FABRIC, named_job, {}, clock=clock, **OPTIONS)
    (plan,) = first.plan.shards
    cut_off = 0
    for nic in [(server, number) for server in range(4) for number in range(2)]:
        usable = frozenset(each for each in plan.circuits if nic not in FABRIC.ends(each))
        made = plan_jobs(FABRIC, named_job, first.shards, clock=clock, dead=frozenset({nic}), **OPTIONS)
        if not served(FABRIC, [plan], usable, 0).shards:
            cut_off += 1
            assert not any(nic in FABRIC.ends(each) for each in made.plan.shards[0].circuits)
            assert served(FABRIC, made.plan.shards, frozenset(made.plan.shards[0].circuits), 0).cut_off == ()
    assert cut_off


def test_dead_ports_without_which_nothing_can_be_planned_leave_the_plan_as_it_is() -> None:
    job, clock = [named("a", range(6))], lambda: 0.0
    first = plan_jobs(FABRIC, job, {}, clock=clock, **OPTIONS)
    dead = frozenset({(0, 0), (0, 1)})
    made = plan_jobs(FABRIC, job, first.shards, clock=clock, dead=dead, **OPTIONS)
    assert made.plan.shards == first.plan.shards


def test_equal_jobs_share_one_search_wherever_their_ranks_are() -> None:
    searches = []
    job = [named("a", [0, 1, 2]), named("b", [5, 3, 4])]

    def choose(*arguments: Any) -> Any:
        searches.append(arguments)
        return search(*arguments[:4])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(circuit_plan, "_candidate", lambda _, layers, demand, *rest: choose(layers, demand, *rest))
        one, other = plan_jobs(FABRIC, job, {}, clock=lambda: 0.0, **OPTIONS).plan.shards
    assert len(searches) == 1
    assert other.shard.servers == (5, 3, 4)
    assert (one.succ.tolist(), one.seconds) == (other.succ.tolist(), other.seconds)
    alone = plan_jobs(FABRIC, job[1:], {}, clock=lambda: 0.0, **OPTIONS).plan.shards[0]
    assert alone.circuits == other.circuits
    # Other bytes, or a dead NIC, are another search.
    made = plan_jobs(FABRIC, [named("a", [0, 1, 2]), named("b", [5, 3, 4], 1001)], {}, clock=lambda: 0.0, **OPTIONS)
    assert made.plan.shards[1].seconds > made.plan.shards[0].seconds
