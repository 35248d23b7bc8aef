"""Jobs that send packets and are not pushed, and the feeders that show them to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from controller.model.packets.port_numbers import SFLOW_PORT
from emulation.experiments.control import ExperimentController
from emulation.experiments.job_times import cycles
from emulation.experiments.learned.tally_feeder import TallyFeeder
from emulation.experiments.measure import namespaces_of, sender_options, spawn_in
from emulation.experiments.request import MAX_ITERATIONS, EmulatedScenario
from emulation.experiments.scale import Scale
from emulation.experiments.workload import addresses, collectives, ports_of
from emulation.lab import Lab
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle
from emulation.roce.launcher import OnEnded, OnTally
from emulation.roce.run import CollectiveResult, FlowKey, PortShare, run_collectives

TALLY_SECONDS = 0.1
SAMPLING = 10
"""One of so many packets: a QP that fills a link of 15 Mbit/s is sampled 46 times a second."""
COMPUTE = 1.0
"""Seconds that a job computes, for each that it would send alone, where it states no computing times."""
_ROUND_SECONDS = 120.0


@dataclass(frozen=True)
class LearnedLab:
    """A lab with a controller that learns, and the jobs that run on it."""

    lab: Lab
    scenario: EmulatedScenario
    scale: Scale
    controller: ExperimentController

    @staticmethod
    def options(feeder: str) -> list[str]:
        """Return the options of a controller that has this feeder."""
        options = ["--learning", "observe"]
        if feeder == "sflow":
            options += ["--sflow-listen", "127.0.0.1", "--sflow-agents", "127.0.0.1"]
        if feeder == "watch":
            options += ["--learning-watch", "on"]
        return options

    @property
    def specs(self) -> list[CollectiveSpec]:
        """The collectives of all jobs."""
        return collectives(self.scenario, self.scale.bytes)

    def measure(
        self,
        ports: Mapping[FlowKey, tuple[PortShare, ...]],
        feeder: str,
        *,
        on_tally: OnTally | None = None,
        on_ended: OnEnded = lambda job, stage, at: None,
        most: int = MAX_ITERATIONS,
    ) -> list[CollectiveResult]:
        """Run iterations of all jobs.

        Args:
            ports: the UDP source ports of all flows.
            feeder: tells the controller of the jobs meanwhile, unless it is empty.
            on_tally: called with what hosts say of their queue pairs; ``None``: they say it only to the host feeder.
            on_ended: called when a stage of a job has ended.
            most: number of iterations of each job that are run, if it has more.
        """
        lab, fabric = self.lab, self.scenario.fabric
        with ExitStack() as feeding:
            hears: list[OnTally] = [] if on_tally is None else [on_tally]
            if feeder == "host":
                feeds = feeding.enter_context(TallyFeeder(self.controller.see)).take
                # Ports of a bond have one address, so they are told by name.
                name = {ip: host for host, ip in addresses(fabric).items() if host in fabric.host_names}
                hears.append(lambda tally: feeds(_by_name(tally, name)))
            elif feeder == "sflow":
                leaves = [lab.wiring.switch(leaf.name) for leaf in fabric.leaves]
                lab.ovs.sample(leaves, ("127.0.0.1", SFLOW_PORT), SAMPLING)

            def tell(tally: dict[str, Any]) -> None:
                for hear in hears:
                    hear(tally)

            return run_collectives(
                addresses(fabric),
                spawn_in(lab),
                [replace(spec, iterations=min(most, spec.iterations)) for spec in self.specs],
                ports,
                options=sender_options(self.scenario.fabric, self.scale.mbps_per_gbps),
                timeout=_ROUND_SECONDS + 8 * self.scenario.request.seconds * max(self.scenario.iterations.values()),
                log_dir=self.scenario.request.folder / "logs",
                cycles=[replace(cycle, iterations=min(most, cycle.iterations)) for cycle in self.cycles()],
                tally_seconds=TALLY_SECONDS if hears else 0.0,
                on_tally=tell,
                on_ended=on_ended,
                ports_of=ports_of(fabric),
                namespaces=namespaces_of(lab),
            )

    def cycles(self) -> list[JobCycle]:
        """Return when jobs compute and send."""
        given = cycles(self.scenario, None, self.scale.time)
        if any(seconds for cycle in given for _, seconds in cycle.compute):
            return given
        computing = COMPUTE * self.scenario.request.seconds
        return [
            replace(cycle, compute=tuple((phase, computing if i == 0 else 0.0) for i, phase in enumerate(cycle.phases)))
            for cycle in given
        ]


def _by_name(tally: dict[str, Any], name: Mapping[str, str]) -> dict[str, Any]:
    """Return a tally with names of hosts in place of addresses."""
    return tally | {"qps": [qp | {end: name[qp[end]] for end in ("src", "dst")} for qp in tally["qps"]]}
