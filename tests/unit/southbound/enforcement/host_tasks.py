"""Tasks that hosts carry out, compiled for hosts and for switches."""

from __future__ import annotations

from controller.config import Settings
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import HostPlans
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler


def plans_without_rules(task: EnforcementTask) -> HostPlans:
    """Check that no switch gets a rule and that equal tasks give equal plans; return these."""
    assert task.fabric is not None
    assert task.enforcement is not None
    settings = Settings(enforcement=task.enforcement)
    assert not OpenFlowCompiler("bundle", settings)(task).switches
    one, other = HostCompiler(settings)(task), HostCompiler(settings)(task)
    assert all(one.content(host) == other.content(host) for host in range(task.fabric.n_hosts))
    return one
