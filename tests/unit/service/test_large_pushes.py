"""Jobs that take long to expand: other changes go on meanwhile; what no port or room is left for is refused early."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from controller.core.ports.api import UNCONDITIONAL
from controller.model.errors import InputError, UnavailableError
from controller.model.files.clos import clos
from controller.service.reconciling import admission
from controller.workload import expand as expansion
from controller.workload.job_file import parse_job
from controller.workload.source_ports import port_choice
from tests.unit.service.world import ANN, PATIENCE_SECONDS, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(2, 2, 2)
MANY = [flow("h1", "h3") | {"udp_src": 50000}]


class Slow:
    """Makes the expansion of job ``large`` call ``meanwhile`` before it ends, each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
        self.calls = 0
        admit = admission.admit

        def slow(name: str, *args: Any) -> Any:
            traffic = admit(name, *args)
            if name == "large":
                self.calls += 1
                meanwhile()
            return traffic

        monkeypatch.setattr(admission, "admit", slow)


def new_world(**settings: Any) -> World:
    return World(FABRIC, seen(FABRIC), **settings).planned()


def in_a_thread(change: Callable[[], Any]) -> None:
    """Make a change in another thread, and wait for its answer."""
    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "a change waited for the job that is being expanded"


def test_other_changes_go_on_while_a_large_job_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()

    def changes() -> None:
        in_a_thread(lambda: world.put("small", [flow("h2", "h4")]))
        in_a_thread(lambda: world.service.set_mode("ecmp", None, ANN))
        in_a_thread(lambda: world.delete("small"))

    slow = Slow(monkeypatch, changes)
    assert world.put("large", MANY).created
    assert slow.calls == 1
    assert list(world.store.jobs) == ["large"]
    assert world.service.state.desired.mode == "ecmp"


def test_a_large_job_is_refused_for_a_port_that_was_taken_while_it_was_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = new_world()
    slow = Slow(monkeypatch, lambda: in_a_thread(lambda: world.put("small", MANY)))
    with pytest.raises(InputError, match="small/all/0 from h1 to h3 already has this port"):
        world.put("large", MANY)
    assert slow.calls == 1
    assert list(world.store.jobs) == ["small"]


def test_a_large_job_gets_other_ports_where_its_own_were_taken_while_it_was_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = new_world()
    wanted = int(expansion.expand(FABRIC, parse_job({"flows": [flow("h1", "h3")]}, name="large")).udp_src[0])
    taken = [flow("h1", "h3") | {"udp_src": wanted}]
    slow = Slow(monkeypatch, lambda: in_a_thread(lambda: world.put("small", taken)))
    world.put("large", [flow("h1", "h3")])
    assert slow.calls == 2
    assert int(world.store.jobs["large"].ports[0]) != wanted


def test_a_large_job_is_refused_for_room_that_was_taken_while_it_was_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world(max_flows=3)
    Slow(monkeypatch, lambda: in_a_thread(lambda: world.put("small", [flow("h2", "h4"), flow("h4", "h2")])))
    with pytest.raises(InputError, match="the number of its flows is 2; at most 1 more are allowed"):
        world.put("large", [flow("h1", "h3"), flow("h3", "h1")])
    assert list(world.store.jobs) == ["small"]


def test_a_job_whose_ports_are_taken_again_and_again_is_to_be_pushed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()
    seen_ports: list[int] = []

    def take() -> None:
        others = world.service.state.desired.without_job("large").traffic
        traffic = expansion.expand(FABRIC, parse_job({"flows": [flow("h1", "h3")]}, name="large"), others)
        seen_ports.append(int(traffic.udp_src[0]))
        stolen = [flow("h1", "h3") | {"udp_src": seen_ports[-1]}]
        in_a_thread(lambda: world.put(f"small{len(seen_ports)}", stolen))

    Slow(monkeypatch, take)
    with pytest.raises(UnavailableError, match="push it again"):
        world.put("large", [flow("h1", "h3")])
    assert "large" not in world.store.jobs
    assert len(set(seen_ports)) == len(seen_ports)


def small_collectives(count: int) -> dict[str, Any]:
    """A job of many collectives between the same two hosts."""
    rows = [{"name": f"c{i}", "op": "all_reduce", "ranks": [0, 1], "bytes": 1000} for i in range(count)]
    return {"hosts": ["h1", "h3"], "collectives": rows}


def test_more_collectives_than_a_pair_of_hosts_has_ports_are_refused_before_ports_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_choice(*_args: Any) -> Any:
        raise AssertionError("ports were looked for")

    monkeypatch.setattr(port_choice, "first_choice", no_choice)
    with pytest.raises(InputError, match="more flows from h1 to h3 than UDP source ports"):
        expansion.expand(FABRIC, parse_job(small_collectives(16_385), name="many"))


def test_collectives_that_send_nothing_count_too() -> None:
    idle = [{"name": f"c{i}", "op": "all_reduce", "ranks": [0], "bytes": 1000} for i in range(50)]
    job = parse_job({"hosts": ["h1"], "collectives": idle}, name="idle")
    with pytest.raises(InputError, match="the number of its flows is 50; at most 49 more are allowed"):
        expansion.expand(FABRIC, job, max_flows=49)
    assert expansion.expand(FABRIC, job, max_flows=50).n_flows == 0


def calls_to_put(world: World, count: int) -> int:
    """The calls of functions that parse and expand a job of many collectives."""
    made = [0]

    def count_call(_frame: FrameType, event: str, _arg: object) -> None:
        made[0] += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        world.service.put_job(f"many{count}", json.dumps(small_collectives(count)).encode(), UNCONDITIONAL, ANN)
    finally:
        sys.setprofile(None)
    return made[0]


def test_the_work_for_a_job_of_many_small_collectives_grows_with_their_number() -> None:
    world = new_world()
    calls_to_put(world, 10)
    few, many = (calls_to_put(world, count) for count in (250, 2000))
    assert many < 9 * few
