"""One controller with switches of either kind, fake or Open vSwitch, for tests that must not tell them apart."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from emulation.lab import Lab
from tests.fake_switch.fabric import FakeFabric
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.switches.raw_openflow import BridgeWire, Talk, bridge_socket


class Switches(Protocol):
    """What both kinds can do. The methods are those of ``emulation.lab.Lab``."""

    def held(self) -> RuleSet:
        """The controller's rules and groups on every switch, as the switches tell."""
        ...

    def ping_all(self) -> list[tuple[str, str]]: ...

    def set_cable(self, name: str, up: bool) -> None: ...

    def kill_switch(self, name: str) -> None: ...

    def start_switch(self, name: str) -> None: ...

    def restart_switches(self) -> None: ...

    def wait_connected(self) -> None: ...


class Bridges(Lab):
    """A lab whose switches are asked over OpenFlow what they hold."""

    def held(self) -> RuleSet:
        return RuleSet({s.dpid: self._held(s.name) for s in self.fabric.switches})

    def _held(self, switch: str) -> SwitchRules:
        # A bridge that was made anew has a new socket, so a connection is not kept.
        wire = BridgeWire(bridge_socket(self, switch))
        try:
            return Talk(wire).ours()
        finally:
            wire.close()


class Setup:
    """Makes controllers and switches for one test; switches are closed first."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench, self._folder = bench, folder
        self._undo = ExitStack()

    def controller(self, fabric: Fabric, *options: str) -> tuple[Controller, tuple[str, int]]:
        """A controller that knows the fabric, and where switches reach it."""
        path = self.file("fabric.yaml", yaml.safe_dump(fabric_document(fabric)))
        openflow, http = free_ports(2)
        argv = ["--fabric", path, "--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http), *options]
        return self._bench.controller(*argv, "controller.app", http_port=http), ("127.0.0.1", openflow)

    def file(self, name: str, text: str) -> str:
        """Write a file for the controller; its path."""
        path = self._folder / name
        path.write_text(text)
        return str(path)

    def fakes(self, fabric: Fabric, address: tuple[str, int], **options: Any) -> FakeFabric:
        """Fake switches that connect there; the options are ``FakeFabric``'s."""
        return self._undo.enter_context(FakeFabric(fabric, address, **options))

    def switches(self, kind: str, fabric: Fabric, address: tuple[str, int]) -> Switches:
        """Switches of a kind that connect there."""
        if kind == "fake":
            return self.fakes(fabric, address)
        bridges = Bridges(fabric, controller=address, out=self._bench.out)
        self._undo.enter_context(bridges)
        return bridges

    def close(self) -> None:
        self._undo.close()
