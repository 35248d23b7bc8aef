"""``python -m tests.campaigns.faults --seed N --rounds N``: a campaign in private namespaces."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

from controller.model.fabric import Fabric
from tests.campaigns import command as campaign_command
from tests.campaigns.command import begin, carry_out, complain

PROGRAM, PACKAGE = "faults", "tests.campaigns.faults"


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; return 0 if every round passed, 1 if one did not, 2 for invalid input, 130 if interrupted."""
    parser = campaign_command.parser(PACKAGE, "random faults", out="out/faults")
    parser.add_argument(
        "--ecmp-action",
        choices=("bundle", "select"),
        default="bundle",
        help="the option of the controller of the same name",
    )
    return carry_out(PROGRAM, PACKAGE, arguments, parser.parse_args(arguments), _run)


def _run(fabric: Fabric, options: argparse.Namespace) -> int:
    from emulation.lab import Lab
    from tests.campaigns.faults.campaign import FaultCampaign, FaultCheckFailed

    say, seed, rounds = begin(options.out), options.seed, options.rounds
    try:
        with Lab(fabric, out=options.out) as lab:
            outcome = FaultCampaign(lab, fabric, seed, say, ecmp_action=options.ecmp_action).run(rounds)
    except FaultCheckFailed as failure:
        where = f"PARALLEL={options.parallel}" if options.fabric is None else f"FABRIC={options.fabric}"
        return complain(PROGRAM, f"{failure}\nagain: make faults SEED={seed} ROUNDS={rounds} {where}", 1)
    say(f"seed {seed}: {rounds} rounds passed; " + ", ".join(f"{n} x {kind}" for kind, n in outcome.happened.items()))
    say(f"correct again after {median(outcome.seconds):.1f} s (median), {max(outcome.seconds):.1f} s (worst)")
    return 0
