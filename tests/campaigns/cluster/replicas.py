"""Three replicas of a controller on the switches of a lab, with one PostgreSQL server behind them."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from emulation.controller_process import ControllerProcess, controller_command
from emulation.http_client import HttpClient, HttpResponse, NoResponseError
from emulation.lab import Lab
from emulation.processes import Popen
from tests.campaigns.cluster.clocks import ShiftedClock, ShiftedClocks
from tests.campaigns.cluster.database import SOCKET, PrivatePostgres
from tests.campaigns.cluster.relays import CutRelay, Relays
from tests.campaigns.faults.world import Broken
from tests.campaigns.process_usage import UsageMeter

COUNT = 3
"""Replicas of a cluster."""

ANSWERS_SECONDS = 120.0
"""After a fresh installation numerical code is compiled first, which takes a minute."""

ASK_SECONDS = 5.0
"""A replica that is stopped does not answer."""

OPENFLOW, HTTP, PEERS, CLIENTS = 6700, 8100, 8200, 8300
"""First ports of the replicas: where they listen, and where the relays of their peers and clients do."""

SWITCH_RELAYS = 6800
"""Two for each replica, each for half of the switches."""

RECONNECT_MS = 1000

REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""What clients and other replicas get whose request cannot reach a replica, because its process has ended."""

_TAKE_OVER = re.compile(r"^fairspine_cluster_take_over_seconds (\S+)$", re.MULTILINE)


class Replica:
    """One replica: its process, and the relays of its connections.

    Attributes:
        store: to PostgreSQL.
        switches: from the even and from the odd switches.
        peers: from the other replicas.
        clients: from clients, at ``address``.
        clock: its time of day; ``None``: the machine's.
    """

    def __init__(
        self, number: int, relays: Relays, folder: Path, server: PrivatePostgres, clock: ShiftedClock | None
    ) -> None:
        """Prepare the replica with this number, from 0; ``folder``: for its socket of PostgreSQL."""
        self.number, self.clock = number, clock
        self.name = f"replica{number}"
        self.address = ("127.0.0.1", CLIENTS + number)
        self.process: ControllerProcess | None = None
        self._socket = folder / self.name
        self._socket.mkdir(parents=True)
        self._direct = ("127.0.0.1", HTTP + number)
        self.store = relays.add(self._socket / SOCKET, server.socket)
        self.peers = relays.add(("127.0.0.1", PEERS + number), self._direct, refusal=REFUSAL)
        self.clients = relays.add(self.address, self._direct, refusal=REFUSAL)
        port = ("127.0.0.1", OPENFLOW + number)
        self.switches = [relays.add(("127.0.0.1", SWITCH_RELAYS + 2 * number + half), port) for half in (0, 1)]

    def command(self, fabric: Path, store: str, lease: float) -> list[str]:
        """Return the command that runs it."""
        return controller_command(
            "--fabric",
            str(fabric),
            "--store",
            store,
            "--cluster-name",
            "campaign",
            "--lease",
            str(lease),
            "--cluster-url",
            f"http://127.0.0.1:{PEERS + self.number}",
            "--http-hosts",
            f"127.0.0.1:{PEERS + self.number},{self.address[0]}:{self.address[1]}",
            openflow_port=OPENFLOW + self.number,
            http_port=HTTP + self.number,
        )

    def store_url(self, server: PrivatePostgres, database: str) -> str:
        """Return the URL of the store by way of the relay."""
        return server.url(database, folder=self._socket)

    @property
    def runs(self) -> bool:
        """Whether its process is there; it may be stopped."""
        return self.process is not None and self.process.runs

    def meter(self) -> UsageMeter:
        """Begin to measure what its process uses.

        Raises:
            Broken: it does not run.
        """
        if self.process is None:
            raise Broken(f"{self.name} does not run")
        return UsageMeter(self.process.pid)

    def get(self, target: str, *, direct: bool = True) -> HttpResponse:
        """Ask it, past the relays or (not ``direct``) as a client does."""
        with HttpClient(self._direct if direct else self.address, timeout=ASK_SECONDS) as client:
            return client.ask("GET", target)

    def cluster(self) -> Mapping[str, Any] | None:
        """Return what it says of the cluster; ``None``: it does not answer."""
        with suppress(NoResponseError):
            answer = self.get("/v1/cluster")
            if answer.status == 200:
                return dict(answer.body)
        return None

    @property
    def term(self) -> int:
        """The term that it knows.

        Raises:
            Broken: it does not answer.
        """
        told = self.cluster()
        if told is None:
            raise Broken(f"{self.name} does not answer")
        return int(told["term"])

    def has_taken_over(self, term: int) -> bool:
        """Return whether it leads a later term than this, and every switch has confirmed its rules."""
        told = self.cluster()
        if told is None or told["role"] != "leader" or told["term"] <= term:
            return False
        with suppress(NoResponseError):
            return _TAKE_OVER.search(str(self.get("/metrics").body)) is not None
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self.process is not None
        self.process.signal(number)

    @property
    def relays(self) -> list[CutRelay]:
        """All its relays."""
        return [self.store, self.peers, self.clients, *self.switches]


class Replicas:
    """The replicas of a lab, which has no controller of its own.

    Args:
        lab: a running lab with the cables of ``fabric``.
        server: a running server.
        lease: their option, in seconds.
        clocks: gives each replica a clock of its own.
        server_clock: that of ``server``.
        popen: starts the processes of replicas.

    Attributes:
        server: the present one; after ``fail_over`` it is another.
        server_clock: its time of day; ``None``: the machine's.
    """

    def __init__(
        self,
        lab: Lab,
        fabric: Fabric,
        server: PrivatePostgres,
        *,
        lease: float = 1.0,
        clocks: ShiftedClocks | None = None,
        server_clock: ShiftedClock | None = None,
        popen: Popen = subprocess.Popen,
    ) -> None:
        """Write the fabric file; ``start`` starts the replicas."""
        self.lab, self.server, self.lease = lab, server, lease
        self.server_clock = server_clock
        self._database = server.create()
        self._file = lab.out / "fabric.yaml"
        self._file.write_text(yaml.safe_dump(fabric_document(fabric)))
        self._undo = ExitStack()
        self._clocks, self._popen = clocks, popen
        self._standby: PrivatePostgres | None = None
        self._relays = Relays()
        self._replication: CutRelay | None = None
        self.all: list[Replica] = []

    def __enter__(self) -> Replicas:
        """Start all replicas, and connect the switches to them."""
        try:
            relays = self._undo.enter_context(self._relays)
            for n in range(COUNT):
                clock = self._clocks.add(f"replica{n}") if self._clocks else None
                self.all.append(Replica(n, relays, self.server.folder / self._database, self.server, clock))
            self._undo.callback(self._end)
            self._connect()
            for replica in self.all:
                self.start(replica)
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all replicas."""
        self._undo.close()

    def start(self, replica: Replica) -> None:
        """Start a replica, and wait until it answers. Harmless when it runs."""
        if not replica.runs:
            store = replica.store_url(self.server, self._database)
            command = replica.command(self._file, store, self.lease)
            env = replica.clock.environment if replica.clock else {}
            spawn = functools.partial(self.lab.spawn, env=env, popen=self._popen)
            replica.process = ControllerProcess(command, spawn, name=replica.name).start(wait=False)
        assert replica.process is not None
        replica.process.wait_until(lambda: replica.cluster() is not None, "the replica answers", ANSWERS_SECONDS)

    def kill(self, replica: Replica) -> None:
        """SIGKILL."""
        assert replica.process is not None
        replica.process.kill()

    def add_standby(self, *, synchronous: bool) -> None:
        """Start a standby of the server, and wait until it has all that the server has."""
        folder = self.server.folder / "replication"
        folder.mkdir()
        self._replication = self._relays.add(folder / SOCKET, self.server.socket)
        # The server is another user.
        (folder / SOCKET).chmod(0o777)
        self._standby = PrivatePostgres(primary=self.server, by=folder)
        self._undo.callback(self._standby.close)
        self._standby.start()
        self.server.wait_for_standby(synchronous=synchronous)

    def cut_standby(self) -> None:
        """Let the standby get no more of what the server writes."""
        assert self._replication is not None
        self._replication.cut()

    def fail_over(self) -> None:
        """Kill the server; its standby takes its place, under the same address."""
        assert self._standby is not None
        self.server.kill()
        self._standby.promote()
        for replica in self.all:
            replica.store.redirect(self._standby.socket)
        self.server, self._standby = self._standby, None

    def transactions(self) -> int:
        """Return how many transactions have written something and not ended yet, beats and elections left out."""
        return self.server.writing(self._database, "fairspine-election")

    def leader(self) -> Replica:
        """Return the one that leads.

        Raises:
            Broken: none leads, or several.
        """
        leaders = self.leaders
        if len(leaders) != 1:
            raise Broken(f"{len(leaders)} replicas lead")
        return leaders[0]

    @property
    def leaders(self) -> list[Replica]:
        """The replicas that say that they lead."""
        return [replica for replica in self.all if replica.runs and _leads(replica)]

    def _connect(self) -> None:
        """Have every switch connect to all replicas, and to nothing else."""
        arguments: list[str] = []
        for n, switch in enumerate(self.lab.wiring.switches):
            rows = []
            for replica in self.all:
                row = f"@{switch.bridge}-{replica.number}"
                target = f"tcp:127.0.0.1:{SWITCH_RELAYS + 2 * replica.number + n % 2}"
                arguments += ["--", f"--id={row}", "create", "controller", f'target="{target}"']
                arguments += [f"max_backoff={RECONNECT_MS}"]
                rows.append(row)
            arguments += ["--", "set", "bridge", switch.bridge, f"controller=[{','.join(rows)}]"]
        self.lab.ovs.vsctl(*arguments)

    def _end(self) -> None:
        for replica in self.all:
            if replica.process is not None:
                replica.process.kill()


def _leads(replica: Replica) -> bool:
    told = replica.cluster()
    return told is not None and told["role"] == "leader"
