"""A job as the controller tells it."""

from __future__ import annotations

JOB = {
    "name": "gpt3-a",
    "weight": 1.0,
    "bytes": 1,
    "min_speed": None,
    "speed": None,
    "epoch": 3,
    "active": False,
    "unroutable": [],
    "collectives": [
        {"job": "gpt3-a", "name": "dp0", "speed": None, "ideal_seconds": None, "seconds": None, "slowdown": None}
    ],
    "flows": [],
}

SUMMARY = {
    "name": "gpt3-a",
    "weight": 1.0,
    "collectives": 1,
    "flows": 0,
    "bytes": 1,
    "min_speed": None,
    "speed": None,
    "active": False,
}
