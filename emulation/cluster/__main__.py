"""``python -m emulation.cluster``: see ``command``."""

import sys

try:
    from emulation.cluster.command import main

    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    # Before there was anything to take down.
    sys.exit(130)
