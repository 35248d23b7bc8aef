"""The task that brings panels and servers to the plan of the jobs, and around circuits that fail.

It goes from one plan to the next in stages (``controller.circuits.planning.stages``): servers get the routes of the
stage, round by round; circuits that go fall silent and are taken away; new ones are set and verified.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from controller.circuits.control.dead_nics import DeadNics
from controller.circuits.control.job_plans import (
    JobPlans,
    NamedJob,
    Nic,
    ShardKey,
    plan_jobs,
    served,
    way_to,
    with_circuits,
)
from controller.circuits.control.panel_rules import circuit_of, circuits_in, rules_of, without_conflicts
from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.stages import CircuitStage
from controller.circuits.southbound.panel import discovery_packet
from controller.circuits.southbound.server_table import TableChange, table_rounds, whole_table
from controller.core.circuit_state import CircuitState, StageNow
from controller.core.desired_state import AdmittedJob
from controller.core.events import EventSink
from controller.core.ports.enforcer import Target
from controller.core.ports.panels import Panels
from controller.core.ports.runtime import Runtime
from controller.model.errors import InputError
from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey
from controller.service.circuits.server_agents import ServerAgents
from controller.service.tasks.vital_tasks import VitalTasks

LOG = logging.getLogger("fairspine.circuits")

VERIFY_SECONDS = 5.0
"""Between two rounds of discovery packets over all circuits."""
COUNTED_SECONDS = 10.0
"""Within which a switch counts a packet that crossed a circuit."""
LOOK_SECONDS = 0.3
"""Between two looks at counters; Open vSwitch brings them up to date once a second."""
STILL_SECONDS = 1.5
"""Counters that have not changed for so long stand still."""
ROUND_SECONDS = 10.0
"""For the servers of a round to confirm it; then, the next one begins without those that have not."""
SILENT_SECONDS = 60.0
"""For circuits that go to fall silent."""


class Conductor:
    """Follows jobs, ports and counters.

    Attributes:
        state: the newest one.
    """

    def __init__(
        self,
        fabric: OpticalFabric,
        runtime: Runtime,
        panels: Panels,
        agents: ServerAgents,
        events: EventSink,
        parsed: Callable[[AdmittedJob], NamedJob],
        options: Mapping[str, Any],
        jobs: tuple[AdmittedJob, ...],
        dead_seconds: float,
    ) -> None:
        """Begin with the jobs of the store.

        Args:
            fabric: of the file.
            runtime: tasks, waiting and time.
            panels: the switches.
            agents: of servers.
            events: where changes are published.
            parsed: reads the document of a job, which was read before.
            options: ``seed``, ``effort`` and ``paths`` of plans.
            jobs: by position.
            dead_seconds: for which a port must be down before circuits are planned without it.
        """
        self._fabric, self._runtime, self._panels, self._agents = fabric, runtime, panels, agents
        self._events, self._parsed, self._options = events, parsed, options
        self._seed = int(options["seed"])
        self.state = CircuitState(jobs=jobs)
        self._wanted = jobs
        self._wake = runtime.signal()
        self._known: Mapping[ShardKey, ShardPlan] = {}
        self._goal: tuple[ShardPlan, ...] = ()
        # What packets and ports have shown.
        self._dark: dict[Circuit, str] = {}
        self._down: dict[PortId, bool] = {}
        self._dead = DeadNics(dead_seconds)
        self._during: tuple[ShardPlan, ...] | None = None
        # Servers that are not waited for again in this change, and the table that they had when they were given up.
        self._late: dict[int, str] = {}

    def start(self, tasks: VitalTasks) -> None:
        """Begin to follow."""
        for signal in (self._panels.observer.network_changed, self._panels.enforcer.switches_changed):
            tasks.spawn("panels", lambda signal=signal: self._pass_on(signal))  # type: ignore[misc]
        tasks.spawn("circuits", self._follow)
        tasks.spawn("discovery packets", self._verify_all)

    def desire(self, jobs: tuple[AdmittedJob, ...]) -> None:
        """Plan these jobs from now on."""
        self._wanted = jobs
        self._publish(jobs=jobs)
        self._wake.set()

    def _publish(self, **changes: Any) -> None:
        self.state = dataclasses.replace(self.state, **changes)

    def _pass_on(self, signal: Any) -> None:
        while True:
            signal.wait()
            signal.clear()
            self._wake.set()

    # -- the task ------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        planned: tuple[AdmittedJob, ...] | None = None
        without: frozenset[Nic] = frozenset()
        while True:
            if self.state.lit is None:
                self._begin()
            self._look_at_ports()
            if self.state.lit is not None and (planned is not self._wanted or without != self._dead.now):
                same_jobs = planned is self._wanted
                planned, without = self._wanted, self._dead.now
                self._around_faults()
                plans = self._plan(planned, without)
                # Where no other circuits pay, there is nothing to change.
                if plans is not None and not (same_jobs and plans.plan.shards == self._goal):
                    self._change(plans, {job.name: job.revision for job in planned})
                continue
            self._around_faults()
            self._wake.wait(self._dead.seconds_left(self._runtime.clock()))
            self._wake.clear()

    def _begin(self) -> None:
        """Take over the circuits that panels hold, once all of them have said which."""
        held = self._panels.held()
        if all(dpid in held for dpid in self._fabric.dpids):
            # The same rules again, so that they are read back and repaired from now on.
            self._light(circuits_in(self._fabric, held))

    def _plan(self, jobs: tuple[AdmittedJob, ...], dead: frozenset[Nic]) -> JobPlans | None:
        lit = self.state.lit or frozenset()
        fabric = with_circuits(self._fabric, lit - self._faults().keys())
        named = [self._parsed(job) for job in jobs]
        try:
            plans: JobPlans = self._beside(self._planned, fabric, named, dead)
        except InputError as error:
            self._publish(trouble=str(error))
            self._events.append("error", text=f"no new plan could be made: {error}")
            return None
        self._known = plans.shards
        # Circuits that are set and carry nothing need not be set again.
        added = tuple(each for each in plans.plan.added if each not in lit)
        return dataclasses.replace(plans, plan=dataclasses.replace(plans.plan, added=added))

    def _planned(self, fabric: OpticalFabric, named: Sequence[NamedJob], dead: frozenset[Nic]) -> JobPlans:
        return plan_jobs(fabric, named, self._known, clock=self._runtime.clock, dead=dead, **self._options)

    def _change(self, plans: JobPlans, planned: Mapping[str, str]) -> None:
        """Go to a plan, stage by stage."""
        plan = plans.plan
        stages, lossy = self._beside(way_to, plan, self._seed)
        self._late.clear()
        self._goal = plan.shards
        self._publish(plan=plan, planned=planned, lossy=lossy, trouble="")
        if lossy:
            LOG.warning("circuits are changed at once: %s", lossy)
        for number, stage in enumerate(stages, 1):
            self._stage(stage, number, len(stages))
        self._during = None
        self._doing(None)
        self._serve()
        self._events.append(
            "plan",
            epoch=self.state.epoch,
            cause=f"{len(plan.shards)} shards, {len(plan.removed)} circuits removed, {len(plan.added)} added",
        )

    def _stage(self, stage: CircuitStage, number: int, of: int) -> None:
        lit = self.state.lit
        assert lit is not None

        def doing(what: str) -> None:
            self._doing(StageNow(number, of, what))

        doing("servers get the routes of the stage")
        self._during = stage.during
        self._serve()
        staying = without_conflicts(lit - frozenset(stage.removed), stage.added)
        gone = lit - staying
        if gone:
            doing("circuits fall silent")
            self._wait_for_silence(gone)
            doing("circuits are taken away")
            self._light(staying)
        doing("circuits are dark")
        self._pause(self._fabric.reconfigure_seconds)
        doing("circuits are set")
        self._light(staying | frozenset(stage.added))
        doing("circuits are verified")
        self._dark.update(self._unverified(stage.added, self._pause))
        self._publish_faults()

    def _doing(self, stage: StageNow | None) -> None:
        self._publish(stage=stage)
        if stage is not None:
            LOG.info("stage %d of %d: %s", stage.number, stage.of, stage.doing)

    def _light(self, circuits: frozenset[Circuit]) -> None:
        """Have panels hold these circuits and no others, and wait until they have confirmed it."""
        epoch, fabric = self.state.epoch + 1, self._fabric
        names: dict[SwitchKey, str] = dict(zip(fabric.dpids, fabric.switch_names, strict=True))
        self._dark = {each: why for each, why in self._dark.items() if each in circuits}
        self._publish(epoch=epoch, lit=circuits)
        self._panels.enforcer.install(Target(rules_of(fabric, circuits), epoch, names))

        def confirmed() -> bool:
            held = {each.key: each.epoch for each in self._panels.enforcer.switches()}
            return all(held.get(dpid) == epoch for dpid in fabric.dpids)

        while not confirmed():
            self._pause_until_woken(None)

    # -- waiting, while ports may fail -----------------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        deadline = self._runtime.clock() + seconds
        while (left := deadline - self._runtime.clock()) > 0:
            self._pause_until_woken(left)

    def _beside(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function that takes seconds returns, or raise what it raises."""
        results: list[Any] = []
        errors: list[Exception] = []

        def work() -> None:
            try:
                results.append(self._runtime.offload(function, *args))
            except Exception as error:  # it is raised below, in the task that waits
                errors.append(error)
            self._wake.set()

        self._runtime.spawn(work)
        while not results and not errors:
            self._pause_until_woken(None)
        for error in errors:
            raise error
        return results[0]

    def _pause_until_woken(self, seconds: float | None) -> None:
        self._wake.wait(seconds)
        self._wake.clear()
        self._look_at_ports()
        self._around_faults()

    def _wait_for_silence(self, circuits: frozenset[Circuit]) -> None:
        """Wait until circuits carry no more packets: those that are under way have arrived."""
        deadline, before, since = self._runtime.clock() + SILENT_SECONDS, None, 0.0
        while self._runtime.clock() < deadline:
            now = {each: count for each, count in self._counted().items() if each in circuits}
            if now != before:
                before, since = now, self._runtime.clock()
            elif self._runtime.clock() - since >= STILL_SECONDS:
                return
            self._pause(LOOK_SECONDS)
        LOG.warning("circuits that are taken away still carry packets after %g s", SILENT_SECONDS)

    # -- servers -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Bring servers to the routes of now in rounds, without loop or loss; at once if circuits fail meanwhile."""
        shards = self._served()
        for turn in _rounds(shards) if self._agents.knows else ():
            self._agents.publish(turn)
            if not self._wait_for_servers(shards):
                break
        else:
            self._agents.publish(_whole(shards), whole=True)
        while not self._wait_for_servers(self.state.served):
            pass

    def _served(self) -> tuple[ShardPlan, ...]:
        """Find how servers send now, and publish it."""
        state = self.state
        usable = (state.lit or frozenset()) - self._faults().keys()
        plans = self._goal if self._during is None else self._during
        now = self._runtime.offload(served, self._fabric, plans, usable, self._seed)
        self._publish(served=now.shards, cut_off=tuple(name for shard in now.cut_off for name in shard.jobs))
        self._publish_faults()
        return tuple(now.shards)

    def _around_faults(self) -> bool:
        """Give servers other routes at once where those of now lead over circuits that have failed, or back.

        Return whether they got other ones.
        """
        if self.state.plan is None or self.state.faults == self._plan_faults():
            return False
        for circuit, why in self._plan_faults().items():
            if circuit not in self.state.faults:
                LOG.warning("%s: %d -> %d: %s", circuit.switch, circuit.in_port, circuit.out_port, why)
        shards = self._served()
        self._agents.publish(_whole(shards), whole=True)
        self._events.append(
            "link",
            text=f"{len(self.state.faults)} circuits carry nothing; routes lead around them",
            cut_off=list(self.state.cut_off),
        )
        return True

    def _wait_for_servers(self, shards: Sequence[ShardPlan]) -> bool:
        """Wait until servers have the newest tables; ``False``: circuits failed, so they got newer ones meanwhile.

        Those that do not confirm within ``ROUND_SECONDS`` are late. The change does not wait for them again until they
        have confirmed something.
        """
        self._late = {server: had for server, had in self._late.items() if self._agents.table_of(server) == had}
        servers = [server for each in shards for server in each.shard.servers if server not in self._late]
        deadline = self._runtime.clock() + ROUND_SECONDS
        while lacking := self._agents.lacking(servers):
            self._look_at_ports()
            if self._around_faults():
                return False
            left = deadline - self._runtime.clock()
            if left <= 0:
                names = ", ".join(self._fabric.servers[server] for server in lacking)
                LOG.warning("no confirmation of routes from %s within %g s", names, ROUND_SECONDS)
                self._late.update({server: self._agents.table_of(server) for server in lacking})
                break
            self._agents.confirmed.clear()
            self._agents.confirmed.wait(min(left, LOOK_SECONDS))
        return True

    # -- faults --------------------------------------------------------------------------------------------------

    def _look_at_ports(self) -> None:
        """Note which ports are down; those of panels that are not connected count as they were."""
        network = self._panels.observer.observe()
        seen = {dpid for dpid in self._fabric.dpids if dpid in network.switches}
        known = {port for port in network.ports if port.switch in seen}
        for server in range(self._fabric.n_servers):
            for nic in range(self._fabric.nics):
                dpid = self._fabric.dpids[int(self._fabric.switch_of[nic])]
                port = PortId(dpid, int(self._fabric.ports[server, nic]))
                if dpid in seen:
                    self._down[port] = port not in known or not network.ports[port]
                    self._dead.note((server, nic), down=self._down[port], clock=self._runtime.clock())
        self._dead.settle(self._runtime.clock())

    def ports_down(self) -> frozenset[tuple[str, int]]:
        """Return the (panel, port) of NICs whose ports are down."""
        names = dict(zip(self._fabric.dpids, self._fabric.switch_names, strict=True))
        return frozenset(
            (names[port.switch], port.port)
            for port, down in self._down.items()
            if down and isinstance(port.switch, int)
        )

    def _faults(self) -> dict[Circuit, str]:
        """Return why circuits that are set carry nothing."""
        return self._dark | self._with_ports_down()

    def _with_ports_down(self) -> dict[Circuit, str]:
        dpids = dict(zip(self._fabric.switch_names, self._fabric.dpids, strict=True))
        faults: dict[Circuit, str] = {}
        for each in self.state.lit or ():
            down = [p for p in (each.in_port, each.out_port) if self._down.get(PortId(dpids[each.switch], p))]
            if down:
                faults[each] = f"port {down[0]} is down"
        return faults

    def _plan_faults(self) -> dict[Circuit, str]:
        planned = {circuit for each in self._goal for circuit in each.circuits}
        return {each: why for each, why in self._faults().items() if each in planned}

    def _publish_faults(self) -> None:
        self._publish(faults=self._plan_faults())

    # -- discovery packets -----------------------------------------------------------------------------------------

    def _verify_all(self) -> None:
        """Send a discovery packet over each circuit, again and again."""
        while True:
            self._runtime.sleep(VERIFY_SECONDS)
            lit = self.state.lit
            if not lit or self.state.stage is not None:
                continue
            down = self._faults().keys() - self._dark.keys()
            dark = self._unverified(lit - down, self._runtime.sleep)
            if self.state.lit is lit and self.state.stage is None and dark != self._dark:
                self._dark = dark
                self._wake.set()

    def _unverified(self, circuits: Iterable[Circuit], pause: Callable[[float], None]) -> dict[Circuit, str]:
        """Return why circuits carry no discovery packet: the rule of each has to count it, or other packets.

        The circuits of panels that do not answer are left out: nothing is known of them. So are those whose ports are
        seen to go down: this is known already. ``pause`` waits for some seconds.
        """
        before, wanted = self._counted(), set(circuits)
        answered = {each.switch for each in before}
        dpids = dict(zip(self._fabric.switch_names, self._fabric.dpids, strict=True))
        silent = {name for name, dpid in dpids.items() if name not in answered and dpid not in self._panels.counted()}
        waiting = {each for each in wanted if each.switch not in silent}
        for each in waiting:
            self._panels.send(dpids[each.switch], each.in_port, [discovery_packet(each)])
        deadline = self._runtime.clock() + COUNTED_SECONDS
        now = before
        while waiting and self._runtime.clock() < deadline:
            pause(LOOK_SECONDS)
            now, down = self._counted(), self._with_ports_down()
            waiting = {each for each in waiting if each not in down and now.get(each, 0) <= before.get(each, 0)}
        return {
            each: "a discovery packet did not cross it" if each in now else "the panel does not hold it"
            for each in waiting
        }

    def _counted(self) -> dict[Circuit, int]:
        names = dict(zip(self._fabric.dpids, self._fabric.switch_names, strict=True))
        counted: dict[Circuit, int] = {}
        for dpid, rules in self._panels.counted().items():
            for rule, count in rules.items():
                circuit = circuit_of(names[dpid], rule) if dpid in names else None
                if circuit is not None:
                    counted[circuit] = count
        return counted


def _whole(shards: Iterable[ShardPlan]) -> dict[int, Sequence[TableChange]]:
    return {server: whole_table(each, i) for each in shards for i, server in enumerate(each.shard.servers)}


def _rounds(shards: Sequence[ShardPlan]) -> list[dict[int, Sequence[TableChange]]]:
    """Return the rounds of all shards, side by side."""
    of_shards = [(each.shard.servers, table_rounds(each)) for each in shards]
    count = max((len(rounds) for _, rounds in of_shards), default=0)
    return [
        {
            server: changes
            for servers, rounds in of_shards
            if turn < len(rounds)
            for server, changes in zip(servers, rounds[turn], strict=True)
        }
        for turn in range(count)
    ]
