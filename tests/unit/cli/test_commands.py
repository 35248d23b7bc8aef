"""The ``fairspine`` command, as people and programs call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.rest import schemas
from controller.rest.schemas.plans import TenantRow
from tests.unit.cli.fake_controller import Controller, serving
from tests.unit.cli.job_documents import JOB, SUMMARY
from tests.unit.cli.running import EXAMPLES, FABRIC

BOTH = [*FABRIC, "--job", str(EXAMPLES / "gpt3-a.json"), "--job", str(EXAMPLES / "llama-b.json")]


# -- planning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["greedy", "fair"])
def test_the_example_jobs_have_an_ideal_plan_with_one_flow_on_every_uplink(run: Any, policy: str) -> None:
    code, out, err = run("plan", *BOTH, "--policy", policy, "--format", "json")
    plan = schemas.Plan.model_validate_json(out)
    assert (code, err) == (0, "")
    assert plan.gap == pytest.approx(0, abs=1e-6)
    assert plan.min_speed == pytest.approx(1)
    between = [link for flow in plan.flows for path in flow.paths for link in path.links[1:-1]]
    assert len(between) == len(set(between)) == 32


def test_hashing_the_example_jobs_collides(run: Any) -> None:
    plan = json.loads(run("plan", *BOTH, "--policy", "ecmp", "--format", "json").out)
    assert plan["min_speed"] < 0.6


@pytest.mark.parametrize("name", ["matrix.json", "flows.json"])
def test_each_form_of_a_job_is_planned(run: Any, name: str) -> None:
    code, out, _ = run("plan", *FABRIC, "--job", str(EXAMPLES / name))
    assert code == 0
    assert json.loads((EXAMPLES / name).read_text())["name"] in out


@pytest.mark.parametrize("command", ["plan", "compare"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_job_within_one_server_is_named_beside_its_optimal_plan(
    run: Any, tmp_path: Path, command: str, form: str
) -> None:
    fabric, job = tmp_path / "fabric.yaml", tmp_path / "job.yaml"
    fabric.write_text(
        "clos: {spines: 2, leaves: 2, hosts_per_leaf: 4, host_gbps: 100, uplink_gbps: 100, nics_per_server: 2}"
    )
    job.write_text(
        "{name: quiet, hosts: [h1, h2], collectives: [{name: a, op: all_to_all, ranks: [0, 1], bytes: 100}]}"
    )
    code, _, err = run(command, "--fabric", str(fabric), "--job", str(job), "--format", form)
    assert code == 0
    assert err == "warning: job quiet: it sends nothing from one host to another: nothing will be routed\n"


def test_tables_hold_a_row_for_each_collective_and_for_each_policy(run: Any) -> None:
    out = run("plan", *BOTH).out
    assert [name in out for name in ("gpt3-a", "llama-b", "gap", "leaf1->spine1")] == [True] * 4
    rows = run("compare", *BOTH, "--policies", "ecmp, greedy").out.splitlines()
    assert [row.split()[0] for row in rows if row.strip().startswith(("ecmp", "greedy"))] == ["ecmp", "greedy"]


def test_comparing_gives_a_row_a_policy_in_the_order_asked_for(run: Any) -> None:
    code, out, _ = run("compare", *BOTH, "--policies", "greedy,ecmp", "--format", "json")
    greedy, ecmp = json.loads(out)["policies"]
    assert (code, greedy["policy"], ecmp["policy"]) == (0, "greedy", "ecmp")
    assert greedy["pressure"] == pytest.approx(1)
    assert ecmp["pressure"] >= 2
    assert ecmp["min_speed"] < greedy["min_speed"]


def test_comparing_shows_what_each_tenant_gets(run: Any, tmp_path: Path) -> None:
    """Two equal jobs of tenants of weights 2 and 1 share one uplink: plans differ in nothing but their paths."""
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text("clos: {spines: 1, leaves: 2, hosts_per_leaf: 2}\ntenants: {big: 2, small: 1, idle: 3}\n")
    arguments = ["compare", "--fabric", str(fabric), "--policies", "greedy,fair"]
    for i, tenant in enumerate(("big", "small"), start=1):
        flow = {"src": f"h{i}", "dst": f"h{i + 2}", "bytes": 10**9, "collective": "c"}
        document = {"name": f"of-{tenant}", "tenant": tenant, "flows": [flow], "compute_seconds": 0.08}
        (tmp_path / f"{tenant}.json").write_text(json.dumps(document))
        arguments += ["--job", str(tmp_path / f"{tenant}.json")]
    for row in json.loads(run(*arguments, "--format", "json").out)["policies"]:
        big, small, idle = (TenantRow.model_validate(each) for each in row["tenants"])
        assert (big.min_speed, small.min_speed, idle.min_speed) == (pytest.approx(2 / 3), pytest.approx(1 / 3), None)
        assert (big.weight, small.weight, idle.jobs) == (2, 1, 0)
        assert small.slowdown is not None
        assert big.slowdown is not None
        assert small.slowdown > big.slowdown > 1
    out = run(*arguments).out
    assert "big, weight 2" in out
    assert "0.667" in out


def test_the_same_seed_gives_the_same_plan(run: Any) -> None:
    def paths(seed: str) -> Any:
        return json.loads(run("plan", *BOTH, "--policy", "ecmp", "--seed", seed, "--format", "json").out)["flows"]

    assert paths("7") == paths("7")
    assert paths("7") != paths("8")


def test_a_job_on_no_hosts_yet_is_refused_with_what_gives_it_some(run: Any) -> None:
    job = str(EXAMPLES / "gpt3-175b-tp8-pp8-dp4.yaml")
    code, out, err = run("plan", "--fabric", str(EXAMPLES / "clos-8x16x32-rails.yaml"), "--job", job)
    assert (code, out) == (2, "")
    assert err == f"fairspine: {job}: hosts: the job has none yet: place it by 'fairspine job place'\n"


def test_unroutable_flows_are_reported_and_fail_the_command_after_the_rest_is_planned(run: Any, tmp_path: Path) -> None:
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text("clos: {spines: 1, leaves: 3, hosts_per_leaf: 1}\nfailed: [leaf3-spine1]\n")
    job = tmp_path / "job.json"
    rows = [{"src": "h1", "dst": f"h{n}", "bytes": 8, "collective": f"to{n}"} for n in (2, 3)]
    job.write_text(json.dumps({"name": "a", "flows": rows}))
    code, out, err = run("plan", "--fabric", str(fabric), "--job", str(job), "--format", "json")
    plan = schemas.Plan.model_validate_json(out)
    assert (code, plan.unroutable, plan.min_speed) == (1, ["a/to3/0"], 0.0)
    assert err == "fairspine: 1 of 2 flows have no live path, the first is a/to3/0\n"
    assert run("compare", "--fabric", str(fabric), "--job", str(job)).code == 1


@pytest.mark.parametrize(
    ("fabric", "job", "arguments", "says"),
    [
        ("clos: {spines: 0, leaves: 1, hosts_per_leaf: 1}", None, [], "fabric.yaml: clos.spines: 0: "),
        (None, {"hosts": ["h1", "x"]}, [], "job.json: hosts[1]: 'x': "),
        (None, {"weight": -1}, [], "job.json: weight: -1: "),
        (None, {"name": "gpt3-a"}, [], "job.json: name: 'gpt3-a': a previous job has this name"),
        (None, {"a\nb": 1}, [], "job.json: a b: 1: unknown key"),
        (None, None, ["--policy", "best"], "--policy: 'best': no policy has this name"),
        (None, None, ["--job", "/nowhere.json"], "/nowhere.json: cannot be read"),
    ],
)
def test_bad_input_is_one_line_that_names_file_field_and_value(
    run: Any, tmp_path: Path, fabric: str | None, job: dict[str, Any] | None, arguments: list[str], says: str
) -> None:
    if fabric:
        (tmp_path / "fabric.yaml").write_text(fabric)
    if job:
        (tmp_path / "job.json").write_text(json.dumps({"name": "b"} | job))
    files = ["--fabric", str(tmp_path / "fabric.yaml")] if fabric else [*FABRIC]
    files += ["--job", str(EXAMPLES / "gpt3-a.json"), *(["--job", str(tmp_path / "job.json")] if job else [])]
    code, out, err = run("plan", *files, *arguments)
    assert (code, out) == (2, "")
    assert err.removeprefix("fairspine: ").removeprefix(f"{tmp_path}/").startswith(says)
    assert len(err.splitlines()) == 1


def test_an_unknown_policy_of_a_comparison_names_the_option(run: Any) -> None:
    code, _, err = run("compare", *BOTH, "--policies", "fair,best")
    assert (code, err.startswith("fairspine: --policies: 'best': no policy has this name; ")) == (2, True)


# -- the command itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *([], ["plan"], ["compare"], ["push"], ["jobs"], ["jobs", "show"], ["jobs", "delete"], ["preview"], ["drain"]),
        *(["undrain"], ["mode"], ["events"], ["history"], ["history", "show"], ["history", "rollback"]),
    ],
)
def test_help_of_every_command_has_an_example(run: Any, command: list[str]) -> None:
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert " ".join(["Example: fairspine", *command]) in " ".join(out.split())


def test_the_version_is_that_of_the_package(run: Any) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("fairspine 0.")


@pytest.mark.parametrize("arguments", [["plan"], ["nonsense"], ["plan", *BOTH, "--nope"], ["jobs", "show"]])
def test_a_command_line_that_cannot_be_understood_is_bad_input(run: Any, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: " in err


def test_help_loads_nothing_that_plans() -> None:
    code = (
        "import sys\nfrom controller.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'numba', 'highspy', 'numpy', 'networkx', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_reader_that_goes_away_leaves_no_traceback(form: str) -> None:
    command = [sys.executable, "-m", "controller.cli.main", "plan", *BOTH, "--format", form]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait() == 1


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_full_disk_below_standard_output_is_one_line(form: str) -> None:
    command = [sys.executable, "-m", "controller.cli.main", "plan", *BOTH, "--format", form]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        1,
        "fairspine: standard output cannot be written: No space left on device\n",
    )


def test_ctrl_c_leaves_no_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("controller.model.files.fabric_file.load_fabric", interrupted)
    code, out, err = run("plan", *BOTH)
    assert (code in (1, 130), out) == (True, "")
    assert "Traceback" not in err


# -- a running controller --------------------------------------------------------------------------------------------


@pytest.fixture
def controller() -> Iterator[Controller]:
    one = Controller()
    with serving(one):
        yield one


def test_a_pushed_job_is_put_under_its_name_as_it_is_in_its_file(run: Any, controller: Controller) -> None:
    controller.lay_out((201, JOB), (200, JOB))
    file = EXAMPLES / "gpt3-a.json"
    code, out, err = run("push", str(file), "--url", controller.url)
    ((method, path, body),) = controller.asked
    assert (code, err, method, path) == (0, "", "PUT", "/v1/jobs/gpt3-a")
    assert json.loads(body) == json.loads(file.read_text())
    assert "gpt3-a created, plan 3" in out
    assert "gpt3-a replaced" in run("push", str(file), "--url", controller.url).out


def test_a_yaml_job_is_pushed_as_json(run: Any, controller: Controller, tmp_path: Path) -> None:
    controller.lay_out((201, JOB))
    (tmp_path / "job.yaml").write_text("name: a\nflows: [{src: h1, dst: h2, bytes: 5}]\n")
    assert run("push", str(tmp_path / "job.yaml"), "--url", controller.url, "--format", "json").code == 0
    assert json.loads(controller.asked[0][2]) == {"name": "a", "flows": [{"src": "h1", "dst": "h2", "bytes": 5}]}


FABRIC_OF_SERVERS = {
    "hosts": [
        {"name": "a1", "server": "a", "rail": 1},
        {"name": "b0", "server": "b", "rail": 0},
        {"name": "a0", "server": "a", "rail": 0},
        {"name": "b1", "server": "b", "rail": 1},
    ]
}


def test_a_job_is_pushed_on_the_hosts_of_servers_by_rail_under_another_name(
    run: Any, controller: Controller, tmp_path: Path
) -> None:
    model = {"preset": "gpt3-175b"}
    ring = {"name": "dp", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 3], "bytes": 8}
    documents: list[dict[str, Any]] = [
        {"model": model, "parallelism": {"tp": 2}, "micro_batches": 2},
        {"collectives": [ring]},
        {"name": "x", "hosts": ["w", "x", "y", "z"], "collectives": [ring]},
        {"hosts": ["w", "x", "y", "z"], "flows": [{"src": "w", "dst": "z", "bytes": 1}]},
    ]
    for document in documents:
        controller.lay_out((200, FABRIC_OF_SERVERS), (201, JOB))
        (tmp_path / "job.json").write_text(json.dumps(document))
        arguments = [
            "push",
            str(tmp_path / "job.json"),
            "--url",
            controller.url,
            "--name",
            "slurm-7",
            "--servers",
            "b,a",
        ]
        assert run(*arguments)[0] == 0, document
        method, path, body = controller.asked[-1]
        sent = json.loads(body)
        assert (method, path, sent["name"]) == ("PUT", "/v1/jobs/slurm-7", "slurm-7")
        assert sent["hosts"] == ["b0", "b1", "a0", "a1"]
    assert [(flow["src"], flow["dst"]) for flow in sent["flows"]] == [("b0", "a1")]


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ("a,c", "--servers: 'c': the fabric has no server of this name"),
        ("a,", "--servers: 'a,': is not a list of names"),
        ("a,b,a", "--servers: 'a': is named twice"),
        ("a", "job.json: the servers have 2 hosts; the job has 4 ranks"),
    ],
)
def test_servers_that_do_not_fit_are_reported_and_nothing_is_pushed(
    run: Any, controller: Controller, tmp_path: Path, servers: str, says: str
) -> None:
    controller.lay_out((200, FABRIC_OF_SERVERS))
    (tmp_path / "job.json").write_text(json.dumps({"name": "a", "hosts": ["w", "x", "y", "z"], "collectives": []}))
    code, out, err = run("push", str(tmp_path / "job.json"), "--url", controller.url, "--servers", servers)
    assert (code, out, len(controller.asked)) == (2, "", 1)
    assert err.endswith(says + "\n")


def test_waiting_ends_when_the_plan_is_active(run: Any, controller: Controller) -> None:
    active = {"jobs": [SUMMARY | {"active": True, "speed": 0.75}]}
    job = JOB | {"speed": None} | {"flows": [{"collective": "dp0"}]}
    controller.lay_out((201, job), (200, {"jobs": [SUMMARY]}), (200, active))
    arguments = ["push", str(EXAMPLES / "gpt3-a.json"), "--url", controller.url, "--wait", "--format", "json"]
    code, out, _ = run(*arguments)
    answer = json.loads(out)
    assert (code, answer["active"], answer["speed"], controller.answers) == (0, True, 0.75, [])
    controller.lay_out((200, job), (200, {"jobs": [SUMMARY]}))
    code, _, err = run(*arguments, "--wait-timeout", "0")
    assert (code, err) == (1, "fairspine: gpt3-a was accepted, but its plan is not active on every switch after 0 s\n")
    controller.lay_out((200, job), (200, {"jobs": []}))
    assert run(*arguments).err == "fairspine: gpt3-a was deleted before its plan was active\n"


def test_jobs_are_listed_shown_and_deleted(run: Any, controller: Controller) -> None:
    controller.lay_out((200, {"jobs": [SUMMARY]}), (200, {"jobs": [SUMMARY]}), (200, JOB), (200, JOB), (204, b""))
    assert "gpt3-a" in run("jobs", "--url", controller.url).out
    assert json.loads(run("jobs", "--url", controller.url, "--format", "json").out) == {"jobs": [SUMMARY]}
    assert "dp0" in run("jobs", "show", "gpt3-a", "--url", controller.url).out
    shown = run("jobs", "--url", controller.url, "show", "gpt3-a", "--format", "json")
    assert json.loads(shown.out) == JOB
    assert run("jobs", "delete", "a/b", "--url", controller.url) == (0, "a/b deleted\n", "")
    assert [asked[:2] for asked in controller.asked] == [
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs/gpt3-a"),
        ("GET", "/v1/jobs/gpt3-a"),
        ("DELETE", "/v1/jobs/a%2Fb"),
    ]


def test_the_controllers_address_may_come_from_the_environment(
    run: Any, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSPINE_URL", controller.url + "/")
    controller.lay_out((200, JOB))
    assert run("jobs", "show", "gpt3-a").code == 0


PROBLEM = {"type": "about:blank", "title": "Unprocessable", "status": 422, "detail": "no such\nhost"}


@pytest.mark.parametrize(
    ("status", "document", "code", "says"),
    [
        (422, PROBLEM | {"field": "hosts[2]", "value": "x"}, 2, 'hosts[2]: "x": no such host'),
        (404, {"title": "Not Found", "status": 404}, 1, "Not Found"),
        (503, PROBLEM | {"status": 503}, 1, "no such host"),
        (502, b"<html>", 1, "502 Bad Gateway"),
        (500, [], 1, "500 Internal Server Error"),
        (200, b"<html>", 1, "the answer is not JSON; is this a fairspine controller?"),
    ],
)
def test_a_problem_is_one_line_and_bad_input_is_distinguished(
    run: Any, controller: Controller, status: int, document: Any, code: int, says: str
) -> None:
    controller.lay_out((status, document))
    assert run("jobs", "show", "x", "--url", controller.url) == (code, "", f"fairspine: {controller.url}: {says}\n")


def test_no_controller_is_one_line(run: Any) -> None:
    url = Controller()
    with serving(url):
        pass
    code, out, err = run("jobs", "--url", url.url)
    assert (code, out) == (1, "")
    assert err == f"fairspine: {url.url}: connection refused; is the controller running?\n"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://[::"])
def test_an_address_that_is_none_is_bad_input(run: Any, url: str) -> None:
    code, _, err = run("jobs", "--url", url)
    assert code == 2
    assert err.startswith(f"fairspine: --url: {url!r}: ")
    assert len(err.splitlines()) == 1


def test_a_bad_job_is_refused_before_it_is_sent(run: Any, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"name": "a", "weight": 0}')
    code, _, err = run("push", str(tmp_path / "job.json"), "--url", "http://127.0.0.1:1")
    assert code == 2
    assert err.startswith(f"fairspine: {tmp_path}/job.json: weight: 0: ")


def test_help_says_where_the_policies_are_listed_and_an_unknown_one_is_refused_with_all_names(run: Any) -> None:
    from controller.routing import POLICIES

    assert "fairspine policies" in " ".join(run("plan", "--help").out.split())
    refused = run("plan", *BOTH, "--policy", "fairest")
    assert (refused.code, refused.out) == (2, "")
    assert all(name in refused.err for name in POLICIES)


def test_policies_are_listed_with_what_the_registry_says_of_them(run: Any) -> None:
    from controller.routing import POLICIES

    listed = json.loads(run("policies", "--format", "json").out)
    assert [row["name"] for row in listed["policies"]] == list(POLICIES)
    assert listed["unusable"] == []
    for row in listed["policies"]:
        policy = POLICIES[row["name"]]
        assert (row["splits"], row["draws"], row["enforceable"]) == (policy.splits, policy.draws, policy.enforceable)
    table = run("policies", "--wide").out
    assert all(f"{name} " in table for name in POLICIES)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["emulate", "--mode=openflow", "--fabric", "x", "--job", "y"], "--mode is called --enforcement now"),
        (["simulate", "--jobs", "0", "--scenario", "x"], "--jobs is called --workers now"),
        (["job", "place", "x", "--method", "wild", "--fabric", "x"], "--method is called --placement now"),
    ],
)
def test_former_names_of_options_are_taken_with_a_note(run: Any, arguments: list[str], told: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"fairspine: {told}\n")
    assert told.split()[-2] in err.split("\n", 1)[1], "the value is refused under the present name"


@pytest.mark.parametrize("former", [["--job", "missing.yaml"], ["--job=missing.yaml"]])
def test_a_job_file_after_its_former_option_is_the_argument(run: Any, former: list[str]) -> None:
    code, out, err = run("job", "describe", *former)
    assert (code, out) == (2, "")
    note, refusal = err.splitlines()
    assert note == "fairspine: --job is not needed any more: name the file alone"
    assert refusal == "fairspine: missing.yaml: cannot be read: No such file or directory"
