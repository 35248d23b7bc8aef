"""``python -m tests.campaigns.host_role --seed N --rounds N``: attacks by one host's agent, until a check fails."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.campaigns.host_role.campaign import ATTACKS, HostRoleCampaign, host_role_campaign


def main() -> int:
    """Run rounds, each with all attacks in another order; return 1 after the first check that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.host_role", description="Seeded attacks of agents."
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same attacks in the same order")
    parser.add_argument("--rounds", type=int, default=3, help="at least 1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, host_role_campaign(Path(folder), options.seed) as campaign:
        return _rounds(campaign, options.rounds)


def _rounds(campaign: HostRoleCampaign, rounds: int) -> int:
    for number in range(1, rounds + 1):
        for attack in campaign.rng.sample(ATTACKS, len(ATTACKS)):
            failed = campaign.round(attack)
            print(f"round {number}: {attack}: {failed or 'held'}", flush=True)
            if failed:
                return 1
    print(f"{rounds} rounds of {len(ATTACKS)} attacks held; answers: {dict(sorted(campaign.answers.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
