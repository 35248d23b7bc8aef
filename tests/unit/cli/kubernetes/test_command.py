"""``fairspine kubernetes`` where it cannot begin, and the manifest that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.cli.kubernetes.command import LABEL
from controller.workload.job_file import parse_job
from controller.workload.kubernetes.gangs import KINDS
from controller.workload.placement.server_placement import on_hosts
from tests.rig.kubernetes.api_server import ApiServer, api_server
from tests.rig.kubernetes.objects import LABEL as LABEL_OF_PODS
from tests.unit.cli.running import EXAMPLES, Run

MANIFEST = EXAMPLES / "kubernetes" / "watcher.yaml"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with api_server() as server:
        yield server


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--descriptions", "/nowhere"], "--descriptions: '/nowhere': is not a folder"),
        (["--kubeconfig", "/nowhere"], "--kubeconfig: '/nowhere': cannot be used"),
        (["--kube-context", "other"], "cannot be used"),
        (["--prefix", "a.b"], "--prefix: 'a.b'"),
        (["--prefix", ""], "--prefix: ''"),
        (["--label", "a b"], "--label: 'a b': is not the name of a label"),
    ],
)
def test_a_wrong_option_is_one_line_and_nothing_is_asked(
    run: Run, api: ApiServer, tmp_path: Path, options: list[str], text: str
) -> None:
    places = ["--descriptions", str(tmp_path), "--kubeconfig", str(api.kubeconfig(tmp_path))]
    code, out, err = run("kubernetes", "--once", *places, *options)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
    assert api.asked == []


@pytest.mark.parametrize("content", ["", "[]", "a: b", "{", "clusters: 5\ncontexts: []\ncurrent-context: x"])
def test_a_kubeconfig_that_is_none_is_one_line(run: Run, tmp_path: Path, content: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    code, out, err = run("kubernetes", "--once", "--descriptions", str(tmp_path), "--kubeconfig", str(file))
    assert (code, out) == (2, "")
    assert err.startswith("fairspine: --kubeconfig: '")
    assert ": cannot be used: " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "status 401: as the test wants it (it needs to list and watch pods"),
        (403, "status 403: as the test wants it (it needs to list and watch pods"),
        (500, "status 500: as the test wants it"),
    ],
)
def test_an_api_server_that_refuses_is_one_line(
    run: Run, api: ApiServer, tmp_path: Path, status: int, text: str
) -> None:
    api.refuse = status
    places = ["--descriptions", str(tmp_path), "--kubeconfig", str(api.kubeconfig(tmp_path))]
    code, out, err = run("kubernetes", "--once", *places)
    assert (code, out) == (1, "")
    assert text in err
    assert err.count("\n") == 1


def test_an_api_server_that_is_gone_is_one_line(run: Run, api: ApiServer, tmp_path: Path) -> None:
    api.port = 1
    places = ["--descriptions", str(tmp_path), "--kubeconfig", str(api.kubeconfig(tmp_path))]
    code, _, err = run("kubernetes", "--once", *places)
    assert code == 1
    assert "http://127.0.0.1:1: " in err
    assert "refused" in err
    assert err.count("\n") == 1


def test_the_manifest_grants_what_is_read_and_no_more_and_its_description_is_a_job() -> None:
    objects = {(row["kind"], row["metadata"]["name"]): row for row in yaml.safe_load_all(MANIFEST.read_text())}
    rules = objects["ClusterRole", "fairspine"]["rules"]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    owners = {(kind.api.group, kind.api.plural, "get") for kind in KINDS.values() if kind.api is not None}
    assert granted == owners | {("", "pods", "list"), ("", "pods", "watch"), ("", "nodes", "get")}
    for name, text in objects["ConfigMap", "descriptions"]["data"].items():
        document = {"name": "job", **yaml.safe_load(text)}
        hosts = [f"h{i}" for i in range(128)]
        assert parse_job(on_hosts(document, hosts, name), source=name).hosts == tuple(hosts)
    assert LABEL_OF_PODS == LABEL
