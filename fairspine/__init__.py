"""The Python API of fairspine: plan, compare, bound and simulate the traffic of training jobs on a Clos fabric.

    >>> import fairspine as fs
    >>> fabric = fs.clos(leaves=4, spines=4, hosts_per_leaf=4)
    >>> ring = {"name": "dp", "op": "all_reduce", "ranks": list(range(16)), "bytes": 1e9}
    >>> order = [host for n in range(4) for host in fabric.host_names[n::4]]  # neighbours on different leaves
    >>> job = fs.job("a", hosts=order, collectives=[ring])
    >>> fs.plan(fabric, [job]).min_speed
    1.0

All functions are pure: equal arguments give equal results (measured times apart). Results are frozen, and their arrays
are read-only NumPy arrays. Invalid input raises ``InputError``, which names the field and the value. No switch, no
controller and no root are needed.

Units: bytes, Gbit/s (1e9 bit/s), seconds. docs/explanation/objective.md defines speed, level and the bounds.
"""

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import CircuitPlan
from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, load_fabric
from controller.model.job import Job
from controller.model.plan import Bound, Level, Objective, Plan
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, Policy, PreviousPlan, Result
from controller.workload.job_file import load_job
from fairspine.circuits import circuits, optical_fabric
from fairspine.exports import htsim_matrix, htsim_topology
from fairspine.graph import graph
from fairspine.inputs import fabric, job, traffic
from fairspine.planning import bound, compare, plan, policies
from fairspine.results import PlanResult, SimulationResult
from fairspine.simulation import simulate

__all__ = [
    "LOCAL",
    "UNROUTABLE",
    "Assignment",
    "Bound",
    "Cable",
    "CircuitPlan",
    "Collective",
    "Fabric",
    "Host",
    "InputError",
    "Job",
    "Level",
    "Objective",
    "OpticalFabric",
    "Options",
    "Plan",
    "PlanResult",
    "Policy",
    "PreviousPlan",
    "Result",
    "SimulationResult",
    "Switch",
    "Traffic",
    "bound",
    "circuits",
    "clos",
    "compare",
    "fabric",
    "fabric_document",
    "graph",
    "htsim_matrix",
    "htsim_topology",
    "job",
    "load_fabric",
    "load_job",
    "optical_fabric",
    "plan",
    "policies",
    "simulate",
    "traffic",
]
