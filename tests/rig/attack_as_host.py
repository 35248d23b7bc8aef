"""``python -m tests.rig.attack_as_host``: what the agent of one host may try with its own token.

It needs neither root nor switches: agents are simulated, and the controller of a fabric of routers is real.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.rig.host_role import ATTACKS, host_role_campaign


def main(arguments: Sequence[str]) -> int:
    """Carry out all attacks in each round; return 0 if what must not change has not, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.rig.attack_as_host", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same attacks in the same order")
    parser.add_argument("--rounds", type=int, default=1, help="of all attacks")
    parser.add_argument("--kind", action="append", choices=ATTACKS, help="this attack alone; may be repeated")
    options = parser.parse_args(arguments)
    failures = 0
    with tempfile.TemporaryDirectory() as folder, host_role_campaign(Path(folder), options.seed) as campaign:
        for number in range(1, options.rounds + 1):
            for attack in options.kind or ATTACKS:
                changed = campaign.round(attack)
                failures += bool(changed)
                print(f"round {number}: {attack}: {changed or 'held'}", flush=True)
    counts = ", ".join(f"{status}: {count}" for status, count in sorted(campaign.answers.items()))
    print(f"seed {options.seed}: {failures} failures; answers to the attacker by status: {counts}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
