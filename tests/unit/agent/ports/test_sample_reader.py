"""Samples as the controller tells them: what is damaged is refused with the field."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest

from agent.ports.sample_reader import read_samples
from agent.ports.sampled_paths import SeenPacket
from controller.model.errors import InputError

ROW = {"dst": "10.0.2.1", "port": 50000, "router": "spine1", "seconds": 0.5}
DOCUMENT = {"number": 7, "one_in": 100, "samples": [ROW]}


def test_samples_are_as_old_as_they_say() -> None:
    samples = read_samples(DOCUMENT, 10.0)
    assert (samples.number, samples.one_in) == (7, 100)
    assert samples.packets == [SeenPacket(IPv4Address("10.0.2.1"), 50000, "spine1", 9.5)]
    assert read_samples({**DOCUMENT, "one_in": None}, 10.0).one_in is None


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "samples"),
        ({**DOCUMENT, "samples": [1]}, "samples[0]"),
        ({**DOCUMENT, "samples": [{**ROW, "dst": "x"}]}, "samples[0].dst"),
        ({**DOCUMENT, "samples": [{**ROW, "port": "1"}]}, "samples[0].port"),
        ({**DOCUMENT, "samples": [{**ROW, "router": None}]}, "samples[0].router"),
        ({**DOCUMENT, "samples": [{**ROW, "seconds": -1}]}, "samples[0].seconds"),
        ({**DOCUMENT, "samples": [{**ROW, "seconds": True}]}, "samples[0].seconds"),
        ({**DOCUMENT, "one_in": 0}, "one_in"),
        ({**DOCUMENT, "one_in": "all"}, "one_in"),
        ({**DOCUMENT, "number": None}, "number"),
    ],
)
def test_damaged_samples_are_refused_with_the_field(document: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        read_samples(document, 0.0)
    assert refused.value.field == field
