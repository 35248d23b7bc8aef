"""Options that a controller of an optical fabric cannot use are one line, and name the option and its value."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from controller import launcher
from controller.config import Settings
from controller.model.errors import InputError


def settings(folder: Path, optical: dict[str, object], **options: object) -> Settings:
    file = folder / "fabric.json"
    file.write_text(json.dumps({"optical": {"servers": 4, "nics": 2} | optical}))
    return replace(Settings(), fabric=str(file), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("optical", "options", "message"),
    [
        ({}, {"cluster_name": "lab"}, "cluster_name: 'lab': replicas of a cluster do not control optical fabrics"),
        ({}, {"circuit_paths": 10**6}, "circuit_paths: 1000000: must be at most "),
        ({"forwarding": False}, {"circuit_paths": 2}, "circuit_paths: 2: servers that do not forward have one path"),
        ({"nics": 4}, {}, "nics"),
    ],
)
def test_what_an_optical_fabric_cannot_have_is_refused(
    tmp_path: Path, optical: dict[str, object], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        launcher._fabric(settings(tmp_path, optical, **options))


def test_an_optical_fabric_is_no_fabric_of_packet_switches(tmp_path: Path) -> None:
    fabric, optical = launcher._fabric(settings(tmp_path, {}))
    assert fabric is None
    assert optical is not None
    assert (optical.n_servers, optical.nics) == (4, 2)
