"""Services of tests end with the test that made them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.service.world import World


@pytest.fixture(autouse=True)
def _end_services() -> Iterator[None]:
    """Close each world of a test: its tasks are threads, and those of hundreds of tests would slow all later ones."""
    before = len(World.open)
    yield
    for world in World.open[before:]:
        world.close()
    del World.open[before:]
