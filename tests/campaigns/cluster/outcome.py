"""What faults cost, in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table


@dataclass(frozen=True)
class FaultRound:
    """What one fault cost.

    Attributes:
        kind: its name.
        accepted: seconds from its begin until a change was acknowledged that was sent after the begin; ``None``: in the
            round, nobody wrote.
        read_back: seconds until a later leader had the confirmation of every switch; ``None``: the leader stayed.
        lost_packets: pings without an answer.
        lost_changes: jobs of which an acknowledged change was lost.
        rule_changes: rules that were added, changed or deleted in a round in which nobody wrote; ``None``: some did.
        operations: requests whose outcome was recorded.
        unknown: of those, writes whose outcome no client was told.
        replaced: whether another replica led afterwards.
        by_followers: requests that replicas answered that did not lead.
    """

    kind: str
    accepted: float | None
    read_back: float | None
    lost_packets: int
    lost_changes: int
    rule_changes: int | None
    operations: int
    unknown: int
    replaced: bool
    by_followers: int = 0


HEADINGS = (
    "fault",
    "rounds",
    "new\nleader",
    "changes\naccepted",
    "rules\nread back",
    "packets\nlost",
    "changes\nlost",
    "rules\nchanged",
    "requests",
    "answered by\nfollowers",
    "outcome\nunknown",
)


def table(rounds: Sequence[FaultRound]) -> Table:
    """Return a row for each kind of fault: times in seconds (median, worst), and sums of all else."""
    made = Table(title="after seconds: median (worst)", box=SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        made.add_column(heading, justify="left" if heading == "fault" else "right", no_wrap=True)
    for kind in dict.fromkeys(each.kind for each in rounds):
        rows = [each for each in rounds if each.kind == kind]
        made.add_row(
            kind,
            str(len(rows)),
            str(sum(row.replaced for row in rows)),
            _seconds([row.accepted for row in rows]),
            _seconds([row.read_back for row in rows]),
            str(sum(row.lost_packets for row in rows)),
            str(sum(row.lost_changes for row in rows)),
            _sum([row.rule_changes for row in rows]),
            str(sum(row.operations for row in rows)),
            str(sum(row.by_followers for row in rows)),
            str(sum(row.unknown for row in rows)),
        )
    return made


def _seconds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f} ({max(known):.2f})" if known else "-"


def _sum(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    return str(sum(known)) if known else "-"
