"""The service between its doors, on threads in place of greenlets: what is answered, refused, kept, and held back."""

from __future__ import annotations

import dataclasses
import json
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from controller.core.caller import Quota
from controller.core.controller_state import ControllerState
from controller.core.errors import ConflictError, NotAllowedError, PreconditionFailedError, StorageError
from controller.core.ports.api import Condition
from controller.core.reconcile import reconcile
from controller.logs.line_formats import TextLines
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState
from controller.model.tenant import Tenant
from controller.planning.plan_inputs import traffic_hash
from controller.rest.schemas import JobDocument, JobList
from controller.rest.schemas.plans import TenantRow
from controller.service.reconciling import reconciler as module
from controller.service.service import Service
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from tests.unit.service.world import ANN, PATIENCE_SECONDS, FakeStore, World, flow
from tests.unit.southbound.cabling.networks import seen

JOB = [flow("h1", "h2")]
OTHER = [flow("h2", "h1")]


@pytest.fixture
def fabric() -> Fabric:
    return clos(2, 2, 1)


@pytest.fixture
def world(fabric: Fabric) -> World:
    return World(fabric, seen(fabric)).planned()


def flow_ids(world: World) -> list[str]:
    return [row["id"] for row in world.read(lambda service: service.plan())["plan"]["flows"]]


def test_a_job_that_is_answered_is_in_the_plan_and_kept_and_stays_until_it_is_deleted(world: World) -> None:
    outcome = world.put("a", JOB)
    assert outcome.created
    assert flow_ids(world) == ["a/all/0"]
    assert list(world.store.jobs) == ["a"]
    assert world.store.records[world.service.state.epoch].cause == "job a pushed"
    assert not world.put("a", JOB).created
    assert not world.put("a", OTHER).created
    assert world.service.state.traffic.src.tolist() == [1]
    world.delete("a")
    assert flow_ids(world) == []
    assert world.store.jobs == {}
    with pytest.raises(NotFoundError):
        world.delete("a")


def test_jobs_of_tenants_have_their_shares_in_documents_and_a_new_weight_makes_a_new_plan(fabric: Fabric) -> None:
    shared = dataclasses.replace(fabric, tenants=(Tenant("a", 1.0), Tenant("b", 3.0)))
    world = World(shared, seen(shared)).planned()
    for name, tenant in (("one", "a"), ("two", "b"), ("three", "b"), ("free", None)):
        owned = {} if tenant is None else {"tenant": tenant}
        body = json.dumps({"flows": JOB, **owned}).encode()
        world.service.put_job(name, body, Condition(), ANN)
    listed = JobList.model_validate(world.read(lambda service: service.jobs()))
    assert {row.name: (row.tenant, row.weight, row.planned_weight) for row in listed.jobs} == {
        "one": ("a", 1.0, 1.0),
        "two": ("b", 1.0, 1.5),
        "three": ("b", 1.0, 1.5),
        "free": (None, 1.0, None),
    }
    assert listed.tenants is not None
    speeds = {row.name: row.min_speed for row in listed.tenants}
    assert speeds == pytest.approx({"a": 1 / 5, "b": 3 / 10})
    planned = world.read(lambda service: service.plan())["plan"]
    assert [TenantRow.model_validate(row) for row in planned["tenants"]] == listed.tenants
    two = JobDocument.model_validate_json(bytes(world.service.job("two").document))  # type: ignore[arg-type]
    assert (two.tenant, two.planned_weight) == ("b", 1.5)
    inputs = world.service.state.candidate
    other = traffic_hash([], (Tenant("a", 1.0), Tenant("b", 2.0)))
    assert inputs is not None
    assert len({other, traffic_hash([], shared.tenants), traffic_hash([])}) == 3
    with pytest.raises(InputError, match="tenant: 'c': the fabric has no such tenant; its tenants are a, b"):
        world.service.put_job("four", json.dumps({"flows": JOB, "tenant": "c"}).encode(), Condition(), ANN)


def test_a_caller_has_no_more_jobs_than_its_quota_in_whatever_way_it_gets_them(world: World) -> None:
    few = dataclasses.replace(ANN, name="few", quota=Quota(jobs=1))

    def push(name: str, flows: object) -> None:
        world.service.put_job(name, json.dumps({"flows": flows}).encode(), Condition(), few)

    world.put("a", JOB)
    push("b", OTHER)
    push("b", JOB)
    for name in ("a", "c"):
        with pytest.raises(InputError, match=r"name: '.': the quota of token few is 1 job, and it has 1"):
            push(name, OTHER)
    world.put("b", OTHER)
    push("c", JOB)
    assert {row["name"]: row["by"] for row in world.read(lambda service: service.jobs())["jobs"]} == {
        "a": "ann",
        "b": "ann",
        "c": "few",
    }


def test_the_token_of_a_tenant_changes_the_jobs_of_this_tenant_alone(fabric: Fabric) -> None:
    shared = dataclasses.replace(fabric, tenants=(Tenant("a", 1.0), Tenant("b", 1.0)))
    world = World(shared, seen(shared)).planned()
    callers = {name: dataclasses.replace(ANN, name=f"of-{name}", tenant=name) for name in "ab"} | {"-": ANN}

    def push(name: str, tenant: str, caller: str) -> None:
        body = {"flows": JOB if name == "one" else OTHER} | ({} if tenant == "-" else {"tenant": tenant})
        world.service.put_job(name, json.dumps(body).encode(), Condition(), callers[caller])

    def state() -> dict[str, object]:
        return {job.name: (job.by, job.traffic.tenant) for job in world.service.state.jobs if job.traffic is not None}

    for tenant in "b-":
        with pytest.raises(InputError, match="token of-a is that of tenant a: its jobs say so"):
            push("one", tenant, "a")
    push("one", "a", "a")
    push("two", "-", "-")
    before = {"one": ("of-a", "a"), "two": ("ann", None)}
    assert state() == before
    # Neither taking over, nor giving away, nor deleting.
    for name, tenant, caller in (("one", "b", "b"), ("two", "a", "a"), ("two", "b", "b")):
        with pytest.raises(NotAllowedError, match=f"job {name} is not known to be of that"):
            push(name, tenant, caller)
        with pytest.raises(NotAllowedError):
            world.service.delete_job(name, Condition(), callers[caller])
    with pytest.raises(InputError, match="its jobs say so"):
        push("one", "b", "a")
    assert state() == before
    push("two", "b", "-")
    push("two", "b", "b")
    world.service.delete_job("one", Condition(), callers["a"])
    assert state() == {"two": ("ann", "b")}
    world.service.delete_job("two", Condition(), ANN)
    assert state() == {}


def test_the_reason_of_a_change_is_in_the_history_in_its_events_and_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.put("a", JOB)
    caller = dataclasses.replace(ANN, reason="CHG123", request_id="ticket-7")
    caplog.handler.setFormatter(TextLines())
    with caplog.at_level("INFO"):
        world.service.set_mode("ecmp", None, caller)
    record = world.store.records[world.service.state.epoch]
    assert (record.cause, record.by, record.reason) == ("mode ecmp", "ann", "CHG123")
    assert world.store.records[record.epoch - 1].reason is None
    events = world.service.subscribe("begin").wait(0)
    (data,) = [event.data for event in events if event.kind == "mode"]
    assert (data["by"], data["reason"], data["request"]) == ("ann", "CHG123", "ticket-7")
    (planned,) = [event.data for event in events if event.kind == "plan" and event.data["epoch"] == record.epoch]
    assert planned["reason"] == "CHG123"
    assert "mode ecmp (by ann, reason CHG123) (request ticket-7)" in caplog.text


def test_the_same_job_again_makes_no_new_plan_and_keeps_its_revision(world: World) -> None:
    first = world.put("a", JOB).job
    epoch = world.service.state.epoch
    assert world.put("a", JOB).job.revision == first.revision
    assert world.service.state.epoch == epoch
    assert world.put("a", OTHER).job.revision != first.revision


def test_a_change_on_a_condition_that_does_not_hold_changes_nothing(world: World) -> None:
    with pytest.raises(PreconditionFailedError):
        world.put("a", JOB, Condition(match=frozenset()))
    revision = world.put("a", JOB, Condition(none_match=frozenset())).job.revision
    for condition in (Condition(none_match=frozenset()), Condition(match=frozenset({"other"}))):
        with pytest.raises(PreconditionFailedError) as caught:
            world.put("a", OTHER, condition)
        assert caught.value.revision == revision
        with pytest.raises(PreconditionFailedError):
            world.delete("a", condition)
    assert world.service.job("a").revision == revision
    world.delete("a", Condition(match=frozenset({revision})))


def test_of_many_who_saw_the_same_version_one_replaces_it(world: World) -> None:
    revision = world.put("a", JOB).job.revision
    outcomes: list[object] = []

    def replace(size: int) -> None:
        try:
            outcomes.append(world.put("a", [flow("h1", "h2", size)], Condition(match=frozenset({revision}))))
        except PreconditionFailedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=replace, args=(size,)) for size in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sum(isinstance(outcome, PreconditionFailedError) for outcome in outcomes) == 7


def test_a_job_for_which_no_plan_can_be_made_is_refused_and_the_others_go_on(world: World, monkeypatch: Any) -> None:
    world.put("good", JOB)

    def broken(settings: Any, intended: Any, network: Any, desired: Any, *rest: Any, **more: Any) -> ControllerState:
        if any(job.name == "bad" for job in desired.jobs):
            raise RuntimeError("no")
        return reconcile(settings, intended, network, desired, *rest, **more)

    monkeypatch.setattr(module, "reconcile", broken)
    with pytest.raises(UnavailableError, match="RuntimeError: no"):
        world.put("bad", OTHER)
    with pytest.raises(NotFoundError):
        world.service.job("bad")
    world.put("next", OTHER)
    assert {job.name for job in world.service.state.jobs} == set(world.store.jobs) == {"good", "next"}


def test_a_network_that_cannot_be_read_once_costs_one_plan_and_not_the_service(world: World) -> None:
    whole, world.southbound.network = world.southbound.network, None  # type: ignore[assignment]
    world.southbound.network_changed.set()
    world.until(lambda: "no new plan" in str(world.health["reasons"]))
    world.southbound.network = whole
    world.southbound.network_changed.set()
    world.until(lambda: "no new plan" not in str(world.health["reasons"]))
    assert world.put("a", JOB).created


def test_more_flows_or_jobs_than_allowed_are_refused_over_all_jobs(fabric: Fabric) -> None:
    world = World(fabric, seen(fabric), max_flows=1).planned()
    world.put("a", JOB)
    with pytest.raises(InputError, match="at most 0 more are allowed") as caught:
        world.put("b", OTHER)
    assert caught.value.field == "flows"
    assert not world.put("a", OTHER).created
    few = World(fabric, seen(fabric), max_jobs=1).planned()
    few.put("a", JOB)
    with pytest.raises(InputError, match="at most 1 jobs are allowed"):
        few.put("b", OTHER)
    assert not few.put("a", OTHER).created


def test_changes_beyond_the_queue_limit_get_503(fabric: Fabric) -> None:
    world = World(fabric, seen(fabric), max_changes_waiting=1).planned()
    world.store.hangs.clear()
    first = threading.Thread(target=world.put, args=("a", JOB))
    first.start()
    world.until(lambda: world.service._reconciler._queued == 1)
    with pytest.raises(UnavailableError, match="waiting"):
        world.put("b", OTHER)
    world.store.hangs.set()
    first.join(PATIENCE_SECONDS)
    assert list(world.store.jobs) == ["a"]


def test_a_change_whose_client_has_gone_while_it_waited_is_not_carried_out(fabric: Fabric) -> None:
    world = World(fabric, seen(fabric)).planned()
    world.store.hangs.clear()
    is_gone = threading.Event()
    refused: list[str] = []

    def impatient() -> None:
        caller = dataclasses.replace(ANN, gone=is_gone.is_set)
        for change in (
            lambda: world.service.put_job("b", b'{"flows": []}', Condition(), caller),
            lambda: world.service.drain(fabric.cable_names[0], True, caller),
        ):
            try:
                change()
            except UnavailableError as error:
                refused.append(error.reason)

    epoch = world.service.state.epoch
    first = threading.Thread(target=world.put, args=("a", JOB))
    first.start()
    world.until(lambda: world.service._reconciler._queued == 1)
    second = threading.Thread(target=impatient)
    second.start()
    world.until(lambda: world.service._reconciler._queued == 2)
    is_gone.set()
    world.store.hangs.set()
    for thread in (first, second):
        thread.join(PATIENCE_SECONDS)
    assert refused == ["the client closed its connection while its change was waiting"] * 2
    assert list(world.store.jobs) == ["a"]
    assert world.service.state.epoch == epoch + 1
    assert not world.service.state.desired.drained


def test_while_switches_have_only_begun_to_connect_only_the_intended_fabric_is_installed(fabric: Fabric) -> None:
    world = World(fabric, NetworkState(starting=True))
    world.until(lambda: world.service.state.plan is not None)
    assert world.installed == []
    assert world.store.records == {}
    world.show(seen(fabric), lambda state: state.network_known)
    assert len(world.installed) == 1


def test_discovery_alone_installs_nothing_while_switches_have_only_begun_to_connect(fabric: Fabric) -> None:
    shown = seen(fabric, hosts=True)
    world = World(None, dataclasses.replace(shown, starting=True))
    world.until(lambda: world.service.state.plan is not None)
    assert world.installed == []
    world.show(shown, lambda state: state.network_known)
    assert len(world.installed) == 1


def test_a_plan_is_active_while_every_switch_holds_it_and_not_when_one_comes_back_without(world: World) -> None:
    epoch = world.service.state.epoch
    assert world.read(lambda service: service.plan())["active"] is None
    world.switches[0].epoch = epoch
    world.switches_changed()
    assert world.read(lambda service: service.plan())["active"]["epoch"] == epoch
    world.switches[0].epoch = -1
    world.switches_changed()
    assert world.read(lambda service: service.plan())["active"] is None


def test_a_switch_with_a_fault_is_named_and_does_not_hold_up_the_start(world: World) -> None:
    epoch = world.service.state.epoch
    mute = "spine1"
    names = {switch.name: switch.dpid for switch in world.service.state.fabric.switches}  # type: ignore[union-attr]
    world.switches[:] = [
        SimpleNamespace(
            key=dpid,
            name=name,
            epoch=-1 if name == mute else epoch,
            error="silent" if name == mute else "",
            missing=(),
            connected=True,
            waits_for=(),
        )
        for name, dpid in names.items()
    ]
    world.switches_changed()
    world.until(lambda: world.health["status"] == "degraded")
    # It is so from the start on: no plan was ever active on every switch.
    assert world.health["active_epoch"] is None
    reasons = " | ".join(world.health["reasons"])
    assert f"plan {epoch} is not active on every switch yet: not on {mute}" in reasons
    assert f"{mute}: silent" in reasons


# -- the store -----------------------------------------------------------------------------------------------------


def test_a_change_that_cannot_be_kept_is_refused_and_nothing_has_changed(world: World) -> None:
    world.put("a", JOB)
    state, installed = world.service.state, list(world.installed)
    world.store.broken = "the disk is full"
    changes = (
        lambda: world.put("b", OTHER),
        lambda: world.put("a", OTHER),
        lambda: world.delete("a"),
        lambda: world.service.drain("spine1", True, ANN),
        lambda: world.service.set_mode("ecmp", None, ANN),
        lambda: world.service.rollback(state.epoch, ANN),
    )
    for change in changes:
        with pytest.raises(StorageError, match="the disk is full"):
            change()
    assert (world.service.state, world.installed) == (state, installed)
    assert "the disk is full" in str(world.health["reasons"])
    assert flow_ids(world) == ["a/all/0"]


def shows_version(version: str, state: ControllerState) -> bool:
    return state.fabric is not None and state.fabric.version == version


def test_the_network_is_followed_without_a_store_and_what_was_made_then_is_kept_later(
    world: World, fabric: Fabric
) -> None:
    world.put("a", JOB)
    before = world.service.state.epoch
    world.store.broken = "gone"
    for down in (["leaf1-spine1"], [], ["leaf2-spine2"]):
        now = fabric.without_links(down)
        world.show(seen(now), partial(shows_version, now.version))
    epoch = world.service.state.epoch
    assert epoch == before + 3
    world.until(lambda: [made for _, made in world.installed][-1:] == [epoch])
    world.until(lambda: "gone" in str(world.health["reasons"]))
    world.store.broken = ""
    world.until(lambda: epoch in world.store.records)
    assert set(range(before, epoch + 1)) <= set(world.store.records)
    assert world.store.records[epoch].links_down == ("leaf2-spine2",)
    assert world.store.records[epoch].paths is not None
    world.until(lambda: "gone" not in str(world.health["reasons"]))
    assert world.put("b", OTHER).created


def test_a_store_that_hangs_does_not_hold_up_a_failed_link(world: World, fabric: Fabric) -> None:
    world.store.hangs.clear()
    push = threading.Thread(target=world.put, args=("a", JOB))
    push.start()
    world.until(lambda: world.service._reconciler._reserved > world.service.state.epoch)
    down = fabric.without_links(["leaf1-spine1"])
    world.show(seen(down), lambda state: state.fabric is not None and state.fabric.version == down.version)
    assert flow_ids(world) == []
    world.store.hangs.set()
    push.join(PATIENCE_SECONDS)
    assert flow_ids(world) == ["a/all/0"]
    assert world.service.state.fabric is not None
    assert world.service.state.fabric.version == down.version
    epochs = [epoch for _, epoch in world.installed]
    assert epochs == sorted(set(epochs))


# -- drains, modes, rollback ---------------------------------------------------------------------------------------


def test_a_drained_spine_carries_no_flow_and_draining_twice_is_the_same_as_once(world: World) -> None:
    world.put("a", [*JOB, *OTHER])
    answer = world.read(lambda service: service.drain("spine1", True, ANN))
    assert answer == {
        "id": "spine1",
        "kind": "spine",
        "drained": True,
        "outcome": "drained",
        "epoch": world.service.state.epoch,
        "cables": ["leaf1-spine1", "leaf2-spine1"],
        "still_used": [],
    }
    assert world.service.drain("spine1", True, ANN) == answer
    used = {
        link
        for row in world.read(lambda service: service.plan())["plan"]["flows"]
        for path in row["paths"]
        for link in path["links"]
    }
    assert not any("spine1" in link for link in used)
    drained = {row["id"] for row in world.read(lambda service: service.links())["links"] if row["drained"]}
    assert drained == {"leaf1->spine1", "spine1->leaf1", "leaf2->spine1", "spine1->leaf2"}
    last = world.read(lambda service: service.drain("spine2", True, ANN))
    assert last["still_used"] == ["leaf1-spine2", "leaf2-spine2"]
    assert world.store.drained == {"spine1", "spine2"}
    for name in ("spine1", "spine2"):
        assert not world.read(partial(Service.drain, name=name, drained=False, caller=ANN))["drained"]
    assert world.store.drained == frozenset()
    for unknown in ("spine9", "h1-leaf1", ""):
        with pytest.raises(NotFoundError):
            world.service.drain(unknown, True, ANN)
        with pytest.raises(NotFoundError):
            world.service.drainable(unknown)


def planned_rules(world: World) -> int:
    """Rules of flows in what was installed last."""
    rules = world.installed[-1][0]
    return sum(FLOW <= rule.priority < DISCOVERY for held in rules.switches.values() for rule in held.rules.values())


def planned_paths(world: World) -> list[int]:
    plan = world.service.state.plan
    assert plan is not None
    paths: list[int] = plan.assignment.path.tolist()
    return paths


def test_in_mode_ecmp_no_rule_of_a_plan_is_on_any_switch_and_the_way_back_gives_the_same_plan(world: World) -> None:
    world.put("a", [*JOB, *OTHER])
    paths = planned_paths(world)
    assert planned_rules(world) == 2
    assert world.read(lambda service: service.set_mode("ecmp", None, ANN))["mode"] == "ecmp"
    assert planned_rules(world) == 0
    assert len(flow_ids(world)) == 2
    epoch = world.service.state.epoch
    assert world.read(lambda service: service.set_mode("ecmp", None, ANN))["epoch"] == epoch
    answer = world.read(lambda service: service.set_mode("planned", None, ANN))
    assert (answer["mode"], answer["by"]) == ("planned", "ann")
    assert planned_rules(world) == 2
    assert planned_paths(world) == paths


def test_in_mode_frozen_nothing_is_installed_and_everything_comes_into_force_afterwards(
    world: World, fabric: Fabric
) -> None:
    world.put("a", JOB)
    held = world.installed[-1][0]
    world.service.set_mode("frozen", None, ANN)
    frozen = world.service.state.epoch
    world.put("b", OTHER)
    world.service.drain("spine1", True, ANN)
    down = fabric.without_links(["leaf1-spine2"])
    world.show(seen(down), lambda state: state.fabric is not None and state.fabric.version == down.version)
    assert world.installed[-1] == (held, frozen)
    assert set(world.store.jobs) == {"a", "b"}
    assert max(world.store.records) == frozen
    with pytest.raises(ConflictError):
        world.service.rollback(frozen, ANN)
    world.service.set_mode("planned", None, ANN)
    assert planned_rules(world) == 2
    assert world.installed[-1][1] > frozen


def test_a_rollback_gives_todays_flows_the_paths_of_then_and_lasts_until_the_next_change(world: World) -> None:
    world.put("a", [*JOB, *OTHER])
    world.service.drain("spine1", True, ANN)
    drained = world.service.state.epoch
    world.service.drain("spine1", False, ANN)
    old = world.store.records[drained]
    answer = world.read(lambda service: service.rollback(drained, ANN))
    assert (answer["rollback_of"], answer["by"], answer["jobs"]) == (drained, "ann", ["a"])
    assert answer["cause"] == f"rollback to plan {drained}"
    kept = world.read(lambda service: service.plan_record(answer["epoch"]))
    assert {path["path"] for path in kept["paths"]} == {"spine2"}
    assert old.paths is not None
    with pytest.raises(NotFoundError):
        world.service.rollback(10_000, ANN)


def test_the_history_is_read_in_pages_newest_first(world: World) -> None:
    for size in range(1, 6):
        world.put("a", [flow("h1", "h2", size)])
    first = world.read(lambda service: service.plans(None, 4))
    epochs = [plan["epoch"] for plan in first["plans"]]
    assert epochs == sorted(world.store.records, reverse=True)[:4]
    rest = world.read(lambda service: service.plans(first["next_before"], 100))
    assert [*epochs, *(plan["epoch"] for plan in rest["plans"])] == sorted(world.store.records, reverse=True)
    assert rest["next_before"] is None
    with pytest.raises(NotFoundError):
        world.service.plan_record(10_000)


def test_a_job_whose_hosts_are_not_in_the_file_any_more_stays_stored_and_is_reported(world: World) -> None:
    world.put("a", JOB)
    smaller = clos(2, 1, 1)
    after = World(smaller, seen(smaller), world.store).planned()
    assert "job a is stored but not planned" in str(after.health["reasons"])
    assert after.read(lambda service: service.jobs())["jobs"][0]["left_out"]
    assert list(after.store.jobs) == ["a"]
    back = World(clos(2, 2, 1), seen(clos(2, 2, 1)), after.store).planned()
    assert flow_ids(back) == ["a/all/0"]
    after.delete("a")
    assert after.store.jobs == {}


def test_a_drain_of_something_not_in_the_file_any_more_can_be_undone() -> None:
    larger, smaller, store = clos(3, 2, 1), clos(2, 2, 1), FakeStore()
    World(larger, seen(larger), store).planned().service.drain("spine3", True, ANN)
    world = World(smaller, seen(smaller), store).planned()
    assert "spine3 is drained" in str(world.health["reasons"])
    assert world.read(lambda service: service.drain("spine3", False, ANN))["drained"] is False
    assert "spine3" not in str(world.health["reasons"])
    with pytest.raises(NotFoundError):
        world.service.drain("spine3", False, ANN)


def test_headroom_is_left_on_every_link_and_another_one_makes_another_plan(fabric: Fabric) -> None:
    world = World(fabric, seen(fabric), headroom=0.25).planned()
    world.put("a", [*JOB, *OTHER])
    links = world.read(lambda service: service.links())["links"]
    assert max(link["load_gbps"] for link in links) == pytest.approx(75.0)
    assert {link["gbps"] for link in links} == {100.0}
    rates = [
        piece["rate_gbps"]
        for flow in world.read(lambda service: service.routes("h1"))["flows"]
        for piece in flow["pieces"]
    ]
    assert rates == [pytest.approx(75.0)]
    world.settle()
    epoch = world.service.state.epoch
    same, other = (World(fabric, seen(fabric), world.store, headroom=part).planned() for part in (0.25, 0.5))
    assert (same.service.state.epoch, other.service.state.epoch) == (epoch, epoch + 1)
