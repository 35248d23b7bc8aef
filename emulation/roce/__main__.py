"""``python -m emulation.roce server|client|agent``."""

from __future__ import annotations

import sys

from emulation.roce.cli import main

if __name__ == "__main__":
    sys.exit(main())
