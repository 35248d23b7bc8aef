"""Locations of real input files for the importers, which are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with other projects' files, a folder each: ``FAIRSPINE_DATA``, or ``shared/data`` beside the checkout."""
    folder = Path(os.environ.get("FAIRSPINE_DATA", _ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no files of other projects at {folder} (FAIRSPINE_DATA names another place)")
    return folder
