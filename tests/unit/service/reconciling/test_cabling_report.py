"""The report on the cabling does work in proportion to the findings, however many there are."""

from __future__ import annotations

import logging
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.service.reconciling.cabling_report import CablingReport
from controller.southbound.cabling.findings import Finding
from controller.southbound.cabling.survey import Survey
from tests.unit.laws import examples

PER_FINDING = 6
"""Times that one finding may be looked at in one report: compared, looked up, kept."""

work = Counter[str]()


class Counted(Finding):
    """A finding that counts how often it is compared and looked up."""

    def __eq__(self, other: object) -> bool:
        work["looks"] += 1
        return isinstance(other, Finding) and (self.kind, self.text) == (other.kind, other.text)

    def __hash__(self) -> int:
        work["looks"] += 1
        return hash(self.text)


def findings(first: int, last: int) -> tuple[Finding, ...]:
    return tuple(Counted("missing", f"cable {n}", f"cable {n} is missing") for n in range(first, last))


@settings(max_examples=examples(10, 60), deadline=None)
@given(n=st.sampled_from([10, 100, 1000, 5000]), moves=st.lists(st.floats(-1, 1), max_size=4))
def test_changing_findings_are_processed_a_few_times_each(n: int, moves: list[float]) -> None:
    logging.getLogger("fairspine.service").setLevel(logging.CRITICAL)
    try:
        report, first = CablingReport(True), 0
        for move in [0.0, *moves]:
            first = max(0, first + round(move * n))
            found = Survey(None, findings(first, first + n))
            work.clear()
            report.report(found)
            assert work["looks"] <= PER_FINDING * n
    finally:
        logging.getLogger("fairspine.service").setLevel(logging.NOTSET)
