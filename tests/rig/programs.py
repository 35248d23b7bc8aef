"""The installed commands of this environment."""

from __future__ import annotations

import sys
from pathlib import Path

FAIRSPINE = str(Path(sys.executable).with_name("fairspine"))
