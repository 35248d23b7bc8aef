"""Shifts of iterations on packets: they begin at the times of the plan's grids, as in the fluid simulator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.timing import IterationGrid, JobShift, Schedule
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result
from emulation.fluid.simulator import Planner
from emulation.packets.settings import EventCore, PacketSettings
from tests.unit.emulation.packets.runs import packets, sends, simulated

COMPUTE, SIZE = 1e-4, 1_250_000
"""Seconds before each iteration's transfer, and its bytes, which take 102 microseconds on 100 Gbit/s with headers."""

GRIDS = st.lists(
    st.tuples(st.floats(2e-5, 6e-4), st.floats(0.0, 1.0, exclude_max=True), st.booleans()), min_size=2, max_size=2
)


def planner(grids: list[IterationGrid]) -> Planner:
    """Return a planner with one path, by which iterations of jobs a and b begin at the times of these grids."""
    rows = [
        JobShift(name, grid.period_seconds, grid.shift_seconds, grid.hold, grid.period_seconds, 1.0)
        for name, grid in zip("ab", grids, strict=True)
    ]

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        paths = np.zeros(traffic.n_flows, dtype=np.int32)
        return Result(Assignment.single(paths), schedule=Schedule(tuple(rows), 1.0, 1.0))

    return plan


@settings(max_examples=15, deadline=None)
@given(drawn=GRIDS, core=st.sampled_from(list(EventCore)))
def test_iterations_begin_at_the_times_of_the_grid(drawn: list[tuple[float, float, bool]], core: EventCore) -> None:
    """The first at a time of the grid; the next at the nearest one to its end if it holds, or at once."""
    grids = [IterationGrid(period, part * period, hold) for period, part, hold in drawn]
    jobs = simulated(
        clos(1, 2, 2), [sends("a", "h1", "h3", SIZE), sends("b", "h2", "h4", SIZE)], compute=COMPUTE, epochs=4
    )
    results = packets(clos(1, 2, 2), jobs, planner(grids), settings=PacketSettings(core=core))
    for name, grid in zip("ab", grids, strict=True):
        own = [epoch for epoch in results.epochs if epoch.job == name]
        assert len(own) == 4
        # One job ends before the other one: it is planned without it, by the same grid.
        begin = grid.first(0.0)
        for epoch in own:
            assert epoch.began - COMPUTE == pytest.approx(begin, abs=1e-9)
            begin = grid.after(epoch.ended)


def test_jobs_that_share_a_link_send_in_turns() -> None:
    fabric = clos(1, 2, 2)
    jobs = simulated(fabric, [sends("a", "h1", "h3", SIZE), sends("b", "h2", "h4", SIZE)], compute=COMPUTE, epochs=6)
    period = 2.1 * COMPUTE
    for shift, alone in ((0.0, False), (period / 2, True)):
        grids = [IterationGrid(period, 0.0, True), IterationGrid(period, shift, True)]
        took = [epoch.seconds for epoch in packets(fabric, jobs, planner(grids)).epochs]
        assert (max(took) < 1.2 * COMPUTE) is alone
