"""The running controller as an interface sees it: reads of the newest state, and change requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from controller.core.caller import Caller
from controller.core.change_number import ChangeNumber
from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob
from controller.core.errors import ConflictError
from controller.core.ports.api import Condition, Document, Exposition, JobAnswer, PutOutcome, Subscription, Under
from controller.core.ports.enforcer import connected, left_alone
from controller.core.ports.host_agents import AgentHas, HostAgents, HostAnswer, HostAnswers, HostRequest
from controller.core.ports.network import Network
from controller.core.ports.runtime import Runtime
from controller.core.ports.store import Persistence
from controller.core.saved.saved_state import SavedState
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import Learning
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.model.plan import Plan
from controller.routing import followed
from controller.service.client_changes import ClientChanges
from controller.service.cluster.follower import Follower
from controller.service.cluster.replica_reads import ReplicaReads
from controller.service.learning.acting import Acting
from controller.service.learning.learner import Learner
from controller.service.learning.sflow_feeder import SflowFeeder
from controller.service.learning.watch_feeder import WatchFeeder
from controller.service.measurements import Measurements
from controller.service.reading.ecmp_plan import EcmpPlan
from controller.service.reading.failure_analyst import FailureAnalyst
from controller.service.reading.history_recorder import HistoryRecorder
from controller.service.reading.known_state import KnownState
from controller.service.reading.links import LinkLists
from controller.service.reading.metrics_reader import MetricsReader
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.event_log import EventLog
from controller.service.reconciling.reconciler import Reconciler
from controller.southbound.enforcement.learned_ports import NONE_LEARNED, LearnedPorts
from controller.views import agents, cluster, documents, health, learned, plan_history, preview, survival, trace
from controller.views.metrics import exposed

REPORTS_IN_A_TURN = 32
"""Reports of agents that are read before other tasks get their turn."""

NO_CIRCUITS = "the fabric has packet switches, and no optical circuits"


class Service:
    """Implements ``controller.core.ports.api.Backend``."""

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        persistence: Persistence,
        network: Network,
        admission: Admission,
        events: EventLog,
        measurements: Measurements,
    ) -> None:
        """Connect the parts of the service; ``start`` begins to reconcile.

        Args:
            configuration: the options and the fabric file.
            runtime: tasks, waiting and time.
            persistence: the store, with whose content this controller continues.
            network: what observes the network, and what enforces plans in it.
            admission: parses jobs and expands them to flows.
            events: the log of events.
            measurements: of the network and of the controller.
        """
        self._settings, self._intended = configuration.settings, configuration.intended
        self._runtime, self._store, self._member = runtime, persistence.store, persistence.member
        self._enforcer, self._agents, self._admission = network.enforcer, network.agents, admission
        self._events, self._measurements = events, measurements
        self._previewing, self._reading, self._analysing = runtime.lock(), runtime.lock(), runtime.lock()
        self._analyst = FailureAnalyst(runtime)
        self._under_ecmp = EcmpPlan(configuration, runtime)
        self._learner = Learner(
            runtime,
            admission.sightings,
            lambda: self._reconciler.desired.learning,
            measurements.instruments,
            lambda fabric: {} if network.agents is None else learned.open_qps(fabric, network.agents.states()),
        )
        self._sflow = SflowFeeder(
            runtime,
            self._learner,
            measurements.instruments,
            self._settings.sflow_listen,
            self._settings.sflow_agents,
            None if network.agents is None else network.agents.see,
        )
        self._reconciler = Reconciler(
            configuration, runtime, persistence, network, admission, events, measurements.instruments
        )
        self._watch = WatchFeeder(
            runtime, self._learner, network.observer, wanted=self._settings.learning_watch == "on"
        )
        self._acting = Acting(configuration, runtime, self._reconciler, admission, self._learner, measurements)
        self._links = LinkLists(runtime, measurements, self._acting.background)
        self._known = KnownState(self._reconciler, configuration.intended)
        self._changes = ClientChanges(self._settings, runtime, self._reconciler, admission, self._known)
        self._metrics = MetricsReader(
            runtime, network, self._reconciler, measurements, self._member, lambda: events.n_readers
        )
        shared, took = persistence.shared, self._reconciler.resume
        self.follower = (
            None
            if shared is None
            else Follower(configuration, runtime, shared, admission, took, network.enforcer.compiler)
        )
        self._reads = ReplicaReads(runtime, self._reconciler, self._member, self.follower)
        speeds = self._reconciler.installation.speeds
        self.recorder = HistoryRecorder(runtime, measurements, lambda: self._reconciler.state, speeds)

    @property
    def state(self) -> ControllerState:
        """The newest published state."""
        return self._reconciler.state

    def start(self) -> None:
        """Begin to reconcile and to record."""
        self._reconciler.start()
        for part in (self._learner, self._sflow, self._watch):
            part.start(self._reconciler.tasks, lambda: self._reconciler.state)
        for task in (self._acting, self.recorder):
            task.start()

    def lead(self, saved: SavedState, term: int) -> None:
        """Begin as the leader of a cluster for a term, with what the store holds."""
        assert self.follower is not None
        self._events.lead(term)
        self._reconciler.resume(*self.follower.begin(saved))
        self.start()

    def close(self) -> None:
        """End the process of failure analyses."""
        self._analyst.close()

    @property
    def ended(self) -> Sequence[str]:
        """The vital tasks that have ended, now and later: one list, which is empty while the controller works."""
        return self._reconciler.tasks.ended

    # -- jobs ----------------------------------------------------------------------------------------------------

    def put_job(self, name: str, body: bytes, condition: Condition, caller: Caller) -> PutOutcome:
        """Admit a job, or a new version of it, and return once it is saved and planned."""
        pushed = self._changes.put_job(name, body, condition, caller)
        return PutOutcome(pushed.created, self._answer(pushed.state, pushed.job))

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        """Remove a job and return once this is saved."""
        self._changes.delete_job(name, condition, caller)

    def job(self, name: str) -> JobAnswer:
        """Return one job with its part of the plan."""
        state = self._reconciler.state
        job = state.desired.job(name)
        if job is None:
            raise NotFoundError("job", name)
        return self._answer(state, job)

    def job_shift(self, name: str) -> Document:
        """Return when the job's iterations begin."""
        state = self._reconciler.state
        if state.desired.job(name) is None:
            raise NotFoundError("job", name)
        return documents.job_shift(state, name)

    def job_history(self, name: str) -> Document:
        """Return the speed of a job in the last 24 hours."""
        return self.recorder.job(name)

    def schedule(self) -> Document:
        """Return when all jobs' iterations begin."""
        return documents.schedule(self._known.state())

    def jobs(self) -> Document:
        """Return all jobs, without their flows."""
        state, installation = self._reconciler.state, self._reconciler.installation
        about = partial(documents.jobs, follows=self._reads.follows)
        return self._offload(about, state, installation.lacking(state), installation.speeds(state))

    def _answer(self, state: ControllerState, job: AdmittedJob) -> JobAnswer:
        installation = self._reconciler.installation
        about = partial(documents.job, follows=self._reads.follows)
        answer = self._offload(about, state, job.name, installation.lacking(state), installation.speeds(state))
        return JobAnswer(job.revision, answer)

    # -- the fabric ----------------------------------------------------------------------------------------------

    def fabric(self) -> Document:
        """Return the observed fabric and the cabling check."""
        state = self._known.state()
        return self._offload(documents.fabric, state, self._intended is not None, self._enforcer.switches())

    def links(self, under: Under = "plan", since: str | None = None) -> Document:
        """Return every directed link with its planned load and measured counters, or the changes since a version."""
        state = self._known.state()
        known = connected(self._enforcer.switches())
        return self._links.read(state, under, since, self._hashed(state, under), known)

    def link_history(self, name: str) -> Document:
        """Return the measured load of a directed link in the last 24 hours."""
        self._known.fabric()
        return self.recorder.link(name)

    def drainable(self, name: str) -> Document:
        """Return a cable, switch, pod or plane by its id, and whether it is drained."""
        state = self._known.state()
        self._changes.check_drainable(state, name)
        return self._offload(documents.drain, state, name)

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        """Drain a cable, switch, pod or plane, or take it back into use."""
        return self._offload(documents.drain, self._changes.drain([name], drained, caller).state, name)

    def drains(self, names: Sequence[str], drained: bool, caller: Caller) -> Document:
        """Drain several cables, switches, pods or planes by one plan, or take them back into use."""
        try:
            done = self._changes.drain(names, drained, caller)
        except NotFoundError as error:
            raise error.in_field(f"ids[{names.index(error.name)}]") from None
        return self._offload(documents.drains, done.state, names, done.changed, done.moved)

    # -- plans ---------------------------------------------------------------------------------------------------

    def plan(self, under: Under = "plan") -> Document:
        """Return the newest plan, or ECMP's in its place."""
        state, installation = self._known.state(), self._reconciler.installation
        return self._offload(
            documents.plan,
            state,
            self._reconciler.computed_at,
            installation.active,
            installation.waits_for(state),
            installation.refused(),
            self._hashed(state, under),
        )

    def _hashed(self, state: ControllerState, under: Under) -> Plan | None:
        """Return ECMP's plan if it is asked for, else ``None``."""
        return self._under_ecmp.plan(state) if under == "ecmp" else None

    def plans(self, before: int | None, limit: int) -> Document:
        """Return a page of stored plans, newest first."""
        # One more than is shown tells whether there are more.
        return plan_history.page(self._read(self._store.plans, before, limit + 1), limit)

    def plan_record(self, epoch: int) -> Document:
        """Return one stored plan with its paths."""
        kept = self._read(self._store.plan, epoch)
        return self._offload(plan_history.record, kept)

    def _read(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask the store. One at a time: a store that hangs must not take all threads."""
        with self._reading:
            return self._runtime.offload(function, *args)

    def rollback(self, epoch: int, caller: Caller) -> Document:
        """Give the present flows the live paths of a stored plan."""
        kept = self._read(self._store.plan, epoch)
        if kept.paths is None:
            raise ConflictError(f"plan {epoch} is stored without its paths")
        return plan_history.summary(self._changes.take_paths(kept.paths, epoch, caller))

    def preview(self, body: bytes) -> Document:
        """Return the effect of a change without making it."""
        # One at a time: each takes as long as a plan does, and states need the threads, too.
        with self._previewing:
            state = self._known.state()
            fabric = self._known.fabric()
            if state.candidate is None:
                raise UnavailableError("there is no plan yet")
            tried = self._admission.preview(
                body, fabric, state.desired.traffic, self._settings.max_flows, chooses_ports=state.desired.chooses_ports
            )
            return self._offload(
                preview.compare,
                self._settings,
                followed(),
                self._intended,
                state,
                tried,
                self._runtime.clock,
                self._enforcer.compiler,
            )

    def survive(self, body: bytes, gone: Callable[[], bool]) -> Document:
        """Return the effect of failures on the present jobs."""
        # One at a time, and beside previews: it may take seconds.
        with self._analysing:
            request = self._admission.survival(body)
            return self._offload(
                survival.analyse, self._settings, self._known.state(), request, gone, self._analyst.outcomes
            )

    def routes(self, host: str, round_trip_seconds: float | None = None) -> Document:
        """Return the flows that a host sends, with their paths."""
        state = self._known.state()
        self._check_host(host)
        return self._offload(documents.routes, state, host, self._settings, self._learned_ports(), round_trip_seconds)

    def _learned_ports(self) -> LearnedPorts:
        return NONE_LEARNED if self._agents is None else self._agents.learned_ports()

    def hosts(self) -> Document:
        """Return what is known of the agents of hosts."""
        states = () if self._agents is None else self._agents.states()
        return self._offload(agents.agent_list, states)

    def segments(self, host: str, has: AgentHas, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Return the plan of a host as soon as it is another one."""
        self._check_host(host)
        return self._host_agents().plan(host, has, seconds, gone)

    def host_table(self, host: str) -> Document:
        """Return the hosts that a host can reach."""
        self._check_host(host)
        return self._host_agents().table(host)

    def host_samples(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Return what routers have sampled of the packets of a host."""
        self._check_host(host)
        return self._host_agents().samples(host, after, seconds, gone)

    def host_report(self, host: str, body: bytes) -> None:
        """Take a report of the agent of a host."""
        self._check_host(host)
        report = self._admission.host_report(body)
        self._host_agents().report(host, report)

    def host_requests(self, requests: Sequence[HostRequest]) -> HostAnswers:
        """Take what many agents report and ask by way of a replica."""
        agents, answers = self._host_agents(), dict[int, HostAnswer]()
        for number, request in enumerate(requests):
            if number % REPORTS_IN_A_TURN == REPORTS_IN_A_TURN - 1:
                self._runtime.sleep(0)
            try:
                self._check_host(request.host)
                if request.report is not None:
                    agents.report(request.host, self._admission.host_report(request.report))
            except (InputError, NotFoundError, ConflictError, UnavailableError) as error:
                answers[number] = error
        asking = [number for number, each in enumerate(requests) if each.asks and number not in answers]
        plans = agents.plans([(requests[number].host, requests[number].has) for number in asking])
        answers |= dict(zip(asking, plans.answers, strict=True))
        return HostAnswers(plans.version, [answers.get(number) for number in range(len(requests))])

    def plans_version(self, known: str, seconds: float, gone: Callable[[], bool]) -> str:
        """Return the version of the plans of all hosts when it is another one."""
        return self._host_agents().version(known, seconds, gone)

    def _host_agents(self) -> HostAgents:
        if self._agents is None:
            raise ConflictError("hosts are given no plans: the switches of this fabric carry them out")
        return self._agents

    def _check_host(self, host: str) -> None:
        fabric = self._known.fabric()
        # The name of a NIC with several ports leads to its first one, and each port is asked about by itself.
        if host not in fabric.host_index or fabric.hosts[fabric.host_index[host]].name != host:
            raise NotFoundError("host", host)

    def trace(self, job: str | None, compare: str | None) -> Document:
        """Read the switches and return the measured path of each flow."""
        began = self._runtime.clock()
        self._known.state()
        reading = self._measurements.snapshots.read()
        # The plan is read after the switches: one that was made meanwhile is reported as not installed yet.
        state = self._known.state()
        if job is not None and state.desired.job(job) is None:
            raise NotFoundError("job", job)
        confirmed = {report.key: report.epoch for report in self._enforcer.switches()}
        return self._offload(
            trace.document,
            state,
            reading,
            confirmed,
            job,
            compare == "ecmp",
            self._measurements.readings,
            began,
            self._runtime.clock,
            self._settings,
            self._learned_ports(),
        )

    def circuits(self) -> Document:
        """Refuse: there are packet switches."""
        raise ConflictError(NO_CIRCUITS)

    def server_table(self, host: str, has: str, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Refuse: there are packet switches."""
        raise ConflictError(NO_CIRCUITS)

    # -- learning ------------------------------------------------------------------------------------------------

    def see(self, body: bytes) -> Document:
        """Take sightings of QPs from a host."""
        return {"qps": self._learner.see(body, self._known.fabric())}

    def learning(self) -> Document:
        """Return whether jobs are learned and planned, since when, and by whom this was set."""
        return documents.learning(self._reconciler.state, self._reconciler.learning)

    def set_learning(self, learning: Learning, caller: Caller) -> Document:
        """Change what becomes of learned jobs and return once this is saved."""
        document = documents.learning(*self._changes.set_learning(learning, caller))
        if learning == "off":
            self._learner.forget_all()
        # What is learned already is planned at once, not after the next look.
        self._learner.looked.set()
        return document

    def learned(self) -> Document:
        """Return the jobs that were learned from sightings."""
        learner = self._learner
        return self._offload(
            learned.learned_list,
            learner.learning,
            *learner.known,
            learner.jobs,
            self._reconciler.state,
            self._acting.learned.speeds,
        )

    def learned_job(self, name: str) -> Document:
        """Return a learned job with its job document."""
        return self._offload(
            learned.learned_document, self._learner.job(name), self._reconciler.state, self._acting.learned.speeds
        )

    def forget_learned(self, name: str) -> None:
        """Forget a learned job until it is seen again."""
        self._acting.learned.drop(self._learner.job(name))

    def adopt(self, name: str, caller: Caller) -> PutOutcome:
        """Push a learned job under its name."""
        job, fabric = self._learner.job(name), self._known.fabric()
        enforcement = self._reconciler.desired.enforcement
        body = self._runtime.offload(lambda: orjson.dumps(learned.job_document(job, fabric, enforcement)))
        pushed = self._changes.put_job(name, body, Condition(none_match=frozenset()), caller, learned=job)
        outcome = PutOutcome(pushed.created, self._answer(pushed.state, pushed.job))
        self._acting.learned.drop(job)
        return outcome

    # -- the controller ------------------------------------------------------------------------------------------

    def mode(self) -> Document:
        """Return how plans are enforced, since when, and by whom this was set."""
        return documents.mode(self._reconciler.state, self._reconciler.mode)

    def set_mode(self, mode: Mode | None, enforcement: str | None, caller: Caller) -> Document:
        """Change the mode or the enforcement and return once this is saved."""
        return documents.mode(*self._changes.set_mode(mode, enforcement, caller))

    def subscribe(self, after: str | None, last: int = 0) -> Subscription:
        """Open a subscription to the events after an id, or from now on with some before."""
        return self._events.subscribe(after, last)

    def health(self) -> Mapping[str, Any]:
        """Return whether the controller does its work, and the reasons if not."""
        reconciler = self._reconciler
        installation = reconciler.installation
        refused = self._enforcer.refusal is not None
        troubles = health.Troubles(reconciler.failed, reconciler.store_writer.error, installation.reasons(), refused)
        document = health.health(
            reconciler.state,
            self._enforcer.switches(),
            self._intended,
            installation.active,
            troubles,
            installation.speeds(reconciler.state),
            was_up=installation.first_active is not None,
            left_alone=left_alone(self._intended, self._enforcer),
            agents=self._enforcer.agents,
        )
        if self._member is None:
            return document
        if not self._member.leads:
            document = cluster.follower_health(document, self._member.standing, self._member.error)
        return {**document, "cluster": self.cluster()}

    def cluster(self) -> Document:
        """Return the cluster that this controller is a replica of."""
        return cluster.cluster(self._member)

    def step_down(self) -> None:
        """Let another replica lead."""
        if self._member is None:
            raise ConflictError("this controller is in no cluster")
        self._member.step_down()

    @property
    def leader(self) -> str | None:
        """The URL of the replica that answers clients (empty: there is none now); ``None``: this one."""
        return None if self._member is None or self._member.leads else self._member.standing.leader_url

    def confirms(self) -> bool:
        """Return whether this controller still answers clients, as the store says after this call."""
        return self._member is None or self._member.confirms()

    @property
    def change(self) -> ChangeNumber | None:
        """The number of a change such that answers contain it and all before; ``None``: changes have no numbers."""
        return self._reads.change

    def knows(self, change: ChangeNumber) -> bool:
        """Return whether answers of this replica contain a change, now or soon."""
        return self._reads.knows(change)

    def metrics(self, accept: str) -> Exposition:
        """Return the metrics in the format that the scraper accepts."""
        instruments = self._measurements.instruments
        now = self._metrics.snapshot(self.health())
        return Exposition(*self._runtime.offload(exposed, now, instruments.collect(), accept, self._runtime.rest))

    # -- all -----------------------------------------------------------------------------------------------------

    def _offload(self, function: Callable[..., Document], *args: Any) -> Document:
        document: Document = self._runtime.offload(function, *args)
        return document
