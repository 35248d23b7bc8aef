"""Evidence for cables: discovery packets that came back, and those that are known to be lost.

A link leads from the port that a packet was sent from to the port that it came in by. It is *confirmed* once a packet
has come back. It is *silent* once ``LOSSES`` packets in a row are known to be lost. A packet that has not come back is
not lost yet: the controller, a switch or a connection may be slow. It counts as lost when

- the sending switch has answered a barrier behind it, so the packet is out;
- the receiving switch has answered a barrier that was sent after that answer came, so whatever it had received by then
  would be here (OpenFlow 1.3.5, section 6.2: a connection delivers in order);
- both switches are heard in discovery otherwise: a packet that was sent later has come back from the one, and one has
  come in at the other. A switch that no packet reaches or leaves any more has lost its rule for them, or does not send
  them; that says nothing about cables, unless neither comes nor goes anything, as at a switch that forwards no more;
- neither the controller nor the sending switch was late meanwhile (``LATE``);
- no packet from the receiving switch was dropped unread by the controller meanwhile;
- it has been out for longer than packets waited lately in the queue of the receiving port. No barrier waits for that
  queue, so how long it holds packets is estimated from those that came (``QueueDelay``), ``LONGEST_WAIT`` at most.

So no delay of the controller, of a connection or of a sending switch makes a good cable silent, however long, nor does
a queue that holds packets for up to ``LONGEST_WAIT`` and whose delay grows by at most half a second in a second. A
queue that stops suddenly for longer than ``SPREAD`` can: its packets, once they come, show the delay, and confirm the
cable again. A cable that fails while packets wait is silent at most ``LONGEST_WAIT`` later than one without a queue,
and no later if none waited. A port that goes down needs none of this: its switch reports it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import islice

from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery.link_state import LONGEST_WAIT, PortEvidence, ProbeBatch, SwitchEvidence
from controller.southbound.discovery.lldp import LldpProbe
from controller.southbound.discovery.probe_schedule import NEW, ProbeSchedule

LOSSES = 5
"""Number of consecutive packets that must be lost ..."""
SPREAD = 1.0
"""... over at least this number of seconds, before a link is silent."""
RETURNS = 3
"""Number of consecutive packets that must come back before a silent link is used again."""

AGAIN = 0.25
"""Seconds between two probes of a link that is in doubt."""
PATIENCE = 0.2
"""Seconds after which a missing packet is examined; more while the event loop is busy (``lag``)."""
WITNESS = 0.6
"""Seconds in which the other packets of a switch are waited for, before it counts as one that none reaches; more where
they wait in queues."""
LATE = 0.5
"""A packet is not counted when the controller, or a switch, took longer than this for anything meanwhile."""
LONGEST = 30.0
"""Seconds after which a packet is too old to be accepted."""
GIVE_UP = LONGEST_WAIT + 2.0
"""Seconds after which a packet without evidence is forgotten."""
ASKED_MOST = 2
"""Further ports of a switch that are asked to see whether it is heard at all."""
CONNECTING = 5
"""Rounds of discovery in which a port is not asked that should lead to a switch that does not listen."""
REPORT_AFTER = 5.0
"""Seconds after which a switch that no packet reaches, or from which none comes, is reported."""


class PacketVerdict(Enum):
    """The outcome for an authentic packet."""

    KNOWN = "known"
    """The packet confirms a known link."""
    NEW = "new"
    """The packet shows a new link."""
    STALE = "stale"
    """The packet has come before, or was sent too long ago, or never."""
    DENIED = "denied"
    """The packet came in by a port that leads to a host, or to the switch that it was sent from."""


class LinkEvidence:
    """The evidence for all links. Time, in seconds from any origin, is an argument and never goes back.

    Attributes:
        links: those that are confirmed, by the port that sends.
        silent: ports that are up and whose packets are lost.
        unconfirmed: ports that should lead to a port that is up, and since when that is not known to be so.
        schedule: which ports are to send.
        heard: when a packet came back last.
    """

    def __init__(
        self,
        now: float,
        *,
        expected: Mapping[PortId, PortId] | None = None,
        host_ports: Iterable[PortId] = (),
        has_host: Callable[[PortId], bool] = lambda port: False,
    ) -> None:
        """Begin without switches.

        Args:
            now: seconds.
            expected: the other end of each port that the fabric file gives to a cable.
            host_ports: those that it gives to hosts. They send nothing, and what comes in by them is not believed.
            has_host: whether a host was heard at a port. A port that has led to a host since it came up, and never to a
                switch, does not become a cable.
        """
        self.schedule = ProbeSchedule(now)
        self.links: dict[PortId, PortId] = {}
        self.silent: set[PortId] = set()
        self.unconfirmed: dict[PortId, float] = {}
        self.heard = now
        self._expected = expected or {}
        self._host_ports = frozenset(host_ports)
        self._has_host = has_host
        self._switches: dict[SwitchKey, SwitchEvidence] = {}
        self._peers: dict[PortId, PortId] = {}
        """The ports at which packets of a port were received since it was last down, and the inverse."""
        self._senders: dict[PortId, PortId] = {}
        self._stamp = -1
        self._open: deque[ProbeBatch] = deque()
        self._undecided: list[ProbeBatch] = []
        self._old: deque[ProbeBatch] = deque()
        self._not_before = -1.0
        self._judged = now
        self._latest_switch = now

    # -- switches and ports --------------------------------------------------------------------------------------

    def switch_entered(self, key: SwitchKey, now: float) -> None:
        """Record that a switch has connected; its ports follow."""
        self.switch_left(key)
        self._switches[key] = SwitchEvidence(now)
        self._latest_switch = now

    def switch_left(self, key: SwitchKey) -> None:
        """Record that a connection has ended: nothing is known of the switch's links any more."""
        switch = self._switches.pop(key, None)
        if switch is None:
            return
        for port in switch.ports.values():
            self._forget(port, self._latest_switch)
        self.schedule.remove_switch(key)

    def listens(self, key: SwitchKey, now: float) -> None:
        """Record that a switch has the rule that sends discovery packets to the controller."""
        switch = self._switches.get(key)
        if switch is None:
            return
        switch.listens = int(now * 1e6)
        for port in switch.ports.values():
            self._ask_both(port, now)

    def dropped(self, key: SwitchKey, now: float) -> None:
        """Record that packets from a switch were dropped unread because there were too many."""
        switch = self._switches.get(key)
        if switch is not None and switch.listens is not None:
            switch.listens = int(now * 1e6)

    def port_up(self, at: PortId, now: float) -> None:
        """Record that a port is there and up."""
        switch = self._switches.get(at.switch)
        if switch is None or at in self._host_ports:
            return
        self.port_down(at, now)
        peer = self._peers.get(at) or self._expected.get(at)
        port = switch.ports[at.port] = PortEvidence(at, now, peer, cabled=peer is not None)
        if port.peer is not None:
            self.unconfirmed[at] = now
        self.schedule.add(at)
        self._ask_both(port, now)

    def port_down(self, at: PortId, now: float) -> None:
        """Record that a port was removed or is down."""
        switch = self._switches.get(at.switch)
        port = None if switch is None else switch.ports.pop(at.port, None)
        if port is None:
            return
        self._forget(port, now)
        self._peers.pop(at, None)
        self.schedule.remove(at)

    def _forget(self, port: PortEvidence, now: float) -> None:
        """Forget the state of a port's cable, in both directions."""
        for at in {self._senders.pop(port.at, port.at), port.peer or port.at}:
            sender = self._up(at)
            if sender is not None and sender.peer == port.at:
                self._drop(sender)
                self.unconfirmed[at] = now
                sender.silent, sender.lost = False, 0
        self._drop(port)

    def _drop(self, port: PortEvidence) -> None:
        self.links.pop(port.at, None)
        self.unconfirmed.pop(port.at, None)
        self.silent.discard(port.at)

    # -- packets -----------------------------------------------------------------------------------------------------

    def sent(self, key: SwitchKey, ports: Iterable[int], now: float) -> int:
        """Record that packets of a switch were handed to its connection in one write; return their stamp."""
        self._stamp = stamp = max(self._stamp + 1, int(now * 1e6))
        batch = ProbeBatch(key, stamp, now, set(ports))
        self._switches[key].batches[stamp] = batch
        self._open.append(batch)
        self._old.append(batch)
        return stamp

    def answered(self, key: SwitchKey, stamp: int, now: float) -> None:
        """Record that a switch has answered the barrier behind the packets with this stamp."""
        switch = self._switches.get(key)
        batch = None if switch is None else switch.batches.get(stamp)
        if switch is not None:
            switch.answered = max(switch.answered, stamp)
        if batch is not None and switch is not None:
            batch.answered = now
            if not batch.waiting:
                del switch.batches[stamp]

    def arrived(self, at: PortId, probe: LldpProbe, now: float) -> PacketVerdict:
        """Record that an authentic packet has come in by a port; return what became of it."""
        sender = self._switches.get(probe.dpid)
        batch = None if sender is None else sender.batches.get(probe.stamp)
        if batch is None or sender is None or probe.port not in batch.waiting:
            return PacketVerdict.STALE
        if at in self._host_ports or at.switch == probe.dpid:
            # The packet stays valid: this one may be a copy that arrived before the original.
            return PacketVerdict.DENIED
        receiver, port = self._switches.get(at.switch), sender.ports.get(probe.port)
        end = None if receiver is None else receiver.ports.get(at.port)
        if receiver is None or port is None or end is None:
            # A port that has gone down meanwhile.
            return PacketVerdict.KNOWN
        known = self.links.get(port.at) == at
        if not known and (self._is_hosts(port, now) or self._is_hosts(end, now)):
            return PacketVerdict.DENIED
        batch.waiting.discard(probe.port)
        if batch.at > self._not_before and now - self._judged <= LATE:
            # Otherwise the controller was late, or is: that is no delay of the queue.
            end.queue.saw(0.0 if batch.answered is None else now - batch.answered)
        if not batch.waiting and batch.answered is not None:
            del sender.batches[probe.stamp]
        verdict = PacketVerdict.KNOWN if known else self._link_seen(port, end, now)
        port.lost = 0
        self.heard = now
        if probe.stamp > sender.out:
            sender.out = probe.stamp
            if sender.mute is not None:
                sender.mute, sender.speaks = None, probe.stamp
        if probe.stamp > receiver.into:
            receiver.into = probe.stamp
            if receiver.deaf is not None:
                receiver.deaf, receiver.listens = None, probe.stamp
        return verdict

    def _link_seen(self, port: PortEvidence, end: PortEvidence, now: float) -> PacketVerdict:
        """Record a packet at a port where none of this port came before, or none came lately."""
        if port.silent and port.peer == end.at:
            port.back += 1
            if port.back < RETURNS:
                self._ask(port.at, now, (AGAIN / 2,))
                return PacketVerdict.KNOWN
        port.peer, port.silent, port.cabled, end.cabled = end.at, False, True, True
        self._drop(port)
        self.links[port.at] = self._peers[port.at] = end.at
        self._senders[end.at] = port.at
        self.schedule.calm(port.at)
        for each in (port.at, end.at):
            self.schedule.quiet(each, False)
        if end.peer is None:
            end.peer = port.at
            self.unconfirmed[end.at] = now
        if end.at not in self.links:
            self._ask(end.at, now, NEW)
        return PacketVerdict.NEW

    def _is_hosts(self, port: PortEvidence, now: float) -> bool:
        """Return whether a port is proved to lead only to a host."""
        # The switch behind a cable may have connected after the ARP that it forwarded was heard.
        settled = not port.cabled and now - max(port.since, self._latest_switch) > REPORT_AFTER
        return settled and self._has_host(port.at)

    # -- judgement ---------------------------------------------------------------------------------------------------

    def late(self, now: float) -> None:
        """Record that the controller was late: packets on their way do not count."""
        self._not_before = now

    def judge(self, now: float) -> bool:
        """Look at packets that should be back. Whether any link has become silent."""
        self._judged = now
        while self._old and now - self._old[0].at > LONGEST:
            batch = self._old.popleft()
            switch = self._switches.get(batch.switch)
            if switch is not None and switch.batches.get(batch.stamp) is batch:
                del switch.batches[batch.stamp]
        looked_at, self._undecided = self._undecided, []
        while self._open and now - self._open[0].at >= PATIENCE + self.schedule.lag:
            looked_at.append(self._open.popleft())
        changed = False
        for batch in looked_at:
            switch = self._switches.get(batch.switch)
            if switch is None or switch.batches.get(batch.stamp) is not batch:
                continue
            changed |= self._look_at(batch, switch, now)
            if batch.doubtful is None or batch.doubtful:
                self._undecided.append(batch)
        return changed

    def _look_at(self, batch: ProbeBatch, switch: SwitchEvidence, now: float) -> bool:
        if batch.at <= self._not_before or now - batch.at > GIVE_UP or batch.stamp < switch.speaks:
            batch.doubtful = set()
            return False
        if batch.answered is None:
            return False
        if batch.answered - batch.at > LATE:
            batch.doubtful = set()
            return False
        if batch.doubtful is None:
            batch.doubtful = set(batch.waiting)
        batch.doubtful &= batch.waiting
        changed = False
        for number in list(batch.doubtful):
            port = switch.ports.get(number)
            if port is None or self._is_decided(batch, switch, port, now):
                batch.doubtful.discard(number)
                changed |= port is not None and self._fall_silent(port, now)
        return changed

    def _is_decided(self, batch: ProbeBatch, sender: SwitchEvidence, port: PortEvidence, now: float) -> bool:
        """Return whether nothing more can be learnt about a packet that is not back."""
        if port.peer is None:
            self.schedule.quiet(port.at, True)
            return True
        receiver = self._switches.get(port.peer.switch)
        if (
            receiver is None
            or port.peer.port not in receiver.ports
            or receiver.listens is None
            or batch.stamp < receiver.listens
        ):
            return True
        assert batch.answered is not None
        waited = now - batch.at
        came, went = receiver.into >= batch.stamp, sender.out >= batch.stamp
        witnessed = (came and went) or waited >= PATIENCE + WITNESS + self._longest_queue(sender, receiver)
        if receiver.answered < int(batch.answered * 1e6) or not witnessed:
            self._ask(port.peer, now, (0.0,))
            if not came:
                self._ask_others(receiver, port.peer.port, now)
            if not went:
                self._ask_others(sender, port.at.port, now)
            return False
        if now - batch.answered < receiver.ports[port.peer.port].queue.longest:
            # Others are sent meanwhile, so that a cable that has failed is silent soon after this one counts as lost.
            self._ask(port.at, now, (AGAIN,))
            return False
        if not came:
            if receiver.deaf is None:
                receiver.deaf = batch.at
            return True
        if not went and sender.into >= batch.stamp:
            # It receives packets, so it forwards, but it does not send its own.
            if sender.mute is None:
                sender.mute = batch.at
            return True
        port.enough = LOSSES if went else 2 * LOSSES
        self._lost(port, batch, now)
        return True

    def _longest_queue(self, sender: SwitchEvidence, receiver: SwitchEvidence) -> float:
        """Return how long other packets may wait that come out of a switch, or into one."""
        peers = (self._up(port.peer) for port in sender.ports.values() if port.peer is not None)
        ends = (*receiver.ports.values(), *(peer for peer in peers if peer is not None))
        return max((end.queue.longest for end in ends), default=0.0)

    def _lost(self, port: PortEvidence, batch: ProbeBatch, now: float) -> None:
        if not port.lost:
            port.first_lost = batch.at
        port.lost += 1
        port.back = 0
        if not port.silent and port.peer is not None:
            self._ask(port.at, now, (AGAIN,))
            self._ask(port.peer, now, (AGAIN,))

    def _fall_silent(self, port: PortEvidence, now: float) -> bool:
        if port.silent or port.lost < port.enough or now - port.first_lost < SPREAD:
            return False
        self._drop(port)
        port.silent, port.back = True, 0
        self.silent.add(port.at)
        return True

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask(self, at: PortId, now: float, delays: tuple[float, ...]) -> None:
        self.schedule.soon(at, now, delays)

    def _ask_both(self, port: PortEvidence, now: float) -> None:
        """Ask a port and its peer, whichever the other is known to listen to: else ``listens`` asks them again.

        In a large fabric that connects, switches listen long after they have reported their ports. A link that is
        confirmed has its regular turn.
        """
        peer = None if port.peer is None else self._up(port.peer)
        for each in (port, peer):
            if each is not None and each.at not in self.links and self._is_heard(each):
                self._ask(each.at, now, NEW)

    def _is_heard(self, port: PortEvidence) -> bool:
        """Return whether a packet out of a port may come here; true also while the port's other end is not known."""
        if port.peer is None:
            return True
        receiver = self._switches.get(port.peer.switch)
        return receiver is not None and receiver.listens is not None

    def worth_asking(self, key: SwitchKey, ports: Iterable[int], now: float) -> list[int]:
        """Return those of the ports whose turn it is whose packets may give information.

        A port that should lead to a switch that does not listen is passed over for ``CONNECTING`` rounds after it came
        up, and then asked like the others: it may lead elsewhere.
        """
        switch = self._switches.get(key)
        known = {} if switch is None else switch.ports
        since = now - CONNECTING * self.schedule.period
        return [n for n in ports if (port := known.get(n)) is None or port.since < since or self._is_heard(port)]

    def _ask_others(self, switch: SwitchEvidence, but: int, now: float) -> None:
        """Ask over other cables of a switch, in each direction over those that are confirmed in that direction."""
        others = [port.at for number, port in switch.ports.items() if number != but]
        outward = (at for at in others if at in self.links)
        inward = (self._senders[at] for at in others if self._senders.get(at) in self.links)
        for at in (*islice(outward, ASKED_MOST), *islice(inward, ASKED_MOST)):
            self._ask(at, now, (0.0,))

    # -- reports -----------------------------------------------------------------------------------------------------

    def deaf(self, now: float) -> list[SwitchKey]:
        """Return the switches at which no packet arrives, although some are sent there."""
        return [key for key, each in self._switches.items() if each.deaf is not None and now - each.deaf > REPORT_AFTER]

    def mute(self, now: float) -> list[SwitchKey]:
        """Return the switches at which packets arrive and from which none comes."""
        return [key for key, each in self._switches.items() if each.mute is not None and now - each.mute > REPORT_AFTER]

    def _up(self, at: PortId) -> PortEvidence | None:
        switch = self._switches.get(at.switch)
        return None if switch is None else switch.ports.get(at.port)
