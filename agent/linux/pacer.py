"""Paces flows of a host: nftables gives packets of a flow the id of its class, and HTB sends each class at its rate."""

from __future__ import annotations

import errno
import shutil
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal, Protocol

from agent.errors import HostAgentError
from agent.linux.map_elements import MapEdit, MapElements, mark_bytes, mark_of
from agent.linux.pacing import PaceChanges, PaceState, pace_changes, paced
from agent.linux.traffic_classes import TrafficClasses, class_id
from agent.plans.flow_keys import KEY4_BYTES, KEY6_BYTES

PacingChoice = Literal["auto", "htb", "off"]
PACING_CHOICES: tuple[PacingChoice, ...] = ("auto", "htb", "off")

TABLE = "fairspine_pacing"
"""The table of nftables (family ``inet``). It is there while flows are paced."""

FLOWS = {KEY4_BYTES: "paced4", KEY6_BYTES: "paced6"}

UNLIMITED = 10**13
"""Bit/s at which a class that goes sends what waits in it."""
DRAIN_SECONDS = 0.05
"""Time within which packets that wait in classes without a limit should have left. A class in which some wait longer
is removed at a later change or check: the first of them may wait for its time at the former rate, or the link is full.
"""
LOOK_SECONDS = 0.001
"""Time between two looks at the classes within ``DRAIN_SECONDS``."""
END_SECONDS = 5.0
"""Time after which ``remove`` removes classes in which packets wait, with these packets."""

_KEY = "type {0} . {0} . inet_proto . inet_service . inet_service : classid;"

DEFINITION = f"""
add table inet {TABLE}
add map inet {TABLE} paced4 {{ {_KEY.format("ipv4_addr")} }}
add map inet {TABLE} paced6 {{ {_KEY.format("ipv6_addr")} }}
add chain inet {TABLE} classify
add chain inet {TABLE} sent {{ type filter hook output priority mangle; policy accept; }}
add chain inet {TABLE} forwarded {{ type filter hook forward priority mangle; policy accept; }}
flush table inet {TABLE}
add rule inet {TABLE} classify meta priority set ip saddr . ip daddr . meta l4proto . th sport . th dport map @paced4
add rule inet {TABLE} classify meta priority set ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport map @paced6
add rule inet {TABLE} sent jump classify
add rule inet {TABLE} forwarded jump classify
"""
"""HTB takes the class of a packet from its priority, so no filter looks through the flows one after the other.

The 5-tuple is read before the packet gets a carrier; priorities stay when it does. ``flush table`` removes rules and
keeps elements, so what an agent before this one has set goes on.
"""


@dataclass(frozen=True)
class Pacing:
    """What is paced.

    Attributes:
        planned: flows for which the plan has a pace.
        paced: those that the kernel paces, as read back.
        dropped: packets of them that found no room in the queue of their class since it was made.
        reason: why others are not paced; empty: there are none.
    """

    planned: int
    paced: int
    dropped: int
    reason: str = ""


class PaceKeeper(Protocol):
    """Makes the kernel keep the paces of flows."""

    def follow(self, wanted: Mapping[bytes, int]) -> Pacing:
        """Pace these flows (bit/s on the link by key) and no others, and return what the kernel does then."""
        ...

    def remove(self) -> None:
        """Pace nothing."""
        ...


class HtbPacer:
    """Paces by HTB in place of the discipline that the kernel has chosen, from the first flow to pace on.

    HTB stays until ``remove``, since the kernel loses packets while it changes the discipline of an interface.
    """

    def __init__(self, interface: str, *, replaces_queues: bool) -> None:
        """Connect to the kernel.

        Args:
            interface: the one that leads to the leaf.
            replaces_queues: whether a discipline for each queue of the NIC (``mq``) is given up for it.

        Raises:
            HostAgentError: there is no such interface, or the program of nftables is missing.
        """
        if shutil.which("nft") is None:
            raise HostAgentError("--pacing: the program nft is missing (Debian: apt-get install nftables)", exit_code=2)
        try:
            index = socket.if_nametoindex(interface)
        except OSError:
            raise HostAgentError(f"--interface: there is no interface {interface!r} here", exit_code=2) from None
        self._interface, self._replaces_queues = interface, replaces_queues
        self._classes, self._elements = TrafficClasses(index), MapElements(TABLE)

    def follow(self, wanted: Mapping[bytes, int]) -> Pacing:
        """Pace these flows and no others; what others have removed or changed is set again."""
        try:
            reason = self._hindrance() if wanted else ""
            self._make({} if reason else wanted)
            flows, classes = self._flows(), self._classes.read()
        except OSError as error:
            return Pacing(len(wanted), 0, 0, _explained(error))
        kept = [classes[flows[key]] for key in wanted if flows.get(key) in classes]
        if not reason and len(kept) < len(wanted):
            reason = "there are more flows than classes"
        return Pacing(len(wanted), len(kept), sum(each.dropped for each in kept), reason)

    def remove(self) -> None:
        """Remove classes, discipline and table; what waits is sent first.

        Raises:
            OSError: the kernel has refused it.
        """
        end = time.monotonic() + END_SECONDS
        while self._make({}) and time.monotonic() < end:
            pass
        root = self._classes.root()
        if root is not None and root.ours:
            self._classes.remove_root()
        self._remove_table()

    def _hindrance(self) -> str:
        """Return why the discipline of the interface stays; empty: ours is there, or may be."""
        root = self._classes.root()
        if root is None or root.ours:
            return ""
        if root.major:
            return f"{self._interface} has a queueing discipline that others have set ({root.kind})"
        if root.kind == "mq" and not self._replaces_queues:
            return f"{self._interface} has several queues (mq), which --pacing htb would make one"
        return ""

    def _make(self, wanted: Mapping[bytes, int]) -> frozenset[int]:
        """Make the kernel pace these flows; return the classes of others that stay, since packets wait in them."""
        root = self._classes.root()
        ours = root is not None and root.ours
        classes = {number: each.rate for number, each in self._classes.read().items()} if ours else {}
        held = PaceState(self._flows(), classes)
        # The kernel has rates in whole bytes a second.
        whole = {key: max(8, rate // 8 * 8) for key, rate in wanted.items()}
        new = paced(held, whole)
        staying: frozenset[int] = frozenset()
        if difference := pace_changes(held, new):
            if new.classes and not ours:
                self._classes.add_root()
            staying = self._change(held, difference)
        if not new.classes and not staying:
            self._remove_table()
        return staying

    def _change(self, held: PaceState, changes: PaceChanges) -> frozenset[int]:
        """Make changes; return the classes that stay, since packets wait in them.

        Classes come before the flows that use them; those that go are empty before packets pass them by.
        """
        self._classes.set(changes.set_classes.items())
        self._classes.set((number, UNLIMITED) for number in changes.lifted)
        staying = self._still_waiting(changes.lifted)
        kept = frozenset(key for key in changes.del_flows if held.flows[key] in staying)
        if changes.set_flows or changes.del_flows:
            if not self._has_table():
                _define()
            self._elements.edit(_edits(changes, kept))
        # Packets that were classified before may have come since.
        going = frozenset(changes.lifted) - staying
        late = self._still_waiting(going)
        self._classes.remove(going - late)
        return staying | late

    def _still_waiting(self, numbers: Collection[int]) -> frozenset[int]:
        """Wait until no packet waits in classes, or for ``DRAIN_SECONDS``; return those in which some wait then."""
        end, waiting = time.monotonic() + DRAIN_SECONDS, self._waiting(numbers)
        while waiting and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
            waiting = self._waiting(numbers)
        return waiting

    def _waiting(self, numbers: Collection[int]) -> frozenset[int]:
        classes = self._classes.read() if numbers else {}
        return frozenset(number for number in numbers if number in classes and classes[number].waiting)

    def _remove_table(self) -> None:
        if self._has_table():
            subprocess.run(["nft", "delete", "table", "inet", TABLE], capture_output=True)

    def _flows(self) -> dict[bytes, int]:
        try:
            return {
                each.key: mark_of(each.value) & 0xFFFF for name in FLOWS.values() for each in self._elements.read(name)
            }
        except OSError as error:
            if error.errno == errno.ENOENT:
                return {}
            raise

    def _has_table(self) -> bool:
        try:
            for name in FLOWS.values():
                list(self._elements.read(name))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True


class NoPacer:
    """Paces nothing, and says why."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        self._reason = reason

    def follow(self, wanted: Mapping[bytes, int]) -> Pacing:
        """Return that no flow is paced."""
        return Pacing(len(wanted), 0, 0, self._reason if wanted else "")

    def remove(self) -> None:
        """Do nothing."""


def _edits(changes: PaceChanges, kept: Set[bytes]) -> Iterator[MapEdit]:
    for size, name in FLOWS.items():
        gone = tuple(key for key in changes.del_flows if len(key) == size and key not in kept)
        come = tuple(
            (key, mark_bytes(class_id(number))) for key, number in changes.set_flows.items() if len(key) == size
        )
        yield MapEdit(name, gone, come)


def _define() -> None:
    done = subprocess.run(["nft", "-f", "-"], input=DEFINITION, capture_output=True, text=True)
    if done.returncode:
        raise OSError(errno.EOPNOTSUPP, next(iter(done.stderr.splitlines()), f"exit status {done.returncode}"))


def _explained(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "this kernel does not have HTB (CONFIG_NET_SCH_HTB)"
    return f"the kernel refuses a change: {error.strerror}"
