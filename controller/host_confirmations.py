"""Which hosts have confirmed a plan, by the routers that they are connected to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from controller.model.fabric import Fabric
from controller.model.switch_key import SwitchKey

MOST_NAMED = 5
"""Most hosts that one line names."""


@dataclass(frozen=True)
class RouterReport:
    """The state of a router by what its hosts have confirmed; the controller does not speak to it.

    ``waits_for``: its hosts that take part in the plan and have not confirmed it.
    """

    key: SwitchKey
    name: str
    epoch: int
    error: str = ""
    missing: tuple[int, ...] = ()
    waits_for: tuple[str, ...] = ()
    connected: bool = False


@dataclass
class _Leaf:
    """The hosts of a leaf that take part: the epoch that each has confirmed, and those that are silent."""

    epochs: dict[str, int] = field(default_factory=dict)
    silent: dict[str, None] = field(default_factory=dict)


class Confirmations:
    """Follows what hosts confirm. A host that has confirmed a plan costs as little as its leaf has hosts.

    Attributes:
        confirmed: how many of them have confirmed it.
    """

    def __init__(self) -> None:
        """Begin without a plan."""
        self.begin(None, -1, (), {}, ())

    def begin(
        self,
        fabric: Fabric | None,
        epoch: int,
        taking_part: Collection[int],
        held: dict[str, int],
        silent: Iterable[str],
    ) -> None:
        """Begin with a new plan.

        Args:
            fabric: of the plan; ``None``: there is none that hosts carry out.
            epoch: of the plan.
            taking_part: hosts that have to confirm it.
            held: epochs of the plans that hosts have confirmed; none: -1.
            silent: hosts that are not heard.
        """
        self._fabric, self._epoch = fabric, epoch
        self._leaves: dict[str, _Leaf] = {}
        self._leaf_of: dict[str, _Leaf] = {}
        self._names: dict[str, str] = {}
        self._reports: dict[str, RouterReport] = {}
        self._all: Sequence[RouterReport] | None = None
        self.confirmed = 0
        for number in sorted(taking_part) if fabric is not None else ():
            assert fabric is not None
            host = fabric.hosts[number]
            leaf = self._leaf_of[host.name] = self._leaves.setdefault(host.leaf, _Leaf())
            self._names[host.name] = host.leaf
            leaf.epochs[host.name] = held.get(host.name, -1)
            self.confirmed += leaf.epochs[host.name] >= epoch
        for name in silent:
            self.hear(name, silent=True)

    @property
    def hosts(self) -> Collection[str]:
        """The hosts that take part in the plan."""
        return self._names

    def note(self, host: str, epoch: int) -> bool:
        """Note the epoch that a host has confirmed (-1: none); return whether that is news of the plan."""
        leaf = self._leaf_of.get(host)
        if leaf is None or leaf.epochs[host] == epoch:
            return False
        self.confirmed += (epoch >= self._epoch) - (leaf.epochs[host] >= self._epoch)
        leaf.epochs[host] = epoch
        self._forget(host)
        return True

    def hear(self, host: str, *, silent: bool) -> None:
        """Note whether a host is silent."""
        leaf = self._leaf_of.get(host)
        if leaf is None:
            return
        if silent:
            leaf.silent[host] = None
        else:
            leaf.silent.pop(host, None)
        self._forget(host)

    def reports(self) -> Sequence[RouterReport]:
        """Return a report of each router; none where hosts carry out no plan."""
        if self._fabric is None:
            return []
        if self._all is None:
            self._all = [
                self._reports.get(switch.name) or self._report(switch.key, switch.name)
                for switch in self._fabric.switches
            ]
        return self._all

    def _report(self, key: SwitchKey, name: str) -> RouterReport:
        leaf = self._leaves.get(name, _Leaf())
        waits_for = tuple(host for host, epoch in leaf.epochs.items() if epoch < self._epoch)
        oldest = min(leaf.epochs.values(), default=self._epoch)
        report = RouterReport(key, name, min(oldest, self._epoch), _silent([*leaf.silent]), waits_for=waits_for)
        self._reports[name] = report
        return report

    def _forget(self, host: str) -> None:
        """Have the report of a host's leaf made again."""
        self._reports.pop(self._names[host], None)
        self._all = None


def _silent(hosts: Sequence[str]) -> str:
    if not hosts:
        return ""
    more = f" and {len(hosts) - MOST_NAMED} more" if len(hosts) > MOST_NAMED else ""
    named = ", ".join(hosts[:MOST_NAMED])
    agents = f"the agent of {named} is" if len(hosts) == 1 else f"the agents of {named}{more} are"
    return f"{agents} silent: what the kernel holds is not known"
