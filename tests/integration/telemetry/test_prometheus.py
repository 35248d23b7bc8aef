"""A real Prometheus scrapes a controller with the project's configuration: alerts fire, and the dashboard has data."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.lab import Lab
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2)
JOB = {"flows": [{"src": "h1", "dst": "h3", "bytes": 10**9}, {"src": "h2", "dst": "h4", "bytes": 10**9}]}

EMPTY_WHEN_WELL = re.compile(
    r"plane|cluster|sightings|sflow|watch_packets|store_errors|refused|ended_total|dropped|errors|== 0|> 0|short|behind"
    r"|host_pause|host_ecn|host_congestion|host_ports"
    r"|failed|fairspine_links_|_bound_single|schedule"
)
"""What a small fabric without faults, planes, replicas, learned jobs and agents of hosts has no samples of."""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int, http: httpx.Client) -> None:
        self._url, self._http = f"http://127.0.0.1:{port}/", http

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of an answer; ``None`` while it does not answer yet."""
        try:
            answer = self._http.get(self._url + path, params=query).json()
        except (httpx.HTTPError, ValueError):
            return None
        assert answer["status"] == "success", answer
        return answer["data"]

    def firing(self) -> set[str]:
        alerts = (self.ask("api/v1/alerts") or {"alerts": []})["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def samples(self, expression: str) -> list[Any]:
        return list((self.ask("api/v1/query", query=expression) or {"result": []})["result"])


@contextmanager
def prometheus(folder: Path, controller: Controller) -> Iterator[Prometheus]:
    """Start Prometheus with the files of ``etc``; only its clock runs faster: it scrapes and evaluates every second."""
    if shutil.which("prometheus") is None:
        lacking = "prometheus is not installed (Debian's package prometheus)"
        pytest.fail(lacking) if os.environ.get("CI") else pytest.skip(lacking)
    config = yaml.safe_load((ROOT / "etc" / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (scrape,) = config["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": ["127.0.0.1:8080"]}]
    scrape["static_configs"] = [{"targets": [f"127.0.0.1:{controller.http_port}"]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    rules = (ROOT / "etc" / "prometheus-rules.yaml").read_text()
    (folder / "prometheus-rules.yaml").write_text(re.sub(r"for: \d+[smh]", "for: 1s", rules))
    (port,) = free_ports(1)
    command = [
        *("prometheus", f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            with httpx.Client(trust_env=False, timeout=30) as http:
                yield Prometheus(port, http)
        finally:
            process.terminate()


def test_alerts_fire_in_prometheus_and_the_queries_of_the_dashboard_return_data(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    lab: Lab = bench.lab(FABRIC)
    controller = bench.controller("--fabric", str(path), "--poll-seconds", "1", "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    active(controller)
    with prometheus(tmp_path, controller) as server:
        instance = f"127.0.0.1:{controller.http_port}"
        eventually(lambda: bool(server.samples('up{job="fairspine"} == 1')), "the controller is scraped")
        dashboard = json.loads((ROOT / "etc" / "grafana-dashboard.json").read_text())
        asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        filled = {text: text.replace("$__rate_interval", "10s").replace("$instance", instance) for text in asked}
        needed = [text for text in asked if not EMPTY_WHEN_WELL.search(text)]
        assert len(needed) > 25
        without = set(needed)

        def has_data() -> bool:
            without.difference_update([text for text in without if server.samples(filled[text])])
            return not without

        eventually(has_data, "the queries return data", shown=lambda: without)
        for text in asked:
            server.samples(filled[text])
        critical = {"FairspineDown", "FairspineSwitchMissing", "FairspineJobStandsStill", "FairspineUnroutable"}
        eventually(lambda: not server.firing() & critical, "all is well")

        for spine in ("spine1", "spine2"):
            lab.set_cable(f"leaf1-{spine}", False)
        assert controller.put("/v1/mode", {"mode": "frozen"}).status == 200
        expected = {"FairspineJobStandsStill", "FairspineUnroutable", "FairspineDegraded", "FairspineJobSlower"}
        expected |= {"FairspineDegradedService", "FairspineNotPlanned"}
        eventually(lambda: expected <= server.firing(), "alerts fire", shown=server.firing)
