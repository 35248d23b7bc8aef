"""Laws of what routes of routers show of cables."""

from __future__ import annotations

from ipaddress import IPv6Network

from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from tests.unit.southbound.bgp.bgp_routes import bgp_routes
from tests.unit.southbound.bgp.heard_routers import Heard
from tests.unit.southbound.plans import patient
from tests.unit.strategies import fabrics, pod_fabrics

any_fabric = st.one_of(fabrics(failures=False), pod_fabrics())


@st.composite
def several_down(draw: st.DrawFn, fabric: Fabric) -> set[int]:
    cables = range(len(fabric.cables))
    return draw(st.sets(st.sampled_from(cables), max_size=3)) if cables else set()


@patient
@given(any_fabric, st.data())
def test_routes_of_all_routers_show_exactly_which_cables_work(fabric: Fabric, data: st.DataObject) -> None:
    heard = Heard(fabric)
    heard.begin([switch.name for switch in fabric.switches])
    every = set(range(len(fabric.cables)))
    heard.tell(())
    assert heard.reach.signs.keys() == every
    assert heard.down() == set()
    for _ in range(3):
        heard.later()
        down = data.draw(several_down(fabric))
        heard.tell(down)
        # At once: all of these cables had been seen to work.
        assert heard.down() == down
        assert heard.reach.signs.keys() == every
        for cable in down:
            ends = {fabric.cables[cable].lower, fabric.cables[cable].upper}
            assert set(heard.reach.signs[cable].lacking) == ends


@patient
@given(any_fabric, st.data())
def test_nothing_is_wrong_that_routers_with_a_session_show_and_nothing_shown_of_others(
    fabric: Fabric, data: st.DataObject
) -> None:
    heard, names = Heard(fabric), [switch.name for switch in fabric.switches]
    some = data.draw(st.sets(st.sampled_from(names)))
    heard.begin(some)
    down = data.draw(several_down(fabric))
    heard.tell(down)
    assert heard.down() == set(), "what a router does not tell may be still to come"
    heard.later()
    signs = heard.reach.signs
    assert heard.down() <= down
    assert {cable for cable, sign in signs.items() if sign.up} <= set(range(len(fabric.cables))) - down
    for cable in signs:
        assert some & {fabric.cables[cable].lower, fabric.cables[cable].upper}
    for name in some:
        heard.end(name)
    assert heard.reach.signs == {}


@given(st.data())
def test_what_one_router_says_concerns_its_own_cables_only_and_hides_none_that_is_down(data: st.DataObject) -> None:
    fabric = clos(3, 3, 1)
    heard = Heard(fabric)
    names = [switch.name for switch in fabric.switches]
    heard.begin(names)
    heard.tell(())
    heard.later()
    down = data.draw(several_down(fabric))
    heard.tell(down)
    liar = data.draw(st.sampled_from(names))
    prefixes = [heard.ids.prefix(heard.ids.switch(layer, n)) for layer in (0, 1) for n in range(3)]
    paths = st.lists(st.sampled_from([*heard.asns.values(), 1]), max_size=3).map(tuple)
    for _ in range(5):
        heard.reach.takes(liar, data.draw(st.sampled_from(prefixes)), data.draw(paths), heard.now)
    own = {c for c, cable in enumerate(fabric.cables) if liar in (cable.lower, cable.upper)}
    assert down <= heard.down()
    assert heard.down() <= down | own


def test_a_path_by_other_as_numbers_is_told_and_says_nothing_of_the_cable() -> None:
    heard = Heard(clos(2, 2, 1))
    spine = heard.ids.prefix(heard.ids.switch(1, 0))
    heard.begin(["leaf1"])
    heard.reach.takes("leaf1", spine, (heard.asns["leaf1"], 65000), 0.0)
    heard.later()
    assert heard.reach.signs == {}
    assert heard.reach.foreign == [f"leaf1 reaches {spine} by AS 4220000000 65000 and not 4220000000 4200000000"]
    # The neighbour may make its path longer.
    heard.reach.takes("leaf1", spine, (heard.asns["leaf1"], *[heard.asns["spine1"]] * 3), 9.0)
    assert heard.reach.foreign == []
    assert heard.reach.signs[0].up


def test_a_router_that_reaches_no_neighbour_is_taken_to_withhold_ids() -> None:
    fabric = clos(2, 2, 1)
    heard = Heard(fabric)
    heard.begin(["leaf1"])
    heard.later()
    assert heard.reach.signs == {}
    heard.tell([fabric.cable_names.index("leaf1-spine2")])
    assert heard.down() == {fabric.cable_names.index("leaf1-spine2")}


def _lies(heard: Heard, liar: str, lies: list[tuple[str, int, list[int]]]) -> None:
    """A router ends and begins sessions, and tells any paths to ids that there are and to others."""
    prefixes = sorted({prefix for row in bgp_routes(heard.ids, ()).values() for prefix in row if prefix.version == 6})
    for kind, number, path in lies:
        heard.now += 0.1
        if kind == "flap":
            heard.reach.ended(liar, heard.now)
            heard.reach.began(liar, heard.now)
        elif kind == "flood":
            for each in range(100):
                heard.reach.takes(liar, IPv6Network(((number << 100) + (each << 64), 64)), tuple(path), heard.now)
        elif kind == "later":
            heard.later()
        else:
            prefix = IPv6Network(prefixes[number % len(prefixes)])
            heard.reach.takes(liar, prefix, tuple(path), heard.now)


@patient
@given(st.data())
def test_a_router_that_lies_flaps_and_floods_changes_its_own_cables_only_and_is_forgotten_when_it_ends(
    data: st.DataObject,
) -> None:
    fabric = data.draw(any_fabric)
    names = [switch.name for switch in fabric.switches]
    liar = data.draw(st.sampled_from(names))
    heard = Heard(fabric)
    asns = sorted(set(heard.asns.values()))
    paths = st.lists(st.one_of(st.sampled_from(asns), st.integers(0, 2**32 - 1)), max_size=4)
    kinds = st.sampled_from(["take", "take", "take", "flap", "flood", "later"])
    lies = data.draw(st.lists(st.tuples(kinds, st.integers(0, 200), paths), max_size=20))
    down = data.draw(st.sets(st.integers(0, len(fabric.cables) - 1), max_size=3))
    heard.begin(names)
    heard.tell(down)
    heard.later()
    before = {cable: sign.up for cable, sign in heard.reach.signs.items()}
    own = {number for number, (lower, upper) in enumerate(zip(*_ends(fabric), strict=True)) if liar in (lower, upper)}
    _lies(heard, liar, lies)
    after = {cable: sign.up for cable, sign in heard.reach.signs.items()}
    assert {cable: up for cable, up in before.items() if cable not in own} == {
        cable: up for cable, up in after.items() if cable not in own
    }
    # A flood of routes leaves nothing behind but what concerns its own cables.
    assert sum(router == liar for router, _ in heard.reach._direct) <= 2 * len(own)
    assert sum(router == liar for router, _ in heard.reach._foreign) <= 2 * len(own)
    heard.reach.ended(liar, heard.now)
    heard.heard.pop(liar)
    heard.begin([liar])
    heard.tell(down)
    heard.later()
    assert {cable: sign.up for cable, sign in heard.reach.signs.items()} == before


def _ends(fabric: Fabric) -> tuple[list[str], list[str]]:
    """The names of the lower and of the upper switch of each cable."""
    columns = fabric.cable_tier, fabric.cable_lower, fabric.cable_upper
    rows = list(zip(*(each.tolist() for each in columns), strict=True))
    return (
        [fabric.layers[tier][lower].name for tier, lower, _ in rows],
        [fabric.layers[tier + 1][upper].name for tier, _, upper in rows],
    )
