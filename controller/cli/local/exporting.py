"""``fairspine export``: fabrics and jobs in the formats of other tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.local.path_addresses import EPILOG as ADDRESSES_EPILOG
from controller.cli.local.path_addresses import path_addresses
from controller.cli.local.planning import FabricOption, JobOption
from controller.cli.local.port_classes import EPILOG, port_classes
from controller.cli.local.qos import EPILOG as QOS_EPILOG
from controller.cli.local.qos import qos
from controller.cli.local.router_options import FolderOption, InterfaceOption, SwitchOption, check_place
from controller.cli.shared.files import about_a_fabric, write_files, write_text
from controller.model.errors import InputError
from controller.model.units import LARGEST_EXACT

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.southbound.probed_ports.port_maps import PortMaps
    from controller.southbound.probed_ports.probe_tasks import WantedPorts
    from controller.southbound.srv6.host_document import HostFlow
    from controller.workload.expand import JobTraffic
    from controller.workload.exporters.messages import Routes

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Write fabrics and jobs in the formats of other tools."
)
app.command("path-addresses", epilog=ADDRESSES_EPILOG)(about_a_fabric(path_addresses))
app.command("port-classes", epilog=EPILOG)(about_a_fabric(port_classes))
app.command("qos", epilog=QOS_EPILOG)(about_a_fabric(qos))

OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The output file; default: standard output.", show_default=False),
]


LatencyOption = Annotated[
    int, typer.Option("--latency", metavar="NS", min=1, max=2**31 - 1, help="Latency of each cable in nanoseconds.")
]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="A plan of these jobs (JSON of 'fairspine plan'), whose paths are written as well.",
        show_default=False,
    ),
]


ScaleOption = Annotated[
    float,
    typer.Option(
        "--scale", min=1e-12, max=1.0, help="Factor for all bytes: a flow has less than 2 GiB in htsim, 4 GiB in ns-3."
    ),
]
BlockOption = Annotated[
    str, typer.Option("--block", metavar="PREFIX", help="Addresses whose bits behind it are segment ids.")
]
CablesOption = Annotated[
    str, typer.Option("--cables", metavar="PREFIX", help="Addresses of the ends of cables and host links.")
]
DEFAULT_BLOCK, DEFAULT_CABLES = "fcbb:bb00::/32", "fd00:fab::/48"


@app.command(
    "htsim-cm",
    epilog="Example: fairspine export htsim-cm --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json --out a.cm",
)
@about_a_fabric
def htsim_matrix(
    fabric: FabricOption,
    job: JobOption,
    scale: ScaleOption = 1.0,
    steps: Annotated[
        bool, typer.Option("--steps", help="A connection for each step of a collective: a host waits for the last one.")
    ] = False,
    out: OutOption = None,
) -> None:
    """Write the flows of jobs as a connection matrix of htsim (.cm).

    Node n is the n-th host of the fabric. The phases of a job run one after the other, started by barriers; jobs run in
    parallel. With --steps, so do the steps of rings and other collectives in rounds. Computing of jobs is left out.
    """
    from controller.workload.importers.htsim.matrix import write_matrix

    if steps:
        _write_steps(fabric, job, scale, out)
        return
    place, traffic = _load(fabric, job)
    _write(out, write_matrix(place, traffic, scale))


@app.command(
    "htsim-topo",
    epilog="Example: fairspine export htsim-topo --fabric examples/clos-4x4x4.yaml --out clos.topo",
)
@about_a_fabric
def htsim_topology(
    fabric: FabricOption,
    latency: LatencyOption = 1000,
    out: OutOption = None,
) -> None:
    """Write a symmetric fabric as a topology of htsim (.topo)."""
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.importers.htsim.topology import write_topology

    write_text(out, [write_topology(load_fabric(fabric), latency)])


@app.command(
    "containerlab",
    epilog="Example: fairspine export containerlab --fabric examples/clos-4x4x4.yaml --out lab.clab.yml",
)
@about_a_fabric
def containerlab(
    fabric: FabricOption,
    name: Annotated[str, typer.Option("--name", help="The name of the lab.")] = "fairspine",
    kind: Annotated[str, typer.Option("--kind", help="Kind of the switches in containerlab.")] = "nokia_srlinux",
    image: Annotated[str, typer.Option("--image", help="Container image of the switches.")] = "ghcr.io/nokia/srlinux",
    out: OutOption = None,
) -> None:
    """Write a fabric as a topology of containerlab (.clab.yml)."""
    from controller.model.files.fabric_file import load_fabric, yaml_of
    from controller.workload.exporters.containerlab import containerlab_document

    write_text(out, [yaml_of(containerlab_document(load_fabric(fabric), name, kind, image))])


@app.command(
    "ns3-topo",
    epilog="Example: fairspine export ns3-topo --fabric examples/clos-4x4x4.yaml --out topology.txt",
)
@about_a_fabric
def ns3_topology(
    fabric: FabricOption,
    latency: LatencyOption = 1000,
    out: OutOption = None,
) -> None:
    """Write a fabric as a topology of HPCC's ns-3 (also read by SimAI and ASTRA-sim)."""
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.exporters.ns3 import ns3_topology as lines

    _write(out, lines(load_fabric(fabric), latency))


@app.command(
    "ns3-flows",
    epilog="Example: fairspine export ns3-flows --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json",
)
@about_a_fabric
def ns3_flows(
    fabric: FabricOption,
    job: JobOption,
    phase: Annotated[
        int | None, typer.Option("--phase", min=0, help="The phase, for jobs with several phases.", show_default=False)
    ] = None,
    scale: ScaleOption = 1.0,
    out: OutOption = None,
) -> None:
    """Write one phase of the flows of jobs in the format of HPCC's ns-3. Node n is the n-th host of the fabric."""
    from controller.workload.exporters.ns3 import ns3_flows as lines

    _, traffic = _load(fabric, job)
    _write(out, lines(traffic, phase, scale))


@app.command(
    "goal",
    epilog="Example: fairspine export goal --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json --out a.goal",
)
@about_a_fabric
def goal(
    fabric: FabricOption,
    job: JobOption,
    compute: Annotated[
        int,
        typer.Option(
            "--compute",
            metavar="NS",
            min=0,
            max=2**62,
            help="Computing time of each rank before a job, in nanoseconds.",
        ),
    ] = 0,
    plan: PlanOption = None,
    out: OutOption = None,
) -> None:
    """Write the flows of jobs as a GOAL schedule (LogGOPSim, ATLAHS). Rank n is the n-th host of the fabric.

    The paths of a plan are written as comments before the sends.
    """
    from controller.workload.exporters.goal import goal_lines

    place, traffic = _load(fabric, job)
    _write(out, goal_lines(place.n_hosts, traffic, compute, _routes(plan, place, traffic)))


@app.command("chakra", epilog="Example: fairspine export chakra --job examples/gpt3-a.json --out traces")
@about_a_fabric
def chakra(
    job: JobOption,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the traces, one per rank.")],
    fabric: Annotated[
        Path | None, typer.Option("--fabric", metavar="FILE", help="The fabric of the plan.", show_default=False)
    ] = None,
    plan: PlanOption = None,
) -> None:
    """Write a job as Chakra traces (.et), one for each rank, with its groups in the format of ASTRA-sim.

    With a plan and its fabric: the flows of one or several jobs as sends and receives, with the path of each; rank n is
    the n-th host of the fabric.
    """
    from controller.workload.exporters.chakra import chakra_files, planned_files
    from controller.workload.job_file import load_job

    if (fabric is None) != (plan is None):
        raise InputError("--plan and --fabric require each other", field="plan" if plan is None else "fabric")
    if fabric is None:
        if len(job) > 1:
            raise InputError("several jobs have no common numbering of ranks: give --fabric and --plan", field="job")
        described = load_job(job[0])
        try:
            write_files(out, chakra_files(described))
        except InputError as error:
            raise error.with_source(str(job[0])) from None
        return
    place, traffic = _load(fabric, job)
    routes = _routes(plan, place, traffic)
    assert routes is not None
    write_files(out, planned_files("-".join(one.name for one in traffic), place.n_hosts, traffic, routes))


@app.command(
    "srv6", epilog="Example: fairspine export srv6 --fabric examples/clos-4x4x4.yaml --format frr --out routers"
)
@about_a_fabric
def srv6(
    fabric: FabricOption,
    language: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="iproute2, frr, sonic or cumulus.")
    ] = "iproute2",
    block: BlockOption = DEFAULT_BLOCK,
    cables: CablesOption = DEFAULT_CABLES,
    interface: InterfaceOption = None,
    switch: SwitchOption = None,
    out: FolderOption = None,
    bgp: Annotated[
        bool,
        typer.Option("--bgp", help="Let FRR find the routes by BGP in place of static routes (frr, iproute2)."),
    ] = False,
    controller: Annotated[
        list[str] | None,
        typer.Option(
            "--controller",
            metavar="ADDRESS[=AS]",
            help="A controller that may hear the routes of all routers by BGP; repeat it for others.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the configuration of routers for SRv6 paths that hosts choose: addresses, locators, and routes.

    It depends on the fabric alone. No plan changes it.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.southbound.srv6.formats import FORMATS, interface_names
    from controller.southbound.srv6.router_files import bgp_files, read_observer, static_files
    from controller.southbound.srv6.segment_ids import SegmentIds, network

    chosen = FORMATS.get(language)
    if chosen is None:
        raise InputError(f"is none of {', '.join(FORMATS)}", field="--format", value=language)
    check_place(switch, out)
    if controller and not bgp:
        raise InputError("is for --bgp only", field="--controller", value=controller[0])
    observers = [read_observer(text) for text in controller or ()]
    place = load_fabric(fabric)
    if switch is not None and switch not in place.layer_of:
        raise InputError("no switch of the fabric has this name", field="--switch", value=switch)
    names = chosen.interface if interface is None else interface_names(interface)
    ids = SegmentIds.of(place, network("--block", block))
    prefix = network("--cables", cables)
    made = bgp_files(ids, language, names, prefix, observers) if bgp else static_files(ids, language, names, prefix)
    files = [(file, text) for router, file, text in made if switch in (None, router)]
    if out is not None:
        write_files(out, ((file, text.encode()) for file, text in files))
    elif len(files) > 1:
        raise InputError("give a folder: a router has two files", field="--out")
    else:
        write_text(None, [files[0][1]])


@app.command(
    "srv6-border",
    epilog="Example: fairspine export srv6-border --fabric examples/routers-4x4x4.yaml --out borders",
)
@about_a_fabric
def srv6_border(
    fabric: FabricOption,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the files, one a switch.")],
    without_agent: Annotated[
        list[str] | None,
        typer.Option(
            "--without-agent",
            metavar="HOST",
            help="A host that may not send to segment ids; repeat it for others.",
            show_default=False,
        ),
    ] = None,
    block: BlockOption = DEFAULT_BLOCK,
    cables: CablesOption = DEFAULT_CABLES,
    interface: InterfaceOption = None,
) -> None:
    """Write filters for nftables on Linux routers: packets to segment ids pass only from hosts with agents.

    Use the same block, cables and interfaces as in 'fairspine export srv6'. No plan changes them.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.southbound.srv6.border_filters import border_filters
    from controller.southbound.srv6.formats import FORMATS, interface_names
    from controller.southbound.srv6.segment_ids import SegmentIds, network

    place = load_fabric(fabric)
    names = FORMATS["iproute2"].interface if interface is None else interface_names(interface)
    for host in without_agent or ():
        if host not in place.host_index:
            raise InputError("no host of the fabric has this name", field="--without-agent", value=host)
    without = {place.host_index[host] for host in without_agent or ()}
    made = border_filters(SegmentIds.of(place, network("--block", block)), names, network("--cables", cables), without)
    write_files(out, ((f"{name}.nft", text.encode()) for name, text in made))


@app.command(
    "ptm",
    epilog="Example: fairspine export ptm --fabric examples/clos-4x4x4.yaml --out topology.dot",
)
@about_a_fabric
def ptm(fabric: FabricOption, interface: InterfaceOption = None, out: OutOption = None) -> None:
    """Write the cabling for PTM (Cumulus Linux), which compares it with LLDP: topology.dot."""
    from controller.model.files.fabric_file import load_fabric
    from controller.southbound.srv6.formats import FORMATS, interface_names
    from controller.workload.exporters.cabling import ptm_lines

    names = FORMATS["cumulus"].interface if interface is None else interface_names(interface)
    _write(out, ptm_lines(load_fabric(fabric), names))


@app.command(
    "sonic-neighbors",
    epilog="Example: fairspine export sonic-neighbors --fabric examples/clos-4x4x4.yaml --out neighbors",
)
@about_a_fabric
def sonic_neighbors(
    fabric: FabricOption,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the files, one a switch.")],
    interface: InterfaceOption = None,
) -> None:
    """Write the cabling for SONiC: the tables of CONFIG_DB with the neighbours and speeds of each switch's ports.

    'config load' adds them to a switch's configuration; 'fairspine import lldp' reads them back.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.southbound.srv6.formats import FORMATS, interface_names
    from controller.workload.exporters.cabling import config_db_documents

    names = FORMATS["sonic"].interface if interface is None else interface_names(interface)
    documents = config_db_documents(load_fabric(fabric), names)
    _write_documents(out, documents.items())


@app.command(
    "srv6-hosts",
    epilog="Example: fairspine export srv6-hosts --fabric F.yaml --job a.json --plan plan.json --out hosts",
)
@about_a_fabric
def srv6_hosts(
    fabric: FabricOption,
    job: JobOption,
    plan: Annotated[
        Path, typer.Option("--plan", metavar="FILE", help="A plan of these jobs (JSON of 'fairspine plan').")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the files, one a host.")],
    block: BlockOption = DEFAULT_BLOCK,
    cables: CablesOption = DEFAULT_CABLES,
    epoch: Annotated[int, typer.Option("--epoch", min=0, max=LARGEST_EXACT, help="The number of the plan.")] = 1,
) -> None:
    """Write what each host does so that its flows take the paths of a plan: files for 'fairspine agent --plan'.

    Routers must be configured by 'fairspine export srv6' with the same block and cables.
    """
    from controller.southbound.srv6.host_document import host_document
    from controller.southbound.srv6.router_configuration import CableAddresses
    from controller.southbound.srv6.segment_ids import SegmentIds, network

    place, traffic = _load(fabric, job)
    ids, addresses = SegmentIds.of(place, network("--block", block)), CableAddresses(place, network("--cables", cables))
    ids.check()
    addresses.check()
    flows = _flows_of_hosts(place, traffic, plan)
    documents = (host_document(ids, addresses, host, flows[host], epoch) for host in range(place.n_hosts))
    _write_documents(out, ((each["host"], each) for each in documents))


@app.command(
    "port-probes",
    epilog="Example: fairspine export port-probes --fabric examples/routers-4x4x4.yaml --out probes",
)
@about_a_fabric
def port_probes(
    fabric: FabricOption,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the files, one a host.")],
    job: Annotated[
        list[Path] | None,
        typer.Option("--job", metavar="FILE", help="A job of the plan; may be repeated.", show_default=False),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="A plan of these jobs (JSON of 'fairspine plan'): ports for the paths of its flows only.",
            show_default=False,
        ),
    ] = None,
    burst: Annotated[
        int, typer.Option("--burst", min=1, max=10_000, help="Probes that a router answers a host at once.")
    ] = 6,
    rate: Annotated[
        float, typer.Option("--rate", min=0.001, max=1e6, help="Probes that a router answers a host in a second.")
    ] = 1.0,
    known: Annotated[
        Path | None,
        typer.Option(
            "--known",
            metavar="DIR",
            help="Folder of what hosts have printed before ('probe-ports --format json'), which they check first.",
            show_default=False,
        ),
    ] = None,
    last_leaf: Annotated[
        bool,
        typer.Option(
            "--last-leaf", help="One more probe of each port: is it at the receiver's leaf when it should be?"
        ),
    ] = False,
) -> None:
    """Write what each host probes to learn which source ports lead over which paths: files for 'fairspine probe-ports'.

    Without a plan: a port for each path to each host below another leaf. Routers need 'addresses' in the fabric file.
    --burst and --rate are the limits of Linux routers; a limit of a whole switch is to be divided among the hosts.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.southbound.probed_ports.probe_routes import check_probes
    from controller.southbound.probed_ports.probe_tasks import ProbeBudget, every_path, probe_document

    if (job is None) != (plan is None):
        raise InputError("--plan and --job require each other", field="plan" if plan is None else "job")
    if plan is None or job is None:
        place = load_fabric(fabric)
        check_probes(place, last_leaf=last_leaf)
        wanted: Mapping[int, WantedPorts] = {host: every_path(place, host) for host in range(place.n_hosts)}
    else:
        place, traffic = _load(fabric, job)
        check_probes(place, last_leaf=last_leaf)
        wanted = _wanted_ports(place, traffic, plan)
    maps, budget = _port_maps(known), ProbeBudget(burst, rate)
    documents = (
        probe_document(place, host, wanted.get(host, {}), budget, maps, last_leaf=last_leaf)
        for host in range(place.n_hosts)
    )
    _write_documents(out, ((each["host"], each) for each in documents))


def _write_documents(folder: Path, documents: Iterable[tuple[str, Any]]) -> None:
    """Write each document as JSON to the file of its name in the folder."""
    import orjson

    write_files(folder, ((f"{name}.json", orjson.dumps(each, option=orjson.OPT_INDENT_2)) for name, each in documents))


def _port_maps(folder: Path | None) -> PortMaps:
    """Return what hosts have learned, by their files in a folder.

    Raises:
        InputError: a file is not what a host has printed.
    """
    import orjson

    from controller.southbound.probed_ports.port_maps import PortMaps

    maps = PortMaps()
    if folder is not None and not folder.is_dir():
        raise InputError("is no folder", field="--known", value=str(folder))
    for file in () if folder is None else sorted(folder.glob("*.json")):
        try:
            maps.take(orjson.loads(file.read_bytes()))
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(file)) from None
        except orjson.JSONDecodeError as error:
            raise InputError(f"is not JSON: {error}", source=str(file)) from None
        except InputError as error:
            raise error.with_source(str(file)) from None
    return maps


def _wanted_ports(fabric: Fabric, traffic: list[JobTraffic], plan: Path) -> Mapping[int, WantedPorts]:
    """Return how many ports a plan needs from each host to each other one on each path.

    Raises:
        InputError: the plan is not of this traffic.
    """
    from controller.model.paths.path_numbers import PathNumbers
    from controller.workload.exporters.messages import messages_of

    numbers = PathNumbers.of(fabric)
    wanted: dict[int, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for message in messages_of(traffic, _routes(plan, fabric, traffic)):
        path = numbers.number(message.links) if len(message.links) > 2 else None
        if path is not None:
            wanted[message.src][message.dst][path] += 1
    return wanted


def _flows_of_hosts(fabric: Fabric, traffic: list[JobTraffic], plan: Path) -> dict[int, list[HostFlow]]:
    """Return what each host sends by a plan.

    Raises:
        InputError: the plan is not of this traffic, or a flow cannot be told apart by its source port.
    """
    from controller.model.packets.flow_ports import flow_ports
    from controller.model.packets.port_numbers import MAX_PORT
    from controller.model.paths.path_numbers import PathNumbers
    from controller.model.traffic import ANY_PORT
    from controller.southbound.enforcement.registry import ENFORCEMENTS
    from controller.southbound.srv6.host_document import LOCAL, HostFlow
    from controller.workload.exporters.messages import messages_of

    numbers, flows, source = PathNumbers.of(fabric), defaultdict(list), str(plan)
    growth = ENFORCEMENTS.named("srv6").growth
    for message in messages_of(traffic, _routes(plan, fabric, traffic, growth)):
        if message.udp_src > MAX_PORT:
            protocol = flow_ports(message.udp_src).protocol
            reason = f"its protocol is {protocol}, of which hosts know no flows"
            raise InputError(reason, field=message.flow, source=source)
        if message.udp_src == ANY_PORT:
            reason = "its source port is unknown, so a host cannot tell it apart"
            raise InputError(reason, field=message.flow, source=source)
        if message.share < 1:
            reason = "is split, and a plan in a file has no source ports of its pieces"
            raise InputError(reason, field=message.flow, source=source)
        path = numbers.number(message.links) if len(message.links) > 2 else None
        between = LOCAL if path is None else path
        own = HostFlow(message.dst, between, message.udp_src, message.pace, priority=message.priority)
        flows[message.src].append(own)
    return flows


def _write_steps(fabric: Path, jobs: list[Path], scale: float, out: Path | None) -> None:
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.load import load_jobs
    from emulation.evaluation.timed_job import TimedJob, simulated_jobs
    from emulation.packets.htsim_steps import write_steps

    place = load_fabric(fabric)
    described, _ = load_jobs(place, jobs)
    _write(out, write_steps(place, simulated_jobs(place, [TimedJob(each) for each in described]), scale))


def _load(fabric: Path, jobs: list[Path]) -> tuple[Fabric, list[JobTraffic]]:
    from controller.model.files.fabric_file import load_fabric
    from controller.planning.live_traffic import live_jobs
    from controller.workload.load import load_jobs

    place = load_fabric(fabric)
    return place, live_jobs(place, load_jobs(place, jobs)[1])


def _routes(plan: Path | None, fabric: Fabric, traffic: list[JobTraffic], growth: int = 0) -> Routes | None:
    from controller.workload.exporters.messages import load_routes

    return None if plan is None else load_routes(plan, fabric, traffic, growth=growth)


def _write(out: Path | None, lines: Iterable[str]) -> None:
    write_text(out, (f"{line}\n" for line in lines))
