"""What the agent asks for and makes of the answers."""

from __future__ import annotations

import copy
import threading
from typing import Any, cast

import pytest

from agent.connection import conversation
from agent.connection.carrier_conversation import CarrierConversation
from agent.connection.controller_connection import ControllerConnection
from agent.errors import HostAgentError
from agent.plans.host_plan import HostPlan

ROWS = [{"dst": "10.0.2.1", "carrier": "fcbb:bb00:2:e001::"}]
PLAN: dict[str, Any] = {
    "epoch": 1,
    "digest": "00",
    "host": "h1",
    "mode": "planned",
    "source": "fd00:fab::20",
    "decapsulate": [],
    "destinations": ROWS,
    "destinations_digest": "aa",
    "flows": [],
}

TABLE: dict[str, Any] = {
    "digest": "t2",
    "block": "fcbb:bb00::/32",
    "leaves": [[0, 1], [1, 2]],
    "hosts": [["10.0.1.1", 0, 0, 57345], ["10.0.2.1", 1, 1, 57345], ["10.0.2.2", 2, 1, 57346]],
}


class Controller:
    """Gives these answers, one a request, and notes which destinations the agent says it has."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.answers, self.asked = copy.deepcopy(answers), list[str]()
        self.reports = list[Any]()
        self.tables = 0
        self.done, self._closed = threading.Event(), threading.Event()

    def plan(
        self, _after: object, *, destinations: str = "", report: Any = None, changes: bool = False
    ) -> dict[str, Any] | None:
        self.asked.append(destinations)
        self.reports.append(report)
        if self.answers:
            return self.answers.pop(0)
        self.done.set()
        self._closed.wait()
        return None

    def report(self, document: Any) -> None:
        self.reports.append(document)

    def table(self) -> dict[str, Any]:
        self.tables += 1
        return {**TABLE, "digest": "t1"} if self.tables == 1 else TABLE

    def close(self) -> None:
        self._closed.set()


def held(plan: HostPlan) -> dict[str, Any]:
    """The report that the kernel holds a plan."""
    return {"epoch": plan.epoch, "digest": plan.digest}


def taken(answers: list[dict[str, Any]]) -> tuple[list[HostPlan], list[Any], list[str]]:
    """The plans and documents that the agent takes, and which destinations it says it has in each request."""
    plans, documents = list[HostPlan](), list[Any]()

    def take(plan: HostPlan, document: Any) -> None:
        plans.append(plan)
        documents.append(copy.deepcopy(document))
        talk.report(held(plan))

    controller = Controller(answers)
    talk = CarrierConversation(
        "h1", cast(ControllerConnection, controller), cast(ControllerConnection, Controller([])), take
    )
    talk.start(None)
    assert controller.done.wait(60)
    talk.close()
    return plans, documents, controller.asked


def test_destinations_that_a_plan_leaves_out_are_those_that_the_agent_has() -> None:
    second = {**PLAN, "epoch": 2, "destinations": None}
    plans, documents, asked = taken([PLAN, second])
    assert asked == ["", "aa", "aa"]
    assert plans[1].destinations == plans[0].destinations
    assert len(plans[1].destinations) == 1
    assert documents[1] == {**second, "destinations": ROWS}


def test_an_agent_that_lacks_the_destinations_of_a_plan_asks_for_the_whole_one() -> None:
    plans, _, asked = taken([PLAN, {**PLAN, "epoch": 2, "destinations": None, "destinations_digest": "bb"}, PLAN])
    assert asked == ["", "aa", "", "aa"]
    assert [plan.epoch for plan in plans] == [1]


def test_a_controller_without_digests_of_destinations_is_asked_for_whole_plans() -> None:
    old = {key: value for key, value in PLAN.items() if key != "destinations_digest"}
    plans, _, asked = taken([old, {**old, "epoch": 2}])
    assert asked == ["", "", ""]
    assert [len(plan.destinations) for plan in plans] == [1, 1]


def by_table(epoch: int, table: str, paths: list[dict[str, Any]] | None, own: Any = ()) -> dict[str, Any]:
    form = {"number": 0, "table_digest": table, "paths": paths}
    return {**PLAN, "epoch": epoch, "destinations_digest": f"d{epoch}", "destinations": [*own], **form}


def test_destinations_follow_from_the_table_of_hosts_which_is_asked_for_when_it_is_another_one() -> None:
    over_spine = [{"leaves": [1], "paths": [[49152, 0], [49153, 0]]}]
    own = {"dst": "10.0.2.2", "carrier": "fcbb:bb00:c007:2:e002::"}
    plans, documents, _ = taken([by_table(1, "t1", []), by_table(2, "t1", over_spine), by_table(3, "t2", [], [own])])
    assert [[row["carrier"] for row in each["destinations"]] for each in documents] == [
        ["fcbb:bb00:2:e001::", "fcbb:bb00:2:e002::"],
        ["fcbb:bb00:c001:2:e001::", "fcbb:bb00:c000:2:e002::"],
        ["fcbb:bb00:2:e001::", "fcbb:bb00:c007:2:e002::"],
    ]
    assert [plan.epoch for plan in plans] == [1, 2, 3]
    assert not any("table_digest" in each for each in documents)


def test_a_plan_that_does_not_fit_its_table_is_refused_and_the_next_one_asked_for_whole() -> None:
    wrong: list[Any] = [[{"leaves": [1]}], [{"leaves": [1], "paths": [["x"]]}], 7, [{"leaves": [1], "paths": [[-9]]}]]
    for paths in wrong:
        plans, _, asked = taken([by_table(1, "t1", []), by_table(2, "t1", paths), by_table(3, "t1", [])])
        assert [plan.epoch for plan in plans] == [1, 3]
        assert asked == ["", "d1", "", "d3"]


def test_a_plan_of_a_table_that_the_controller_does_not_have_any_more_is_not_used() -> None:
    plans, _, _ = taken([by_table(1, "t3", []), by_table(2, "t2", [])])
    assert [plan.epoch for plan in plans] == [2]


class Refusing:
    """Takes reports, but not the first ones."""

    def __init__(self, refused: int) -> None:
        self.left, self.asked = refused, list[Any]()
        self.taken = threading.Event()

    def report(self, document: Any) -> None:
        self.asked.append(document)
        self.left -= 1
        if self.left >= 0:
            raise HostAgentError("too many")
        self.taken.set()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("refused", [0, 1, 3])
def test_a_report_that_was_not_taken_is_sent_again(refused: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "FIRST_PAUSE_SECONDS", 0.0)
    reports = Refusing(refused)
    plans = cast(ControllerConnection, Controller([]))
    talk = CarrierConversation("h1", plans, cast(ControllerConnection, reports), lambda *_: None)
    talk.start(None)
    talk.report({"epoch": 1})
    assert reports.taken.wait(60)
    talk.close()
    assert [(each["epoch"], each["number"]) for each in reports.asked] == [(1, 1)] * (refused + 1)


def test_the_request_for_the_next_plan_confirms_the_last_one_once() -> None:
    controller, reports = Controller([PLAN, {**PLAN, "epoch": 2}]), Refusing(0)

    def take(plan: HostPlan, _document: Any) -> None:
        talk.report({"epoch": None})
        talk.report(held(plan))

    talk = CarrierConversation("h1", cast(ControllerConnection, controller), cast(ControllerConnection, reports), take)
    talk.start(None)
    assert controller.done.wait(60)
    talk.close()
    first, *confirmed = controller.reports
    assert first is None
    assert [(each["epoch"], each["number"]) for each in confirmed] == [(1, 2), (2, 4)]
    assert all(each["epoch"] is None for each in reports.asked)


def test_a_plan_that_the_kernel_does_not_hold_is_not_confirmed_and_the_next_one_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversation, "CONFIRM_SECONDS", 0.01)
    controller, reports = Controller([PLAN]), Refusing(0)
    polls, answers = cast(ControllerConnection, controller), cast(ControllerConnection, reports)
    talk = CarrierConversation("h1", polls, answers, lambda *_: talk.report({"epoch": None}))
    talk.start(None)
    assert controller.done.wait(60)
    assert controller.reports == [None, None]
    # It holds the plan later than this.
    talk.report({"epoch": 1, "digest": "00"})
    assert reports.taken.wait(60)
    talk.close()
    assert reports.asked[-1]["epoch"] in (None, 1)
    assert {each["run"] for each in reports.asked} == {reports.asked[0]["run"]}


def test_a_routine_report_is_sent_with_the_next_request_for_a_plan_unless_there_is_a_newer_one() -> None:
    for newer in (False, True):
        asking, goes_on = threading.Event(), threading.Event()

        class Slow(Controller):
            def plan(
                self,
                _after: object,
                *,
                destinations: str = "",
                report: Any = None,
                changes: bool = False,
                first: Any = asking,
                then: Any = goes_on,
            ) -> dict[str, Any] | None:
                if not self.asked:
                    self.asked.append(destinations)
                    first.set()
                    then.wait(60)
                    return None
                return super().plan(_after, destinations=destinations, report=report)

        controller, reports = Slow([]), Refusing(0)
        polls, answers = cast(ControllerConnection, controller), cast(ControllerConnection, reports)
        talk = CarrierConversation("h1", polls, answers, lambda *_: None)
        talk.start(None)
        assert asking.wait(60)
        talk.report({"epoch": 1}, routine=True)
        talk.report({"epoch": 2}, routine=not newer)
        if newer:
            assert reports.taken.wait(60)
        goes_on.set()
        assert controller.done.wait(60)
        talk.close()
        assert [each["epoch"] for each in reports.asked] == ([2] if newer else [])
        assert [each and each["epoch"] for each in controller.reports] == [None if newer else 2]


def test_a_confirmation_that_is_lost_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "FIRST_PAUSE_SECONDS", 0.0)

    class Losing(Controller):
        def plan(
            self, _after: object, *, destinations: str = "", report: Any = None, changes: bool = False
        ) -> dict[str, Any] | None:
            if report is not None:
                self.reports.append(report)
                raise HostAgentError("connection reset")
            return super().plan(_after, destinations=destinations)

    controller, reports = Losing([PLAN, {**PLAN, "epoch": 1}]), Refusing(0)
    polls, answers = cast(ControllerConnection, controller), cast(ControllerConnection, reports)
    talk = CarrierConversation("h1", polls, answers, lambda plan, _: talk.report(held(plan)))
    talk.start(None)
    assert reports.taken.wait(60)
    talk.close()
    (lost,) = [each for each in controller.reports if each is not None]
    assert reports.asked == [lost]
