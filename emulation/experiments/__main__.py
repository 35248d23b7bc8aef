"""``python -m emulation.experiments``: the part of ``fairspine emulate`` that runs inside its namespaces."""

import sys

try:
    from emulation.experiments.command import main

    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    # Before there was anything to take down.
    sys.exit(130)
