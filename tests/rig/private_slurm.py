"""A Slurm of a test's own: munged, slurmctld and some slurmd in private folders and on free ports of loopback."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue")
NODES = tuple(f"node{number}" for number in range(1, 7))
"""The first one is for jobs of one node; the others are of the partition ``many``."""

CONFIGURATION = """
ClusterName=test
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={control_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
PrologSlurmctld={prolog}
EpilogSlurmctld={epilog}
PartitionName=all Nodes={first} Default=YES State=UP
PartitionName=many Nodes={others} State=UP
"""


@dataclass(frozen=True)
class PrivateSlurm:
    """A running Slurm with the nodes ``NODES``."""

    folder: Path

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands and return what it prints."""
        environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        done = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}{self.logs()}"
        return done.stdout.strip()

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a shell script as a job; return its id."""
        file = self.folder / f"{name}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        given = ("--parsable", "--requeue", f"--job-name={name}", "--output=/dev/null", *options)
        return self.run("sbatch", *given, str(file))

    def state(self, job: str) -> str:
        """Return the state of a job, such as ``RUNNING``."""
        fields = dict(word.split("=", 1) for word in self.run("scontrol", "show", "job", job).split() if "=" in word)
        return fields["JobState"]

    def logs(self) -> str:
        """Return the ends of all logs, for messages of failed tests."""
        return "".join(f"\n{file.name}:\n{file.read_text()[-2000:]}" for file in sorted(self.folder.glob("*.log")))


@contextmanager
def private_slurm(folder: Path, prolog: Path, epilog: Path) -> Iterator[PrivateSlurm]:
    """Start a Slurm that runs two scripts as ``PrologSlurmctld`` and ``EpilogSlurmctld``; end all of it at the end.

    Args:
        folder: for everything that it writes.
        prolog: an executable script.
        epilog: an executable script.
    """
    machine = socket.gethostname().split(".")[0]
    control_port, *node_ports = free_ports(1 + len(NODES))
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    configuration = CONFIGURATION.format(
        machine=machine,
        control_port=control_port,
        folder=folder,
        prolog=prolog,
        epilog=epilog,
        first=NODES[0],
        others=",".join(NODES[1:]),
    ) + "".join(
        f"NodeName={node} NodeHostname={machine} NodeAddr=127.0.0.1 Port={port} CPUs=2\n"
        for node, port in zip(NODES, node_ports, strict=True)
    )
    (folder / "slurm.conf").write_text(configuration)
    slurm = PrivateSlurm(folder)
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
    munge += [f"--{what}-file={folder}/munged.{what}" for what in ("log", "pid", "seed")]
    with ExitStack() as running:
        running.enter_context(_ipv4())
        running.enter_context(_daemon(folder, *munge))
        eventually(lambda: (folder / "munge.socket").exists(), "munged listens")
        running.enter_context(_daemon(folder, "slurmctld", "-D"))
        for node in NODES:
            running.enter_context(_daemon(folder, "slurmd", "-D", "-N", node))
        eventually(lambda: _idle(slurm), "the nodes are idle")
        try:
            yield slurm
        finally:
            slurm.run("scancel", "--user=root")
            eventually(lambda: not slurm.run("squeue", "--noheader"), "all jobs have ended")


def _idle(slurm: PrivateSlurm) -> bool:
    try:
        return slurm.run("sinfo", "--noheader", "--Node", "--format=%t").split() == ["idle"] * len(NODES)
    except AssertionError:
        return False  # slurmctld does not answer yet


@contextmanager
def _ipv4() -> Iterator[None]:
    """Make Slurm find an address to listen on.

    It asks for addresses of the families that the machine has (``AI_ADDRCONFIG``), where 127.0.0.1 does not count. In
    the network namespace of a test that had a lab, only the ends of cables have addresses, and only of IPv6.
    """
    try:
        socket.getaddrinfo(None, 0, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG | socket.AI_PASSIVE)
        yield
        return
    except socket.gaierror:
        pass
    address = ("127.0.0.2/32", "dev", "lo")
    subprocess.run(["ip", "address", "add", *address], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "address", "delete", *address], check=True)


@contextmanager
def _daemon(folder: Path, *command: str) -> Iterator[None]:
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / f"{command[0]}.out.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
