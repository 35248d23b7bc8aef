"""A switch that claims the datapath id of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fake_switch.connection import Connection
from tests.fake_switch.switch import FakeSwitch


class Impostor:
    """A second switch with the datapath id of another one, which reconnects whenever it is refused."""

    def __init__(self, do: Callable[[Callable[[], Any]], Any], switch: FakeSwitch, connection: Connection) -> None:
        """Prepare an impostor.

        Args:
            do: runs a function on the switches' thread.
            switch: the state of the impostor.
            connection: its connection to the controller.
        """
        self._do, self._switch, self._connection = do, switch, connection

    @property
    def connects(self) -> int:
        """Number of its connections so far."""
        return int(self._do(lambda: self._connection.connects))

    @property
    def mods(self) -> list[Any]:
        """The flow-mods (with the controller's cookie) and group-mods that it was sent."""
        return list(self._do(lambda: [*self._switch.flow_mods(), *self._switch.group_mods()]))
