"""Tags in carriers, by which a router's message about a lost packet says which path the packet took.

A router quotes the packet that it cannot forward, but the ids of the switches that the packet has passed are gone from
its address, and those left may belong to several paths. So the sender writes a number, the tag, into the last 16 bits
of the address where the carrier leaves them free. They are behind the id of the receiver, which matches by that id
alone (they are arguments of its segment, RFC 8986, 3.1), and move up with the ids.
"""

from __future__ import annotations

from ipaddress import IPv6Address

from agent.linux.numbering import Numbering

MOST_TAGS = 0xFFFF
_GROUPS = 8
_SHIFT_BITS = 16


class CarrierTags:
    """The tags of carriers."""

    def __init__(self) -> None:
        """Begin without tags."""
        self._numbers: Numbering[IPv6Address] = Numbering(MOST_TAGS)

    def tagged(self, carrier: IPv6Address) -> IPv6Address:
        """Return a carrier with its tag; without one if it has no room or there are too many."""
        number = None if int(carrier) & MOST_TAGS else self._numbers.number(carrier)
        return carrier if number is None else IPv6Address(int(carrier) | number)

    def carrier(self, quoted: IPv6Address) -> IPv6Address | None:
        """Return the carrier of a packet whose destination address a router has quoted; ``None``: none of ours."""
        value = int(quoted)
        tag = next((tag for place in range(_GROUPS) if (tag := value >> (_SHIFT_BITS * place) & MOST_TAGS)), 0)
        carrier = self._numbers.value(tag)
        if carrier is None:
            return None
        return carrier if value in remainders(int(carrier) | tag) else None

    def drop(self, carrier: IPv6Address) -> None:
        """Give up the tag of a carrier, if it has one."""
        self._numbers.drop(carrier)

    def keep(self, carriers: set[IPv6Address]) -> None:
        """Give up the tags of all other carriers."""
        self._numbers.keep(carriers)


def remainders(carrier: int) -> set[int]:
    """Return a carrier as it is after each number of ids has been removed, for every length of the block."""
    values = {carrier}
    for block_bits in (16, 32, 48):
        rest_bits = 128 - block_bits
        block, rest = carrier >> rest_bits << rest_bits, carrier & (1 << rest_bits) - 1
        for _ in range(rest_bits // _SHIFT_BITS):
            rest = rest << _SHIFT_BITS & (1 << rest_bits) - 1
            if rest:
                values.add(block | rest)
    return values
