"""Locations of real input files for tests, which are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with other projects' files, a folder each: ``FAIRSPINE_DATA``, or ``shared/data`` beside the checkout.

    Where it is missing, its tests are skipped; in continuous integration they fail, unless ``FAIRSPINE_DATA`` is empty:
    that says that there are no such files.
    """
    named = os.environ.get("FAIRSPINE_DATA")
    if named == "":
        pytest.skip("FAIRSPINE_DATA is empty: no files of other projects")
    folder = Path(named or _ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        lacking = f"no files of other projects at {folder} (FAIRSPINE_DATA names another place, or none if it is empty)"
        if os.environ.get("CI") == "true":
            pytest.fail(lacking)
        pytest.skip(lacking)
    return folder
