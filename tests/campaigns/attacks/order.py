"""The order of a rogue process: attack, seed, duration and targets. Passed as a JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.attacks.frames import AttackedHost


@dataclass(frozen=True)
class AttackOrder:
    """An attack to carry out.

    Attributes:
        openflow: address and port of the controller for switches.
        http: the same of its HTTP interface.
        host_pid: a process in the rogue host's network namespace.
        interface: the rogue host's.
        me: the rogue host.
        victims: honest hosts.
        switches: by datapath id, the numbers of the ports of each switch.
        honest: a datapath id whose switch is connected.
        away: one whose switch is in the fabric and not connected; 0: there is none.
        cables: interfaces of the switches' namespace on which discovery's frames pass.
        frames: frames of discovery that were captured on cables before, in hex.
    """

    attack: str
    seed: str
    seconds: float
    transcript: str
    openflow: tuple[str, int]
    http: tuple[str, int]
    host_pid: int
    interface: str
    me: AttackedHost
    victims: tuple[AttackedHost, ...]
    switches: dict[int, tuple[int, ...]]
    honest: int
    away: int
    cables: tuple[str, ...]
    frames: tuple[str, ...]

    def write(self, path: Path) -> None:
        """Write the order to a file as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)))


def read(path: Path) -> AttackOrder:
    """Read an order from a file that ``AttackOrder.write`` wrote."""
    document: dict[str, Any] = json.loads(path.read_text())
    document["me"] = AttackedHost(**document["me"])
    document["victims"] = tuple(AttackedHost(**victim) for victim in document["victims"])
    document["switches"] = {int(dpid): tuple(ports) for dpid, ports in document["switches"].items()}
    for name in ("openflow", "http", "cables", "frames"):
        document[name] = tuple(document[name])
    return AttackOrder(**document)
