"""A service on threads in place of greenlets, a store in memory, and a network that is a value."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import time
import weakref
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, suppress
from types import SimpleNamespace
from typing import Any, ClassVar

from controller.config import Settings
from controller.core.caller import Caller, Role
from controller.core.change_number import ChangeNumber
from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.desired_state import UNPLACED, AdmittedJob
from controller.core.ports.api import UNCONDITIONAL, Condition, PutOutcome
from controller.core.ports.enforcer import CompiledPlan, Compiler, EnforcerCounts, Target
from controller.core.ports.network import Network
from controller.core.ports.observer import ObserverCounts
from controller.core.ports.store import Persistence
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import LearningSetting, ModeSetting, SavedState, StateChange
from controller.model.errors import NotFoundError
from controller.model.fabric import Fabric, Switch
from controller.model.network_state import NetworkState
from controller.model.switch_key import SwitchKey
from controller.rest.readers import READERS
from controller.service.measurements import Measurements
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.event_log import EventLog
from controller.service.service import Service
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.rollout.drift import Deviation
from controller.southbound.rollout.rollout import OpenFlowRefusal
from controller.southbound.rollout.watch_rules import FlowCount
from controller.southbound.rules.rule_set import RuleSet
from controller.store.errors import StoreError, StoreTakenError
from controller.telemetry.fabric_snapshot import FabricSnapshot
from controller.telemetry.port_rates import Readings

ANN = Caller("ann", Role.WRITE)
PATIENCE_SECONDS = 180.0
"""For what another thread does: the first plan of a process loads kernels, which takes long beside other work."""


class Ended(BaseException):
    """The runtime was closed."""


class Signal:
    """A ``Signal`` for threads; ends those that wait for it once the runtime is closed."""

    def __init__(self, runtime: Threads) -> None:
        self._runtime, self._event = runtime, threading.Event()
        self.set, self.clear = self._event.set, self._event.clear
        self._waits = False

    @property
    def is_handled(self) -> bool:
        """True if a task waits for it again, with nothing left to do."""
        return self._waits and not self._event.is_set()

    def wait(self, seconds: float | None = None) -> None:
        self._waits = True
        self._event.wait(seconds)
        self._waits = False
        if self._runtime.closed:
            raise Ended


class Threads:
    """A runtime of threads; heavy work is done on the spot."""

    def __init__(self) -> None:
        self.closed = False
        # Those of ended requests go.
        self._signals: weakref.WeakSet[Signal] = weakref.WeakSet()
        self._times = itertools.count(1_700_000_000)

    def close(self) -> None:
        """End every task."""
        self.closed = True
        for signal in list(self._signals):
            signal.set()

    def spawn(self, task: Callable[[], None]) -> None:
        def run() -> None:
            with suppress(Ended):
                task()

        threading.Thread(target=run, daemon=True).start()

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.01))
        if self.closed:
            raise Ended

    def signal(self) -> Signal:
        made = Signal(self)
        self._signals.add(made)
        return made

    def lock(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def rest(self) -> None:
        pass

    def start_process(self, command: list[str]) -> Any:
        raise AssertionError("small jobs need no process")

    def now(self) -> float:
        return float(next(self._times))

    def clock(self) -> float:
        return 0.0


class FakeStore:
    """A store as the real one says that it is; ``broken`` makes it refuse, ``hangs`` makes it wait, and what is
    ``lost`` shows when it is looked at. ``taken``: another controller has it then."""

    def __init__(self) -> None:
        self.jobs: dict[str, AdmittedJob] = {}
        self.drained: frozenset[str] = frozenset()
        self.mode: ModeSetting | None = None
        self.learning: LearningSetting | None = None
        self.records: dict[int, PlanRecord] = {}
        self.broken = ""
        self.lost = ""
        self.taken = False
        self.hangs = threading.Event()
        self.hangs.set()

    change: ChangeNumber | None = None

    def load(self) -> SavedState:
        saved = [dataclasses.replace(job, traffic=None, left_out=UNPLACED) for job in self.jobs.values()]
        jobs = tuple(sorted(saved, key=lambda job: job.position))
        newest = self.records[max(self.records)] if self.records else None
        return SavedState(jobs, self.drained, self.mode, self.learning, newest)

    def read(self, known: SavedState | None = None) -> tuple[ChangeNumber | None, SavedState]:
        """As the real one: what has not changed is the same object."""
        saved = self.load()
        if known is not None:
            before = {(job.name, job.revision): job for job in known.jobs}
            plan = known.plan if known.plan is not None and known.epoch == saved.epoch else saved.plan
            jobs = tuple(before.get((job.name, job.revision), job) for job in saved.jobs)
            saved = dataclasses.replace(saved, jobs=jobs, plan=plan)
        return self.change, saved

    def lead(self, replica: str, term: int, known: SavedState | None = None) -> SavedState:
        self.change = ChangeNumber(term, 1 if self.change is None else self.change.number + 1)
        return self.read(known)[1]

    overtaken = False

    def commit(self, change: StateChange) -> None:
        assert self.hangs.wait(PATIENCE_SECONDS)
        if self.broken:
            raise (StoreTakenError if self.taken else StoreError)(self.broken)
        for name in change.deleted:
            self.jobs.pop(name, None)
        self.jobs.update({job.name: job for job in change.put})
        self.change = ChangeNumber(1, 1 if self.change is None else self.change.number + 1)
        self.drained = self.drained if change.drained is None else change.drained
        self.mode = change.mode or self.mode
        self.learning = change.learning or self.learning
        self.records.update({record.epoch: record for record in change.plans})

    def check(self) -> None:
        if self.lost:
            raise (StoreTakenError if self.taken else StoreError)(self.lost)

    def plans(self, before: int | None = None, limit: int = 50) -> list[PlanRecord]:
        known = sorted(self.records, reverse=True)
        chosen = [epoch for epoch in known if before is None or epoch < before][:limit]
        return [dataclasses.replace(self.records[epoch], paths=None) for epoch in chosen]

    def plan(self, epoch: int) -> PlanRecord:
        if epoch not in self.records:
            raise NotFoundError("plan", str(epoch))
        return self.records[epoch]


@dataclasses.dataclass(frozen=True)
class BothCounts(ObserverCounts, EnforcerCounts):
    """Those of one object that is both."""


class FakeSouthbound:
    """An ``Observer`` and an OpenFlow ``Enforcer`` whose network and switches a test sets.

    Attributes:
        installed: (rules, epoch) of each installation.
        held: what switches hold and have counted.
        watched: leaves and hosts whose flows are watched; ``None``: none are.
        counted: of flows, until they are asked for.
    """

    def __init__(self, runtime: Threads, network: NetworkState, settings: Settings = Settings()) -> None:  # noqa: B008
        self.network_changed, self.cable_failed = runtime.signal(), runtime.signal()
        self.notices_changed, self.switches_changed = runtime.signal(), runtime.signal()
        self.compiler: Compiler = OpenFlowCompiler(settings.ecmp_action, settings)
        self.withheld = ""
        self.network = network
        self.installed: list[tuple[Any, int]] = []
        self.reports = [
            SimpleNamespace(key=1, name="leaf1", epoch=-1, error="", missing=(), connected=True, waits_for=())
        ]
        self.refusal: OpenFlowRefusal | None = None
        self.next_try: float | None = None
        self.faults: list[str] = []
        self.deviating: dict[SwitchKey, Deviation] = {}
        self.seen_term, self.lost, self.connections = 0, "", 1
        self.silence = self.unheard = 0.0
        self.terms: list[int] = []
        self.watched: tuple[Sequence[SwitchKey], Set[int]] | None = None
        self.counted: list[FlowCount] = []
        self.held: Callable[[], FabricSnapshot] = lambda: FabricSnapshot(0.0)

    def observe(self) -> NetworkState:
        return self.network

    def withhold_changes(self, reason: str) -> None:
        self.withheld = reason

    def lead(self, term: int) -> None:
        self.terms.append(term)

    def enforces(self, switch: Switch) -> bool:
        return switch.kind == "openflow"

    def install(self, target: Target) -> None:
        self.installed.append((target.compiled, target.epoch))

    def expect(self, compiled: CompiledPlan) -> None:
        self.expected = compiled

    def look_for_hosts(self, fabric: Fabric | None) -> None:
        pass

    def watch_flows(self, leaves: Sequence[SwitchKey], hosts: Set[int]) -> Sequence[FlowCount]:
        self.watched = (leaves, hosts)
        counts, self.counted = self.counted, []
        return counts

    def stop_watching(self) -> None:
        self.watched = None

    def switches(self) -> list[SimpleNamespace]:
        return self.reports

    @property
    def agents(self) -> None:
        return None

    def deviations(self) -> dict[SwitchKey, Deviation]:
        return self.deviating

    def notices(self) -> list[str]:
        return self.faults

    def counts(self) -> BothCounts:
        return BothCounts()

    def discovery(self) -> DiscoveryCounts:
        return DiscoveryCounts()

    def read(self) -> FabricSnapshot:
        return self.held()


class World:
    """A service, its network and switches (``southbound``), and its store.

    Attributes:
        open: all worlds that are not closed at the end of a test yet.
    """

    open: ClassVar[list[World]] = []

    def __init__(
        self,
        intended: Fabric | None,
        network: NetworkState,
        store: FakeStore | None = None,
        *,
        follows: bool = False,
        sides: type[FakeSouthbound] = FakeSouthbound,
        **settings: Any,
    ) -> None:
        """``follows``: it begins as a follower, until ``take_over``. ``sides``: what observes and enforces."""
        self.runtime = runtime = Threads()
        World.open.append(self)
        self.store = store or FakeStore()
        chosen = Settings(debounce_ms=0, **settings)
        self.southbound = sides(runtime, network, chosen)
        self.readings = Readings()
        self.service = Service(
            Configuration(chosen, intended),
            runtime,
            Persistence(self.store, SavedState() if follows else self.store.load(), None, self.store),
            Network(self.southbound, self.southbound),
            Admission(runtime, READERS),
            EventLog(runtime),
            Measurements(self.southbound, self.readings),
        )
        assert self.service.follower is not None
        self.follower = self.service.follower
        if follows:
            self.follower.start()
        else:
            self.service.start()

    def hear(self) -> World:
        """Itself, a follower, once it knows the store's last change."""

        def knows() -> bool:
            # Each beat tells: a plan may be written later than the change that caused it.
            self.follower.hear(self.store.change)
            return self.follower.change == self.store.change

        self.until(knows)
        return self

    def take_over(self) -> World:
        """Itself, a follower that leads now."""
        self.service.lead(self.store.lead("me", 2, self.follower.saved), 2)
        return self

    @property
    def installed(self) -> list[tuple[Any, int]]:
        """The rules (whatever the compiler makes) and epoch of each installation."""
        return self.southbound.installed

    @property
    def switches(self) -> list[SimpleNamespace]:
        """The reports of the connected switches."""
        return self.southbound.reports

    def switches_changed(self) -> None:
        """Tell the service that a switch has changed; returns once it has seen this."""
        signal = self.southbound.switches_changed
        signal.set()
        self.until(lambda: signal.is_handled)

    def close(self) -> None:
        """As kill -9 would: nothing is written any more."""
        self.runtime.close()

    def until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.005)

    def planned(self) -> World:
        """Itself, once there is a plan for a network that is known."""
        self.until(lambda: self.service.state.plan is not None and self.service.state.network_known)
        self.until(self._installed_newest)
        return self

    def settle(self) -> None:
        """Wait until the store has what was left for later."""
        frozen = self.service.state.desired.mode == "frozen"
        self.until(lambda: frozen or self.service.state.epoch in self.store.records)

    def _installed_newest(self) -> bool:
        state = self.service.state
        return (
            not state.network_known
            or state.compiled is None
            or [epoch for _, epoch in self.installed][-1:] == [state.enforced]
        )

    def show(self, network: NetworkState, seen: Callable[[ControllerState], bool]) -> None:
        """The network is like this now; returns once a state is published of which ``seen`` is true."""
        self.southbound.network = network
        self.southbound.network_changed.set()
        self.until(lambda: seen(self.service.state))
        self.until(self._installed_newest)

    def put(self, name: str, flows: object, condition: Condition = UNCONDITIONAL) -> PutOutcome:
        return self.service.put_job(name, json.dumps({"flows": flows}).encode(), condition, ANN)

    def delete(self, name: str, condition: Condition = UNCONDITIONAL) -> None:
        self.service.delete_job(name, condition, ANN)

    @property
    def health(self) -> dict[str, Any]:
        return dict(self.service.health())  # type: ignore[arg-type]

    def read(self, call: Callable[[Service], Any]) -> dict[str, Any]:
        """Return a document of the service in the form that clients get."""
        document = call(self.service)
        read: dict[str, Any] = json.loads(document) if isinstance(document, bytes) else dict(document)
        return read


def rules_of(state: ControllerState) -> RuleSet:
    """Return the rules that a state has for OpenFlow switches."""
    assert isinstance(state.compiled, RuleSet)
    return state.compiled


def flow(src: str, dst: str, size: int = 1000) -> dict[str, Any]:
    return {"src": src, "dst": dst, "bytes": size}
