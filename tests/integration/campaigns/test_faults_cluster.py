"""Faults of a cluster's leader: short forms of ``make faults-cluster`` and ``make cluster-demo``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from emulation.lab import Lab
from tests.campaigns.cluster import demo
from tests.campaigns.cluster.campaign import ClusterCampaign, ClusterCheckError
from tests.campaigns.cluster.clocks import ShiftedClocks
from tests.campaigns.cluster.command import chosen
from tests.campaigns.cluster.kinds import ClusterFault, End
from tests.campaigns.cluster.replicas import Replica, Replicas
from tests.rig.forks import forks
from tests.rig.store.postgres import PostgresServer, need_postgres

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2)
LEASE = 4.0
"""Seconds. On a busy machine, a leader may not get to beat for a second or more."""
PATIENCE_SECONDS = 180.0


@pytest.fixture
def replicas(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Replicas]:
    with (
        Lab(FABRIC, out=tmp_path) as lab,
        Replicas(lab, FABRIC, postgres_server, lease=LEASE, popen=forks().popen) as made,
    ):
        yield made


def campaign(replicas: Replicas) -> ClusterCampaign:
    return ClusterCampaign(replicas, FABRIC, 1, print, rate=20.0, right_within=PATIENCE_SECONDS)


def test_no_fault_of_the_leader_loses_what_was_acknowledged(replicas: Replicas) -> None:
    made = campaign(replicas)
    # Clients write in rounds 1 and 3. In the others they only read, and no rule may change.
    made.run(chosen("stopped 3 s,kill -9,cut from the store,step-down"))
    print("\n".join(map(str, made.rounds)), file=sys.stderr)
    assert len(made.rounds) == 4
    assert made.rejected[0] == made.rejected[1] > 0


def test_no_moment_of_a_stop_and_no_fail_over_of_the_store_is_worse(tmp_path: Path) -> None:
    need_postgres()
    with ExitStack() as undo:
        # Of its own: it does not come back.
        server = PostgresServer()
        undo.callback(server.close)
        server.start()
        lab = undo.enter_context(Lab(FABRIC, out=tmp_path))
        replicas = undo.enter_context(Replicas(lab, FABRIC, server, lease=LEASE, popen=forks().popen))
        made = campaign(replicas)
        made.run(
            chosen(
                "stopped amid a commit,fail-over to a synchronous standby,"
                "stopped amid a roll-out,fail-over to an asynchronous standby"
            )
        )
        # What an asynchronous standby lacks, the leader knows.
        assert not any(each.lost_changes for each in made.rounds if not each.replaced)
        assert replicas.server is not server


def test_the_time_of_day_decides_nothing(tmp_path: Path) -> None:
    need_postgres()
    with ExitStack() as undo:
        clocks = undo.enter_context(ShiftedClocks())
        clock = clocks.add("server")
        server = PostgresServer(env=clock.environment)
        undo.callback(server.close)
        server.start()
        lab = undo.enter_context(Lab(FABRIC, out=tmp_path))
        # A forked process has the clock of the one that it comes from.
        replicas = undo.enter_context(Replicas(lab, FABRIC, server, lease=LEASE, clocks=clocks, server_clock=clock))
        made = campaign(replicas)
        made.run(chosen("leader's clock an hour ahead,server's clock an hour behind"))
        assert not any(each.replaced for each in made.rounds)


def test_a_rule_that_changes_though_nobody_writes_fails_the_round(replicas: Replicas) -> None:
    def sabotaged(world: Replicas, leader: Replica) -> End:
        switch = FABRIC.switches[0].name
        return lambda: print(world.lab.ofctl("add-flow", switch, "table=0,priority=1,tcp,actions=drop"))

    with pytest.raises(ClusterCheckError, match=r"seed 1, round 2, sabotage: \d+ rules were changed"):
        campaign(replicas).run([*chosen("step-down"), ClusterFault("sabotage", 0.5, sabotaged)])


@pytest.mark.usefixtures("postgres_server")
def test_the_demo_shows_what_a_kill_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = demo.main(["--lease", str(LEASE), "--out", str(tmp_path)], forks().popen)
    said = capsys.readouterr()
    assert status == 0, said.err
    assert re.search(r"0\.00 s +kill -9 of replica\d, the leader of term \d", said.out)
    assert re.search(r"\d s +replica\d leads term \d", said.out)
    assert "it has read back all 8 switches" in said.out
    assert re.search(r" 0 of \d+ pings were lost; 0 rules were changed", said.out)
    assert said.out.count("all results correct") == 2
