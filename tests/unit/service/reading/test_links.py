"""The list of links: who adds the changes to what they have, has what is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from controller.model.files.clos import clos
from controller.rest import schemas
from controller.service.reading.link_changes import LinkChanges
from tests.unit.service.world import World, flow
from tests.unit.southbound.cabling.networks import seen

VALUES = st.sampled_from([0.0, 1.0, float("nan")])
LISTS = st.lists(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4), min_size=1, max_size=12)


@given(LISTS, st.lists(st.booleans(), min_size=12, max_size=12))
def test_changes_since_any_version_make_the_present_list_of_that_version(
    lists: list[list[tuple[float, float]]], restarts: list[bool]
) -> None:
    changes = LinkChanges("a-p")
    had: list[tuple[str, NDArray[np.float64]]] = []
    for n, (rows, restarted) in enumerate(zip(lists, restarts, strict=False)):
        if restarted:
            changes = LinkChanges(f"{n}-p")
        # The names follow the number of links, so that a list of another length is of other links.
        values, ids = np.array(rows), tuple(f"l{len(rows)}-{k}" for k in range(len(rows)))
        version = changes.update(ids, values)
        for known, old in had:
            told = version.rows_since(known)
            if told is not None:
                assert known.split("-")[0] == version.id.split("-")[0], "not of another run"
                np.testing.assert_array_equal(np.where(told[:, None], values, old), values)
        assert not np.any(version.rows_since(version.id)), "nothing has changed since now"
        had.append((version.id, values))


def test_what_is_no_version_gets_every_link() -> None:
    version = LinkChanges("6a0f-p").update(("a",), np.ones((1, 8)))
    for unknown in (None, "", "6a0f-p-2", "6a0f-p-", "6a0f-p--1", "6a0f-e-1", "1", "6a0f-p-1x", f"6a0f-p-{'9' * 5000}"):
        assert version.rows_since(unknown) is None, unknown


def test_the_service_tells_the_links_that_a_job_loads_and_no_other() -> None:
    fabric = clos(2, 2, 2)
    world = World(fabric, seen(fabric)).planned()
    first = schemas.LinkList.model_validate(world.read(lambda service: service.links()))
    again = schemas.LinkList.model_validate(world.read(lambda service: service.links(since=first.version)))
    assert (again.since, again.version, again.links) == (first.version, first.version, [])
    world.put("a", [flow("h1", "h3")])
    now = schemas.LinkList.model_validate(world.read(lambda service: service.links()))
    later = schemas.LinkList.model_validate(world.read(lambda service: service.links(since=first.version)))
    assert later.since == first.version
    assert len(later.links) == 4, "up, down, and both hosts'"
    merged = {row.id: row for row in first.links} | {row.id: row for row in later.links}
    assert list(merged.values()) == now.links
    hashed = schemas.LinkList.model_validate(world.read(lambda service: service.links("ecmp", first.version)))
    assert hashed.since is None
    assert len(hashed.links) == fabric.n_links
