"""The three ways to treat jobs that are learned from their traffic."""

from __future__ import annotations

from typing import Literal, get_args

Learning = Literal["off", "observe", "act"]
"""``off``: no traffic is looked at. ``observe``: learned jobs are shown. ``act``: they are planned, too."""

LEARNING: tuple[Learning, ...] = get_args(Learning)
