"""Rounds of faults, each followed by a check of everything; ends by reading the logs."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np

from controller.model.fabric import Fabric
from emulation.errors import LabError
from emulation.lab import Lab
from emulation.pings import Pair
from emulation.processes import Pauses, Popen
from tests.campaigns.faults import check
from tests.campaigns.faults.kinds import Fault, draw
from tests.campaigns.faults.probes import Probes
from tests.campaigns.faults.state import ExpectedPiece
from tests.campaigns.faults.world import Broken, FaultLab

RIGHT_WITHIN = 10.0
"""Seconds, on a machine that does nothing else."""

MOST_FAULTS = 3
CONTROLLER_OPTIONS = ("--policy-options", "max_splits=4", "--readback-seconds", "2")
"""Flows are split, and drift is found within a round."""

PAUSE = (0.0, 0.4)
"""Range of seconds between two faults of a round: at once, during planning, during installation."""

TRAFFIC_SECONDS = 0.1

HARMLESS = (
    (
        r"\|dpif_netdev\|ERR\|Dropped \d+ log messages in last \d+ seconds",
        "suppressed lines of a kind in emulation.logs: interfaces that were set down",
    ),
    (
        "no response to inactivity probe",
        "on a machine with other work, a controller may get no processor for ten seconds; what follows is checked",
    ),
)

Say = Callable[[str], None]


class FaultCheckFailed(Exception):
    """A round failed, or the logs contain errors."""


@dataclass
class FaultOutcome:
    """Results of the passed rounds: the number of each fault, and the times until the network was correct again."""

    happened: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


class FaultCampaign:
    """A controller and traffic on a running lab, and the rounds.

    Args:
        options: more arguments for ``ryu-manager``.
        ecmp_action: its option of that name.
        right_within: seconds after the last fault of a round in which everything has to be right again.
        popen: starts the controller, called as ``subprocess.Popen`` is.
    """

    def __init__(
        self,
        lab: Lab,
        fabric: Fabric,
        seed: int,
        say: Say,
        options: Sequence[str] = (),
        *,
        ecmp_action: str = "bundle",
        right_within: float = RIGHT_WITHIN,
        popen: Popen = subprocess.Popen,
    ) -> None:
        """Prepare a campaign; ``options`` are further arguments of the controller."""
        self.seed = seed
        self._right_within = right_within
        self._lab, self._say = lab, say
        # Two generators, so that the number of checks does not change the following faults.
        self._rng, self._amounts = random.Random(seed), random.Random(seed)
        self._world = FaultLab(lab, fabric, (*CONTROLLER_OPTIONS, *options), ecmp_action=ecmp_action, popen=popen)
        self._outcome = FaultOutcome()

    def run(self, rounds: int) -> FaultOutcome:
        """Run ``rounds`` rounds and return their results.

        Raises:
            FaultCheckFailed: a round failed; names its number, its faults, and the deviation.
        """
        self._world.wait_for_controller()
        with (
            Probes(self._lab, self._world.state.healthy) as probes,
            _Traffic(self._lab, self._world, probes) as traffic,
        ):
            self._right("start", traffic, probes, [])
            for number in range(1, rounds + 1):
                self._round(number, traffic, probes)
        if found := self._lab.problems(harmless=HARMLESS):
            raise FaultCheckFailed("in the logs:\n" + "\n".join(found))
        return self._outcome

    def _round(self, number: int, traffic: _Traffic, probes: Probes) -> None:
        happened: list[Fault] = []
        name = f"round {number}"
        try:
            for _ in range(self._rng.randint(1, MOST_FAULTS)):
                fault = draw(self._rng, self._world.state)
                happened.append(fault)
                self._world.happen(fault)
                time.sleep(self._rng.uniform(*PAUSE))
            self._world.settle()
        except (Broken, LabError) as error:
            raise self._failure(name, happened, str(error)) from None
        self._outcome.happened.update(fault.kind for fault in happened)
        seconds = self._right(name, traffic, probes, happened)
        self._outcome.seconds.append(seconds)
        self._say(f"{name}: {'; '.join(map(str, happened))}: correct after {seconds:.1f} s ({self._world.state})")

    def _right(self, name: str, traffic: _Traffic, probes: Probes, happened: Sequence[Fault]) -> float:
        """Wait until everything is right; seconds that it took."""
        start, pauses = time.monotonic(), Pauses()
        while True:
            try:
                pieces = check.settled(self._world)
                with traffic.held_back():
                    check.reaches(self._world)
                    seconds = time.monotonic() - start
                    check.carried(self._world, probes, pieces, self._amounts)
                traffic.pieces = pieces
                self._world.state.routes, self._world.state.settled = pieces, True
                return seconds
            except Broken as error:
                wrong = str(error)
            except LabError as error:
                raise self._failure(name, happened, str(error)) from None
            if time.monotonic() - start > self._right_within:
                raise self._failure(name, happened, f"not right within {self._right_within:g} s: {wrong}")
            self._lab.ovs.try_again()
            pauses.sleep()

    def _failure(self, name: str, happened: Sequence[Fault], wrong: str) -> FaultCheckFailed:
        steps = "\n".join(f"  {number}. {fault}" for number, fault in enumerate(happened, start=1))
        return FaultCheckFailed(f"seed {self.seed}, {name}, {self._world.state}\n{steps}\n{wrong}")


class _Traffic:
    """Pings around a ring of the hosts of each network and some packets of planned flows, all the time."""

    def __init__(self, lab: Lab, world: FaultLab, probes: Probes) -> None:
        self.pieces: Sequence[ExpectedPiece] = ()
        self._probes = probes
        fabric = world.state.healthy
        self._pairs: list[Pair] = []
        of_host = fabric.planes.network_of_plane[fabric.planes.of_host]
        for network in range(fabric.planes.n_networks):
            names = [fabric.host_names[host] for host in np.flatnonzero(of_host == network).tolist()]
            self._pairs += zip(names, [*names[1:], names[0]], strict=True)
        self._lab = lab
        self._enough = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="traffic")

    def __enter__(self) -> _Traffic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._enough.set()
        self._thread.join()

    def held_back(self) -> threading.Lock:
        """``with`` this, nothing is sent."""
        return self._turn

    def _run(self) -> None:
        while not self._enough.wait(TRAFFIC_SECONDS):
            with self._turn, suppress(OSError):
                self._probes.trickle(self.pieces)
                self._lab.ping_all(self._pairs, timeout=TRAFFIC_SECONDS)
