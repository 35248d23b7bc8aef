"""``fairspine warm-up``: compile all kernels at installation, so that no later command waits for the compiler."""

from __future__ import annotations

import typer


def warm_up() -> None:
    """Compile the numerical kernels of planners, learning and simulator, or load them if they are compiled.

    Each command compiles what it needs at its first use. Run this after an installation or an upgrade, as the user
    that runs the controller. The variable NUMBA_CACHE_DIR names another folder for the compiled code.
    """
    from controller.circuits import warm_up as circuits
    from controller.learning import warm_up as learning
    from controller.southbound.wire import entry_hashes
    from emulation.evaluation.warm_up import compile_in_parallel

    entry_hashes.warm_up()
    learning.warm_up()
    circuits.warm_up()
    compile_in_parallel()
    typer.echo("the kernels are compiled")
