"""Looks at sightings, and steps of the planning of learned jobs, that are a test's alone.

The service has a task for each. They look every 2 s and step every 10 s, also if nothing is reported: in a test that
lasts as long, they would do the same as the test at the same time.
"""

from __future__ import annotations

from controller.service.learning.learned_planning import LearnedPlanning
from controller.service.learning.learner import Learner
from tests.unit.service.world import World


def by_hand(world: World) -> None:
    """Let nothing but the test look at what is learned and act on it from now on; what was begun is done then."""
    learner, planning = world.service._learner, world.service._acting.learned
    learner.look = lambda state: None  # type: ignore[method-assign]
    planning.step = lambda: None  # type: ignore[method-assign]
    world.until(lambda: learner._fresh.is_handled and learner.looked.is_handled)  # type: ignore[attr-defined]
    world.planned()
    world.settle()


def look(world: World) -> None:
    """Look at the sightings once."""
    Learner.look(world.service._learner, world.service.state)


def step(world: World) -> None:
    """Compare the learned jobs with the plan once, and change the plan if they need it."""
    LearnedPlanning.step(world.service._acting.learned)
