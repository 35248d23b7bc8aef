"""The memory of ranks is compared with what the machine and the control group have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.training.memory import RANK_BYTES, too_little

sizes = st.integers(min_value=0, max_value=2**40).map(lambda size: size // 1024 * 1024)


def machine(root: Path, free: int, group: tuple[str, int] | None = None) -> Path:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {free // 1024} kB\n")
    folder = root / "sys/fs/cgroup"
    folder.mkdir(parents=True, exist_ok=True)
    if group is not None:
        (folder / "memory.max").write_text(f"{group[0]}\n")
        (folder / "memory.current").write_text(f"{group[1]}\n")
    return root


@given(free=sizes, limit=st.none() | sizes, used=sizes, ranks=st.integers(1, 2000))
def test_ranks_have_room_where_the_machine_and_its_group_have(
    tmp_path_factory: pytest.TempPathFactory, free: int, limit: int | None, used: int, ranks: int
) -> None:
    root = machine(tmp_path_factory.mktemp("m"), free, ("max" if limit is None else str(limit), used))
    room = free if limit is None else min(free, limit - used)
    assert (too_little(ranks, root=root) == "") == (room >= ranks * RANK_BYTES)


def test_the_reason_names_what_is_needed_and_what_there_is(tmp_path: Path) -> None:
    assert (
        too_little(16, root=machine(tmp_path, 2 * 10**9)) == "16 ranks need 4.7 GB of memory, and 2.0 GB are available"
    )
