"""``fairspine trace``: the real paths of flows, and the imbalance of links."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.command_error import NO_PATH, UNKNOWN, CommandError
from controller.cli.shared.files import write_text
from controller.cli.shared.output import Printer
from controller.cli.shared.policy_help import POLICIES_TEXT
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.telemetry.by_capture import Captures

_FLOW = (
    *("id", "piece", "job", "collective", "src", "dst", "src_rank", "dst_rank", "udp_src", "share"),
    *("planned", "real", "how", "sure", "differs", "why", "bytes"),
)
_LAYER = ("layer", "links", "flows", "bytes")
_LINK = ("id", "layer", "gbps")
_HOT = ("link", "gbps", "utilisation", "flows", "bytes")
_TRACE = ("at", "epoch", "mode", "enforcement", "window", "silent", "flows", "layers", "links", "hot")


def trace(
    job: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            metavar="NAME",
            help="Only the flows of this job; with --policy: a job file. May be given several times.",
        ),
    ] = None,
    differs: Annotated[
        bool, typer.Option("--differs", help="List only flows that are not on their planned paths.")
    ] = False,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="ecmp", help="Also compute the paths of the same flows under this policy."),
    ] = None,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="A saved trace (JSON) or the trace of another tool (CSV), without a controller.",
        ),
    ] = None,
    fabric: Annotated[
        Path | None, typer.Option("--fabric", metavar="FILE", help="The fabric of --from or --policy (YAML or JSON).")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help=f"Trace a plan made from files with this policy; {POLICIES_TEXT}.",
            autocompletion=completion.policies,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of randomised policies.")] = 0,
    capture: Annotated[
        list[str] | None,
        typer.Option(
            "--capture",
            metavar="LINK=FILE",
            help="A pcap file of a port of a cable, or a folder of such files, named like leaf1-spine2.pcap. "
            "May be given several times.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Save the trace to this file, as JSON, for --from.")
    ] = None,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show the real path of every flow beside the planned one, and the imbalance of links.

    The trace is made by a running controller, which reads its switches, or from a saved trace (--from), or from a plan
    made from files (--policy).
    """
    if compare not in (None, "ecmp"):
        raise InputError("can be ecmp", field="--compare", value=compare)
    if saved is not None and policy is not None:
        raise InputError("cannot be used with --from", field="--policy", value=policy)
    if watch.watch and (saved is not None or policy is not None):
        raise InputError("shows a running controller; it cannot be used with --from or --policy", field="--watch")
    where: Fabric | None = None
    if fabric is not None:
        if saved is None and policy is None:
            raise InputError("requires --from or --policy", field="--fabric", value=str(fabric))
        from controller.model.files.fabric_file import load_fabric

        where = load_fabric(fabric)
    if policy is not None:
        if where is None or not job:
            raise InputError("requires --fabric and --job", field="--policy", value=policy)
        document = _of_policy(where, [Path(name) for name in job], policy, seed, compare is not None)
    elif saved is not None:
        if compare is not None:
            raise InputError("cannot be used with --from: a saved trace has no traffic to plan", field="--compare")
        document = _of_file(saved, where)
        document = _only(document, job, str(saved))
    else:
        client = remote.client()
        watch.show(lambda: _finish(_live(client, job, compare, capture), save, differs, output))
        return
    if capture:
        if where is None:
            raise InputError("requires --fabric", field="--capture", value=capture[0])
        document = _with_captures(document, where, capture)
    _finish(document, save, differs, output)


def _finish(document: dict[str, Any], save: Path | None, differs: bool, output: Printer) -> None:
    """Save and print the trace.

    Raises:
        CommandError: some flow is not on its planned path, has none, or is not known to be there.
    """
    import orjson

    from controller.cli.shared.trace_table import print_trace
    from controller.telemetry.trace_summary import is_unknown, is_without_path

    if save is not None:
        write_text(save, [orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()])
    astray = [flow for flow in document["flows"] if flow["differs"]]
    if not output.is_table:
        shown = [flow for flow in document["flows"] if flow["differs"] or is_without_path(flow)]
        output.document({**document, "flows": shown} if differs else document)
    else:
        print_trace(output, document, differs)
    pathless = [flow for flow in document["flows"] if is_without_path(flow)]
    if astray:
        first = astray[0]
        also = f", and {len(pathless)} have no path" if pathless else ""
        raise CommandError(
            f"{len(astray)} of {len(document['flows'])} flows are not on their planned paths, "
            f"the first is {first['id']}: {first['why']}{also}"
        )
    if pathless:
        first = pathless[0]
        raise CommandError(
            f"{len(pathless)} of {len(document['flows'])} flows have no path, the first is {first['id']}: "
            f"{first['why']}",
            exit_code=NO_PATH,
        )
    unknown = [flow for flow in document["flows"] if is_unknown(flow)]
    if unknown:
        first = unknown[0]
        raise CommandError(
            f"the paths of {len(unknown)} of {len(document['flows'])} flows are not known, "
            f"the first is {first['id']}: {first['why']}",
            exit_code=UNKNOWN,
        )


def _live(client: Client, job: list[str] | None, compare: str | None, capture: list[str] | None) -> dict[str, Any]:
    query = {"compare": compare} if compare is not None else {}
    query |= {"job": job[0]} if job and len(job) == 1 else {}
    answer = described(client.request("GET", "trace", query=query).document, *_TRACE)
    for part, members in (("flows", _FLOW), ("layers", _LAYER), ("links", _LINK), ("hot", _HOT)):
        described_rows(answer[part], *members)
    if job and len(job) > 1:
        answer = _only(answer, job, client.url)
    return _with_captures(answer, _fabric_of(client), capture) if capture else answer


def _fabric_of(client: Client) -> Fabric:
    """Return the fabric of the controller."""
    from controller.model.files.fabric_file import parse_fabric

    answer = described(client.request("GET", "fabric").document, "switches", "hosts", "links")
    switches = [
        {name: row[name] for name in ("name", "role", "kind", "dpid") if name in row} for row in answer["switches"]
    ]
    links = [
        {name: value for name, value in row.items() if name not in ("id", "known", "drained")}
        for row in answer["links"]
    ]
    return parse_fabric({"switches": switches, "hosts": answer["hosts"], "links": links}, source=client.url)


def _of_file(path: Path, fabric: Fabric | None) -> dict[str, Any]:
    """Read a trace from a JSON or CSV file.

    Raises:
        InputError: the file is not a trace.
    """
    from pydantic import ValidationError

    from controller.model.files.fabric_file import from_validation_error, read_document
    from controller.rest.schemas import TraceBody, TraceDocument
    from controller.telemetry.hops_file import read_hops
    from controller.telemetry.trace_summary import summary

    if path.suffix.lower() == ".csv":
        links, flows = read_hops(path, fabric)
        return {"flows": flows, **summary(links, flows)}
    document = read_document(path)
    if not isinstance(document, dict):
        raise InputError("is not a trace", source=str(path))
    try:
        (TraceDocument if "at" in document else TraceBody).model_validate(document)
    except ValidationError as error:
        raise from_validation_error(error, document).with_source(str(path)) from None
    return document


def _only(document: dict[str, Any], jobs: list[str] | None, source: str) -> dict[str, Any]:
    """Return the part of a trace that contains the flows of these jobs; all of it without jobs.

    Raises:
        InputError: the trace has no flow of a job.
    """
    from controller.telemetry.trace_summary import summary

    if not jobs:
        return document
    known = {flow["job"] for flow in document["flows"]}
    for name in jobs:
        if name not in known:
            raise InputError("the trace has no flow of this job", field="--job", value=name, source=source)
    flows = [flow for flow in document["flows"] if flow["job"] in jobs]
    # The comparison with another policy covers the flows of all jobs, so it is dropped.
    return {**document, "flows": flows, **summary(document["links"], flows), "compare": None}


def _of_policy(fabric: Fabric, jobs: list[Path], policy: str, seed: int, compare: bool) -> dict[str, Any]:
    """Plan the jobs of these files and return the trace of the plan."""
    import time

    from controller.planning.live_traffic import live_traffic
    from controller.planning.make_plan import make_plan
    from controller.routing import POLICIES
    from controller.southbound.enforcement.flow_encoding import kept_ports
    from controller.telemetry.ecmp_draws import under_ecmp
    from controller.telemetry.trace import TraceInputs
    from controller.telemetry.trace_document import planned_trace
    from controller.workload.load import load_jobs

    POLICIES.named(policy, field="--policy")
    described_jobs, expanded = load_jobs(fabric, jobs)
    traffic = live_traffic(fabric, expanded)
    plan = make_plan(fabric, traffic, policy=policy, seed=seed, clock=time.perf_counter)
    situation = TraceInputs(fabric, traffic, kept_ports(fabric, traffic, plan.assignment))
    ranks = {one.name: {host: rank for rank, host in reversed(list(enumerate(one.hosts)))} for one in described_jobs}
    document = planned_trace(situation, fabric, ranks)
    del document["window"]
    if compare:
        document["compare"] = {**under_ecmp(fabric, traffic), "plan_min_speed": plan.objective.min_speed}
    return document


def _with_captures(document: dict[str, Any], fabric: Fabric, given: list[str]) -> dict[str, Any]:
    from controller.telemetry.by_capture import with_captures
    from controller.telemetry.trace_summary import summary

    flows = with_captures(fabric, document["flows"], _captures(fabric, given))
    return {**document, "flows": flows, **summary(document["links"], flows)}


def _captures(fabric: Fabric, given: list[str]) -> Captures:
    """Return the captured packets by cable; of several files of one cable, the larger count of each flow is kept."""
    from controller.telemetry.by_capture import cable_of
    from controller.telemetry.capture import read_capture

    files: list[tuple[str, Path]] = []
    for text in given:
        name, equals, file = text.partition("=")
        if equals:
            files.append((cable_of(fabric, name), Path(file)))
        elif Path(text).is_dir():
            files += [(cable_of(fabric, path.stem), path) for path in sorted(Path(text).glob("*.pcap"))]
        else:
            raise InputError("must be LINK=FILE, or a folder", field="--capture", value=text)
    if not files:
        raise InputError("contains no .pcap files", field="--capture", value=given[0])
    packets: dict[str, Counter[Any]] = {}
    for cable, path in files:
        packets[cable] = Counter(packets.get(cable, Counter()) | read_capture(path))
    return packets
