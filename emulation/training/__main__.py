"""``python -m emulation.training``: the part of ``fairspine emulate-training`` that runs inside its namespaces."""

import sys

try:
    from emulation.training.training_command import main

    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    # Before there was anything to take down.
    sys.exit(130)
