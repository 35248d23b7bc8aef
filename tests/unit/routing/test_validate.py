from __future__ import annotations

import numpy as np
import pytest

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.files.clos import clos
from controller.model.traffic import ANY_PORT, Collective
from controller.routing.validate import InvalidAssignmentError, validate_assignment
from tests.unit.routing.instances import traffic_of

FABRIC = clos(3, 3, 2).without_links(["leaf1-spine1"])
TRAFFIC = traffic_of([(0, 2, 1, 0), (0, 1, 1, 0), (2, 4, 1, 0)], [Collective("j", "c")])


def rows(*triples: tuple[int, int, float]) -> Assignment:
    flow, path, share = zip(*triples, strict=True)
    return Assignment(np.array(flow), np.array(path), np.array(share, dtype=float))


def test_a_good_plan_passes_split_or_not() -> None:
    validate_assignment(FABRIC, TRAFFIC, rows((0, 1, 1), (1, LOCAL, 1), (2, 0, 1)))
    validate_assignment(FABRIC, TRAFFIC, rows((0, 1, 0.25), (0, 2, 0.75), (1, LOCAL, 1), (2, 0, 1)))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (rows((0, 0, 1), (1, LOCAL, 1), (2, 0, 1)), "j/c/0: a path that does not exist or is down"),
        (rows((0, 3, 1), (1, LOCAL, 1), (2, 0, 1)), "j/c/0: a path class that does not exist"),
        (rows((0, 1, 1), (1, 1, 1), (2, 0, 1)), "j/c/1: a path between switches for two hosts of one leaf"),
        (rows((0, LOCAL, 1), (1, LOCAL, 1), (2, 0, 1)), "j/c/0: no path for hosts of different leaves"),
        (rows((0, UNROUTABLE, 1), (1, LOCAL, 1), (2, 0, 1)), "j/c/0: unroutable, but there is a live path"),
        (rows((0, 1, 0.5), (1, LOCAL, 1), (2, 0, 1)), "j/c/0: shares that do not add up to 1"),
        (rows((0, 1, 0.0), (0, 2, 1.0), (1, LOCAL, 1), (2, 0, 1)), r"j/c/0: a share outside \(0, 1\]"),
        (rows((0, 1, 0.5), (0, 1, 0.5), (1, LOCAL, 1), (2, 0, 1)), "two rows for one path"),
        (rows((0, 1, 1), (2, 0, 1)), "j/c/1: has no row"),
        (rows((1, LOCAL, 1), (0, 1, 1), (2, 0, 1)), "not in order"),
        (rows((0, 1, 1), (1, LOCAL, 1), (2, 0, 1), (3, 0, 1)), "does not exist"),
    ],
)
def test_each_violation_is_reported_with_the_flow_that_breaks_the_rule(bad: Assignment, reason: str) -> None:
    with pytest.raises(InvalidAssignmentError, match=reason):
        validate_assignment(FABRIC, TRAFFIC, bad)


def test_flows_that_no_switch_can_distinguish_must_go_together_and_whole() -> None:
    pair = traffic_of([(0, 2, 1, 0), (0, 2, 1, 0)], [Collective("j", "c")], [ANY_PORT, ANY_PORT])
    apart, split = rows((0, 1, 1), (1, 2, 1)), rows((0, 1, 0.5), (0, 2, 0.5), (1, 1, 1))
    with pytest.raises(InvalidAssignmentError, match="another path than the rest of its placement unit"):
        validate_assignment(FABRIC, pair, apart)
    with pytest.raises(InvalidAssignmentError, match="a split flow that is not RoCEv2's, or whose port is unknown"):
        validate_assignment(FABRIC, pair, split)
    validate_assignment(FABRIC, pair, apart, enforceable=False)


def test_a_flow_from_a_host_that_is_down_must_be_unroutable() -> None:
    fabric = clos(2, 2, 2).without_links(["h1-leaf1"])
    traffic = traffic_of([(0, 2, 1, 0)], [Collective("j", "c")])
    validate_assignment(fabric, traffic, rows((0, UNROUTABLE, 1)))
    with pytest.raises(InvalidAssignmentError, match="a path over a host link that is down"):
        validate_assignment(fabric, traffic, rows((0, 0, 1)))
