"""``ryu-manager`` as people start it: real processes, on ports of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.config import Settings
from controller.core.saved.saved_state import ModeSetting, StateChange
from controller.store.store import Store
from emulation.controller_process import RYU_MANAGER, ControllerProcess, spawn_to
from tests.documented import ROOT
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.launcher import refused, refused_by_the_command
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually

FABRIC = "examples/clos-4x4x4.yaml"


@pytest.fixture
def ports() -> list[str]:
    openflow, http = free_ports(2)
    return ["--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http)]


def test_the_command_itself_refuses_with_one_line_on_stderr() -> None:
    argv = ("--enforcement", "openflow", "controller.app")
    assert refused_by_the_command(*argv) == refused(*argv)


@pytest.fixture
def running(ports: list[str], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that answers, of the command itself."""
    options = getattr(request, "param", ["--fabric", FABRIC, "controller/app.py"])
    command = [RYU_MANAGER, "--store", "memory", *ports, *options]
    process = ControllerProcess(command, spawn_to(tmp_path / "log", folder=ROOT), http_port=int(ports[3]))
    try:
        yield process.start()
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_it_cleanly(running: ControllerProcess, number: signal.Signals) -> None:
    running.signal(number)
    assert running.wait(PATIENCE_SECONDS) == 0
    said = running.log.read_text()
    assert "Traceback" not in said
    assert "rror" not in said
    assert "monkey" not in said


@pytest.mark.parametrize("running", [["--config-file", "etc/fairspine.conf", "controller.app"]], indirect=True)
def test_it_starts_from_the_configuration_file_that_comes_with_it(running: ControllerProcess, ports: list[str]) -> None:
    listening = Path(f"/proc/{running.pid}/net/tcp").read_text()
    assert f"0100007F:{int(ports[1]):04X}" in listening
    assert f":{6633:04X} 00000000" not in listening


@pytest.mark.parametrize("running", [["--fabric", FABRIC, "--metrics-links", "10", "controller/app.py"]], indirect=True)
def test_a_fabric_with_more_links_than_the_option_says_has_metrics_of_switches(running: ControllerProcess) -> None:
    def scraped() -> str:
        return str(running.ask("GET", "/metrics").body)

    eventually(lambda: "\nfairspine_links_down{" in scraped(), "the fabric is known")
    assert '\nfairspine_links_down{layer="uplink",switch="leaf4"} 0.0\n' in scraped()
    assert "\nfairspine_link_up{" not in scraped()


def test_labels_that_do_not_suffice_for_the_fabric_are_reported_before_the_start() -> None:
    options = ("--fabric", FABRIC, "--enforcement", "segment_routing", "--label-base", "1048000")
    assert "label_base: 1048000: labels 1048000 to " in refused(*options, "--store", "memory", "controller.app")
    unknown = "enforcement: 'openflow': no enforcement has this name; there are per_flow, "
    assert unknown in refused("--enforcement", "openflow", "controller.app")


def test_a_store_that_names_an_enforcement_which_is_not_installed_ends_the_start_with_one_line(tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path}/store.db"
    with closing(Store.open(file, plans_kept=5)) as store:
        store.load()
        store.commit(StateChange(mode=ModeSetting("planned", 1.0, "ann", "removed", Settings.enforcement)))
    said = refused("--store", file, "controller.app")
    assert said.endswith("; install the plug-in that the setting in the store needs")
    assert "enforcement: 'removed': no enforcement has this name; there are " in said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("round=5", "policy_options: option: 'round': no policy has an option of this name; did you mean rounds?"),
        ("rounds=many", "policy_options: option rounds: 'many': input should be a valid integer"),
    ],
)
def test_an_option_that_the_policy_cannot_use_is_reported_before_the_start(text: str, complaint: str) -> None:
    assert complaint in refused("--policy-options", text, "--store", "memory", "controller.app")


def test_default_qps_that_the_policy_would_cut_are_reported_before_the_start() -> None:
    qps = ("--default-qps", "4", "--default-qp-mode", "round_robin", "--policy-options", "max_splits=8")
    assert "default_qp_mode: 'round_robin': QPs carry whole" in refused(*qps, "--store", "memory", "controller.app")
    assert "default_qps: 0: must be at least 1" in refused("--default-qps", "0", "controller.app")
    assert "metrics_links: -1: must be at least 0" in refused("--metrics-links", "-1", "controller.app")


def test_a_store_that_is_in_use_or_invalid_is_reported_in_one_line(ports: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with closing(Store.open(url)):
        said = refused(*ports, "--fabric", FABRIC, "--store", url, "controller.app")
    assert said.startswith("ryu-manager: ")
    assert "store.db" in said
    said = refused(*ports, "--fabric", FABRIC, "--store", "mysql://me:secret@there/db", "controller.app")
    assert "store" in said
    assert "secret" not in said


@pytest.mark.usefixtures("running")
def test_a_second_controller_reports_that_the_port_is_in_use(ports: list[str]) -> None:
    openflow, http = ports[1], ports[3]
    other = str(free_ports(1)[0])
    said = refused("--ofp-tcp-listen-port", openflow, "--wsapi-port", other, "controller.app")
    assert said == (
        f"ryu-manager: ofp_tcp_listen_port: '127.0.0.1:{openflow}': OpenFlow port is in use by another program"
    )
    said = refused("--ofp-tcp-listen-port", other, "--wsapi-port", http, "controller.app")
    assert said == f"ryu-manager: wsapi_port: '127.0.0.1:{http}': HTTP port is in use by another program"


def test_unknown_options_and_bad_values_are_one_line_each(ports: list[str], tmp_path: Path) -> None:
    cases = {
        ("--fabrik", "x"): "unrecognized arguments: --fabrik",
        ("--seed", "many"): "seed",
        ("--seed=-1",): "seed: -1: must be at least 0",
        ("--policy", "magic"): "policy: 'magic': no policy has this name; there are ",
        ("--ecmp-action", "x"): "ecmp_action: 'x': must be one of bundle, select",
        ("--wsapi-host", "no.such.host.invalid"): "wsapi_host: 'no.such.host.invalid': HTTP cannot listen there",
        ("--fabric", str(tmp_path / "none.yaml")): "none.yaml: cannot be read: No such file or directory",
        ("--config-file", str(tmp_path / "none.conf")): "none.conf",
    }
    for args, words in cases.items():
        assert words in refused(*ports, *args, "controller.app")


def test_keys_of_the_file_that_no_option_has_are_named(ports: list[str], tmp_path: Path) -> None:
    file = tmp_path / "f.conf"
    for text, words in (
        ("[DEFAULT]\npolicy = greedy\nfabrick = x\n", f"ryu-manager: {file}: fabrick: unknown option"),
        ("[http]\nport = 1\n", f"ryu-manager: {file}: [http] port: unknown option"),
    ):
        file.write_text(text)
        assert refused("--config-file", str(file), *ports, "controller.app") == words
    for text in ("[DEFAULT]\nwsapi_port = x\n", "policy = greedy\n", "[DEFAULT\n"):
        file.write_text(text)
        assert "f.conf" in refused("--config-file", str(file), "controller.app") or "wsapi_port" in text


def test_a_bad_fabric_file_is_one_line_that_names_file_field_and_value(ports: list[str], tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("clos: {spines: 2, leaves: 0, hosts_per_leaf: 2}\n")
    said = refused("--fabric", str(file), *ports, "controller.app")
    assert said == f"ryu-manager: {file}: clos.leaves: 0: input should be greater than or equal to 1"


def test_help_names_our_options_and_defaults() -> None:
    done = subprocess.run([RYU_MANAGER, "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0
    assert "--fabric" in done.stdout
    assert "--ecmp-action" in done.stdout


def test_another_ryu_manager_is_reported() -> None:
    """Ryu's own command cannot even be imported here; whoever mends that still lacks our options."""
    code = "from controller import ryu_compat; ryu_compat.prepare(); import controller.app as a; a.FairspineApp()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert "controller.app requires the ryu-manager of fairspine" in done.stderr.splitlines()[-1]
    assert os.path.exists(RYU_MANAGER)
