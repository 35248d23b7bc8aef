"""Classes of priority in the packet engine."""

from __future__ import annotations

import dataclasses

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.priority import SHARE
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.routing import Options, PreviousPlan, Result, assign
from controller.workload.job_file import parse_job
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import Planner
from emulation.packets.engine import PacketResults
from emulation.packets.input_file import write_input
from emulation.packets.live_plan import LivePlan
from emulation.packets.settings import EventCore, PacketSettings
from tests.unit.emulation.packets.runs import on_path, packets, sends

ONE_LINK = clos(1, 2, 4)
GBPS = float(ONE_LINK.link_gbps[0])
SEND = 0.002
"""Seconds for which a job of these tests sends alone, with headers."""


def jobs(
    first: int, second: int, *, second_host: str = "h2", compute: float = 1.04 * SEND, epochs: int = 9
) -> tuple[SimulatedJob, ...]:
    """Return two jobs of these classes, of which the second begins in the middle of the first one's sending.

    They compute a little longer than they send: else the gaps of one are too short for the other.
    """
    chosen, made = PacketSettings(), []
    size = round(SEND * GBPS / GBIT * chosen.packets.mtu / chosen.packet_bytes)
    for name, host, priority, start in (("a", "h1", first, 0.0), ("b", second_host, second, SEND / 2)):
        job = dataclasses.replace(sends(name, host, f"h{len(made) + 5}", size), priority=priority)
        made.append(TimedJob(job, compute, epochs, start))
    return simulated_jobs(ONE_LINK, made)


def seconds(results: PacketResults, name: str) -> float:
    """Return the mean length of an iteration of a job, after its first two."""
    own = [epoch for epoch in results.epochs if epoch.job == name][2:]
    return (own[-1].ended - own[0].ended) / (len(own) - 1)


@pytest.mark.parametrize("host", ["h1", "h2"])
@pytest.mark.parametrize("core", list(EventCore))
def test_two_equal_jobs_find_their_gap_on_packets(host: str, core: EventCore) -> None:
    chosen = PacketSettings(core=core)
    alone = seconds(packets(ONE_LINK, jobs(0, 0, second_host=host)[:1], on_path(0), settings=chosen), "a")
    apart = packets(ONE_LINK, jobs(1, 0, second_host=host), on_path(0), settings=chosen)
    alike = packets(ONE_LINK, jobs(0, 0, second_host=host), on_path(0), settings=chosen)
    for name in "ab":
        assert seconds(apart, name) <= alone * 1.05
        assert seconds(alike, name) >= alone * 1.2


def by_fair(options: Options) -> Planner:
    """Return a planner: the policy ``fair`` with these options."""

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign("fair", fabric, traffic, previous=previous, options=options)

    return plan


@pytest.mark.parametrize("core", list(EventCore))
def test_chosen_classes_let_two_equal_jobs_find_their_gap_on_packets(core: EventCore) -> None:
    chosen, both = PacketSettings(core=core), jobs(0, 0)
    alone = seconds(packets(ONE_LINK, both[:1], by_fair(Options()), settings=chosen), "a")
    without = packets(ONE_LINK, both, by_fair(Options()), settings=chosen)
    classed = packets(ONE_LINK, both, by_fair(Options(classes=2)), settings=chosen)
    for name in "ab":
        assert seconds(without, name) >= alone * 1.2
        assert seconds(classed, name) <= alone * 1.05


def test_chosen_classes_follow_the_plans_of_the_jobs_that_are_there() -> None:
    both = jobs(0, 0)
    plan = LivePlan(ONE_LINK, both, by_fair(Options(classes=2)))
    first = plan.answer("arrival", 0.0, [0])
    second = plan.answer("arrival", SEND / 2, [0, 1])
    assert not [line for line in first if line.startswith("class")]
    chosen = [line.split()[1:] for line in second if line.startswith("class")]
    assert len(chosen) == 1
    assert chosen[0][1] == "1"
    # The class comes before rows, so that new connections have it from the first packet on.
    kinds = [line.split()[0] for line in second]
    assert kinds.index("class") < kinds.index("row")
    assert plan.answer("end", 1.0, [int(chosen[0][0])]) == []
    assert f"class {chosen[0][0]} 0" in plan.answer("links", 1.5, [int(chosen[0][0])])


def test_stated_classes_stay_beside_chosen_ones() -> None:
    both = jobs(2, 0)
    plan = LivePlan(ONE_LINK, both, by_fair(Options(classes=4)))
    lines = plan.answer("arrival", 0.0, [0, 1])
    assert not [line for line in lines if line.startswith("class 0 ")]


def test_a_full_higher_class_leaves_the_lower_one_its_floor() -> None:
    results = packets(ONE_LINK, jobs(1, 0, compute=0.0, epochs=1), on_path(0))
    ended = {epoch.job: epoch.ended for epoch in results.epochs}
    assert ended["a"] <= SEND * (1 + 3 / SHARE) * 1.05
    assert ended["b"] == pytest.approx(2 * SEND, rel=0.08)


def test_the_input_names_classes_above_the_lowest_one_only() -> None:
    lines = write_input(ONE_LINK, jobs(2, 0), PacketSettings()).splitlines()
    words = [len(line.split()) for line in lines if line.startswith("flow ")]
    assert words == [6, 5]


def test_exchanges_before_gradients_of_earlier_layers_make_iterations_shorter_on_packets() -> None:
    """Two layers: an exchange, then backward passes of 2 units, each with exchanges and gradients of 2 behind it.

    Gradients may take until the end. If exchanges go first, those of the first layer fit beside the second's computing.
    """
    unit = SEND / 4
    size = round(unit * GBPS / GBIT * PacketSettings().packets.mtu / PacketSettings().packet_bytes)

    def took(exchanges: int, gradients: int) -> float:
        rows = [
            ("ep1", 2, 0, "h1", "h5"),
            ("dp1", 2, 0, "h2", "h6"),
            ("ep2", 1, 1, "h1", "h5"),
            ("dp2", 1, 1, "h2", "h6"),
        ]
        job = {
            "name": "a",
            "flows": [
                {"src": src, "dst": dst, "bytes": units * size, "collective": name} for name, units, _, src, dst in rows
            ],
            "phases": {name: phase for name, _, phase, _, _ in rows},
            "classes": {name: exchanges if name.startswith("ep") else gradients for name, *_ in rows},
            "compute_seconds": {"0": unit, "1": 2 * unit},
            "until": {"dp1": "end"},
        }
        made = simulated_jobs(ONE_LINK, [TimedJob(parse_job(job), epochs=5)])
        return seconds(packets(ONE_LINK, made, on_path(0)), "a") / unit

    # 1 + 2 + 2 + 2, and 1 + 4 + 2 + 2 where all share the link.
    assert took(1, 0) <= 7.0 * 1.05
    assert took(0, 0) >= 8.0
