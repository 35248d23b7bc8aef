"""The attacks of a campaign, and the changes that each may cause. Pure: the seed determines the draws."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

TWO_AT_ONCE = 0.5
"""Probability of a second simultaneous attack, of another kind of attacker."""


DISCOVERY, CLAIMS, SECOND = "discovery packets", "is claimed at|the MAC address of|answers at", "claims the datapath id"
PLACES = "connections of switches are rejected|open files are exhausted"
PORTS = "reports more than [0-9]+ ports"
LINGERING = "|".join((DISCOVERY, CLAIMS, SECOND, PLACES, PORTS))
"""Reasons that ``/healthz`` may give for a minute after an attack; all others must disappear sooner."""


@dataclass(frozen=True)
class AttackKind:
    """An attack.

    Attributes:
        by: "peer" of the OpenFlow port, "host", or "client" of the HTTP interface.
        away: the attack impersonates a switch of the fabric that is disconnected. Rules may then follow the state that
            the rogue reports; they must be correct again afterwards, and no honest ping may be lost meanwhile.
        told: the reason that ``/healthz`` must give during the attack (a regular expression); empty: none.
    """

    name: str
    by: str
    away: bool = False
    told: str = ""


KINDS: tuple[AttackKind, ...] = (
    AttackKind("hello elements", "peer"),
    AttackKind("mutated first messages", "peer"),
    AttackKind("mutated messages before the handshake ends", "peer"),
    AttackKind("other versions", "peer"),
    AttackKind("noise", "peer"),
    AttackKind("huge messages", "peer"),
    AttackKind("tls to the plain port", "peer"),
    AttackKind("idle connections", "peer"),
    AttackKind("slow senders", "peer"),
    AttackKind("connection storm", "peer"),
    AttackKind("half handshakes", "peer"),
    AttackKind("mutated messages", "peer"),
    AttackKind("mutated messages of a known switch", "peer", away=True),
    AttackKind("valid messages that answer nothing", "peer", away=True),
    AttackKind("wrong answers", "peer", away=True),
    AttackKind("endless replies", "peer", away=True),
    AttackKind("never reads", "peer", away=True),
    AttackKind("duplicate datapath id", "peer", told=SECOND),
    AttackKind("lying switch", "peer", away=True),
    AttackKind("forged links of a switch", "peer", away=True),
    AttackKind("flood of packet-ins", "peer", away=True),
    AttackKind("flood of ports", "peer", away=True),
    AttackKind("flood of echo requests", "peer", away=True),
    AttackKind("flood of errors", "peer", away=True),
    AttackKind("flood of flow-removed", "peer", away=True),
    AttackKind("flood of replies", "peer", away=True),
    AttackKind("forged arp", "host"),
    AttackKind("random arp", "host"),
    AttackKind("malformed arp", "host"),
    AttackKind("forged lldp", "host"),
    AttackKind("replayed lldp", "host"),
    AttackKind("relayed lldp", "host"),
    AttackKind("malformed lldp", "host"),
    AttackKind("odd frames", "host"),
    AttackKind("flood of arp", "host"),
    AttackKind("flood of forged arp", "host"),
    AttackKind("flood of lldp", "host"),
    AttackKind("flood of odd frames", "host"),
    AttackKind("http mix", "client"),
)

OPEN: tuple[AttackKind, ...] = (AttackKind("poisonous arp", "host"),)
"""Attacks between hosts without a protection (docs/explanation/threat-model.md); run only by name."""

BY_NAME = {kind.name: kind for kind in (*KINDS, *OPEN)}


def generator(seed: int, number: int) -> random.Random:
    """Return the random generator of one round, which does not depend on earlier rounds."""
    return random.Random(f"{seed}/{number}")


def drawn(seed: int, number: int, kinds: Sequence[AttackKind] = KINDS) -> list[AttackKind]:
    """Return the attacks of round ``number`` (from 1): each kind in turn, shuffled, sometimes with a second one.

    Args:
        seed: seed of the campaign.
        number: number of the round.
        kinds: the kinds to draw from.
    """
    cycle, place = divmod(number - 1, len(kinds))
    deck = list(kinds)
    random.Random(f"{seed}/cycle {cycle}").shuffle(deck)
    first = deck[place]
    rng = generator(seed, number)
    others = [kind for kind in kinds if kind.by != first.by]
    return [first, rng.choice(others)] if others and rng.random() < TWO_AT_ONCE else [first]


def each_once(seed: int, kinds: Sequence[AttackKind] = KINDS) -> list[list[AttackKind]]:
    """Return rounds with each kind once: two peers and two others in a round, or two that impersonate a switch."""
    rng = random.Random(f"{seed}/each once")
    away = [kind for kind in kinds if kind.away]
    peers = [kind for kind in kinds if kind.by == "peer" and not kind.away]
    others = [kind for kind in kinds if kind.by != "peer"]
    for some in (away, peers, others):
        rng.shuffle(some)
    beside = [[*peers[at : at + 2], *others[at : at + 2]] for at in range(0, max(len(peers), len(others)), 2)]
    return beside + [away[at : at + 2] for at in range(0, len(away), 2)]
