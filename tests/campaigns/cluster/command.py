"""``python -m tests.campaigns.cluster --seed N --rounds N``: a campaign on three replicas, in private namespaces."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

from rich.console import Console

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from tests.campaigns import command as campaign_command
from tests.campaigns.cluster.kinds import KINDS, ClusterFault
from tests.campaigns.command import begin, carry_out, complain

PROGRAM, PACKAGE = "faults-cluster", "tests.campaigns.cluster"

LEAST_LEASE = 0.5
RATE, MOST_RATE = 50.0, 1000.0

TABLE_WIDTH = 160
"""Columns; a narrower terminal breaks the lines, and nothing is left out."""


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; return 0 if every round passed, 1 if one did not, 2 for invalid input, 130 if interrupted."""
    parser = campaign_command.parser(PACKAGE, "faults of a cluster of controllers", out="out/faults-cluster")
    parser.add_argument("--lease", type=float, default=1.0, help="seconds, the option of the controller")
    parser.add_argument("--rate", type=float, default=RATE, help="requests a second")
    parser.add_argument("--kinds", default="", help="faults to draw from, separated by commas (default: all)")
    options = parser.parse_args(arguments)
    return carry_out(PROGRAM, PACKAGE, arguments, options, _run, _check)


def check_lease(options: argparse.Namespace) -> None:
    """Check the lease, before anything is started.

    Raises:
        InputError: it is too short.
    """
    if not options.lease >= LEAST_LEASE:
        raise InputError(f"must be at least {LEAST_LEASE}", field="--lease", value=options.lease)


def _check(options: argparse.Namespace) -> None:
    check_lease(options)
    if not 0 < options.rate <= MOST_RATE:
        raise InputError(f"must be above 0 and at most {MOST_RATE:g}", field="--rate", value=options.rate)
    chosen(options.kinds)


def chosen(text: str) -> list[ClusterFault]:
    """Return the kinds that a list names; all for an empty one.

    Raises:
        InputError: there is no such kind.
    """
    by_name = {kind.name: kind for kind in KINDS}
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in by_name:
            raise InputError(f"must be of: {', '.join(by_name)}", field="--kinds", value=name)
    return [by_name[name] for name in names] or list(KINDS)


def drawn(kinds: Sequence[ClusterFault], seed: int, rounds: int) -> list[ClusterFault]:
    """Return this number of kinds: all of them in a random order, then all again, so that none is left out for long."""
    rng = random.Random(seed)
    found: list[ClusterFault] = []
    while len(found) < rounds:
        found += rng.sample(list(kinds), len(kinds))
    return found[:rounds]


def _run(fabric: Fabric, options: argparse.Namespace) -> int:
    from emulation.lab import Lab
    from tests.campaigns.cluster.campaign import ClusterCampaign, ClusterCheckError
    from tests.campaigns.cluster.clocks import ShiftedClocks
    from tests.campaigns.cluster.database import PrivatePostgres
    from tests.campaigns.cluster.outcome import table
    from tests.campaigns.cluster.replicas import Replicas

    say, seed = begin(options.out), options.seed
    kinds = drawn(chosen(options.kinds), seed, options.rounds)
    failed = ""
    with ShiftedClocks() as clocks:
        clock = clocks.add("server")
        server = PrivatePostgres(env=clock.environment)
        try:
            server.start()
            with (
                Lab(fabric, out=options.out) as lab,
                Replicas(lab, fabric, server, lease=options.lease, clocks=clocks, server_clock=clock) as replicas,
            ):
                campaign = ClusterCampaign(replicas, fabric, seed, say, rate=options.rate)
                try:
                    campaign.run(kinds)
                except ClusterCheckError as failure:
                    failed = str(failure)
        finally:
            server.close()
    if campaign.rounds:
        Console(width=TABLE_WIDTH).print(table(campaign.rounds))
    say(f"the checker rejected {campaign.rejected[0]} of {campaign.rejected[1]} histories with a seeded error")
    if failed:
        return complain(PROGRAM, f"{failed}\nagain: make faults-cluster SEED={seed} ROUNDS={options.rounds}", 1)
    say(f"seed {seed}: {options.rounds} rounds passed")
    return 0
