"""docs/how-to/cluster.md: three replicas from nothing, by the guide's commands and configuration file."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from controller.cli.connection.client import Client
from controller.cli.shared.command_error import CommandError
from emulation.controller_process import ControllerProcess, controller_command
from tests.documented import ROOT, commands_of, fences_of
from tests.rig.controller import forked
from tests.rig.real_controller import free_ports
from tests.rig.store.postgres import PostgresServer, need_postgres
from tests.rig.waiting import READY_SECONDS, eventually

GUIDE = ROOT / "docs" / "how-to" / "cluster.md"
COMMANDS = commands_of(GUIDE)
MAKING = [line for line in COMMANDS if re.match(r"fairspine token|openssl |for n in .*openssl", line)]
STATUS, STEP_DOWN = "fairspine cluster status", "fairspine cluster step-down"
assert {STATUS, STEP_DOWN} <= set(COMMANDS)
((_, CONFIGURATION),) = [fence for fence in fences_of(GUIDE) if fence[0] == "ini"]
EXPORTS = [line for line in COMMANDS if line.startswith("export ")]
NUMBERS = (1, 2, 3)

BIN = Path(sys.executable).parent


class Machines:
    """Three replicas as on machines of their own, and two servers of their database."""

    def __init__(self, folder: Path, undo: ExitStack) -> None:
        self.folder = folder
        self.primary = PostgresServer()
        undo.callback(self.primary.close)
        self.primary.start()
        self.primary.sql("postgres", "CREATE DATABASE fairspine OWNER fairspine TEMPLATE template0 ENCODING 'UTF8'")
        self.standby = PostgresServer(primary=self.primary)
        undo.callback(self.standby.close)
        self.standby.start()
        self.primary.wait_for_standby(synchronous=True)
        self.ports = free_ports(len(NUMBERS))
        self.logs: list[Path] = []

    def here(self, text: str) -> str:
        """Text of the guide with the paths, names and ports of this test."""
        text = text.replace("/etc/fairspine", str(self.folder)).replace("0.0.0.0", "127.0.0.1")
        for number, port in zip(NUMBERS, self.ports, strict=True):
            text = text.replace(f"controller-{number}.example:8080", f"127.0.0.1:{port}")
        text = text.replace("DNS:controller-$n.example", "IP:127.0.0.1")
        # Nobody here tests how soon a leader is replaced, and a busy machine replaces none in this time.
        text = text.replace("lease = 2\n", "lease = 60\n")
        return text.replace("db-1.example", str(self.primary.folder)).replace("db-2.example", str(self.standby.folder))

    def run(self, *commands: str) -> str:
        done = subprocess.run(
            ["bash", "-c", "\n".join(["set -e", *map(self.here, commands)])],
            cwd=self.folder,
            env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READY_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def told(self) -> str:
        """The logs of all replicas, without the requests."""
        lines = [f"{log.parent.name}: {line}" for log in self.logs for line in log.read_text().splitlines()]
        return "\n".join(line for line in lines if " bytes " not in line)

    def start(self, number: int, undo: ExitStack) -> Client:
        """Start a replica; it answers when this returns."""
        (openflow,) = free_ports(1)
        conf = self.folder / f"controller-{number}.conf"
        text = CONFIGURATION.replace("controller-1", f"controller-{number}")
        conf.write_text(self.here(text))
        home = self.folder / f"home{number}"
        home.mkdir()
        port, log = self.ports[number - 1], home / "log"
        command = controller_command("--config-file", str(conf), openflow_port=openflow, http_port=port)
        process = ControllerProcess(command, forked(log, {"HOME": str(home)}, ROOT)).start(wait=False)

        def end() -> None:
            assert process.stop(READY_SECONDS) in (0, -signal.SIGTERM)
            assert "Traceback" not in log.read_text(), log.read_text()

        undo.callback(end)
        self.logs.append(log)
        client = Client(
            f"https://127.0.0.1:{port}",
            token=(self.folder / "operator.secret").read_text().strip(),
            ca_file=self.folder / "ca.pem",
        )

        def is_there() -> bool:
            assert process.runs, log.read_text()
            return answers(client)

        eventually(is_there, f"replica {number} answers")
        return client


def leader_to(client: Client) -> str:
    """The leader that a replica knows; empty where it knows none, or does not answer."""
    try:
        return str(client.request("GET", "cluster").document["leader"] or "")
    except CommandError:
        return ""


def answers(client: Client) -> bool:
    return leader_to(client) != ""


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_three_machines_from_nothing_and_a_database_that_fails_over(tmp_path: Path, undo: ExitStack) -> None:
    need_postgres()
    machines = Machines(tmp_path, undo)
    machines.run(*MAKING)
    shutil.copy(ROOT / "examples" / "clos-4x4x4.yaml", tmp_path / "fabric.yaml")
    clients = [machines.start(number, undo) for number in NUMBERS]

    def soon(condition: Callable[[], bool], text: str) -> None:
        eventually(condition, text, shown=machines.told)

    def is_followed_by_all() -> bool:
        # Commands ask the first replica that answers, whichever that is.
        leaders = set(map(leader_to, clients))
        if leaders == {first}:
            # It is back, and led again, before the others have noticed that nobody led.
            with suppress(CommandError):
                clients[0].request("POST", "cluster:step-down")
        return len(leaders) == 1 and leaders.isdisjoint({first, ""})

    def lists_all() -> bool:
        return all(str(port) in machines.run(*EXPORTS, STATUS) for port in machines.ports)

    first = leader_to(clients[0])
    soon(lists_all, "the status lists three replicas")
    machines.run(*EXPORTS, STEP_DOWN)
    soon(is_followed_by_all, "another replica leads, and all know it")
    machines.run(*EXPORTS, "fairspine mode frozen")

    machines.primary.kill()
    machines.standby.promote()
    soon(lambda: answers(clients[0]), "the cluster has its database again")
    soon(lambda: "frozen" in mode(clients[-1]), "a follower tells what was changed before")
    soon(lambda: "planned" in changed(clients[-1]), "the mode is changed on the other server")


def mode(client: Client) -> str:
    try:
        return str(client.request("GET", "mode").document["mode"])
    except CommandError as error:
        return str(error)


def changed(client: Client) -> str:
    try:
        client.request("PUT", "mode", body=b'{"mode": "planned"}')
    except CommandError as error:
        return str(error)
    return mode(client)
