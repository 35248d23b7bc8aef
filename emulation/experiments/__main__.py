"""``python -m emulation.experiments``: the part of ``fairspine emulate`` that runs inside its namespaces."""

import sys

from emulation.experiments.command import main

sys.exit(main(sys.argv[1:]))
