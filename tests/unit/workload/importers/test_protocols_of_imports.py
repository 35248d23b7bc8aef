"""The protocol that an import gives its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from controller.model.choices.protocol import PROTOCOLS, Protocol
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.packets.flow_ports import flow_ports
from controller.model.queue_pairs import QueuePairs
from controller.workload.expand import expand
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.placing import on_fabric
from controller.workload.importers.protocols import with_protocol
from controller.workload.importers.registry import FORMATS, importer
from controller.workload.importers.streams import open_sources, text_source
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Call, Cluster, logs
from tests.unit.workload.importers.traces.small_traces import COLLECTIVE, et, node, sources
from tests.unit.workload.importers.traces.xplanes import Instruction, Run, profile, shape

EXAMPLES = Path(__file__).parents[4] / "examples"
FABRIC = clos(4, 4, 4)
CLUSTER = Cluster(2, 2, 2, ((0, 1, 2, 3), (1, 0, 3, 2)), ((-1, 0, 0, 2), (1, -1, 1, 2)), (Call("AllReduce", 1024),))
PAIRS = "5 9 0 1 1000 7 5000 0\n9 5 1 0 1000 7 5000 0\n"
SHAPE = (
    "num_nodes=17\nswitches=incl_range(0,4)\nswitches_which_are_tors=incl_range(0,2)\ncores=incl_range(3,4)\n"
    "servers=incl_range(5,16)\nundirected_edges=incl_range(0:2-3:4,5:8-0,9:12-1,13:16-2)\n"
    "link_data_rate_bit_per_ns=100\n"
)
NS3 = {"t.txt": "5 1 4\n4\n" + "".join(f"{i} 4 1Gbps 1ns 0\n" for i in range(4)), "f.txt": "1\n0 1 3 100 70 2\n"}


def examples(*names: str) -> Sequence[Source]:
    return open_sources([EXAMPLES / name for name in names])


def texts(files: Mapping[str, str]) -> Sequence[Source]:
    return [text_source(name, text) for name, text in files.items()]


def files_of(kind: str) -> Sequence[Source]:
    """Small files of a format whose files are jobs."""
    match kind:
        case "nccl":
            return texts({f"rank{i}.log": text for i, text in enumerate(logs(CLUSTER, STYLES[3]))})
        case "nccl-tests":
            return examples("nccl-tests/all_reduce.txt")
        case "kineto":
            return open_sources(sorted((EXAMPLES / "kineto").glob("*.json")))
        case "flight-recorder":
            return open_sources(sorted(file for file in (EXAMPLES / "flight-recorder").iterdir()))
        case "jax-trace":
            return sources([profile(Run([Instruction("ar", "all-reduce", shape(10))], 4, {"ar": 1}))])
        case "openmpi-monitoring":
            return texts({"m.0.prof": "# POINT TO POINT\nE\t0\t1\t500 bytes\t1 msgs sent\n"})
        case "htsim":
            return texts({"a.cm": "Nodes 3\nConnections 2\n0->1 start 0 size 7\n1->2 start 0 size 8\n"})
        case "aicb":
            return examples("aicb/gpus.csv")
        case "chakra":
            return sources([et(node(COLLECTIVE, comm_type=0, comm_size=4096, pg_name=""))] * 4)
        case "goal":
            return examples("goal/two-layers.goal")
        case "taskgraph":
            return examples("taskgraph/two-nodes.fbuf")
        case "ns3":
            return texts(NS3)
        case _:
            return texts({"pairs.txt": PAIRS, "t.properties": SHAPE})


FABRICS_ONLY = {name for name, row in FORMATS.items() if row.module.startswith("fabrics.")} - {"ns3"}
JOBS = [name for name in FORMATS if name not in FABRICS_ONLY]


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_format_gives_its_job_the_protocol_and_changes_nothing_else(kind: str, protocol: Protocol) -> None:
    plain = importer(kind)(files_of(kind), ImportRequest())
    other = importer(kind)(files_of(kind), ImportRequest(protocol=protocol))
    again = parse_job(document_of(other.job))
    assert document_of(again) == document_of(other.job)
    fabric = None if plain.fabric is not None else FABRIC
    if fabric is None:
        assert (again.protocol, again.flows.bytes.tolist()) == (protocol, plain.job.flows.bytes.tolist())
        return
    before, after = (expand(fabric, on_fabric(each, fabric, None, 0)) for each in (plain, other))
    assert {flow_ports(code).protocol for code in after.udp_src.tolist()} <= {protocol}
    assert int(after.bytes.sum()) == int(before.bytes.sum())
    if plain.job.qps is None:
        assert np.array_equal(after.src, before.src)
        assert np.array_equal(after.bytes, before.bytes)


def test_queue_pairs_of_the_files_are_left_out_of_other_protocols_with_a_note() -> None:
    job = parse_job({"name": "a", "hosts": ["h1", "h2"], "qps": 4})
    imported = with_protocol(Imported(job, placed=True, ranks=2, groups=1, collectives=0), "tcp")
    assert imported.job.qps is None
    assert "queue pairs" in imported.notes[-1]
    kept = with_protocol(Imported(job, placed=True, ranks=2, groups=1, collectives=0), "roce").job.qps
    assert kept == QueuePairs(4, kept.mode if kept else "split")


def test_a_fabric_and_flows_with_ports_of_roce_are_refused() -> None:
    with pytest.raises(InputError, match=r"^protocol: 'udp': the files describe a fabric"):
        importer("slurm")([text_source("t.conf", "SwitchName=l Nodes=a")], ImportRequest(protocol="udp"))
    job = parse_job({"name": "a", "flows": [{"src": "h1", "dst": "h2", "bytes": 5, "udp_src": 50000}]})
    with pytest.raises(InputError, match=r"^protocol: 'tcp': the files state source ports of RoCEv2$"):
        with_protocol(Imported(job, placed=True, ranks=2, groups=1, collectives=0), "tcp")
