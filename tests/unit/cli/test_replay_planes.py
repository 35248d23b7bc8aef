"""``fairspine replay`` on NICs with several ports: messages go in stripes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.cli.main import main


@pytest.mark.parametrize(("planes", "seconds"), [(1, 0.09), (2, 0.05), (4, 0.03)])
def test_a_message_takes_a_part_of_its_time_with_several_ports(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, planes: int, seconds: float
) -> None:
    """1 GB at 100 Gbit/s takes 80 ms; 10 ms of computing come before it and are not shortened."""
    fabric, graph = tmp_path / "fabric.yaml", tmp_path / "g.goal"
    fabric.write_text(f"clos: {{spines: 1, leaves: 2, hosts_per_leaf: 1, planes: {planes}}}\n")
    graph.write_text(
        "num_ranks 2\nrank 0 {\nl1: calc 10000000\nl2: send 1000000000b to 1 tag 1\nl2 requires l1\n}\n"
        "rank 1 {\nl1: recv 1000000000b from 0 tag 1\n}\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["replay", "goal", str(graph), "--fabric", str(fabric), "--policies", "fair", "--format", "json"])
    assert not end.value.code
    ideal, fair = json.loads(capsys.readouterr().out)["runs"]
    assert ideal["seconds"] == pytest.approx(seconds)
    assert fair["seconds"] == pytest.approx(seconds)
