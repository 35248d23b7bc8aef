"""Files of the database that go missing under a real controller."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

from controller.store.store import Store
from tests.rig.http.client import Server
from tests.rig.real_controller import controller
from tests.rig.waiting import eventually

JOB = b'{"flows": [{"src": "h1", "dst": "h5", "bytes": 1000}]}'


def on_the_disk(file: Path, folder: Path) -> list[str]:
    """The jobs in the database file alone, without its log."""
    copy = shutil.copy(file, folder / "copy.db")
    with closing(Store.open(f"sqlite:///{copy}")) as store:
        return [job.name for job in store.load().jobs]


def reasons(server: Server) -> str:
    return str(json.loads(server.ask("GET", "/healthz").body)["reasons"])


def test_deleted_files_are_written_again_and_moved_ones_are_reported_and_refuse_changes(tmp_path: Path) -> None:
    kept, copies = tmp_path / "kept", tmp_path / "copies"
    kept.mkdir()
    copies.mkdir()
    file = kept / "store.db"
    with controller(kept) as (server, _):
        assert server.ask("PUT", "/v1/jobs/a", JOB).status == 201
        file.with_name("store.db-wal").unlink()
        assert server.ask("PUT", "/v1/jobs/b", JOB).status == 201
        assert on_the_disk(file, copies) == ["a", "b"]
        for suffix in ("", "-wal", "-shm"):
            file.with_name(f"store.db{suffix}").unlink()
        # Nobody has to change anything for that.
        eventually(file.exists, "the database is written anew")
        assert on_the_disk(file, copies) == ["a", "b"]
        file.rename(kept / "elsewhere.db")
        eventually(lambda: "was removed or replaced" in reasons(server), "the loss is told")
        refused = server.ask("PUT", "/v1/jobs/c", JOB)
        assert (refused.status, refused.problem["type"]) == (503, "urn:problem-type:fairspine:storage")
        (kept / "elsewhere.db").rename(file)
        eventually(lambda: "was removed" not in reasons(server), "it is back")
        eventually(lambda: server.ask("PUT", "/v1/jobs/c", JOB).status == 201, "changes are taken again")
        assert on_the_disk(file, copies) == ["a", "b", "c"]
        assert "written again" in server.log
