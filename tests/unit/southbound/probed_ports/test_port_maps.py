"""Laws of maps of ports and of the states of a fabric in which they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import MAX_PORT
from controller.southbound.probed_ports.port_maps import MOST_MAPS, PortMaps, map_name
from tests.unit.strategies import fabrics, pod_fabrics

either = st.one_of(fabrics(failures=False, min_leaves=2), pod_fabrics())


@given(fabric=either, data=st.data())
def test_a_cable_changes_the_name_just_where_it_is_on_a_path_and_its_repair_gives_it_back(
    fabric: Fabric, data: st.DataObject
) -> None:
    cable = data.draw(st.sampled_from(fabric.cable_names))
    after = fabric.without_links([cable])
    for src in range(fabric.n_leaves):
        for dst in range(fabric.n_leaves):
            if src == dst:
                continue
            changed = fabric.live_paths(src, dst).tolist() != after.live_paths(src, dst).tolist()
            assert (map_name(fabric, src, dst) != map_name(after, src, dst)) == changed
            assert map_name(fabric, src, dst) != map_name(fabric, dst, src)


def report(name: str, ports: dict[int, int], host: str = "h1") -> dict[str, Any]:
    rows = [{"port": port, "path": path, "seconds": 0.1} for port, path in ports.items()]
    return {"host": host, "pairs": [{"dst": "10.0.2.1", "map": name, "ports": rows}]}


maps = st.dictionaries(st.integers(1, MAX_PORT), st.integers(0, 7), max_size=4)


@given(reports=st.lists(st.tuples(st.sampled_from("abc"), maps), max_size=9))
def test_what_was_learned_last_holds_in_its_own_state_alone(reports: list[tuple[str, dict[int, int]]]) -> None:
    kept, expected = PortMaps(), {name: dict[int, int]() for name in "abc"}
    for name, ports in reports:
        kept.take(report(name, ports))
        expected[name] |= ports
    for name in "abc":
        assert kept.ports("h1", "10.0.2.1", name) == expected[name]
        assert not kept.ports("h2", "10.0.2.1", name)


def test_the_states_that_were_learned_last_are_kept() -> None:
    kept = PortMaps()
    for name in [*map(str, range(MOST_MAPS)), "0", "new"]:
        kept.take(report(name, {50000: 1}))
    assert [name for name in ["0", "1", "2", "new"] if kept.ports("h1", "10.0.2.1", name)] == ["0", "2", "new"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"host": 1}, "host: 1: has the wrong type"),
        ({"pairs": None}, "pairs: has no pairs"),
        ({"pairs": [{"dst": "10.0.2.1", "ports": []}]}, "pairs[0].map: has no map"),
        ({"pairs": [report("a", {0: 1})["pairs"][0]]}, "pairs[0].ports[0].port: 0: is not a port"),
        ({"pairs": [report("b", {7: 1})["pairs"][0], 5]}, "pairs[1]: 5: is not an object"),
    ],
)
def test_a_report_that_is_wrong_changes_nothing(change: dict[str, Any], message: str) -> None:
    kept = PortMaps()
    kept.take(report("a", {50000: 1}))
    with pytest.raises(InputError) as refused:
        kept.take({**report("a", {1: 2}), **change})
    assert message in str(refused.value)
    assert kept.ports("h1", "10.0.2.1", "a") == {50000: 1}
    assert not kept.ports("h1", "10.0.2.1", "b")
