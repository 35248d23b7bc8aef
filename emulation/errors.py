"""The one error of the lab."""

from __future__ import annotations


class LabError(RuntimeError):
    """Something of the emulation did not work. The message says to people what, and shows the end of the log."""
