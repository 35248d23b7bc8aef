"""InfiniBand subnets become fabrics whose servers have their adapters."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from tests.unit.laws import examples
from tests.unit.workload.importers.fabrics.reading import (
    EXAMPLES,
    cables,
    fabric,
    read,
)


def test_infiniband_adapters_of_one_server_are_its_rails() -> None:
    one = fabric(importer("ibnetdiscover")(open_sources([EXAMPLES / "ibnetdiscover.txt"]), ImportRequest()))
    assert {(h.name, h.server, h.rail, h.leaf, h.gbps) for h in one.hosts} == {
        (f"gpu{s}-mlx5_{r}", f"gpu{s}", r, f"leaf{r + 1}", 200.0) for s in (1, 2) for r in (0, 1)
    }


@st.composite
def subnets(draw: st.DrawFn) -> tuple[str, str, Counter[tuple[int, ...]], bool]:
    """A subnet as ``ibnetdiscover`` prints it, and with ``-p``; the leaves of each server; whether all have names."""
    n_leaves = draw(st.integers(2, 16))
    kinds = draw(st.lists(st.sampled_from(["named", "factory", "localhost", "twice"]), max_size=8))
    servers = [[f"full{leaf} mlx5_0"] for leaf in range(n_leaves)]
    for number, kind in enumerate(kinds):
        described = {
            "named": [f"gpu{number} mlx5_{i}" for i in range(draw(st.integers(1, 12)))],
            "factory": ["MT4129 ConnectX7   Mellanox Technologies"] * 2,
            "localhost": [f"localhost HCA-{i}" for i in range(2)],
            "twice": ["node mlx5_0", "node mlx5_1"],
        }
        servers.append(described[kind])
    spine, ups, adapters = f"{1 << 20:016x}", [], []
    expected: Counter[tuple[int, ...]] = Counter()
    ports = [f"SW 1 41 0x{leaf:016x} 4x ???                      'leaf{leaf}'" for leaf in range(n_leaves)]
    for leaf in range(n_leaves):
        ups.append(f'Switch 41 "S-{leaf:016x}" # "leaf{leaf}" enhanced port 0 lid 1 lmc 0')
        ups.append(f'[40] "S-{spine}"[{leaf}] # "spine" lid 2 4xHDR')
        ports.append(f"SW 1 40 0x{leaf:016x} 4x HDR - SW 2 {leaf} 0x{spine} ( 'leaf{leaf}' - 'spine' )")
    for system, names in enumerate(servers):
        leaves = [
            system if len(names) == 1 and system < n_leaves else draw(st.integers(0, n_leaves - 1)) for _ in names
        ]
        expected[tuple(sorted(leaves))] += 1
        for i, (leaf, text) in enumerate(zip(leaves, names, strict=True)):
            guid = f"{system << 8 | i | 1 << 30:016x}"
            adapters += [
                f"sysimgguid=0x{system:016x}",
                f"caguid=0x{guid}",
                f'Ca 1 "H-{guid}" # "{text}"',
                f'[1]({guid}) "S-{leaf:016x}"[{system * 12 + i}] # lid 9 lmc 0 "leaf{leaf}" lid 1 4xHDR',
            ]
            ports.append(f"CA 9 1 0x{guid} 4x HDR - SW 1 {system * 12 + i} 0x{leaf:016x} ( '{text}' - 'leaf{leaf}' )")
    named = not {"factory", "localhost"} & {*kinds} and kinds.count("twice") < 2
    whole = [*ups, f'Switch 41 "S-{spine}" # "spine" enhanced port 0 lid 2 lmc 0', *adapters]
    return "\n".join(whole), "\n".join(ports), expected, named


@settings(deadline=None, max_examples=examples(20, 120))
@given(drawn=subnets())
def test_adapters_are_in_the_server_that_their_names_or_else_their_systems_say(
    drawn: tuple[str, str, Counter[tuple[int, ...]], bool],
) -> None:
    whole, by_port, expected, named = drawn
    imported = read("ibnetdiscover", whole)
    below: dict[str, list[int]] = {}
    for host in fabric(imported).hosts:
        below.setdefault(host.server, []).append(int(host.leaf.removeprefix("leaf")))
    assert Counter(tuple(sorted(leaves)) for leaves in below.values()) == expected
    assert named == (not imported.warnings)
    # The lines of ports say nothing of systems.
    again = read("ibnetdiscover", by_port)
    assert cables(fabric(again)) == cables(fabric(imported))
    assert Counter((host.name, host.leaf) for host in fabric(again).hosts) == Counter(
        (host.name, host.leaf) for host in fabric(imported).hosts
    )
    assert named == (not again.warnings)


def test_a_server_below_more_leaves_than_it_has_adapters_is_refused() -> None:
    rows = []
    for leaf in range(17):
        rows.append(f'Switch 41 "S-{leaf}" # "leaf{leaf}" enhanced port 0 lid 1 lmc 0')
        rows.append(f'[40] "S-99"[{leaf}] # "spine" lid 2 4xHDR')
        rows.append(f'Ca 1 "H-{leaf}" # "gpu mlx5_{leaf}"')
        rows.append(f'[1](1) "S-{leaf}"[1] # lid 9 lmc 0 "leaf{leaf}" lid 1 4xHDR')
    rows.append('Switch 41 "S-99" # "spine" enhanced port 0 lid 2 lmc 0')
    with pytest.raises(InputError, match=r"file0: 'gpu': the adapters of this server are below 17 switches"):
        read("ibnetdiscover", "\n".join(rows))
