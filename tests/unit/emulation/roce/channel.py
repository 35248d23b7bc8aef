"""A sender and a receiver with a bad network between them, played in simulated time."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from emulation.roce.receiver import ReceivedMessage, Receiver
from emulation.roce.sender import Sender, SenderOptions
from emulation.roce.wire import Ack, Write

RKEY = 0xFEED


@dataclass
class Channel:
    """Delivers after ``delay`` seconds; loses, doubles and delays (which reorders) with the given probabilities."""

    rng: random.Random
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay: float = 0.001
    spread: float = 0.02
    loss_until: float = 30.0  # a path that stays this bad for ever fails queue pairs, and rightly so

    def arrivals(self, now: float) -> list[float]:
        """When the copies of a packet that is sent now arrive."""
        copies = 1 + (self.rng.random() < self.duplication)
        times = []
        for _ in range(copies):
            if now < self.loss_until and self.rng.random() < self.loss:
                continue
            late = self.rng.random() * self.spread if self.rng.random() < self.reordering else 0.0
            times.append(now + self.delay + late)
        return times


@dataclass
class Run:
    """One sender, one receiver, both directions of the channel, and everything that was seen."""

    sender: Sender
    receiver: Receiver
    channel: Channel
    sent: list[Write] = field(default_factory=list)
    arrived: list[ReceivedMessage] = field(default_factory=list)
    completed: list[object] = field(default_factory=list)
    widest: int = 0
    counted: list[int] = field(default_factory=list)
    """What the sender says that it has sent, after each packet."""
    now: float = 0.0

    def play(self, *, until: float = 3600.0) -> None:
        """Go on until nothing is left to do, or the time is over."""
        events: list[tuple[float, int, Write | Ack]] = []
        number = 0

        def launch(packet: Write | Ack) -> None:
            nonlocal number
            for at in self.channel.arrivals(self.now):
                heapq.heappush(events, (at, number, packet))
                number += 1

        while self.now < until:
            while (packet := self.sender.poll(self.now)) is not None:
                self.sent.append(packet)
                self.counted.append(self.sender.sent_bytes)
                self.widest = max(self.widest, self.sender.outstanding)
                launch(packet)
            deadline = self.sender.deadline()
            if not events and deadline is None:
                return
            if events and (deadline is None or events[0][0] <= deadline):
                at, _, arriving = heapq.heappop(events)
                self.now = max(self.now, at)
                if isinstance(arriving, Ack):
                    self.completed += self.sender.on_ack(arriving, self.now)
                else:
                    answer = self.receiver.on_packet(arriving)
                    if answer.arrival is not None:
                        self.arrived.append(answer.arrival)
                    if answer.ack is not None:
                        launch(answer.ack)
            else:
                assert deadline is not None
                self.now = max(self.now, deadline)


def pair(options: SenderOptions, channel: Channel, *, memory: bytearray, first_psn: int = 0) -> Run:
    """Return a queue pair whose responder owns ``memory``."""
    sender = Sender(17, options, first_psn=first_psn)
    receiver = Receiver(17, memoryview(memory), RKEY, mtu=options.mtu, first_psn=first_psn)
    return Run(sender, receiver, channel)
