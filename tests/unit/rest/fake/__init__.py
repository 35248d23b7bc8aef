"""A backend that keeps jobs, drains, mode and events in memory, and knows a fabric of two hosts; a file a resource."""

from __future__ import annotations

from tests.unit.rest.fake.hosts import HOST_PLAN, HOST_TABLE, FakeHosts
from tests.unit.rest.fake.learning import FakeLearning
from tests.unit.rest.fake.network import NO_PLACE, FakeNetwork
from tests.unit.rest.fake.plans import ENDLESS, FakePlans
from tests.unit.rest.fake.system import FakeSystem

__all__ = ["ENDLESS", "HOST_PLAN", "HOST_TABLE", "NO_PLACE", "FakeBackend"]


class FakeBackend(FakeLearning, FakePlans, FakeNetwork, FakeHosts, FakeSystem):
    """Answers with documents of the right shape. Some names make it fail in the ways a backend can:

    ``unavailable`` (not known yet), ``unkept`` (the disk is full), ``broken`` (an exception that nobody expects),
    ``unwritable`` (an error that no answer can be made of),
    ``large`` (a document of several MB) and ``slow`` (it takes a moment).
    """
