"""An Open vSwitch bridge as an optical switch or patch panel: each circuit is a rule from one port to another.

Commands go through ``ovs-ofctl``, to the bridge's own management socket (``unix:/var/run/openvswitch/BRIDGE.mgmt``), or
to any switch that speaks OpenFlow 1.4 and listens (``tcp:HOST:PORT``). A change is one bundle: the switch takes all of
it or nothing. Rules with another cookie are somebody else's and are never touched.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.circuits.fabric.optical_fabric import Circuit
from controller.model.errors import InputError

COOKIE = 0x6673_6369_7263
"""Marks the rules of circuits."""
PRIORITY = 100
ANSWER_SECONDS = 60.0
WAIT_SECONDS = 10.0
"""Within which a packet that crosses a circuit is counted."""
_POLL_SECONDS = 0.2
_RULE = re.compile(r"\s*cookie=(0x[0-9a-f]+),.*?priority=(\d+),in_port=(\d+) actions=output:(\d+)\s*")

_COUNTED = re.compile(
    r"\s*cookie=(0x[0-9a-f]+),.*?n_packets=(\d+),.*?priority=(\d+),in_port=(\d+) actions=output:(\d+)\s*"
)
_PORT = re.compile(r" (\w+)\(")
_LLDP_GROUP, _LLDP_SOURCE, _LLDP_TYPE = (bytes.fromhex(text) for text in ("0180c200000e", "024653ffffff", "88cc"))
_MOST_TEXT, _LEAST_FRAME = 200, 60
_LLDP_SECONDS = 120
"""How long a server may keep what it learns of a discovery packet."""


@dataclass(frozen=True)
class PanelChange:
    """The circuits that a change takes away, and those that it sets."""

    removed: tuple[Circuit, ...]
    added: tuple[Circuit, ...]


class Panel:
    """One switch that stands for a patch panel."""

    def __init__(self, name: str, target: str) -> None:
        """Speak to the switch of this name in plans, at a target in the notation of ``ovs-ofctl``."""
        self.name, self.target = name, target

    def circuits(self) -> tuple[Circuit, ...]:
        """Return the circuits that the switch holds, in order of ports.

        Raises:
            InputError: the switch does not answer.
        """
        held: list[Circuit] = []
        for line in self._ofctl("--no-stats", "--no-names", "dump-flows", self.target).splitlines():
            rule = _RULE.fullmatch(line)
            if rule and int(rule[1], 16) == COOKIE and int(rule[2]) == PRIORITY:
                held.append(Circuit(self.name, int(rule[3]), int(rule[4])))
        return tuple(sorted(held))

    def set(self, wanted: Iterable[Circuit], gone: Iterable[Circuit] = ()) -> PanelChange:
        """Set circuits, and take others away; those that use other ports stay.

        Raises:
            InputError: the switch does not answer, or refuses them; then it holds what it held before.
        """
        change = change_of(self.circuits(), [each for each in wanted if each.switch == self.name], gone)
        if change.removed or change.added:
            self._ofctl("bundle", self.target, "-", text="".join(bundle_lines(change)))
        return change

    def faults(self, wanted: Iterable[Circuit], wait_seconds: float = WAIT_SECONDS) -> dict[Circuit, str]:
        """Return what is wrong with circuits that should be set: those that carry a discovery packet are right.

        The packet (LLDP, with the names of switch and ports) is given to the switch as if it came in by the circuit's
        first port. It leaves by the second one, to the server there. The rule has to count it, or other packets.

        Args:
            wanted: the circuits, also those of other switches, which are passed over.
            wait_seconds: how long to wait for counters, which Open vSwitch brings up to date once a second.

        Raises:
            InputError: the switch does not answer.
        """
        own = [each for each in wanted if each.switch == self.name]
        held, states = self._packets(), self._port_states()
        wrong: dict[Circuit, str] = {}
        for each in own:
            states_of = {port: states.get(port, "does not exist") for port in (each.in_port, each.out_port)}
            bad = next((f"port {port} {state}" for port, state in states_of.items() if state), "")
            if each not in held or bad:
                wrong[each] = bad or "is not set"
        waiting = [each for each in own if each not in wrong]
        if waiting:
            self._ofctl("bundle", self.target, "-", text="".join(_packet_out(each) for each in waiting))
        deadline = time.monotonic() + wait_seconds
        while waiting:
            now = self._packets()
            waiting = [each for each in waiting if now.get(each, 0) <= held[each]]
            if time.monotonic() > deadline:
                break
            if waiting:
                time.sleep(_POLL_SECONDS)
        return {**wrong, **dict.fromkeys(waiting, "a discovery packet did not cross it")}

    def _packets(self) -> dict[Circuit, int]:
        """Return how many packets each circuit has carried."""
        counted = {}
        for line in self._ofctl("--no-names", "dump-flows", self.target).splitlines():
            rule = _COUNTED.fullmatch(line)
            if rule and int(rule[1], 16) == COOKIE and int(rule[3]) == PRIORITY:
                counted[Circuit(self.name, int(rule[4]), int(rule[5]))] = int(rule[2])
        return counted

    def _port_states(self) -> dict[int, str]:
        """Return what is wrong with each port that exists; nothing: it is up."""
        states: dict[str, str] = {}
        port = ""
        for line in self._ofctl("--no-names", "dump-ports-desc", self.target).splitlines():
            begins = _PORT.match(line)
            if begins:
                port = begins[1]
                states[port] = ""
            elif port and ("PORT_DOWN" in line or "LINK_DOWN" in line):
                states[port] = "is down"
        return {int(number): state for number, state in states.items() if number.isdecimal()}

    def _ofctl(self, *arguments: str, text: str = "") -> str:
        try:
            done = subprocess.run(
                ["ovs-ofctl", "-O", "OpenFlow14", *arguments],
                input=text,
                capture_output=True,
                text=True,
                timeout=ANSWER_SECONDS,
            )
        except FileNotFoundError:
            raise InputError("ovs-ofctl is not installed (Debian: openvswitch-common)", source=self.target) from None
        except subprocess.TimeoutExpired:
            raise InputError(f"no answer within {ANSWER_SECONDS:g} s", source=self.target) from None
        if done.returncode:
            last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            raise InputError(last, source=self.target)
        return done.stdout


def change_of(held: Sequence[Circuit], wanted: Sequence[Circuit], gone: Iterable[Circuit] = ()) -> PanelChange:
    """Return what to change: a circuit goes if another one needs one of its ports, or if it is named."""
    away = set(gone) - set(wanted)
    added = [each for each in wanted if each not in set(held)]
    inputs, outputs = {each.in_port for each in added}, {each.out_port for each in added}
    removed = [each for each in held if each.in_port in inputs or each.out_port in outputs or each in away]
    return PanelChange(tuple(removed), tuple(added))


def bundle_lines(change: PanelChange) -> Iterable[str]:
    """Yield the lines of a file for ``ovs-ofctl bundle``."""
    for each in change.removed:
        yield f"flow delete_strict cookie={COOKIE:#x}/-1,priority={PRIORITY},in_port={each.in_port}\n"
    for each in change.added:
        yield (
            f"flow add cookie={COOKIE:#x},priority={PRIORITY},in_port={each.in_port},actions=output:{each.out_port}\n"
        )


def discovery_packet(circuit: Circuit) -> bytes:
    """Return an LLDP frame (IEEE 802.1AB) from the first port of a circuit; what runs on servers for it can show it."""
    local = b"\x07"
    name = circuit.switch.encode()[:_MOST_TEXT]
    text = f"circuit from port {circuit.in_port} to port {circuit.out_port}".encode()
    fields = (
        (1, local + name),
        (2, local + str(circuit.in_port).encode()),
        (3, _LLDP_SECONDS.to_bytes(2)),
        (5, name),
        (6, text),
        (0, b""),
    )
    body = b"".join((kind << 9 | len(value)).to_bytes(2) + value for kind, value in fields)
    return (_LLDP_GROUP + _LLDP_SOURCE + _LLDP_TYPE + body).ljust(_LEAST_FRAME, b"\0")


def _packet_out(circuit: Circuit) -> str:
    return f"packet-out in_port={circuit.in_port} packet={discovery_packet(circuit).hex()} actions=table\n"
