"""Records of a store, and looks into its files."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np

from controller.core.desired_state import UNPLACED, AdmittedJob
from controller.core.saved.plan_record import PlanRecord
from controller.routing import PreviousPlan
from controller.store.store import Store

PATHS = PreviousPlan(("h1", "h2"), ("spine1",), np.array([1 << 16]), np.array([0]), np.array([1.0]))


def record(epoch: int, paths: PreviousPlan | None = PATHS) -> PlanRecord:
    return PlanRecord(
        epoch,
        0.0,
        "a test",
        None,
        "fair",
        0,
        "planned",
        "f",
        "t",
        (),
        (),
        (),
        1.0,
        1.0,
        None,
        None,
        None,
        0.1,
        1,
        0,
        0,
        None,
        paths,
    )


def job(name: str, document: bytes = b"{}") -> AdmittedJob:
    return AdmittedJob(name, document, "r1", 0, 0.0, "me", np.array([49152]), None, UNPLACED)


def sql(file: Path, statement: str) -> list[tuple[object, ...]]:
    """What another program does to the file."""
    with closing(sqlite3.connect(file)) as database, database:
        return database.execute(statement).fetchall()


def names_after_a_kill(file: Path) -> list[str]:
    """The jobs in what is on the disk now, as the next controller would find them."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal"):
            beside = file.with_name(file.name + suffix)
            if beside.exists():
                shutil.copy(beside, Path(folder, "kept.db" + suffix))
        with closing(Store.open(f"sqlite:///{folder}/kept.db")) as other:
            return [job.name for job in other.load().jobs]


def only_owner(file: Path) -> bool:
    return all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in file.parent.iterdir())
