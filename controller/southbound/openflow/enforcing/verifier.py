"""Reads switches back, compares with what they have confirmed, and has differences repaired.

Once a period each switch is asked how many rules of ours it holds, and as many as the budget allows are asked for all
their rules and groups, those first that have not for longest. Where a count differs, all is read at once. A switch on
which changes are under way is passed over: what is sent and not yet confirmed is no drift.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.switch_key import SwitchKey
from controller.southbound.limits import paced_rounds
from controller.southbound.limits.paced_rounds import PacedRounds, Round
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.enforcing.request_channel import NotSupported, SwitchGone
from controller.southbound.openflow.enforcing.session import Session
from controller.southbound.rollout import switch_readback
from controller.southbound.rollout.drift import Deviation, Drift, ForeignRules, Repairs
from controller.southbound.rollout.rollout import OpenFlowRefusal
from controller.southbound.rollout.switch_readback import ComparedReading, compare_reading
from controller.southbound.wire.rule_reading import RuleReader

LOG = logging.getLogger("fairspine.southbound")

ENTRIES_PER_SECOND = 10_000
"""Rules and groups read a second from all switches together, so that this takes little of one processor."""

LOOKS_PER_SECOND = 50
"""Switches that are asked. Of more than this times the period, each is asked less often."""

UNREAD_PART = 0.1
"""Of the switches. While more have connected and were not read yet, as after a restart, no other one is read again."""

AGE_SECONDS = 600.0
"""Decoded rules that no switch has held for up to twice this time are forgotten."""

_reader = RuleReader()


class VerifierRuntime(paced_rounds.World, Protocol):
    """The services that the verifier needs (``controller.core.ports.runtime``)."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any: ...
    def rest(self) -> None: ...


class InstalledSwitches(Protocol):
    """The part of the installer that the verifier uses."""

    @property
    def refusal(self) -> OpenFlowRefusal | None: ...

    @property
    def instance(self) -> int: ...

    def sessions(self) -> dict[int, Session]: ...

    def session(self, dpid: int) -> Session | None: ...

    def may_have_room(self, dpid: int) -> None: ...

    def settled(self) -> None: ...


CLAIMED_SECONDS = 600.0
"""How long to report that another controller has become the master of a switch."""


@dataclass
class _Looked:
    """The remembered state of one connection.

    Attributes:
        whole_at: when all of it was read last, by the clock.
        good: digest of a reading that was as it should be, and the session's version then.
        entries: how many it held.
        active: entries in the table that was full.
        generation: the generation of masters that the switch told last; ``None``: it has told none yet.
    """

    session: Session
    busy: bool = False
    whole_at: float = float("-inf")
    good: tuple[bytes, int] | None = None
    entries: int = 0
    active: int | None = None
    has_roles: bool = True
    generation: int | None = None
    failed: str = ""


@dataclass
class SwitchFault:
    """The faults of one switch.

    Attributes:
        drift: what others have changed and is not known to be repaired yet.
        held_back: seconds, when it was found, until it is repaired.
        foreign: rules of others in the way.
        slave: whether another controller is master of it, so that it takes no change from here.
        by: the instance of another fairspine that has written rules lately.
        claimed: when another controller became its master, by the clock, while this one kept its role, which OpenFlow
            allows; ``None``: that was not lately.
    """

    @property
    def contested(self) -> bool:
        """True if another controller seems to manage the switch."""
        return self.slave or self.claimed is not None or self.by is not None or self.repairs.contested

    drift: Drift = field(default_factory=Drift)
    held_back: float = 0.0
    foreign: ForeignRules | None = None
    slave: bool = False
    by: int | None = None
    claimed: float | None = None
    repairs: Repairs = field(default_factory=Repairs)

    def expire(self, now: float) -> None:
        """Forget a master of long ago: OpenFlow does not tell whether it is still there."""
        if self.claimed is not None and now - self.claimed >= CLAIMED_SECONDS:
            self.claimed = None

    def reasons(self, name: str) -> list[str]:
        """Return the faults in words."""
        reasons = []
        if self.slave:
            reasons.append(f"{name}: another controller is its master; it refuses changes of this controller")
        elif self.claimed is not None:
            reasons.append(f"{name}: another controller has become its master lately; it may change its rules, too")
        if self.by is not None:
            reasons.append(
                f"{name}: another fairspine controller (instance {self.by:#06x}) writes to this switch; its rules are "
                "repaired once a minute"
            )
        elif self.repairs.contested:
            reasons.append(
                f"{name}: its rules are changed repeatedly, perhaps by another controller; they are repaired once "
                "a minute"
            )
        if self.drift:
            reasons.append(f"the rules of {name} differ from those that it confirmed: {self.drift.text}")
        if self.foreign is not None:
            reasons.append(f"{name}: {self.foreign.text}")
        return reasons


class Verifier:
    """The task that reads switches back.

    Attributes:
        repaired: rules and groups that were repaired since the start, by switch name.
    """

    def __init__(
        self,
        world: VerifierRuntime,
        switches: InstalledSwitches,
        *,
        period: float,
        drifted: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """Prepare the verifier; ``start`` begins it.

        Args:
            world: tasks, waiting and time.
            switches: the installer.
            period: seconds between two looks at a switch; 0: never.
            drifted: called with a line for people and the details of each detected drift.
        """
        self._world, self._switches, self._drifted, self.period = world, switches, drifted, period
        self._looked: dict[int, _Looked] = {}
        self.faults: dict[int, SwitchFault] = {}
        self.repaired: Counter[str] = Counter()
        self._whole: set[int] = set()
        self._aged = world.clock()
        self._rounds = PacedRounds(world, LOG, "read-back", begin=self._begin_round, turn=self._turn)

    def start(self) -> None:
        """Begin to look."""
        if self.period > 0:
            self._rounds.start()

    def stop(self) -> None:
        """End with the next switch."""
        self._rounds.stop()

    def reasons(self) -> list[str]:
        """Return the faults of connected switches, for people."""
        return [text for name, fault in self._faults() for text in fault.reasons(name)]

    def contested(self) -> list[str]:
        """Return names of switches that another controller seems to manage, too."""
        return [name for name, fault in self._faults() if fault.contested]

    def deviations(self) -> dict[SwitchKey, Deviation]:
        """Return how the rules of connected switches deviate, by datapath id; those that do not are left out."""
        deviations: dict[SwitchKey, Deviation] = {
            dpid: Deviation(bool(fault.drift), () if fault.foreign is None else fault.foreign.rules)
            for dpid, fault in self.faults.items()
            if self._switches.session(dpid) is not None
        }
        return {dpid: each for dpid, each in deviations.items() if each.drifted or each.foreign}

    def _faults(self) -> Iterator[tuple[str, SwitchFault]]:
        """Return what was found of connected switches, with their names, by datapath id."""
        for dpid, fault in sorted(self.faults.items()):
            session = self._switches.session(dpid)
            if session is not None:
                yield session.state.name, fault

    # -- turns ---------------------------------------------------------------------------------------------------

    def _begin_round(self) -> Round:
        now = self._world.clock()
        if now - self._aged >= AGE_SECONDS:
            self._aged = now
            _reader.age()
        dpids = self._connected()
        seconds = max(self.period, len(dpids) / LOOKS_PER_SECOND)
        self._whole = self._chosen(seconds)
        return Round(dpids, seconds)

    def _connected(self) -> list[int]:
        """Return the switches of the next round; forget connections that have ended."""
        sessions = self._switches.sessions()
        for dpid, looked in list(self._looked.items()):
            if sessions.get(dpid) is not looked.session:
                del self._looked[dpid]
        self.faults = {dpid: fault for dpid, fault in self.faults.items() if dpid in sessions}
        for dpid, session in sessions.items():
            self._looked.setdefault(dpid, _Looked(session))
        return sorted(sessions)

    def _chosen(self, seconds: float) -> set[int]:
        """Return the switches of which all is read in a round of so many seconds."""
        budget, chosen = ENTRIES_PER_SECOND * seconds, set[int]()
        if sum(not looked.session.is_read for looked in self._looked.values()) > UNREAD_PART * len(self._looked):
            return chosen
        for dpid, looked in sorted(self._looked.items(), key=lambda each: each[1].whole_at):
            if budget <= 0:
                break
            budget -= looked.entries or looked.session.size
            chosen.add(dpid)
        return chosen

    def _turn(self, dpid: int) -> None:
        looked, whole = self._looked.get(dpid), dpid in self._whole
        if looked is None or looked.busy:
            return
        looked.busy = True
        self._world.spawn(lambda: self._look(dpid, looked, whole))

    def _look(self, dpid: int, looked: _Looked, whole: bool) -> None:
        failed = ""
        try:
            self._see_room(dpid, looked)
            if looked.session.at_rest and (whole or self._count_differs(looked)):
                self._read_whole(dpid, looked)
        except (SwitchGone, ValueError) as error:
            failed = str(error)
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
            if failed != looked.failed:
                LOG.exception("%s could not be read back", looked.session.state.name)
        finally:
            looked.busy = False
        if failed and failed != looked.failed and self._switches.session(dpid) is looked.session:
            LOG.warning("%s could not be read back: %s", looked.session.state.name, failed)
        looked.failed = failed

    # -- one switch ----------------------------------------------------------------------------------------------

    def _see_room(self, dpid: int, looked: _Looked) -> None:
        """Try refused rules again if a full table has become emptier."""
        refusal = self._switches.refusal
        if refusal is None or refusal.dpid != dpid or refusal.table is None:
            looked.active = None
            return
        exchange = looked.session.exchange
        active = switch_readback.active(exchange.ask_raw(messages.count_tables(exchange.datapath))).get(
            refusal.table, 0
        )
        if looked.active is not None and active < looked.active:
            self._switches.may_have_room(dpid)
        looked.active = active

    def _count_differs(self, looked: _Looked) -> bool:
        """Return whether there are more or fewer rules of ours than there should be."""
        session = looked.session
        version = session.version
        parts = session.exchange.ask_raw(messages.count_rules(session.exchange.datapath))
        return session.is_still(version) and switch_readback.counted(parts) != session.size

    def _read_whole(self, dpid: int, looked: _Looked) -> None:
        session = looked.session
        exchange, version = session.exchange, session.version
        looked.whole_at = self._world.clock()
        rules = exchange.ask_raw(messages.read_every_rule(exchange.datapath))
        groups = exchange.ask_raw(messages.read_groups(exchange.datapath))
        slave = self._see_role(dpid, looked)
        if not session.is_still(version):
            return
        good = looked.good[0] if looked.good is not None and looked.good[1] == version else None
        seen: ComparedReading = self._world.offload(
            compare_reading, rules, groups, good, session.expected(), self._switches.instance, _reader, self._world.rest
        )
        if not session.is_still(version) or self._looked.get(dpid) is not looked:
            return
        looked.entries = seen.entries
        self._judge(dpid, looked, version, seen, slave)

    def _see_role(self, dpid: int, looked: _Looked) -> bool:
        """Return whether this controller is a slave of the switch; note that another one has become its master."""
        if not looked.has_roles:
            return False
        exchange = looked.session.exchange
        try:
            reply = exchange.request(messages.ask_role(exchange.datapath))
            known, looked.generation = looked.generation, int(reply.generation_id)
            if known is not None and looked.generation != known:
                LOG.warning("another controller has become the master of %s", looked.session.state.name)
                self.faults.setdefault(dpid, SwitchFault()).claimed = self._world.clock()
                self._switches.settled()
            return bool(reply.role == ofp.OFPCR_ROLE_SLAVE)
        except NotSupported:
            looked.has_roles = False
            return False

    def _judge(self, dpid: int, looked: _Looked, version: int, seen: ComparedReading, slave: bool) -> None:
        session, name, now = looked.session, looked.session.state.name, self._world.clock()
        fault = self.faults.setdefault(dpid, SwitchFault())
        before = fault.reasons(name)
        fault.slave = slave
        fault.expire(now)
        if seen.held is None:
            looked.good = (seen.digest, version)
            session.record_match()
            fault.drift, fault.held_back = Drift(), 0.0
            if fault.repairs.clean(now):
                fault.by = None
            fault.foreign = seen.foreign if seen.is_new else fault.foreign
        else:
            was_held_back, was = fault.held_back, fault.drift
            fault.drift, fault.foreign = seen.drift, seen.foreign
            fault.by = seen.drift.by or fault.by
            fault.held_back = fault.repairs.wait(now, seen.drift)
            if not (fault.held_back and was_held_back and seen.drift == was):
                self._tell(name, fault)
            if not fault.held_back:
                self.repaired[name] += seen.drift.size
            session.record_deviation(seen.held, repair=not fault.held_back)
        if fault.reasons(name) != before:
            self._switches.settled()

    def _tell(self, name: str, fault: SwitchFault) -> None:
        seen = fault.drift
        does = f"repaired in {fault.held_back:.0f} s" if fault.held_back else "repaired now"
        who = "" if seen.by is None else f", by fairspine instance {seen.by:#06x}"
        text = f"the rules of {name} differ from those that it confirmed{who}: {seen.text}; {does}"
        LOG.warning("%s", text)
        details = {
            "switch": name,
            "missing": seen.missing,
            "changed": seen.changed,
            "added": seen.added,
            "groups": seen.groups,
            "instance": seen.by,
            "repaired": not fault.held_back,
        }
        self._drifted(text, details)
