"""Documents of plans that tasks wait for together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import eventlet  # noqa: E402 (Ryu first)
import numpy as np  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from controller.config import Settings  # noqa: E402
from controller.core.ports.host_agents import AgentHas  # noqa: E402
from controller.host_documents import HostDocuments  # noqa: E402
from controller.model.assignment import Assignment  # noqa: E402
from controller.model.files.clos import clos  # noqa: E402
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows  # noqa: E402
from controller.southbound.enforcement.host_compiler import HostCompiler  # noqa: E402
from controller.southbound.enforcement.host_plans import HostPlans  # noqa: E402
from controller.southbound.enforcement.registry import encode_flows  # noqa: E402
from controller.southbound.openflow.runtime import EventletRuntime  # noqa: E402
from tests.unit.southbound.plans import traffic_of  # noqa: E402
from tests.unit.strategies import with_routers  # noqa: E402

FABRIC = with_routers(clos(2, 3, 2))


def plans_of(flows: list[tuple[int, int, int]]) -> HostPlans:
    """Plans of flows of (sender, receiver, path)."""
    traffic = traffic_of([(src, dst, 50000 + n) for n, (src, dst, _) in enumerate(flows)])
    assignment = Assignment.single(np.array([path for *_, path in flows], dtype=np.int32))
    planned = PlannedFlows("srv6", traffic, encode_flows(FABRIC, traffic, assignment, "srv6"))
    return HostCompiler(Settings())(EnforcementTask(FABRIC, planned=planned, enforcement="srv6"))


class _Greenlets(EventletRuntime):
    """Tasks on an event loop; what is offloaded lets others run first."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        eventlet.sleep(0)
        return function(*args)


@given(st.lists(st.sampled_from(["h1", "h2", "h3", "h5", "nobody"]), min_size=1, max_size=12), st.integers(1, 4))
def test_documents_that_are_made_together_are_those_of_each_alone(hosts: list[str], at_once: int) -> None:
    """A host that there is not makes only its own task fail."""
    both = [plans_of([(0, 2, 0), (1, 4, 1)]), plans_of([(0, 4, 1)])]
    asked = [(host, both[number % 3 == 2]) for number, host in enumerate(hosts)]
    alone = HostDocuments(_Greenlets())
    documents = HostDocuments(_Greenlets(), most_at_once=at_once)

    def made(where: HostDocuments, host: str, plan: HostPlans) -> Any:
        try:
            return where.document(plan, 3, host, AgentHas())
        except KeyError as error:
            return str(error)

    tasks = [eventlet.spawn(made, documents, *each) for each in asked]
    with eventlet.Timeout(60):
        assert [task.wait() for task in tasks] == [made(alone, *each) for each in asked]
