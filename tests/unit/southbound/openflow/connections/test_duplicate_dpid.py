"""State of a connection in the dpid table is removed when the connection ends."""

from __future__ import annotations

from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
import ryu.base.app_manager  # noqa: E402, F401 (before its controller)

from controller.southbound.openflow.connections import duplicate_dpid as module  # noqa: E402
from controller.southbound.openflow.connections.duplicate_dpid import DpidRegistry  # noqa: E402


class Failing:
    """A connection whose end some application cannot bear."""

    id, who = 7, "leaf1"

    def __init__(self, dpids: DpidRegistry, *_: object) -> None:
        self._dpids = dpids
        self.ports: dict[int, Any] = {1: object()}
        made.append(self)

    def serve(self) -> None:
        assert self in self._dpids._watch._watched
        self._dpids.context.notices.give((self.id, "ports"), "too many ports")

    def close(self) -> None:
        raise KeyError("of an application")


made: list[Failing] = []


def test_nothing_is_kept_of_a_connection_though_an_application_fails_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GuardedDatapath", Failing)
    dpids = DpidRegistry(name=hex, changed=lambda: None, clock=lambda: 0.0)
    with pytest.raises(KeyError):
        dpids.serve(None, ("10.0.0.9", 1))
    (connection,) = made
    assert dpids._watch._watched == {}
    assert connection.ports == {}
    assert dpids.notices() == []
