"""A real controller whose disk fills up or becomes read-only: it refuses changes, answers reads, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulation.controller_process import ControllerProcess
from emulation.http_client import HttpResponse
from tests.rig.page.dashboard import flows
from tests.rig.real_controller import spawned_controller
from tests.rig.store.own_disk import OwnDisk, own_disk
from tests.rig.waiting import eventually

STORAGE = "urn:problem-type:fairspine:storage"
ENOUGH = 60
"""More large jobs than a disk of a test has room for."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[OwnDisk]:
    with own_disk(tmp_path / "disk") as made:
        yield made


@contextmanager
def running(disk: OwnDisk, folder: Path) -> Iterator[ControllerProcess]:
    """A controller that keeps its store on the disk."""
    with spawned_controller(folder, disk.folder / "store.db", inside=disk.inside) as process:
        yield process


def push(controller: ControllerProcess, number: int) -> HttpResponse:
    """A job with a long document."""
    pairs = [(f"h{1 + k % 4}", f"h{5 + (k + number) % 12}") for k in range(12)]
    rows = [row | {"collective": f"{k}-{'x' * 55}"} for k in range(60) for row in flows(*pairs)["flows"]]
    return controller.ask("PUT", f"/v1/jobs/job{number}", {"flows": rows})


def names(controller: ControllerProcess) -> set[str]:
    answer = controller.ask("GET", "/v1/jobs")
    assert answer.status == 200
    return {row["name"] for row in answer.body["jobs"]}


def check_refusal(controller: ControllerProcess, refused: HttpResponse, known: set[str], word: str) -> None:
    """The refusal says why, and nothing else has suffered."""
    problem: dict[str, Any] = refused.body
    assert (refused.status, problem["type"]) == (503, STORAGE)
    assert word in problem["detail"]
    assert names(controller) == known
    for path in ("/v1/plan", "/v1/plans", "/v1/fabric", "/v1/links", "/v1/trace", "/metrics", "/v1/jobs/job0"):
        assert controller.ask("GET", path).status == 200, path
    # A small change may still find room on a full disk: then the store works again at once.
    assert f"the store does not work: {problem['detail']}" in controller.log.read_text()


def test_on_a_full_disk_changes_are_refused_until_there_is_room_and_nothing_else(disk: OwnDisk, tmp_path: Path) -> None:
    disk.mount("-t", "tmpfs", "-o", "size=6m", "tmpfs")
    with running(disk, tmp_path) as controller:
        assert push(controller, 0).status == 201
        disk.fill()
        known, refused = {"job0"}, None
        for number in range(1, ENOUGH):
            answer = push(controller, number)
            if answer.status != 201:
                refused = answer
                break
            known.add(f"job{number}")
        assert refused is not None
        check_refusal(controller, refused, known, "the disk is full")
        disk.make_room()
        eventually(lambda: push(controller, 99).status in (200, 201), "changes are taken again")
        eventually(
            lambda: not any("store" in reason for reason in controller.ask("GET", "/v1/health").body["reasons"]),
            "the health says so",
        )
        known |= {"job99"}
        assert names(controller) == known
    with running(disk, tmp_path) as controller:
        assert names(controller) == known


def test_on_a_disk_that_the_kernel_makes_read_only_changes_are_refused_and_none_is_lost(
    disk: OwnDisk, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(24 << 20)
    disk.run("mkfs.ext4", "-q", str(image))
    # Files that are open for writing keep anybody from doing it by hand; the kernel does it after an error.
    disk.mount("-o", "loop,errors=remount-ro", str(image))
    device = disk.run("findmnt", "-n", "-o", "SOURCE", str(disk.folder)).strip()
    with running(disk, tmp_path) as controller:
        for number in range(3):
            assert push(controller, number).status == 201
        known = {"job0", "job1", "job2"}
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")
        eventually(lambda: not disk.is_writable(), "it is read-only")
        refused = push(controller, 3)
        check_refusal(controller, refused, known, "the disk cannot be read or written")
        reasons = controller.ask("GET", "/v1/health").body["reasons"]
        assert any("the disk cannot be read or written" in reason for reason in reasons), reasons
        # No state that comes and goes: each change is refused.
        assert {push(controller, number).status for number in range(4, 8)} == {503}
        assert controller.ask("DELETE", "/v1/jobs/job0").status == 503
        assert names(controller) == known
    disk.run("umount", str(disk.folder))
    disk.run("sh", "-c", f"e2fsck -fy {image} > /dev/null; test $? -le 1")
    disk.mount("-o", "loop", str(image))
    with running(disk, tmp_path) as controller:
        assert names(controller) == known
        assert push(controller, 3).status == 201
