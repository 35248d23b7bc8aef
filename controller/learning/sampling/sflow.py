"""sFlow version 5 (sflow.org, Phaal and Lavine, 2004): the first bytes of sampled packets in a datagram.

Flow samples and expanded flow samples are read, of their records those with raw Ethernet headers; counter samples and
everything else are passed over by their lengths.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

VERSION = 5
MOST_SAMPLES, MOST_RECORDS = 1024, 64
"""More samples in a datagram, or records in a sample, than any agent sends."""

_FLOW_SAMPLE, _EXPANDED_FLOW_SAMPLE, _RAW_HEADER, _ETHERNET = 1, 3, 1, 1
_ADDRESS_BYTES = {1: 4, 2: 16}
_TWO = Struct("!II")
_HEAD = Struct("!IIII")
_SAMPLE = Struct("!8I")
_EXPANDED = Struct("!11I")
_RAW = Struct("!IIII")


class SflowError(ValueError):
    """A datagram that is not sFlow version 5, or is cut off."""


class FlowSample(NamedTuple):
    """A sampled packet.

    Attributes:
        source: where the switch sampled: (class, index) of an interface, as one number.
        one_in: packets of which the switch samples one there, as it says.
        drops: samples that the switch had to drop at this source so far, modulo 2^32.
        frame: the first bytes of the packet, from its Ethernet header on.
    """

    source: int
    one_in: int
    drops: int
    frame: bytes


class SflowDatagram(NamedTuple):
    """A datagram: who sent it, its number among all of that sender, and its sampled packets."""

    agent: bytes
    sub_agent: int
    sequence: int
    samples: list[FlowSample]


def parse_datagram(data: bytes) -> SflowDatagram:
    """Parse a datagram.

    Raises:
        SflowError: it is something else, or incomplete.
    """
    end = len(data)
    if end < _TWO.size:
        raise SflowError(f"{end} bytes")
    version, kind = _TWO.unpack_from(data)
    address = _ADDRESS_BYTES.get(kind)
    if version != VERSION or address is None:
        raise SflowError(f"version {version}, address type {kind}")
    at = _TWO.size + address
    if at + _HEAD.size > end:
        raise SflowError("ends within its head")
    sub_agent, sequence, _, count = _HEAD.unpack_from(data, at)
    if count > MOST_SAMPLES:
        raise SflowError(f"{count} samples")
    agent, at = data[_TWO.size : at], at + _HEAD.size
    samples: list[FlowSample] = []
    for _ in range(count):
        if at + _TWO.size > end:
            raise SflowError("ends before a sample")
        form, length = _TWO.unpack_from(data, at)
        at += _TWO.size
        if length > end - at:
            raise SflowError("ends within a sample")
        if form in (_FLOW_SAMPLE, _EXPANDED_FLOW_SAMPLE):
            _read_sample(data, at, at + length, form == _EXPANDED_FLOW_SAMPLE, samples)
        at += length
    return SflowDatagram(agent, sub_agent, sequence, samples)


def _read_sample(data: bytes, at: int, end: int, expanded: bool, samples: list[FlowSample]) -> None:
    """Add the sampled packets between two places of a datagram."""
    form = _EXPANDED if expanded else _SAMPLE
    if at + form.size > end:
        raise SflowError("a sample ends within its head")
    if expanded:
        _, source_class, index, one_in, _, drops, _, _, _, _, records = _EXPANDED.unpack_from(data, at)
        source = source_class << 32 | index
    else:
        _, source, one_in, _, drops, _, _, records = _SAMPLE.unpack_from(data, at)
    if records > MOST_RECORDS:
        raise SflowError(f"{records} records")
    at += form.size
    for _ in range(records):
        if at + _TWO.size > end:
            raise SflowError("ends before a record")
        kind, length = _TWO.unpack_from(data, at)
        at += _TWO.size
        if length > end - at:
            raise SflowError("ends within a record")
        if kind == _RAW_HEADER:
            if length < _RAW.size:
                raise SflowError("a record ends within its head")
            protocol, _, _, size = _RAW.unpack_from(data, at)
            if size > length - _RAW.size:
                raise SflowError("ends within a packet")
            if protocol == _ETHERNET:
                begin = at + _RAW.size
                samples.append(FlowSample(source, one_in, drops, data[begin : begin + size]))
        at += length
