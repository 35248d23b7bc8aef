"""The training itself: network, controller, ranks, counters; launch after launch on one lab."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from emulation.errors import LabError
from emulation.experiments.networks.network import ExperimentNetwork, switches_in_words
from emulation.experiments.networks.openflow_network import OpenFlowNetwork
from emulation.experiments.networks.router_network import ProgramOptions, RouterNetwork
from emulation.experiments.request import Draw
from emulation.processes import Popen
from emulation.training.learned_launch import learned_launch
from emulation.training.tcp_library import AGENT_OPTIONS, CONTROLLER_OPTIONS
from emulation.training.training_launch import launch
from emulation.training.training_outcome import LaunchMeasured, TrainingOutcome
from emulation.training.training_request import HASHED, TrainingScenario

Say = Callable[[str], None]


def run(scenario: TrainingScenario, say: Say, popen: Popen = subprocess.Popen) -> TrainingOutcome:
    """Train under every policy on one lab, which is always removed afterwards.

    Args:
        scenario: the checked request.
        say: called with a line of text on progress.
        popen: starts controllers, called as ``subprocess.Popen`` is.

    Raises:
        LabError: a part did not start, a rank failed, or the logs contain errors.
    """
    request, fabric = scenario.request, scenario.emulated.fabric
    begun = time.monotonic()
    say(f"{fabric.size_in_words}, {fabric.n_hosts} hosts on {switches_in_words(fabric)} ...")
    launches: list[LaunchMeasured] = []

    def take(done: LaunchMeasured) -> None:
        say(f"{done.policy}, launch {done.number}: {_in_words(done)}")
        launches.append(done)

    with network_of(scenario, popen) as network:
        for draw in scenario.emulated.draws:
            with _followed(network, draw) as plan:
                for number in range(1, 1 + (request.launches if plan is None else 1)):
                    take(launch(network, scenario, draw.policy, number, plan))
        if request.learn:
            take(learned_launch(network, scenario))
        problems = network.lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return TrainingOutcome(scenario, tuple(launches), time.monotonic() - begun)


def network_of(scenario: TrainingScenario, popen: Popen = subprocess.Popen) -> ExperimentNetwork:
    """Return the network of a scenario, which is not started."""
    if not scenario.emulated.fabric.routers:
        return OpenFlowNetwork(scenario.emulated, scenario.scale, popen)
    programs = ProgramOptions(AGENT_OPTIONS, CONTROLLER_OPTIONS) if scenario.hosts_choose_ports else None
    return RouterNetwork(scenario.emulated, scenario.scale, popen, programs=programs)


@contextmanager
def _followed(network: ExperimentNetwork, draw: Draw) -> Iterator[Mapping[str, Any] | None]:
    """Yield the document of the plan that the network follows; ``None``: it hashes connections."""
    if draw.policy == HASHED:
        with network.hashed(draw):
            yield None
    else:
        with network.applied(draw) as applied:
            yield applied.plan


def _in_words(done: LaunchMeasured) -> str:
    jobs = ", ".join(f"{job.job} {job.step_seconds:.2f} s a step" for job in done.jobs)
    return f"{jobs}; first step after {done.start_seconds:.0f} s"
