"""An Open vSwitch bridge as an optical switch or patch panel: each circuit is a rule from one port to another.

Commands go through ``ovs-ofctl``, to the bridge's own management socket (``unix:/var/run/openvswitch/BRIDGE.mgmt``), or
to any switch that speaks OpenFlow 1.4 and listens (``tcp:HOST:PORT``). A change is one bundle: the switch takes all of
it or nothing. Rules with another cookie are somebody else's and are never touched.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.circuits.fabric.optical_fabric import Circuit
from controller.model.errors import InputError

COOKIE = 0x6673_6369_7263
"""Marks the rules of circuits."""
PRIORITY = 100
ANSWER_SECONDS = 60.0
_RULE = re.compile(r"\s*cookie=(0x[0-9a-f]+),.*?priority=(\d+),in_port=(\d+) actions=output:(\d+)\s*")


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

    def set(self, wanted: Iterable[Circuit]) -> PanelChange:
        """Set circuits; those that use other ports stay.

        Raises:
            InputError: the switch does not answer, or refuses them; then it holds what it held before.
        """
        change = change_of(self.circuits(), [each for each in wanted if each.switch == self.name])
        if change.removed or change.added:
            self._ofctl("bundle", self.target, "-", text="".join(bundle_lines(change)))
        return change

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


def change_of(held: Sequence[Circuit], wanted: Sequence[Circuit]) -> PanelChange:
    """Return what to change: a circuit goes if another one needs one of its ports."""
    added = [each for each in wanted if each not in set(held)]
    inputs, outputs = {each.in_port for each in added}, {each.out_port for each in added}
    removed = [each for each in held if each.in_port in inputs or each.out_port in outputs]
    return PanelChange(tuple(removed), tuple(added))


def bundle_lines(change: PanelChange) -> Iterable[str]:
    """Yield the lines of a file for ``ovs-ofctl bundle``."""
    for each in change.removed:
        yield f"flow delete_strict cookie={COOKIE:#x}/-1,priority={PRIORITY},in_port={each.in_port}\n"
    for each in change.added:
        yield (
            f"flow add cookie={COOKIE:#x},priority={PRIORITY},in_port={each.in_port},actions=output:{each.out_port}\n"
        )
