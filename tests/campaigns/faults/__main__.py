"""``python -m tests.campaigns.faults``: see ``command``."""

import sys

try:
    from tests.campaigns.faults.command import main

    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    # Before there was anything to take down.
    sys.exit(130)
