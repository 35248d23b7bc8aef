"""An enforcement of another distribution: every part of the product takes it from the registry, and all laws hold.

Each test runs in a process of its own, which sees the distribution as installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PLUGIN = ROOT / "examples" / "enforcement-plugin"
NAME = "exact_port"
LAWS = [
    f"tests/unit/southbound/enforcement/test_{name}.py"
    for name in ("enforcements", "enforcements_pods", "flow_encoding")
]

USES = """
import dataclasses
import sys
from pathlib import Path

import orjson

from controller.cli.connection.completion import enforcements
from controller.config import Settings, settings_from
from controller.rest import schemas
from controller.rest.openapi import openapi_document
from controller.rest.pages import ENFORCEMENTS_MODULE
from controller.rest.resources import RESOURCES
from controller.southbound.enforcement.registry import BUILT_IN, ENFORCEMENTS
from emulation.experiments.request import ExperimentRequest, load
from tests.unit.rest.asking import send
from tests.unit.rest.fake import FakeBackend

name, folder = sys.argv[1:]
assert list(ENFORCEMENTS) == enforcements() == [*BUILT_IN, name], ENFORCEMENTS.failures()
assert settings_from(dataclasses.asdict(Settings(enforcement=name))).enforcement == name

backend = FakeBackend()
answer = send(backend, "PUT", "/v1/mode", body=orjson.dumps({"enforcement": name}))
assert (answer.status, backend.enforcement) == (200, name), answer.body
refused = send(backend, "PUT", "/v1/mode", body=orjson.dumps({"enforcement": "telepathy"}))
assert refused.status == 422 and name.encode() in refused.body, refused.body
components = openapi_document(RESOURCES, secured=False)["components"]["schemas"]
assert components["ModeForm"]["properties"]["enforcement"]["enum"] == list(ENFORCEMENTS)
assert ENFORCEMENTS[name].text.encode() in send(backend, "GET", ENFORCEMENTS_MODULE).body

examples = Path(folder) / "examples"
load(ExperimentRequest(examples / "clos-4x4x4.yaml", (examples / "gpt3-a.json",), enforcement=name))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with the example and what pip writes about it."""
    folder = tmp_path / "site"
    shutil.copytree(PLUGIN / "fairspine_exact_port", folder / "fairspine_exact_port")
    about = folder / "fairspine_exact_port-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fairspine-exact-port\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[fairspine.enforcements]\n{NAME} = fairspine_exact_port:ENFORCEMENT\n")
    return folder


def run(site: Path, *arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_options_commands_http_the_page_and_emulation_take_it_from_the_registry(site: Path) -> None:
    run(site, "-c", USES, NAME, ROOT)


def test_the_laws_of_enforcements_hold(site: Path) -> None:
    run(site, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", NAME, *LAWS)
