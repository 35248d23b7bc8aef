"""The tables of servers, which their agents ask for, and what they have confirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.southbound.addresses import mac, tree_address
from controller.circuits.southbound.server_table import ServerTable, TableChange
from controller.core.circuit_state import ServerRow
from controller.core.ports.runtime import Runtime

SILENT_SECONDS = 20.0
"""Time without a request after which an agent is not waited for; a request waits for less."""

LOOK_SECONDS = 5.0
"""Between two looks whether an agent that waits has disconnected."""


@dataclass
class _Heard:
    at: float
    step: str = ""
    waits: int = 0


class ServerAgents:
    """Hands tables out, step by step."""

    def __init__(self, fabric: OpticalFabric, runtime: Runtime) -> None:
        """Begin without tables: what servers have from before is not touched until there are some."""
        self._fabric, self._runtime = fabric, runtime
        self._run, self._number = f"{int(runtime.now() * 1e6):x}", 0
        self._tables: dict[int, ServerTable] = {}
        self._heard: dict[int, _Heard] = {}
        self._new, self.confirmed = runtime.signal(), runtime.signal()

    @property
    def step(self) -> str:
        """The name of the newest step."""
        return f"{self._run}.{self._number}"

    @property
    def knows(self) -> bool:
        """Whether there are tables."""
        return self._number > 0

    def publish(self, changes: Mapping[int, Sequence[TableChange]], *, whole: bool = False) -> None:
        """Change tables, in one step. ``whole``: these are all that servers have from now on."""
        before = {} if whole else self._tables
        tables = dict(before)
        for server, own in changes.items():
            tables[server] = before.get(server, ServerTable()).after(own)
        if self._number and tables == self._tables:
            return
        self._tables = tables
        self._number += 1
        # Who asks from now on waits for the next step.
        woken, self._new = self._new, self._runtime.signal()
        woken.set()

    def document(self, server: int, has: str, seconds: float, gone: Callable[[], bool]) -> bytes | None:
        """Return the table of a server as soon as its agent has another one; ``None``: not within the time.

        To ask is to confirm what the agent has.
        """
        heard = self._heard.setdefault(server, _Heard(0.0))
        heard.at, heard.step = self._runtime.clock(), has
        self.confirmed.set()
        deadline = self._runtime.clock() + seconds
        heard.waits += 1
        try:
            while not self.knows or has == self.step:
                left = deadline - self._runtime.clock()
                if left <= 0 or gone():
                    return None
                self._new.wait(min(left, LOOK_SECONDS))
        finally:
            heard.waits -= 1
            heard.at = self._runtime.clock()
        return orjson.dumps(self._document(server))

    def _document(self, server: int) -> dict[str, object]:
        table, fabric = self._tables.get(server, ServerTable()), self._fabric
        return {
            "host": fabric.servers[server],
            "step": self.step,
            "address": tree_address(server, 0),
            "macs": [mac(server, nic) for nic in range(fabric.nics)],
            "neighbours": [each._asdict() for each in table.neighbours.values()],
            "routes": [each._asdict() for each in table.routes.values()],
        }

    def lacking(self, servers: Iterable[int]) -> list[int]:
        """Return the servers that are heard and do not have the newest table."""
        return [each for each in servers if self._is_heard(each) and self._heard[each].step != self.step]

    def table_of(self, server: int) -> str:
        """Return the step of the table that a server has confirmed last; empty: none."""
        heard = self._heard.get(server)
        return "" if heard is None else heard.step

    def _is_heard(self, server: int) -> bool:
        heard = self._heard.get(server)
        return heard is not None and (heard.waits > 0 or self._runtime.clock() - heard.at < SILENT_SECONDS)

    def states(self, shards: Iterable[ShardPlan]) -> list[ServerRow]:
        """Return what is known of the agents of all servers."""
        needed = {server for each in shards for server in each.shard.servers}
        now = self._runtime.clock()
        rows = []
        for server, name in enumerate(self._fabric.servers):
            heard = self._heard.get(server)
            since = None if heard is None else 0.0 if heard.waits else now - heard.at
            has = self.knows and heard is not None and heard.step == self.step and self._is_heard(server)
            rows.append(ServerRow(name, server in needed, since, has))
        return rows
