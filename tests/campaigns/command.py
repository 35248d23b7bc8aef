"""Common parts of the commands of seeded campaigns: options, private namespaces, and exit statuses."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import load_fabric
from emulation import isolate, needs
from emulation.errors import LabError
from emulation.interrupts import ending_by_exception

INTERRUPTED = 130

Say = Callable[[str], None]
Run = Callable[[Fabric, argparse.Namespace], int]


def parser(package: str, what: str, *, out: str) -> argparse.ArgumentParser:
    """Return the parser of ``python -m PACKAGE`` with the options that all campaigns have.

    Args:
        package: name of the package that is run.
        what: what the seed determines, for the help text, such as ``faults``.
        out: the default folder of logs.
    """
    made = argparse.ArgumentParser(prog=f"python -m {package}", description=f"Seeded {what}.")
    made.add_argument("--seed", type=int, default=1, help=f"the same seed, the same {what} in the same order")
    made.add_argument("--rounds", type=int, default=30, help="at least 1")
    made.add_argument("--fabric", type=Path, help="a fabric file (default: 3 spines, 4 leaves, 2 hosts a leaf)")
    made.add_argument("--parallel", type=int, default=1, help="cables between a leaf and a spine of the default fabric")
    made.add_argument("--out", type=Path, default=Path(out), help="logs go here")
    return made


def carry_out(
    program: str,
    package: str,
    arguments: Sequence[str],
    options: argparse.Namespace,
    run: Run,
    check: Callable[[argparse.Namespace], object] = lambda options: None,
) -> int:
    """Run a campaign in private namespaces and return its exit status.

    The status is 2 for invalid input, and 1 or 130 if the campaign cannot go on.

    Args:
        program: name at the beginning of each error message.
        package: name of the package that is run.
        arguments: the command-line arguments.
        options: the parsed arguments.
        run: runs the campaign inside the namespaces.
        check: raises ``InputError`` for invalid options, before anything is created.
    """
    try:
        if options.rounds < 1:
            raise InputError("must be at least 1", field="--rounds", value=options.rounds)
        if options.parallel < 1:
            raise InputError("must be at least 1", field="--parallel", value=options.parallel)
        check(options)
        fabric = clos(3, 4, 2, parallel=options.parallel) if options.fabric is None else load_fabric(options.fabric)
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        if not isolate.isolated():
            return isolate.run([sys.executable, "-m", package, *arguments])
        with ending_by_exception():
            return run(fabric, options)
    except InputError as error:
        return complain(program, str(error), 2)
    except LabError as error:
        return complain(program, str(error), 1)
    except KeyboardInterrupt:
        return complain(program, "interrupted; everything has been cleaned up", INTERRUPTED)


def begin(out: Path) -> Say:
    """Create the folder of logs without the store of an earlier campaign; return a function that prints timed lines."""
    out.mkdir(parents=True, exist_ok=True)
    for old in ("store.db", "store.db-wal", "store.db-shm"):
        (out / old).unlink(missing_ok=True)
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)

    return say


def complain(program: str, text: str, status: int) -> int:
    """Print a line for people; return the status."""
    print(f"{program}: {text}", file=sys.stderr, flush=True)
    return status
