"""The events: who reads late, who reads on, and what is lost."""

from __future__ import annotations

import dataclasses
import threading

from hypothesis import given
from hypothesis import strategies as st

from controller.core.reconcile import link_changes
from controller.model.files.clos import clos
from controller.model.network_state import Clash, PortId
from controller.service.reconciling.event_log import AT_ONCE, EventLog, EventReader
from tests.unit.service.world import ANN, PATIENCE_SECONDS, Threads, World, flow
from tests.unit.southbound.cabling.networks import seen


def everything(reader: EventReader) -> list[int]:
    """Numbers of the events that are there; 0 for a reset."""
    numbers: list[int] = []
    while events := reader.wait(0):
        numbers += [0 if event.kind == "reset" else int(event.data["number"]) for event in events]
    return numbers


def log_of(count: int, kept: int) -> EventLog:
    log = EventLog(Threads(), kept)
    for number in range(1, count + 1):
        log.append("job", number=number)
    return log


@given(st.integers(0, 30), st.integers(1, 10), st.integers(0, 30), st.integers(0, 30))
def test_a_reader_gets_all_later_events_once_and_in_order_or_a_reset(
    before: int, kept: int, seen_last: int, after: int
) -> None:
    log = log_of(before, kept)
    run = log.subscribe(None)._log._run
    resumed = log.subscribe(f"{run}-{seen_last}")
    live = log.subscribe(None)
    for number in range(before + 1, before + after + 1):
        log.append("job", number=number)
    total = before + after
    oldest = max(1, total - kept + 1)
    available = list(range(oldest, total + 1))
    known = seen_last <= before
    desired = [n for n in available if n > seen_last] if known and seen_last >= oldest - 1 else [0, *available]
    assert everything(resumed) == desired
    wanted_live = [n for n in available if n > before] if before >= oldest - 1 else [0, *available]
    assert everything(live) == wanted_live


@given(st.integers(0, 30), st.integers(1, 10))
def test_a_reader_from_the_begin_gets_all_that_is_kept_and_never_a_reset(count: int, kept: int) -> None:
    assert everything(log_of(count, kept).subscribe("begin")) == list(range(max(0, count - kept) + 1, count + 1))


@given(st.integers(0, 30), st.integers(1, 10), st.integers(0, 40))
def test_a_new_reader_begins_with_as_many_earlier_events_as_it_asks_for_and_never_a_reset(
    count: int, kept: int, last: int
) -> None:
    log = log_of(count, kept)
    reader = log.subscribe(None, last)
    assert everything(reader) == list(range(count - min(last, kept, count) + 1, count + 1))
    log.append("job", number=count + 1)
    assert everything(reader) == [count + 1]


@given(st.text() | st.from_regex(r"[0-9a-f]{1,12}-[0-9]{1,30}", fullmatch=True))
def test_an_id_that_was_never_given_leads_to_a_reset(text: str) -> None:
    log = log_of(3, 10)
    numbers = everything(log.subscribe(text))
    assert numbers == [0, 1, 2, 3] or text.startswith(log._run)


def test_the_id_of_a_reset_can_be_resumed_from() -> None:
    log = log_of(20, 5)
    reset, *rest = log.subscribe("gone-1").wait(0)
    assert reset.kind == "reset"
    assert [event.data["number"] for event in rest] == [16, 17, 18, 19, 20]
    again = log.subscribe(reset.id)
    assert everything(again) == [16, 17, 18, 19, 20]


def test_ids_of_two_runs_differ_and_grow_within_one() -> None:
    runtime = Threads()
    first, second = EventLog(runtime), EventLog(runtime)
    for log in (first, second):
        log.append("job", number=1)
        log.append("job", number=2)
    ids = [event.id for log in (first, second) for event in log.after(0)[0]]
    assert len(set(ids)) == 4


def test_a_reader_that_is_far_behind_gets_its_events_in_portions() -> None:
    log = log_of(3 * AT_ONCE, 1000)
    reader = log.subscribe(f"{log._run}-0")
    assert len(reader.wait(0)) == AT_ONCE
    assert everything(reader) == list(range(AT_ONCE + 1, 3 * AT_ONCE + 1))


def test_a_waiting_reader_is_woken_and_a_closed_one_forgotten() -> None:
    log = log_of(0, 10)
    reader = log.subscribe(None)
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.extend(len(reader.wait(PATIENCE_SECONDS)) for _ in range(1)))
    thread.start()
    log.append("job", number=1)
    thread.join(PATIENCE_SECONDS)
    assert got == [1]
    reader.close()
    reader.close()
    assert not log._readers


def test_links_that_come_and_go_are_reported_and_new_ones_are_not() -> None:
    before, now = (clos(2, 2, 1).without_links(names) for names in (["spine1"], ["leaf1-spine2", "leaf2-spine1"]))
    fewer = dataclasses.replace(now, cables=now.cables[:-1], hosts=now.hosts[:-1])
    assert link_changes(before, now) == [("leaf1-spine2", False), ("leaf1-spine1", True)]
    assert link_changes(now, fewer) == [("leaf2-spine2", False), ("h2-leaf2", False)]
    assert link_changes(fewer, now) == link_changes(None, now) == []


def test_changes_of_jobs_links_modes_and_plans_are_events_with_their_author() -> None:
    fabric = clos(2, 2, 1)
    world = World(fabric, seen(fabric)).planned()
    reader = world.service.subscribe(None)
    world.put("a", [flow("h1", "h2")])
    world.service.drain("spine1", True, ANN)
    world.service.set_mode("ecmp", None, ANN)
    world.delete("a")
    down = fabric.without_links(["leaf1-spine2"])
    world.show(seen(down), lambda state: state.fabric is not None and state.fabric.version == down.version)
    world.switches[0].error = "refused"
    world.switches_changed()
    events = []
    while more := reader.wait(0):
        events += more
    told = [
        (
            event.kind,
            {
                k: v
                for k, v in event.data.items()
                if k in ("job", "change", "id", "drained", "up", "mode", "state", "cause", "by", "text")
            },
        )
        for event in events
    ]
    assert ("job", {"job": "a", "change": "pushed", "by": "ann"}) in told
    assert ("link", {"id": "spine1", "drained": True, "by": "ann"}) in told
    assert ("mode", {"mode": "ecmp", "by": "ann"}) in told
    assert ("job", {"job": "a", "change": "deleted", "by": "ann"}) in told
    assert ("link", {"id": "leaf1-spine2", "up": False}) in told
    assert ("error", {"text": "leaf1: refused"}) in told
    plans = [data for kind, data in told if kind == "plan" and data["state"] == "computed"]
    assert [(data["cause"], data["by"]) for data in plans] == [
        ("job a pushed", "ann"),
        ("spine1 drained", "ann"),
        ("mode ecmp", "ann"),
        ("job a deleted", "ann"),
        ("leaf1-spine2 down", None),
    ]


def test_a_claim_to_a_hosts_address_that_is_not_believed_is_an_event_once() -> None:
    fabric = clos(1, 2, 1)
    world = World(fabric, seen(fabric)).planned()
    reader = world.service.subscribe(None)
    forged = Clash("clash", "10.0.1.1", "02:66:66:66:66:66", PortId(2, 1), "10.0.1.1", PortId(1, 1))
    for _ in range(3):
        shown = dataclasses.replace(seen(fabric), clashes=frozenset({forged}))
        world.show(shown, lambda state: bool(state.survey.findings))
        world.show(seen(fabric), lambda state: not state.survey.findings)
    told = [event.data for event in reader.wait(0) if event.kind == "error"]
    text = "10.0.1.1 (h1) is claimed at leaf2 port 1 by 02:66:66:66:66:66; it stays at leaf1 port 1"
    assert told == [{"text": text, "finding": "duplicate address", "subject": "h1"}]
    world.close()
