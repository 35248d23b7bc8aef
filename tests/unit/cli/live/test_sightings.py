"""``fairspine sightings`` posts what records tell, in requests that a controller takes, and nothing that is wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from controller.cli.live import sightings
from controller.rest import schemas
from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.running import Run
from tests.unit.workload.importers.nccl.inspector_records import files_of, iterations


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "inspector"
    made.mkdir()
    for name, text in files_of(3, iterations(10**6, 4, 0.5, 0.1)).items():
        (made / name).write_text(text)
    return made


def test_times_are_moved_and_requests_are_small_enough(
    run: Run,
    controller: Controller,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sightings, "MOST", 10)
    controller.lay_out(*[(200, {"qps": 3})] * 100)
    code, out, err = run("sightings", "--inspector", str(folder), "--hosts", "h1, h5,h9", "--as-if-now")
    assert (code, "note: " in err) == (0, True)
    assert {(method, path) for method, path, _ in controller.asked} == {("POST", "/v1/sightings")}
    forms = [schemas.SightingsForm.model_validate_json(body) for _, _, body in controller.asked]
    assert all(len(form.at) == len(form.qp) == len(form.bytes) <= 10 for form in forms)
    ends = {(qp.src, qp.dst, qp.udp_src) for form in forms for qp in form.qps}
    assert ends == {("h1", "h5", None), ("h5", "h9", None), ("h9", "h1", None)}
    times = [at for form in forms for at in form.at]
    assert times == sorted(times)
    assert abs(times[-1] - time.time()) < sightings.OLDEST
    assert times[-1] - times[0] == pytest.approx(3 * 0.5 + 0.1)
    assert f"{len(times)} sightings posted; the controller knows 3 QPs" in out


def test_hosts_may_be_a_file(run: Run, controller: Controller, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(json.dumps(["h1", "h2", "h3"]))
    controller.lay_out((200, {"qps": 3}))
    arguments = ["--inspector", str(folder), "--hosts", str(tmp_path / "hosts"), "--as-if-now"]
    assert run("sightings", *arguments)[0] == 0
    (_, _, body) = controller.asked[0]
    assert {qp["src"] for qp in json.loads(body)["qps"]} == {"h1", "h2", "h3"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--hosts", "h1,h2,h1"], "--hosts: host 2: 'h1': is listed twice"),
        (["--hosts", "h1,,h2"], "--hosts: host 1: '': has no name"),
        (["--as-if-now", "--hosts", "h1,h2"], "--hosts: 2: 3 are needed"),
        (["--as-if-now"], "--hosts: is needed: 3 hosts"),
        (["--hosts", "h1,h2,h3"], "every record is older than 50 s"),
        (["--follow", "--as-if-now"], "--as-if-now: cannot be used with --follow"),
        (["--inspector", "/nowhere"], "--inspector: '/nowhere': no such file or folder"),
        (["--nccl-log", "/nowhere.log", "--hosts", "h1,h2,h3"], "/nowhere.log"),
    ],
)
def test_wrong_options_are_told_in_one_line_and_nothing_is_posted(
    run: Run,
    controller: Controller,
    folder: Path,
    options: list[str],
    told: str,
) -> None:
    code, out, err = run("sightings", "--inspector", str(folder), *options)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert controller.asked == []


def test_a_rank_without_records_is_told(run: Run, controller: Controller, folder: Path) -> None:
    next(iter(folder.iterdir())).unlink()
    code, _, err = run("sightings", "--inspector", str(folder), "--hosts", "h1,h2,h3", "--as-if-now")
    assert (code, "some rank has no record" in err) == (2, True)
    assert controller.asked == []
