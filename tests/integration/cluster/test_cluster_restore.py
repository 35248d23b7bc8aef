"""docs/how-to/cluster.md: a cluster's database is restored to a backup of fewer terms than the switches know."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ryu.ofproto import ofproto_v1_3_parser as parser
from sqlalchemy.engine import make_url

from emulation.lab import Lab
from tests.campaigns.cluster.database import OWNER, programs
from tests.documented import ROOT, commands_of
from tests.fake_switch.decode import PROTOCOL
from tests.rig.checks.jobs import active
from tests.rig.checks.restarts import JOB, switches
from tests.rig.checks.rule_text import held
from tests.rig.cluster import FABRIC, Cluster, term
from tests.rig.store.postgres import PostgresServer
from tests.rig.switches.raw_openflow import BridgeWire, Talk, bridge_socket
from tests.rig.waiting import READY_SECONDS, eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches

LATER = {"flows": [{"src": "h1", "dst": "h4", "bytes": 10**6}]}
COMMANDS = commands_of(ROOT / "docs" / "how-to" / "cluster.md")
BACKUP = [line for line in COMMANDS if line.startswith("pg_dump ")]
# The guide also creates the database of a new cluster, before it restores one.
RESTORE = [line for line in COMMANDS if re.match(r"(dropdb|createdb|pg_restore) ", line)][-3:]
assert [line.split()[0] for line in BACKUP + RESTORE] == ["pg_dump", "dropdb", "createdb", "pg_restore"]


class Administrator:
    """Runs commands of the guide on a database of the test in place of ``fairspine``."""

    def __init__(self, server: PostgresServer, url: str, backup: Path) -> None:
        self._server, self._backup = server, backup
        self._database = str(make_url(url).database)

    def run(self, commands: Sequence[str]) -> None:
        here = os.environ | {"PATH": f"{programs()}:{os.environ['PATH']}", "PGHOST": str(self._server.folder)}
        for command in commands:
            words = [
                re.sub(r"^(--dbname=)?fairspine$", rf"\g<1>{self._database}", word)
                for word in command.replace("/backup", str(self._backup)).split()
            ]
            done = subprocess.run(
                words, env=here | {"PGUSER": OWNER}, capture_output=True, text=True, timeout=READY_SECONDS, check=False
            )
            assert done.returncode == 0, (words, done.stderr)


@pytest.fixture
def administrator(postgres_server: PostgresServer, postgres_url: str, tmp_path: Path) -> Administrator:
    return Administrator(postgres_server, postgres_url, tmp_path)


def known_term(lab: Lab, switch: str) -> int:
    """The term that a switch knows, as it says itself."""
    wire = BridgeWire(bridge_socket(lab, switch))
    try:
        (reply,) = Talk(wire).say([parser.OFPRoleRequest(PROTOCOL, PROTOCOL.ofproto.OFPCR_ROLE_NOCHANGE, 0)])
    finally:
        wire.close()
    return int(reply.generation_id)


def rules(lab: Lab) -> dict[str, object]:
    return {name: held(lab, name) for name in switches(FABRIC)}


@pytest.mark.parametrize("changes", [1, 3])
def test_after_a_restore_the_leader_has_a_term_that_no_switch_has_seen_and_the_rules_of_the_backup(
    cluster: Cluster, administrator: Administrator, changes: int
) -> None:
    """After one change of leader, the first term after the restore is the one that switches have seen last."""
    lab, leader = cluster.lab, cluster.leader()
    assert leader.put("/v1/jobs/one", JOB).status == 201
    plan = active(leader)
    before = standing(lambda: rules(lab))
    administrator.run(BACKUP)
    at_backup = term(leader)
    for _ in range(changes):
        # Asked first: who steps down starts again, and does not answer meanwhile.
        ended = term(leader)
        assert leader.post("/v1/cluster:step-down", {}).status == 204
        leader = cluster.leader(after=ended)
    assert leader.put("/v1/jobs/two", LATER).status == 201
    active(leader)
    eventually(lambda: rules(lab) != before, "switches have rules of the second job")
    seen = {name: known_term(lab, name) for name in switches(FABRIC)}
    assert set(seen.values()) == {term(leader)}
    assert term(leader) >= at_backup + changes

    for replica in cluster.replicas:
        # One that has just stepped down starts again, and may not have a handler for the signal yet.
        assert replica.stop() in (0, -signal.SIGTERM)
    administrator.run(RESTORE)
    for replica in cluster.replicas:
        replica.start(wait=False)
    latest = max(seen.values())
    leader = cluster.leader(after=latest)

    eventually(
        lambda: all(known_term(lab, name) == term(leader) for name in switches(FABRIC)), "the leader leads every switch"
    )
    assert [job["name"] for job in leader.get("/v1/jobs").body["jobs"]] == ["one"]
    assert active(leader)["flows"] == plan["flows"]
    eventually(lambda: rules(lab) == before, "the rules of the backup", shown=lambda: rules(lab))
    eventually(leader.is_well, "all is well", shown=lambda: leader.get("/healthz").body)
    wait_for_pings(lab)
    # The jobs that the backup does not have are pushed again.
    assert leader.put("/v1/jobs/two", LATER).status == 201
    active(leader)
    eventually(lambda: rules(lab) != before, "switches have rules of the second job again")
