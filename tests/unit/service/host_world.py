"""An enforcer by hosts in a world without clocks and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import orjson

from controller.config import Settings
from controller.core.ports.enforcer import Target
from controller.core.ports.host_agents import AgentHas, HostReport, PlanId
from controller.host_enforcer import HostEnforcer
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.network_state import PortlessPath
from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.registry import encode_flows
from tests.unit.southbound.plans import traffic_of
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(2, 3, 2))
NAMES = {switch.key: switch.name for switch in FABRIC.switches}
COMPILER = HostCompiler(Settings())


class GoneError(Exception):
    """A wait that nothing would end."""


class _Signal:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self.is_set = runtime, False

    def wait(self, seconds: float | None = None) -> object:
        if not self.is_set:
            self._runtime.waited(seconds)
        return None

    def set(self) -> None:
        self.is_set = True

    def clear(self) -> None:
        self.is_set = False


class Runtime:
    """Time that passes in waits; what happens meanwhile is ``then``."""

    def __init__(self) -> None:
        self.at = 0.0
        self.then: list[Callable[[], None]] = []
        self.tasks: list[Callable[[], None]] = []

    def signal(self) -> _Signal:
        return _Signal(self)

    def spawn(self, task: Callable[[], None]) -> None:
        if self.is_ready_at_once(task):
            task()
        else:
            self.tasks.append(task)

    def is_ready_at_once(self, task: Callable[[], None]) -> bool:
        """Whether a task ends by itself: that which makes documents."""
        return task.__name__ == "_make_all"

    def lock(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def clock(self) -> float:
        return self.at

    def now(self) -> float:
        return 1.8e9 + self.at

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        if not self.then:
            raise GoneError
        self.then.pop(0)()

    def waited(self, seconds: float | None) -> None:
        if self.then:
            self.then.pop(0)()
        else:
            self.at += seconds or 0.0


class World:
    enforcement, fabric = "srv6", FABRIC

    def __init__(self, *, by_hosts: bool = True) -> None:
        self.runtime = Runtime()
        self.cable_news: list[bool] = []
        self.path_news: list[frozenset[PortlessPath]] = []
        self.verdicts = CableVerdicts(FABRIC.cable_names, changed=self.cable_news.append)
        self.enforcer = HostEnforcer(
            COMPILER,
            self.runtime,  # type: ignore[arg-type]
            self.fabric,
            by_hosts=by_hosts,
            verdicts=self.verdicts,
            paths_changed=lambda: self.path_news.append(self.enforcer.portless()),
        )

    def install(
        self,
        epoch: int,
        flows: Sequence[tuple[int, int, int]],
        *,
        enforcement: str = "",
        ports: Sequence[int] = (),
        usable: Fabric | None = None,
    ) -> None:
        task = self.task(flows, enforcement or self.enforcement, ports, usable)
        self.enforcer.install(Target(COMPILER(task), epoch, NAMES))

    def task(
        self,
        flows: Sequence[tuple[int, int, int]],
        enforcement: str,
        ports: Sequence[int] = (),
        usable: Fabric | None = None,
    ) -> EnforcementTask:
        """Flows of (sender, receiver, path), from these ports, or from one port after the other."""
        numbers = ports or range(50000, 50000 + len(flows))
        traffic = traffic_of([(src, dst, port) for (src, dst, _), port in zip(flows, numbers, strict=True)])
        assignment = Assignment.single(np.array([path for *_, path in flows], dtype=np.int32))
        encoding = encode_flows(self.fabric, traffic, assignment, enforcement)
        planned = PlannedFlows(enforcement, traffic, encoding)
        return EnforcementTask(self.fabric, usable=usable, planned=planned, enforcement=enforcement)

    def ask(self, host: str, known: PlanId | None = None, seconds: float = 0.0) -> dict[str, Any] | None:
        body = self.enforcer.plan(host, AgentHas(known), seconds, lambda: False)
        return None if body is None else orjson.loads(body)

    def follow(self, host: str) -> PlanId:
        """What an agent does: take the plan, and confirm it."""
        plan = self.ask(host)
        assert plan is not None
        held = PlanId(plan["epoch"], plan["digest"])
        self.enforcer.report(host, HostReport(held))
        return held

    def epochs(self) -> dict[str, int]:
        return {report.name: report.epoch for report in self.enforcer.switches()}

    def waiting(self) -> list[str]:
        return sorted(host for report in self.enforcer.switches() for host in report.waits_for)
