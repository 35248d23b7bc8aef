"""``python -m emulation.faults --seed N --rounds N``: a campaign in namespaces of its own."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from controller.model.clos import clos
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.fabric_file import load_fabric
from emulation import isolate, needs
from emulation.errors import LabError
from emulation.interrupts import ending_by_exception

PROGRAM = "faults"
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 if every round passed, 1 if one did not, 2 for bad input, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m emulation.faults", description="Seeded random faults.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same faults in the same order")
    parser.add_argument("--rounds", type=int, default=30, help="at least 1")
    parser.add_argument("--fabric", type=Path, help="a fabric file (default: 3 spines, 4 leaves, 2 hosts a leaf)")
    parser.add_argument("--out", type=Path, default=Path("out/faults"), help="logs go here")
    options = parser.parse_args(arguments)
    try:
        if options.rounds < 1:
            raise InputError("must be at least 1", field="--rounds", value=options.rounds)
        fabric = clos(3, 4, 2) if options.fabric is None else load_fabric(options.fabric)
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        if not isolate.isolated():
            return isolate.run([sys.executable, "-m", "emulation.faults", *arguments])
        with ending_by_exception():
            return _run(fabric, options.seed, options.rounds, options.out)
    except InputError as error:
        return _complain(str(error), 2)
    except LabError as error:
        return _complain(str(error), 1)
    except KeyboardInterrupt:
        return _complain("interrupted; everything that was made is gone", INTERRUPTED)


def _run(fabric: Fabric, seed: int, rounds: int, out: Path) -> int:
    from emulation.faults.campaign import Campaign, Failed
    from emulation.lab import Lab

    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)

    out.mkdir(parents=True, exist_ok=True)
    for old in ("store.db", "store.db-wal", "store.db-shm"):
        (out / old).unlink(missing_ok=True)
    try:
        with Lab(fabric, out=out) as lab:
            outcome = Campaign(lab, fabric, seed, say).run(rounds)
    except Failed as failure:
        return _complain(f"{failure}\nagain: make faults SEED={seed} ROUNDS={rounds}", 1)
    say(f"seed {seed}: {rounds} rounds passed; " + ", ".join(f"{n} x {kind}" for kind, n in outcome.happened.items()))
    say(f"right again after {median(outcome.seconds):.1f} s (median), {max(outcome.seconds):.1f} s (worst)")
    return 0


def _complain(text: str, status: int) -> int:
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)
    return status
