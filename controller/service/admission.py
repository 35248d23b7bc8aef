"""From a pushed job document to flows with UDP source ports: the way into the controller."""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.fabric import Fabric
from controller.service.runtime import Runtime
from controller.service.step import Admitted
from controller.service.worker import Worker
from controller.workload.expand import JobTraffic, expand
from controller.workload.import_form import job_from_body

SMALL = 256 * 1024
"""Bytes of a document up to which a thread will do."""


class Admission:
    """Parses and expands off the event loop, large documents in a process of their own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._worker = Worker(runtime.start_process)
        self._one_at_a_time = runtime.lock()

    def admit(self, name: str, body: bytes, fabric: Fabric, others: Sequence[JobTraffic], max_flows: int) -> Admitted:
        """The job with its flows; ``others`` hold the ports that are taken.

        Args:
            max_flows: more are refused before there is memory for them; those within servers count here.

        Raises:
            InputError: what is wrong with the document.
        """
        if len(body) <= SMALL:
            traffic = self._runtime.offload(admit, name, body, fabric, others, max_flows)
        else:
            with self._one_at_a_time:
                traffic = self._runtime.offload(self._worker.run, admit, name, body, fabric, others, max_flows)
        return Admitted(name, body, traffic)

    def close(self) -> None:
        """End the worker process."""
        self._worker.close()


def admit(name: str, body: bytes, fabric: Fabric, others: Sequence[JobTraffic], max_flows: int) -> JobTraffic:
    """Parse and expand. Runs in a thread or in the worker process."""
    return expand(fabric, job_from_body(body, name, fabric), others, max_flows=max_flows)
