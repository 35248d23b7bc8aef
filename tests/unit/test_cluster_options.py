"""Options of a replica that cannot be meant are one line, and name the option and its value."""

from __future__ import annotations

import re

import pytest

from controller.config import Settings, settings_from
from controller.model.errors import InputError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster_url": "http://a:8080"}, "cluster_url: 'http://a:8080': is only for replicas of a cluster"),
        ({"cluster_ca": "ca.pem"}, "cluster_ca: 'ca.pem': is only for replicas of a cluster"),
        ({"cluster_name": " "}, "cluster_name: ' ': must not begin or end with a blank"),
        ({"cluster_name": "lab "}, "cluster_name: 'lab ': must not begin or end with a blank"),
        ({"cluster_name": "lab", "cluster_url": "a:8080"}, "cluster_url: 'a:8080': must be like https://"),
        ({"cluster_name": "lab", "lease": 0.49}, "lease: 0.49: must be at least 0.5"),
        ({"cluster_name": "lab", "lease": float("nan")}, "lease: nan: must be at least 0.5"),
    ],
)
def test_wrong_options_of_a_replica(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        settings_from(vars(Settings()) | options)
