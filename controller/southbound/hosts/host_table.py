"""Where hosts are. A packet only claims its sender's address; probes check the claim before it has any effect.

* A port that the fabric file names for a host is the location of the host, regardless of packets.
* Any other host is taken at the port where it answers a probe. A host that has a place moves only when it does not
  answer there any more, and does answer at the new one.
* A claim is reported as a clash, without effect, if the host still answers at its place.

Everything is bounded by port (``HostLimits``). Addresses are with their zones (``model.zones``). Pure: time comes in by
arguments, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from controller.model.network_state import Clash, Location, PortId
from controller.model.switch_key import SwitchKey
from controller.model.texts.zones import same_zone
from controller.southbound.hosts.host_claims import (
    INTERVAL,
    MISSES,
    OPEN_SECONDS,
    REPORTED_SECONDS,
    Claim,
    Claims,
    HostProbes,
    Verdict,
)
from controller.southbound.hosts.host_presence import Presence
from controller.southbound.hosts.intended_hosts import IntendedHosts

LOST_SECONDS = 60.0
"""A leaf that is not connected may forward on. After this time its hosts may be found elsewhere."""


@dataclass(frozen=True)
class HostLimits:
    """Limits of the host table.

    Attributes:
        per_port: most hosts at one port where no fabric file says how many there are; with one, each port has one host.
        in_all: most hosts that are learned.
        claims: most claims of one port that are checked at a time.
        checks_per_second: most hosts a second that are asked whether they are still there.
    """

    per_port: int = 16
    in_all: int = 10_000
    claims: int = 16
    checks_per_second: float = 25.0


class HostProbe(NamedTuple):
    """An ARP probe to be sent now: for this address, out of this port."""

    ip: str
    at: PortId


class _Recalled:
    """A place that a host had before a restart of the controller, by the rules that its leaf holds."""

    __slots__ = ("asked", "at")

    def __init__(self, at: PortId) -> None:
        self.at, self.asked = at, HostProbes()


class HostTable:
    """The place of each host, and the claims that are being checked."""

    def __init__(
        self,
        port_state: Callable[[PortId], bool | None],
        *,
        intended: IntendedHosts | None = None,
        limits: HostLimits = HostLimits(),
        loud: Callable[[SwitchKey], bool] = lambda key: False,
    ) -> None:
        """Begin without hosts.

        Args:
            port_state: whether a port is up; ``None``: its switch is not connected.
            intended: of the fabric file; ``None``: there is none.
            limits: bounds of the table.
            loud: whether so many packets come from a switch (its key) that answers may be among those which
                get lost. Silence of its hosts means nothing then.
        """
        self._state, self._intended, self._limits, self._loud = port_state, intended, limits, loud
        self._per_port = limits.per_port if intended is None else 1
        self._hosts: dict[str, Location] = {}
        self._at_port: dict[PortId, dict[str, None]] = {}
        self._of_mac: dict[str, dict[str, None]] = {}
        self._recalled: dict[str, _Recalled] = {}
        self._recalled_at: set[PortId] = set()
        """Ports at which a host was recalled, whether it waits there still or not."""
        self._claims = Claims(limits.claims)
        self._presence = Presence(limits.checks_per_second)
        self.n_clashes = 0
        """The number of checks that have ended with something to report."""

    # -- reading ---------------------------------------------------------------------------------------------

    def place(self, ip: str) -> Location | None:
        """Return where a host has answered."""
        return self._hosts.get(ip)

    def places(self) -> dict[str, Location]:
        """Return the place of every host that has answered, by IPv4 address."""
        return dict(self._hosts)

    def taken_ports(self) -> set[PortId]:
        """Return the ports at which hosts have answered."""
        return set(self._at_port)

    def clashes(self) -> frozenset[Clash]:
        """Return the clashes to be reported."""
        return frozenset(Clash(c.verdict, c.ip, c.mac, c.at, c.against, c.kept_at) for c in self._claims if c.verdict)

    def has_host(self, at: PortId) -> bool:
        """Return whether a host has answered at a port."""
        return at in self._at_port

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self._hosts)

    @property
    def n_claims(self) -> int:
        """The number of claims now."""
        return len(self._claims)

    @property
    def claims_refused(self) -> int:
        """The number of claims that found no room, so far."""
        return self._claims.refused

    def is_away(self, ip: str) -> bool:
        """Return whether a host was asked where it is and does not answer there any more."""
        return ip in self._presence.away

    def newly_away(self) -> list[str]:
        """Return the hosts that have stopped to answer since the last call: they may have moved."""
        return self._presence.take_new()

    # -- what happens ----------------------------------------------------------------------------------------

    def heard(self, ip: str, mac: str, at: PortId, now: float) -> None:
        """Note that a packet from an edge port claims this address."""
        holder = self._owner_at(ip)
        if holder == at:
            known = self._hosts.get(ip)
            if known is not None and known.mac == mac:
                return
        elif self._intended is not None and self._is_of_no_interest(ip, mac, at):
            return
        claim = self._claims.get(ip, at)
        if claim is None:
            self._claims.add(Claim(ip, mac, at, now, now))
            return
        claim.heard = now
        if claim.opened is None and now >= claim.look:
            claim.mac = mac
            claim.open(now)

    def answered(self, ip: str, mac: str, at: PortId, now: float) -> bool:
        """Note that a probe was answered at the edge port where it was sent; return whether anything changed."""
        changed = False
        if self._owner_at(ip) == at:
            self._presence.answered(ip, now)
            changed = self._holds(ip, now)
            known = self._hosts.get(ip)
            if known is not None and known.mac == mac:
                return changed
        self.heard(ip, mac, at, now)
        claim = self._claims.get(ip, at)
        if claim is None or claim.opened is None:
            return changed
        claim.answered, claim.mac, claim.heard = True, mac, now
        return self._settle(claim, now) or changed

    def recall(self, ip: str, at: PortId) -> None:
        """Note that a leaf holds rules from before a restart that lead to a host at this port."""
        known = ip in self._hosts or ip in self._recalled or len(self._recalled) >= self._limits.in_all
        if not known and (self._intended is None or (ip in self._intended.leaves and self._intended.allows(ip, at))):
            self._recalled[ip] = _Recalled(at)
            self._recalled_at.add(at)

    def forget_at(self, ports: Collection[PortId]) -> bool:
        """Remove the hosts at these ports, which lead to switches; return whether there were any."""
        gone = [ip for port in ports for ip in self._at_port.get(port, ())]
        for ip in gone:
            self._remove(ip)
        claims = [claim for port in ports for claim in self._claims.of_port(port)]
        for claim in claims:
            self._claims.remove(claim)
        if not self._recalled_at.isdisjoint(ports):
            for ip in [ip for ip, recalled in self._recalled.items() if recalled.at in ports]:
                del self._recalled[ip]
        return bool(gone or claims)

    def due(self, now: float, room: int) -> tuple[list[HostProbe], bool]:
        """Return at most ``room`` probes to be sent now, and whether anything changed since time has gone on.

        Each of them counts as sent.
        """
        probes: list[HostProbe] = []
        changed = False
        for claim in self._claims:
            if now < claim.look:
                continue
            if claim.opened is None:
                changed |= self._rested(claim, now)
                continue
            changed |= self._settle(claim, now)
            if claim.opened is None or len(probes) >= room:
                continue
            asked = self._questions(claim, now)
            for probe, count in asked:
                probes.append(probe)
                count.last = now
                # A host whose answer may be lost on its way here does not count as silent.
                count.sent += not self._loud(probe.at.switch)
            claim.look = now + INTERVAL
            self._claims.served(claim.at)
        probes += self._recall_due(now, room - len(probes))
        probes += self._presence_due(now, room - len(probes))
        return probes, changed

    def _rested(self, claim: Claim, now: float) -> bool:
        """Remove a claim some time after the end of its check, or check it again; return whether it was reported."""
        reported = bool(claim.verdict)
        if not reported or now - claim.heard >= REPORTED_SECONDS or self._state(claim.at) is False:
            self._claims.remove(claim)
            return reported
        # Does the claimant still answer? Has the holder gone meanwhile?
        claim.open(now)
        return False

    # -- checks ----------------------------------------------------------------------------------------------

    def _is_of_no_interest(self, ip: str, mac: str, at: PortId) -> bool:
        """Return whether a claim concerns no host of the file, or one NIC of a server that answers for another."""
        assert self._intended is not None
        if ip in self._intended.hosts:
            return self._intended.same_server(ip, at)
        other = self._intended.by_mac.get(same_zone(ip, mac))
        place = None if other is None else self._owner_at(other)
        return other is None or place in (None, at) or self._intended.same_server(other, at)

    def _owner_at(self, ip: str) -> PortId | None:
        """Return the place that keeps an address until its holder is silent there."""
        if self._intended is not None and ip in self._intended.ports:
            return self._intended.ports[ip]
        known = self._hosts.get(ip)
        if known is not None:
            return known.at
        recalled = self._recalled.get(ip)
        return None if recalled is None else recalled.at

    def _rivals(self, claim: Claim) -> set[str]:
        """Return addresses of the hosts that must be silent before a claim is believed."""
        at, rivals = claim.at, set()
        if self._owner_at(claim.ip) not in (None, at):
            rivals.add(claim.ip)
        for ip in self._of_mac.get(same_zone(claim.ip, claim.mac), ()):
            if self._hosts[ip].at != at:
                rivals.add(ip)
                break
        if self._intended is not None:
            other = self._intended.by_mac.get(same_zone(claim.ip, claim.mac), claim.ip)
            if other != claim.ip and self._owner_at(other) not in (None, at):
                rivals.add(other)
            if self._intended.allows(claim.ip, at):
                # A port has one host.
                rivals.update(ip for ip in self._at_port.get(at, ()) if ip != claim.ip)
        return rivals

    def _questions(self, claim: Claim, now: float) -> list[tuple[HostProbe, HostProbes]]:
        """Return the probes of a claim that are due, each with the count that it belongs to."""
        asked: list[tuple[HostProbe, HostProbes]] = []
        if not claim.answered and self._may_ask(claim.own, claim.at, now):
            asked.append((HostProbe(claim.ip, claim.at), claim.own))
        for ip, count in claim.rivals.items():
            place = self._owner_at(ip)
            if place is not None and self._may_ask(count, place, now):
                asked.append((HostProbe(ip, place), count))
        return asked

    def _may_ask(self, count: HostProbes, at: PortId, now: float) -> bool:
        return count.sent < MISSES and now - count.last >= INTERVAL and bool(self._state(at))

    def _settle(self, claim: Claim, now: float) -> bool:
        """End the check of a claim if there is a result; return whether anything changed."""
        assert claim.opened is not None
        self._claims.contest(claim, self._rivals(claim))
        if claim.held_by in claim.rivals:
            over = now - claim.opened >= OPEN_SECONDS or self._state(claim.at) is not True
            if claim.answered or claim.own.silent(now) or over:
                claim.against = claim.held_by
                return self._end(claim, now, "clash")
            return False
        silent = all(self._is_silent(claim, ip, now) for ip in claim.rivals)
        if claim.answered and silent:
            return self._believe(claim, now)
        if claim.own.silent(now) or self._state(claim.at) is not True or now - claim.opened >= OPEN_SECONDS:
            # No host answers there, or it remained unclear which one does.
            return self._end(claim, now, "clash" if claim.rivals else "")
        return False

    def _is_silent(self, claim: Claim, ip: str, now: float) -> bool:
        place = self._owner_at(ip)
        state = False if place is None else self._state(place)
        if state is None:
            claim.lost = now if claim.lost is None else claim.lost
            return now - claim.lost >= LOST_SECONDS
        return not state or claim.rivals[ip].silent(now)

    def _holds(self, ip: str, now: float) -> bool:
        """Settle the claims against a host that has answered at its place: they have failed."""
        changed = False
        for claim in self._claims.against(ip):
            if claim.opened is not None:
                claim.held_by = ip
                changed |= self._settle(claim, now)
        return changed

    def _believe(self, claim: Claim, now: float) -> bool:
        """Move the host to the claimant's port: the claimant answers and no other host does."""
        ip, at = claim.ip, claim.at
        if self._intended is not None and not self._intended.allows(ip, at):
            return self._end(claim, now, "misplaced" if ip in self._intended.hosts else "clash")
        known = self._hosts.get(ip)
        if known is None or known.at != at:
            room = self._per_port - len(self._at_port.get(at, ()))
            if self._intended is not None:
                for other in list(self._at_port.get(at, ())):
                    # It is silent, and a port has one host.
                    self._remove(other)
            elif room <= 0 or (known is None and len(self._hosts) >= self._limits.in_all):
                return self._end(claim, now, "full")
        self._remove(ip)
        self._recalled.pop(ip, None)
        self._hosts[ip] = Location(claim.mac, at)
        self._at_port.setdefault(at, {})[ip] = None
        self._of_mac.setdefault(same_zone(ip, claim.mac), {})[ip] = None
        if self._intended is None or ip not in self._intended.ports:
            self._presence.watch(ip, now)
        self._claims.remove(claim)
        return True

    def _remove(self, ip: str) -> None:
        known = self._hosts.pop(ip, None)
        if known is None:
            return
        self._presence.forget(ip)
        for index, key in ((self._at_port, known.at), (self._of_mac, same_zone(ip, known.mac))):
            del index[key][ip]  # type: ignore[index]
            if not index[key]:  # type: ignore[index]
                del index[key]  # type: ignore[arg-type]

    def _end(self, claim: Claim, now: float, verdict: Verdict) -> bool:
        """End a check without believing the claim; return whether there is anything new to report."""
        before = (claim.verdict, claim.against, claim.kept_at)
        claim.rest(now)
        claim.verdict = verdict
        if claim.ip in claim.rivals or claim.against not in claim.rivals:
            claim.against = claim.ip if claim.ip in claim.rivals else next(iter(claim.rivals), "")
        claim.kept_at = self._owner_at(claim.against)
        changed = before != (claim.verdict, claim.against, claim.kept_at)
        self.n_clashes += bool(verdict) and not before[0]
        return changed

    def _presence_due(self, now: float, room: int) -> list[HostProbe]:
        """Ask hosts whether they are still there. A port that the file names needs no asking."""
        probes: list[HostProbe] = []
        for ip, count in self._presence.due(now, room):
            at = self._hosts[ip].at
            state = self._state(at)
            if state is None:
                # No probe can be sent there, and rules still lead there.
                self._presence.answered(ip, now)
            elif not state:
                self._presence.gone(ip, now)
            else:
                count.last = now
                count.sent += not self._loud(at.switch)
                probes.append(HostProbe(ip, at))
        return probes

    def _recall_due(self, now: float, room: int) -> list[HostProbe]:
        """Ask the hosts that had a place before a restart, where that was."""
        probes: list[HostProbe] = []
        for ip in list(islice(self._recalled, 4 * max(room, 0))):
            if len(probes) >= room:
                break
            recalled = self._recalled.pop(ip)
            if recalled.asked.silent(now):
                continue
            self._recalled[ip] = recalled
            if self._may_ask(recalled.asked, recalled.at, now):
                recalled.asked.last = now
                recalled.asked.sent += not self._loud(recalled.at.switch)
                probes.append(HostProbe(ip, recalled.at))
        return probes
