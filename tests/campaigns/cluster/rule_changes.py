"""Count the changes of rules that switches make, as Open vSwitch reports them (flow monitors, ovs-ofctl(8))."""

from __future__ import annotations

import re

from emulation.lab import Lab
from emulation.private_ovs import PrivateOvs
from emulation.processes import Child

_EVENT = re.compile(r"^ *event=(ADDED|DELETED|MODIFIED)\b", re.MULTILINE)


class RuleChanges:
    """A monitor of each switch of a lab, whoever changes it; a restart of the switches ends them."""

    def __init__(self, lab: Lab) -> None:
        """Prepare; ``start`` begins to count."""
        self._lab = lab
        self._children: dict[str, Child] = {}
        self._seen: dict[str, int] = {}

    def start(self) -> None:
        """Watch every switch from now on."""
        for child in self._children.values():
            child.stop()
        folder = self._lab.ovs.folder
        for switch in self._lab.wiring.switches:
            name = f"monitor-{switch.name}"
            argv = ["ovs-ofctl", "-O", "OpenFlow13", "monitor", f"unix:{folder}/{switch.bridge}.mgmt", "watch:!initial"]
            self._children[name] = self._lab.spawn(name, argv, env=PrivateOvs.environment(folder))
            self._seen[name] = self._counted(name)

    def new(self) -> int:
        """Return the number of rules that were added, deleted or changed since the last call."""
        found = 0
        for name, before in self._seen.items():
            self._seen[name] = self._counted(name)
            found += self._seen[name] - before
        return found

    def _counted(self, name: str) -> int:
        return len(_EVENT.findall(self._lab.log_path(name).read_text()))
