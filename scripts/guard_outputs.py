"""Write what the project computes to files, to show that a change of its structure changes no result.

    .venv/bin/python scripts/guard_outputs.py DIR

Run it before and after the change, with a directory each, and compare these with ``diff -r``. Written are the JSON of
``plan``, ``compare`` and ``simulate``, and the OpenFlow messages of each enforcement by rules, for the examples and for
thirty drawn instances, of which every third has three layers; and the OpenAPI document. Measured times are left out. It
takes four minutes of processor time.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml
from typer.testing import CliRunner

import fairspine
from controller.cli.main import app
from controller.model.files.pod_clos import pod_clos
from controller.rest.openapi import openapi_document
from controller.rest.resources import RESOURCES
from controller.southbound.enforcement.registry import compile_rules, encode_flows, rule_enforcements
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.rule_set import RuleSet
from controller.southbound.wire.rule_bytes import put_group, put_rule

EXAMPLES = Path(__file__).parent.parent / "examples"
DRAWN = 30
MEASURED = {"seconds", "planning_mean", "planning_worst", "wall_seconds", "report"}
"""Fields with a measured time or with the directory of a run."""

POLICIES = "ecmp,random,greedy,coloring,first_fit,ethereal,split,fair,spray"
ALGORITHMS = {
    "all_reduce": ["ring", "tree", "direct"],
    "all_gather": ["ring", "direct"],
    "reduce_scatter": ["ring", "direct"],
    "all_to_all": ["direct"],
}


def draw(rng: random.Random, *, three_layers: bool = False) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the documents of a fabric and of one to three jobs on it."""
    if three_layers:
        fabric = pod_clos(rng.randint(2, 3), rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 2))
    else:
        spines, leaves, hosts = rng.randint(1, 5), rng.randint(2, 5), rng.randint(2, 5)
        fabric = fairspine.clos(
            spines, leaves, hosts, parallel=rng.choice([1, 1, 2]), uplink_gbps=rng.choice([50.0, 100.0, 200.0])
        )
    document = fairspine.fabric_document(fabric)
    for cable in document["links"]:
        if rng.random() < 0.08:
            cable["up"] = False
        if rng.random() < 0.1:
            cable["gbps"] = 40.0
    jobs = []
    for number in range(rng.randint(1, 3)):
        names = rng.sample(fabric.host_names, rng.randint(2, len(fabric.host_names)))
        collectives = []
        for each in range(rng.randint(1, 3)):
            op = rng.choice(list(ALGORITHMS))
            size = 2 ** rng.randint(1, max(1, len(names).bit_length() - 1))
            collectives.append(
                {
                    "name": f"c{each}",
                    "op": op,
                    "algorithm": rng.choice(ALGORITHMS[op]),
                    "ranks": rng.sample(range(len(names)), min(size, len(names))),
                    "bytes": rng.choice([10**8, 3 * 10**8, 10**9]),
                    "phase": rng.randint(0, 1),
                }
            )
        weight = rng.choice([1.0, 1.0, 2.5])
        jobs.append({"name": f"job{number}", "weight": weight, "hosts": names, "collectives": collectives})
    return document, jobs


def write_instances(folder: Path) -> Iterator[tuple[str, Path, list[Path]]]:
    """Yield the name, the fabric file and the job files of the examples and of every drawn instance."""
    yield "example", EXAMPLES / "clos-4x4x4.yaml", [EXAMPLES / "gpt3-a.json", EXAMPLES / "llama-b.json"]
    for number in range(DRAWN):
        fabric, jobs = draw(random.Random(number), three_layers=number % 3 == 2)
        name = f"drawn{number:02}"
        files = [folder / f"{name}-{job['name']}.json" for job in jobs]
        place = folder / f"{name}.json"
        place.write_bytes(orjson.dumps(fabric))
        for path, job in zip(files, jobs, strict=True):
            path.write_bytes(orjson.dumps(job))
        yield name, place, files


def run(*arguments: str) -> Any:
    """Return the JSON of a command and its exit code, without measured times."""
    result = CliRunner().invoke(app, [*arguments, "--format", "json"])
    if result.exit_code not in (0, 1) or not result.stdout:
        raise SystemExit(f"fairspine {' '.join(arguments)}: {result.exception!r} {result.output}")
    return {"exit_code": result.exit_code, "document": without_times(orjson.loads(result.stdout))}


def without_times(value: Any) -> Any:
    """Return a document without the fields that differ from run to run."""
    if isinstance(value, Mapping):
        return {key: without_times(each) for key, each in value.items() if key not in MEASURED}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def rules_of(fabric_file: Path, job_files: Sequence[Path]) -> dict[str, Any]:
    """Return the messages that fill every switch, by enforcement and switch, in order of their bytes."""
    fabric = fairspine.load_fabric(fabric_file)
    traffic = fairspine.traffic(fabric, [fairspine.load_job(path) for path in job_files])
    usable = fabric.without_links([fabric.cable_names[0]]) if len(fabric.cable_names) > 1 else fabric
    found = {
        "base": messages(compile_base(fabric, learn=True)),
        "drained": messages(compile_base(fabric, usable=usable)),
    }
    for policy in ("fair", "split", "spray"):
        plan = fairspine.plan(fabric, traffic, policy=policy, seed=1)
        for enforcement in rule_enforcements():
            encoding = encode_flows(fabric, traffic, plan.plan.assignment, enforcement)
            for action in ("bundle", "select"):
                rules = compile_rules(enforcement, fabric, traffic, encoding, ecmp_action=action)
                found[f"{policy} {enforcement} {action}"] = messages(rules)
    return found


def messages(rules: RuleSet) -> dict[str, list[str]]:
    """Return the bytes of the messages, without transaction ids, by switch."""
    return {
        f"{dpid:016x}": sorted(
            each.rest.hex()
            for each in (*map(put_group, held.groups.values()), *(put_rule(rule, 0) for rule in held.rules.values()))
        )
        for dpid, held in sorted(rules.switches.items())
    }


def main() -> None:
    """Write the files."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)

    def write(name: str, document: Any) -> None:
        (out / f"{name}.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))

    for secured in (False, True):
        write(f"openapi-{'secured' if secured else 'open'}", openapi_document(RESOURCES, secured=secured))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, fabric, jobs in write_instances(folder):
            given = ["--fabric", str(fabric), *(part for job in jobs for part in ("--job", str(job)))]
            write(f"{name}-plan", [run("plan", *given, "--policy", policy) for policy in ("ecmp", "fair", "split")])
            write(f"{name}-compare", run("compare", *given, "--policies", POLICIES))
            write(f"{name}-rules", rules_of(fabric, jobs))
            scenario = folder / f"{name}.yaml"
            cases = [{"jobs": [{"job": str(job), "compute_seconds": 0.05} for job in jobs]}]
            scenario.write_text(
                yaml.safe_dump(
                    {
                        "name": name,
                        "fabric": str(fabric),
                        "cases": cases,
                        "policies": ["ecmp", "fair", "fair+split"],
                        "epochs": 2,
                    }
                )
            )
            write(
                f"{name}-simulate", run("simulate", "--scenario", str(scenario), "--out", str(folder / f"{name}-out"))
            )
    print(f"written: {len(list(out.iterdir()))} files in {out}")


if __name__ == "__main__":
    main()
