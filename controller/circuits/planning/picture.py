"""Circuits as a drawing: servers around a circle, a chord for each circuit, a colour for each NIC number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

from controller.circuits.planning.circuit_plan import CircuitPlan

_SIZE = 900
_RADIUS = 380.0
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
"""Colours that people with impaired colour vision can tell apart (Okabe and Ito, 2008)."""
_MOST_NAMES = 150


def circuits_svg(plan: CircuitPlan) -> Iterator[str]:
    """Yield the lines of an SVG file."""
    servers = [server for each in plan.shards for server in each.shard.servers]
    angle = {server: 2 * math.pi * i / max(1, len(servers)) for i, server in enumerate(servers)}
    names = plan.fabric.servers
    half = _SIZE / 2
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-family="sans-serif">\n'
    yield f"<title>{escape(f'Circuits of {len(servers)} servers, by the NIC that sends')}</title>\n"
    yield f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>\n'
    for each in plan.shards:
        own = each.shard.servers
        most = float(each.loads.sum(axis=0).max(initial=0.0)) or 1.0
        d, m = each.succ.shape
        for k, u in ((k, u) for k in range(d) for u in range(m) if each.succ[k, u] != u):
            (x0, y0), (x1, y1) = (_at(angle[own[v]], half, _RADIUS) for v in (u, int(each.succ[k, u])))
            nic = int(each.ends.sender[k, u])
            width = 0.4 + 1.6 * float(each.loads[:, k, u].sum()) / most
            yield (
                f'<path d="M{x0:.1f} {y0:.1f}Q{half:.1f} {half:.1f} {x1:.1f} {y1:.1f}" fill="none" '
                f'stroke="{_COLOURS[nic % len(_COLOURS)]}" stroke-width="{width:.2f}" stroke-opacity="0.7"/>\n'
            )
    for server in servers if len(servers) <= _MOST_NAMES else ():
        x, y = _at(angle[server], half, _RADIUS + 14)
        turn = math.degrees(angle[server])
        anchor, turn = ("end", turn + 180) if 90 < turn < 270 else ("start", turn)
        yield (
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="9" text-anchor="{anchor}" dominant-baseline="middle" '
            f'transform="rotate({turn:.1f} {x:.1f} {y:.1f})">{escape(names[server])}</text>\n'
        )
    for nic in range(plan.fabric.nics):
        colour = _COLOURS[nic % len(_COLOURS)]
        yield f'<text x="10" y="{18 + 15 * nic}" font-size="12" fill="{colour}">NIC {nic}</text>\n'
    yield "</svg>\n"


def _at(angle: float, middle: float, radius: float) -> tuple[float, float]:
    return middle + radius * math.cos(angle), middle + radius * math.sin(angle)
