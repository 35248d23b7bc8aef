"""``fairspine export``: what other tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.files import write_text
from controller.cli.planning import FabricOption, JobOption

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Write fabrics and jobs as other tools read them.")

OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where it goes; else standard output.", show_default=False),
]


@app.command(
    "htsim-cm",
    epilog="Example: fairspine export htsim-cm --fabric examples/clos-4x4x4.yaml --job examples/gpt3-a.json --out a.cm",
)
def htsim_matrix(
    fabric: FabricOption,
    job: JobOption,
    scale: Annotated[
        float, typer.Option("--scale", min=1e-12, max=1.0, help="Factor of all bytes; htsim takes 2 GiB a connection.")
    ] = 1.0,
    out: OutOption = None,
) -> None:
    """Write jobs' flows as a connection matrix of htsim (.cm).

    Node n is the fabric's n-th host. A job's phases run one after the other, started by barriers; jobs run beside each
    other.
    """
    from controller.model.fabric_file import load_fabric
    from controller.workload.importers.htsim_matrix import write_matrix
    from controller.workload.load import load_jobs

    place = load_fabric(fabric)
    _, traffic = load_jobs(place, job)
    write_text(out, (f"{line}\n" for line in write_matrix(place, traffic, scale)))


@app.command(
    "htsim-topo",
    epilog="Example: fairspine export htsim-topo --fabric examples/clos-4x4x4.yaml --out clos.topo",
)
def htsim_topology(
    fabric: FabricOption,
    latency: Annotated[
        int, typer.Option("--latency", metavar="NS", min=1, max=2**31 - 1, help="Nanoseconds of each cable.")
    ] = 1000,
    out: OutOption = None,
) -> None:
    """Write a symmetric fabric as a topology of htsim (.topo)."""
    from controller.model.fabric_file import load_fabric
    from controller.workload.importers.htsim_topology import write_topology

    write_text(out, [write_topology(load_fabric(fabric), latency)])
