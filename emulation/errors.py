"""The one error of the lab."""

from __future__ import annotations


class LabError(RuntimeError):
    """A part of the emulation failed. The message names it and shows the end of its log."""
