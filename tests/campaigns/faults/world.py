"""The emulation of a fault campaign: it causes the faults, and keeps the resulting state."""

from __future__ import annotations

import functools
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from emulation.controller_process import ControllerProcess, controller_command
from emulation.errors import LabError
from emulation.http_client import HttpResponse, NoResponseError
from emulation.lab import DEFAULT_CONTROLLER, Lab
from emulation.processes import POLL_SECONDS, Popen
from tests.campaigns.faults.drift import change_behind_the_back
from tests.campaigns.faults.kinds import Fault
from tests.campaigns.faults.state import FaultState
from tests.campaigns.faults.store_lock import StoreLock

ANSWERS_SECONDS = 120.0
"""After a fresh installation its numerical code is compiled first, which takes a minute."""
READY_SECONDS = 60.0


class Broken(Exception):
    """Something is not as it must be."""


class FaultLab:
    """A lab, a controller with a persistent store, and the state that results from faults.

    Args:
        lab: a running lab with the cables of ``fabric``.
        options: further arguments for ``ryu-manager``.
        ecmp_action: its option of that name, which affects the expected rules.
        prefix: a command that starts the controller, such as one that sets limits.
        discovered: whether the controller has to discover the fabric, without a file.
        popen: starts the controller, called as ``subprocess.Popen`` is.
    """

    def __init__(
        self,
        lab: Lab,
        fabric: Fabric,
        options: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
        discovered: bool = False,
        ecmp_action: str = "bundle",
        popen: Popen = subprocess.Popen,
    ) -> None:
        """Write the fabric file and prepare the controller's command."""
        self.lab = lab
        self.state = FaultState(fabric, ecmp_action=ecmp_action)
        file = lab.out / "fabric.yaml"
        file.write_text(yaml.safe_dump(fabric_document(fabric)))
        self._store = lab.out.resolve() / "store.db"
        given = ["--store", f"sqlite:///{self._store}", *([] if discovered else ["--fabric", str(file)])]
        given += ["--ecmp-action", ecmp_action, *options]
        command = [*prefix, *controller_command(*given, openflow_port=DEFAULT_CONTROLLER[1])]
        self.controller = ControllerProcess(command, functools.partial(lab.spawn, popen=popen))
        self._still_until: float | None = None
        self._lock: StoreLock | None = None

    # -- the controller ----------------------------------------------------------------------------------------

    def start_controller(self) -> None:
        """Start it if it is not there; do not wait for it."""
        if not self.controller.is_started:
            self.controller.start(wait=False)

    def wait_for_controller(self) -> None:
        """Wait until the controller answers and, after a restart, the switches have reconnected.

        Raises:
            LabError: the controller has ended, or does not answer in time.
        """
        away = not self.controller.is_started
        self.start_controller()
        self.controller.wait_until(self.controller.answers, "the controller answers", ANSWERS_SECONDS)
        if away:
            self._go_on()
            self.lab.wait_connected()

    def get(self, target: str) -> Any:
        """Return the body of the answer to a GET.

        Raises:
            Broken: there is no connection, or the status is not 200.
        """
        try:
            answer = self.controller.ask("GET", target)
        except NoResponseError as error:
            raise Broken(f"GET {target}: {error}") from None
        if answer.status != 200:
            raise Broken(f"GET {target}: {answer.status}: {answer.body}")
        return answer.body

    def _ask(self, method: str, target: str, document: object = None) -> HttpResponse:
        """Send a request, and repeat it while the controller is not ready."""
        self.wait_for_controller()
        deadline = time.monotonic() + READY_SECONDS
        while (answer := self.controller.ask(method, target, document)).status == 503 and time.monotonic() < deadline:
            self._store_works()
            time.sleep(POLL_SECONDS)
        return answer

    def _change(self, method: str, target: str, document: object = None) -> None:
        answer = self._ask(method, target, document)
        if not 200 <= answer.status < 300:
            raise Broken(f"{method} {target} with {document}: {answer.status}: {answer.body}")

    # -- faults ------------------------------------------------------------------------------------------------

    def happen(self, fault: Fault) -> None:
        """Cause a fault, and return without waiting for the controller to notice it.

        Raises:
            Broken: the controller refuses a valid request, or accepts an invalid one.
            LabError: the emulation itself failed.
        """
        kind, _, how = fault.kind.partition(", ")
        _HAPPEN[kind](self, fault, how)
        self.state.settled = False

    def settle(self) -> None:
        """End temporary faults: wait for the end of a pause, and for the controller to start again."""
        self._go_on()
        self._store_works()
        self.wait_for_controller()

    def _cable_down(self, fault: Fault, how: str) -> None:
        self.state.down.add(fault.subject)
        wire = self.lab.wiring.wire(fault.subject)
        if how == "both ends" or (how == "by OpenFlow" and wire.a.node in self.state.off):
            self.lab.set_cable(fault.subject, up=False)
        elif how == "by OpenFlow":
            self._go_on()
            self.lab.ofctl("mod-port", wire.a.node, str(wire.a.port), "down")
        else:
            end = wire.a if how == "lower end" else wire.b
            self.lab.set_port(end.node, end.port, up=False)

    def _cable_up(self, fault: Fault, how: str) -> None:
        self.state.down.discard(fault.subject)
        self._plug(fault.subject)

    def _plug(self, name: str) -> None:
        """Bring a cable into its state; one whose other end has no power is as that left it."""
        wire = self.lab.wiring.wire(name)
        if self.state.off.isdisjoint((wire.a.node, wire.b.node)):
            self.lab.set_cable(name, up=name not in self.state.down)

    def _switch_off(self, fault: Fault, how: str) -> None:
        self._go_on()
        self.state.off.add(fault.subject)
        self.lab.kill_switch(fault.subject)

    def _switch_on(self, fault: Fault, how: str) -> None:
        self._go_on()
        self.state.off.discard(fault.subject)
        self.lab.start_switch(fault.subject)
        for wire in self.lab.wiring.wires:
            if fault.subject in (wire.a.node, wire.b.node):
                self._plug(wire.name)

    def _switch_restarts(self, fault: Fault, how: str) -> None:
        self._switch_off(fault, how)
        self._switch_on(fault, how)

    def _all_switches_restart(self, fault: Fault, how: str) -> None:
        self._go_on()
        self.lab.restart_switches()

    def _controller_killed(self, fault: Fault, how: str) -> None:
        # A controller does not start on a store that another program has locked.
        self._store_works()
        self.controller.kill()

    def _store_fails(self, fault: Fault, how: str) -> None:
        """Lock the store, so that the controller cannot write."""
        self._store_works()
        self.wait_for_controller()
        self._lock = StoreLock(self._store, fault.value)

    def _store_works(self) -> None:
        """Wait for the end of a failure of the store."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _drift(self, fault: Fault, how: str) -> None:
        self._go_on()
        self.state.drifts += 1
        change_behind_the_back(self.lab, fault.subject, how, fault.value)

    def _switches_stand_still(self, fault: Fault, how: str) -> None:
        if self._still_until is None:
            self.lab.ovs.daemon.signal(signal.SIGSTOP)
        self._still_until = time.monotonic() + fault.value

    def _go_on(self) -> None:
        """Wait for the end of a pause, since a suspended switch cannot be configured."""
        if self._still_until is not None:
            time.sleep(max(0.0, self._still_until - time.monotonic()))
            self.lab.ovs.daemon.signal(signal.SIGCONT)
            self._still_until = None

    def _job_pushed(self, fault: Fault, how: str) -> None:
        self._change("PUT", f"/v1/jobs/{quote(fault.subject)}", fault.value)
        self.state.jobs[fault.subject] = fault.value

    def _job_deleted(self, fault: Fault, how: str) -> None:
        self._change("DELETE", f"/v1/jobs/{quote(fault.subject)}")
        del self.state.jobs[fault.subject]

    def _bad_request(self, fault: Fault, how: str) -> None:
        method, target = fault.subject.split(" ", 1)
        answer = self._ask(method, target, fault.value)
        if not 400 <= answer.status < 500:
            raise Broken(f"{fault.subject} with {fault.value!r}: {answer.status}: {answer.body}")

    def _drained(self, fault: Fault, how: str) -> None:
        self._change("PUT", f"/v1/fabric/links/{fault.subject}", {"drained": True})
        self.state.drained.add(fault.subject)

    def _undrained(self, fault: Fault, how: str) -> None:
        self._change("PUT", f"/v1/fabric/links/{fault.subject}", {"drained": False})
        self.state.drained.discard(fault.subject)

    def _mode(self, fault: Fault, how: str) -> None:
        before = self.state.copy()
        self._change("PUT", "/v1/mode", {"mode": fault.subject})
        self.state.mode = fault.subject
        self.state.frozen = before if fault.subject == "frozen" else None

    def _enforcement(self, fault: Fault, how: str) -> None:
        self._change("PUT", "/v1/mode", {"enforcement": fault.subject})
        self.state.enforcement = fault.subject

    def check_alive(self) -> None:
        """Check that controller and switches still run.

        Raises:
            LabError: one has ended by itself.
        """
        for child in (*([self.controller.child] if self.controller.is_started else []), self.lab.ovs.daemon):
            if child.exit_status() is not None:
                raise LabError(f"{child.name} has ended with status {child.exit_status()}{child.tail()}")


_HAPPEN: dict[str, Callable[[FaultLab, Fault, str], None]] = {
    "cable down": FaultLab._cable_down,
    "cable up": FaultLab._cable_up,
    "switch off": FaultLab._switch_off,
    "switch on": FaultLab._switch_on,
    "switch restarts": FaultLab._switch_restarts,
    "all switches restart": FaultLab._all_switches_restart,
    "controller killed": FaultLab._controller_killed,
    "switches stand still": FaultLab._switches_stand_still,
    "job pushed": FaultLab._job_pushed,
    "job deleted": FaultLab._job_deleted,
    "bad request": FaultLab._bad_request,
    "drained": FaultLab._drained,
    "undrained": FaultLab._undrained,
    "mode": FaultLab._mode,
    "enforcement": FaultLab._enforcement,
    "store fails": FaultLab._store_fails,
    "drift": FaultLab._drift,
}
