"""``python -m tests.campaigns.cluster``: see ``command``."""

import sys

try:
    from tests.campaigns.cluster.command import main

    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    # Before there was anything to take down.
    sys.exit(130)
