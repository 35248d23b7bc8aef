"""``python -m tests.campaigns.attacks --seed N --rounds N``: a campaign in private namespaces."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from tests.campaigns import command as campaign_command
from tests.campaigns.attacks.kinds import BY_NAME, KINDS, AttackKind, drawn
from tests.campaigns.command import begin, carry_out, complain

PROGRAM, PACKAGE = "attack", "tests.campaigns.attacks"


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; return 0 if all invariants held, 1 if not, 2 for invalid input, 130 if interrupted."""
    parser = campaign_command.parser(PACKAGE, "attacks", out="out/attack")
    parser.epilog = f"All kinds of attacks come once in {len(KINDS)} rounds."
    parser.add_argument("--round", type=int, default=0, help="this round alone")
    parser.add_argument(
        "--kind", action="append", default=[], metavar="NAME", help="this attack alone; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="that each attack goes on")
    parser.add_argument("--keep-going", action="store_true", help="after a failure start the controller anew and go on")
    parser.add_argument("--discover", action="store_true", help="the controller has no fabric file")
    return carry_out(PROGRAM, PACKAGE, arguments, parser.parse_args(arguments), _run, check=_rounds)


def _rounds(options: argparse.Namespace) -> list[tuple[int, list[AttackKind]]]:
    """Return the number and the attacks of each round.

    Raises:
        InputError: an option is wrong.
    """
    if options.round < 0:
        raise InputError("must be at least 1", field="--round", value=options.round)
    if not options.seconds > 0:
        raise InputError("must be more than 0", field="--seconds", value=options.seconds)
    if options.kind:
        return list(enumerate(map(_kinds, options.kind), start=options.round or 1))
    numbers = [options.round] if options.round else range(1, options.rounds + 1)
    return [(number, drawn(options.seed, number)) for number in numbers]


def _kinds(text: str) -> list[AttackKind]:
    names = text.split(" + ")
    for name in names:
        if name not in BY_NAME:
            raise InputError(f"must be one of {', '.join(BY_NAME)}", field="--kind", value=name)
    return [BY_NAME[name] for name in names]


def _run(fabric: Fabric, options: argparse.Namespace) -> int:
    from emulation.lab import Lab
    from tests.campaigns.attacks.campaign import AttackCampaign, AttackCheckFailed

    say = begin(options.out)
    try:
        with Lab(fabric, out=options.out) as lab:
            campaign = AttackCampaign(
                lab,
                fabric,
                options.seed,
                say,
                seconds=options.seconds,
                keep_going=options.keep_going,
                discovered=options.discover,
            )
            outcome = campaign.run(_rounds(options))
    except AttackCheckFailed as failure:
        return complain(PROGRAM, str(failure), 1)
    worst = max(result.seen.p99 for result in outcome.results)
    say(
        f"seed {options.seed}: {len(outcome.results) - len(outcome.failed)} of {len(outcome.results)} rounds held; "
        f"{sum(r.lost for r in outcome.results)} of {sum(r.pings for r in outcome.results)} pings lost; "
        f"p99 of /healthz {worst * 1000:.0f} ms in the worst round"
    )
    return 1 if outcome.failed else 0
