"""Ranks of training jobs in the namespaces of hosts, and the steps that they report.

A rank sees a machine of its own: it has the name of its host, and /etc/hosts has all hosts, so that a framework that
looks up its own name needs no resolver. Nothing is started over the network: there is no ssh.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from emulation.errors import LabError
from emulation.lab.base import BaseLab
from emulation.processes import Child, Popen, tail_of
from emulation.training.mpi import mpirun_command, write_agent
from emulation.training.scripts import Script, StepLine, step_line

FIRST_PORT = 29500
"""Where the first rank of the first job listens for the others; that of the next job has the next port."""

LOOK_SECONDS = 0.1
STOP_SECONDS = 5.0

AS_A_MACHINE = 'echo "$1" > /proc/sys/kernel/hostname; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
"""Run in new namespaces of names and mounts, with name, file of hosts, and command."""


@dataclass(frozen=True)
class TrainingJob:
    """A job to start.

    Attributes:
        hosts: of each rank.
        script: the same for all ranks.
    """

    name: str
    hosts: tuple[str, ...]
    script: Script


@dataclass
class _Rank:
    """A running rank: its log, what was read of it, and its steps with the time at which they were read.

    ``starter``: its own process, or the one that has started all ranks.
    """

    name: str
    starter: Child
    log: Path
    offset: int = 0
    steps: list[tuple[StepLine, float]] = field(default_factory=list)

    def tail(self) -> str:
        """Return the end of its log, for a message."""
        return self.starter.tail() if self.log == self.starter.log else f"{self.starter.tail()}{tail_of(self.log)}"


class RunningJobs:
    """Jobs that train on a lab, all their ranks at once; the end of the ``with`` block ends them."""

    def __init__(
        self,
        lab: BaseLab,
        jobs: Sequence[TrainingJob],
        addresses: Mapping[str, str],
        *,
        steps: int,
        mark: str,
        more: Mapping[str, str] | None = None,
        popen: Popen = subprocess.Popen,
    ) -> None:
        """Prepare the jobs; nothing is started.

        Args:
            lab: a running lab.
            jobs: their names differ.
            addresses: of each host.
            steps: that each rank takes.
            mark: part of the names of logs, which differs from start to start.
            more: further variables of the environment of each rank.
            popen: starts ranks, called as ``subprocess.Popen`` is.
        """
        self._lab, self._jobs, self._addresses = lab, jobs, addresses
        self._steps, self._mark, self._popen = steps, mark, popen
        self._more = more or {}
        self._ranks: dict[str, list[_Rank]] = {}

    def __enter__(self) -> Self:
        """Start all ranks."""
        hosts = self._lab.folder / "hosts"
        rows = [f"{address} {name}" for name, address in self._addresses.items()]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *rows, ""]))
        try:
            for number, job in enumerate(self._jobs):
                start = self._by_mpirun if job.script.uses_mpi else self._one_by_one
                start(job, FIRST_PORT + number, hosts)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all ranks that still run."""
        self._stop()

    def _one_by_one(self, job: TrainingJob, port: int, hosts: Path) -> None:
        ranks = self._ranks[job.name] = []
        for rank, host in enumerate(job.hosts):
            env = {"RANK": str(rank), **self._env(job, port)}
            alone = ["unshare", "--uts", "--mount", "sh", "-ec", AS_A_MACHINE, "sh", host, str(hosts)]
            name = f"{self._mark}-{job.name}-{rank}"
            child = self._lab.spawn(name, [*alone, *job.script.command], host=host, env=env, popen=self._popen)
            ranks.append(_Rank(name, child, child.log))

    def _by_mpirun(self, job: TrainingJob, port: int, hosts: Path) -> None:
        name = f"{self._mark}-{job.name}"
        logs = [self._lab.log_path(f"{name}-{rank}").resolve() for rank in range(len(job.hosts))]
        for log in logs:
            log.unlink(missing_ok=True)
        agent = self._lab.folder / f"{name}.sh"
        write_agent(agent, {host: self._lab.host(host).pid for host in job.hosts}, hosts, AS_A_MACHINE)
        env = self._env(job, port)
        addresses = [self._addresses[host] for host in job.hosts]
        command = mpirun_command(job.hosts, addresses, agent, logs[0].with_name(name), list(env), job.script.command)
        first = job.hosts[0]
        alone = ["unshare", "--uts", "--mount", "sh", "-ec", AS_A_MACHINE, "sh", first, str(hosts)]
        child = self._lab.spawn(name, [*alone, *command], host=first, env=env, popen=self._popen)
        self._ranks[job.name] = [_Rank(log.stem, child, log) for log in logs]

    def _env(self, job: TrainingJob, port: int) -> dict[str, str]:
        """Return the environment of all ranks of a job."""
        return {
            "WORLD_SIZE": str(len(job.hosts)),
            "MASTER_ADDR": self._addresses[job.hosts[0]],
            "MASTER_PORT": str(port),
            "STEPS": str(self._steps),
            "PYTHONUNBUFFERED": "1",
            **self._more,
        }

    def done(self, job: str) -> int:
        """Return how many steps all ranks of a job have taken."""
        self._read()
        return min(len(rank.steps) for rank in self._ranks[job])

    def wait_for(self, steps: int, timeout: float, *, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until all ranks of all jobs have taken so many steps, or until something else is true.

        Raises:
            LabError: a rank has failed, or the time is up; with the end of its log.
        """
        deadline = time.monotonic() + timeout
        while any(self.done(job) < steps for job in self._ranks) and not is_enough():
            self._check()
            if time.monotonic() > deadline:
                slow = min((rank for ranks in self._ranks.values() for rank in ranks), key=lambda rank: len(rank.steps))
                taken = f"{slow.name} has taken {len(slow.steps)} of {steps} steps in {timeout:.0f} s"
                raise LabError(f"{taken}{slow.tail()}")
            time.sleep(LOOK_SECONDS)

    def wait_for_end(self, timeout: float) -> None:
        """Wait until all ranks have taken all steps and ended by themselves.

        Raises:
            LabError: as for ``wait_for``; or a rank ended without having taken all steps.
        """
        self.wait_for(self._steps, timeout)
        for ranks in self._ranks.values():
            for rank in ranks:
                status = rank.starter.wait(timeout)
                if status:
                    raise LabError(f"{rank.name} ended with status {status}{rank.tail()}")

    def seconds(self, job: str) -> list[float]:
        """Return the seconds of each step of a job: the median of its ranks."""
        return [statistics.median(line.seconds for line in step) for step in self._by_step(job)]

    def losses(self, job: str) -> list[float | None]:
        """Return the loss of each step of a job.

        Raises:
            LabError: ranks report different losses of one step.
        """
        losses = []
        for step in self._by_step(job):
            said = {line.loss for line in step}
            if len(said) > 1:
                raise LabError(f"ranks of {job} have different losses in step {step[0].step}: {said}")
            losses.append(step[0].loss)
        return losses

    def times(self, job: str) -> list[float]:
        """Return when the last rank of a job reported each step, by the monotonic clock."""
        every = zip(*(rank.steps for rank in self._ranks[job]), strict=False)
        return [max(when for _, when in step) for step in every]

    def _by_step(self, job: str) -> list[tuple[StepLine, ...]]:
        return list(zip(*([line for line, _ in rank.steps] for rank in self._ranks[job]), strict=False))

    def _read(self) -> None:
        now = time.monotonic()
        for ranks in self._ranks.values():
            for rank in ranks:
                whole = _lines_since(rank.log, rank.offset)
                if not whole:
                    continue
                rank.offset += len(whole) + 1
                for text in whole.decode(errors="replace").splitlines():
                    line = step_line(text)
                    if line is not None:
                        self._take(rank, line, now)

    def _take(self, rank: _Rank, line: StepLine, now: float) -> None:
        if line.step != len(rank.steps):
            raise LabError(f"{rank.name} reports step {line.step} after {len(rank.steps)} steps")
        rank.steps.append((line, now))

    def _check(self) -> None:
        """See whether no rank has failed."""
        for ranks in self._ranks.values():
            for rank in ranks:
                status = rank.starter.exit_status()
                # One that has taken all steps may be the first to end.
                if status is not None and (status or len(rank.steps) < self._steps):
                    raise LabError(f"{rank.name} ended with status {status}{rank.tail()}")

    def _stop(self) -> None:
        # None of them has anything to tidy up, and each would wait for the others, or complain of their end: so all
        # stand still before the first one ends. mpirun ends its ranks.
        alone = [rank for job in self._jobs if not job.script.uses_mpi for rank in self._ranks.get(job.name, ())]
        for rank in alone:
            rank.starter.signal(signal.SIGSTOP)
        for rank in alone:
            rank.starter.kill()
        for job in self._jobs:
            if job.script.uses_mpi:
                for rank in self._ranks.get(job.name, ()):
                    rank.starter.stop(STOP_SECONDS)


def _lines_since(log: Path, offset: int) -> bytes:
    """Return the whole lines of a log behind an offset; those that a starter makes may not be there yet."""
    try:
        with log.open("rb") as lines:
            lines.seek(offset)
            return lines.read().rpartition(b"\n")[0]
    except FileNotFoundError:
        return b""
