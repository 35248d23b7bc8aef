"""Factors between the units of the program (bytes, Gbit/s, seconds) and those of files."""

from __future__ import annotations

GBIT = 8e-9
"""Gbit of one byte."""

MICROSECOND = 1e-6
"""Seconds of one microsecond."""

NANOSECOND = 1e-9
"""Seconds of one nanosecond."""

LARGEST_EXACT = 2**53 - 1
"""The largest whole number that every reader of JSON takes exactly (RFC 8259, section 6)."""
