from __future__ import annotations

import pytest

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.chakra import read
from tests.unit.workload.importers.traces.small_traces import (
    calls,
    comms,
    flows,
    groups,
    imported,
    pytorch,
    sources,
    tensor,
)


def test_the_oldest_form_names_groups_by_their_backends_address() -> None:
    head = groups({"pg_name": "0", "backend_id": 82149104, "ranks": [], "group_size": 2, "group_count": 1})
    row = comms([tensor(3)], 12, 82149104, 0, "all_gather", [], [], 2)
    found = imported([pytorch(head, row, comms(12, 0, 0, "wait", [], [], 1))], "json")
    assert calls(found.job) == [("0-all_gather", "all_gather", (0, 1), 24)]
    assert "1 of 2 ranks" in found.warnings[0]


def test_newer_forms_name_groups_and_where_they_lie() -> None:
    head = groups({"pg_name": "7", "ranks": [1, 3], "group_size": 2}, {"pg_name": "0", "ranks": [], "group_size": 4})
    reduce = comms([tensor(10)], [5, False], ["7", "dp"], 0, "allreduce", [], [], 1, 2, 2)
    strided = comms([tensor(10, 2)], [5, False], ["8", "tp"], 0, "_reduce_scatter_base", [], [], 0, 2, 2)
    found = imported([pytorch(head, strided), pytorch(head, reduce)], "json")
    assert calls(found.job) == [
        ("7-all_reduce", "all_reduce", (1, 3), 40),
        ("8-reduce_scatter", "reduce_scatter", (0, 2), 20),
    ]


def test_splits_say_who_gets_how_much_of_an_all_to_all() -> None:
    rows = [comms([tensor(100)], [1, False], ["0", ""], r, "all_to_allv", [1, 3], [2, 2], 0, 1, 2) for r in (0, 1)]
    found = imported([pytorch(row) for row in rows], "json")
    assert flows(found.job) == [("rank0", "rank1", 300), ("rank1", "rank0", 100)]


def test_the_oldest_schema_has_its_inputs_bare() -> None:
    row = {"name": "record_param_comms", "inputs": [[tensor(2)], 1, 5, 0, "broadcast", [], [], 2]}
    assert calls(imported([pytorch(row)] * 2, "json").job)[0][1:] == ("broadcast", (0, 1), 8)


def world(rank: int, of: int) -> dict[str, object]:
    """An operation that tells which rank this is."""
    return comms([tensor(1)], [1, False], ["0", ""], rank, "allreduce", [], [], 0, 1, of)


def test_one_group_that_each_rank_calls_by_another_address_counts_once() -> None:
    def trace(address: int, rank: int) -> bytes:
        head = groups({"pg_name": "0", "backend_id": address, "ranks": [], "group_size": 2})
        return pytorch(head, comms([tensor(3)], 12, address, rank, "all_gather", [], [], 2))

    found = imported([trace(140_001, 0), trace(277_772, 1)], "json")
    assert calls(found.job) == [("0-all_gather", "all_gather", (0, 1), 24)]


def test_the_peer_of_a_send_is_a_position_in_its_group() -> None:
    head = groups({"pg_name": "0", "ranks": [], "group_size": 4}, {"pg_name": "5", "ranks": [1, 3], "group_size": 2})
    send = comms([tensor(100)], [5, False], ["5", "pp"], 1, "send", [], [], 1, 2, 2)
    receive = comms([tensor(100)], [5, False], ["5", "pp"], 0, "recv", [], [], 1, 2, 2)
    more = [[], [send], [], [receive]]
    found = imported([pytorch(head, world(rank, 4), *more[rank]) for rank in range(4)], "json")
    assert flows(found.job) == [("rank1", "rank3", 400)]
    assert found.notes == ()
    beyond = comms([tensor(100)], [5, False], ["5", "pp"], 2, "send", [], [], 1, 2, 2)
    with pytest.raises(InputError, match="rank 2 of a group of 2"):
        read(sources([pytorch(head, world(1, 4), beyond)], "json"), ImportRequest())


def test_the_position_in_a_group_gives_the_rank_for_any_file_name() -> None:
    head = groups({"pg_name": "0", "ranks": [], "group_size": 3}, {"pg_name": "5", "ranks": [2, 0], "group_size": 2})
    last = pytorch(head, comms([tensor(1)], [1, False], ["5", ""], 0, "all_to_allv", [1, 3], [2, 2], 2, -2, 2))
    first = pytorch(head, world(0, 3))
    found = imported([last, first], "json")
    assert flows(found.job) == [("rank2", "rank0", 3)]


def test_even_and_uneven_runs_of_an_all_to_all_add_up() -> None:
    def trace(rank: int) -> bytes:
        uneven = comms([tensor(100)], [1, False], ["0", ""], rank, "all_to_allv", [1, 3], [2, 2], 0, 1, 2)
        return pytorch(uneven, comms([tensor(1000)], [2, False], ["0", ""], rank, "all_to_all", [], [], 0, 1, 2))

    assert flows(imported([trace(0), trace(1)], "json").job) == [("rank0", "rank1", 2300), ("rank1", "rank0", 2100)]
    alone = imported([trace(0)], "json")
    assert flows(alone.job) == [("rank0", "rank1", 2300)]
    assert any("what 1 of 2 ranks send is unknown" in note for note in alone.notes)


def test_a_root_that_is_each_rank_itself_is_none() -> None:
    def trace(rank: int, root: int) -> bytes:
        return pytorch(world(rank, 2), comms([tensor(10)], [5, False], ["0", ""], root, "broadcast", [], [], 0, 1, 2))

    same = imported([trace(0, 0), trace(1, 1)], "json")
    assert calls(same.job)[1:] == [("0-broadcast", "broadcast", (0, 1), 40)]
    assert "no trace contains the root of broadcast" in same.notes[0]
    both = imported([trace(0, 1), trace(1, 1)], "json")
    assert calls(both.job)[1:] == [("0-broadcast-root1", "broadcast", (1, 0), 40)]
    assert both.notes == ()


@pytest.mark.parametrize("kept", range(40, 190, 7))
def test_a_list_of_groups_that_pytorch_cut_off_is_read_as_far_as_it_goes(kept: int) -> None:
    rows = [{"pg_name": str(i), "ranks": [2 * i, 2 * i + 1], "group_size": 2} for i in range(4)]
    head = groups(*rows)
    text = head["inputs"]["values"][0]
    assert len(text) > 190
    head["inputs"]["values"][0] = text[:kept]
    later = comms([tensor(10)], [5, False], ["3", ""], 0, "allreduce", [], [], 6, 1, 2)
    found = imported([pytorch(head, later)], "json")
    assert calls(found.job) == [("3-all_reduce", "all_reduce", (6, 7), 40)]
    whole = text[:kept].count("}")
    assert any("truncated list" in text for text in found.warnings) or text[:kept].rstrip(", ").endswith("}")
    assert found.ranks == max(8, 2 * whole)


def test_an_operation_that_is_unknown_is_left_out_and_named() -> None:
    odd = comms([tensor(1)], [1, False], ["0", ""], 0, "teleport", [], [], 0, 1, 2)
    found = imported([pytorch(world(rank, 2), odd, odd) for rank in (0, 1)], "json")
    assert calls(found.job) == [("0-all_reduce", "all_reduce", (0, 1), 4)]
    assert "trace.0.json: left out, 2 x run of 'teleport', which is an unknown operation" in found.warnings
