"""The set of overloaded links, which the searches on links and on whole paths empty."""

from __future__ import annotations

from typing import NamedTuple

from controller.model.traffic import Int64Array
from controller.routing.kernels.without_runtime import inner


class OverloadedLinks(NamedTuple):
    """The set of overloaded links that carry units.

    Attributes:
        links: [E] the members come first.
        place: [E] position of each link in ``links`` (-1: not a member).
        size: [1] number of members.
    """

    links: Int64Array
    place: Int64Array
    size: Int64Array


@inner
def update_member(load, room, head, overloaded, link):
    """Add a link to the overloaded ones that carry units, or remove it; [E]: load, room, first unit (-1: none)."""
    links, place, size = overloaded.links, overloaded.place, overloaded.size
    belongs = load[link] > room[link] and head[link] >= 0
    if belongs and place[link] < 0:
        links[size[0]], place[link] = link, size[0]
        size[0] += 1
    elif not belongs and place[link] >= 0:
        last = links[size[0] - 1]
        links[place[link]], place[last] = last, place[link]
        place[link] = -1
        size[0] -= 1
