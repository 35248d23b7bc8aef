"""The event loop's runtime: threads that give way soon, and offloaded work in turn."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from controller import ryu_compat

ryu_compat.prepare()

from ryu.lib import hub  # noqa: E402 (Ryu first)

from controller.southbound.openflow.runtime import FULL_COLLECTION, SWITCH_INTERVAL, EventletRuntime  # noqa: E402


@pytest.fixture
def restored() -> Iterator[None]:
    """The interpreter's settings are as before afterwards."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    gc.unfreeze()


@pytest.mark.usefixtures("restored")
def test_once_started_threads_give_way_ten_times_sooner_and_the_oldest_objects_are_collected_by_the_clock() -> None:
    python_default = 0.005
    runtime = EventletRuntime()
    runtime.start()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
    assert python_default / 10 >= SWITCH_INTERVAL
    # No number of young objects sets off a look at every object.
    assert gc.get_threshold()[2] * FULL_COLLECTION > 1e9
    assert gc.isenabled()


def test_work_in_turn_runs_beside_the_event_loop_and_one_at_a_time() -> None:
    runtime = EventletRuntime()
    inside, most, threads = [0], [0], set[int]()
    from eventlet import patcher

    real = patcher.original("threading")

    def work(number: int) -> int:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threads.add(real.get_ident())
        runtime.rest()
        inside[0] -= 1
        return number * number

    waiting = [hub.spawn(lambda n=n: results.__setitem__(n, runtime.offload_in_turn(work, n))) for n in range(20)]
    results: dict[int, int] = {}
    for each in waiting:
        each.wait()
    assert results == {n: n * n for n in range(20)}
    assert most[0] == 1
    assert real.get_ident() not in threads
