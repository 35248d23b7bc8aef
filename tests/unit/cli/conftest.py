"""The screen of the tests of commands."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every command a screen on which nothing is left out; tests of small screens set another one."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "60")
