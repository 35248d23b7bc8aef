"""Rounds of attacks on a controller with honest switches, each followed by a check of the invariants.

The invariants of every round, for any input of the attacker:

* rules and groups on honest switches are the same before, during and after the attack (while a rogue impersonates a
  switch of the fabric: correct again afterwards);
* pings between honest hosts are answered;
* the controller is the same process, its memory stays under a bound and is released, its log has no traceback and grows
  little, and ``/healthz`` answers, names the problem where it can be detected, and is ok again soon.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from controller.model.fabric import Fabric, Switch
from emulation.errors import LabError
from emulation.http_client import HttpClient, NoResponseError
from emulation.lab import DEFAULT_CONTROLLER, Lab
from emulation.pings import Pair, Tally
from emulation.processes import POLL_SECONDS, Pauses
from tests.campaigns import rule_text
from tests.campaigns.attacks.capture import lldp_frames
from tests.campaigns.attacks.frames import AttackedHost
from tests.campaigns.attacks.kinds import LINGERING, AttackKind, drawn, generator
from tests.campaigns.attacks.order import AttackOrder
from tests.campaigns.attacks.results import AttackOutcome, AttackResult
from tests.campaigns.attacks.rogue_process import RogueProcess
from tests.campaigns.attacks.watch import (
    GIVE_UP_SECONDS,
    AttackWatch,
    reasons,
)
from tests.campaigns.faults import check
from tests.campaigns.faults.kinds import Fault
from tests.campaigns.faults.world import Broken, FaultLab
from tests.campaigns.process_usage import processor_seconds, resident

MB = 1 << 20
RIGHT_WITHIN = 15.0
"""Seconds after an attack within which all invariants hold, ``/healthz`` is ok, and memory is released."""
QUIET_WITHIN = 90.0
"""The same at the end of a campaign, until ``/healthz`` reports no attack any more."""
NOTHING = "(?!)"
LOOK_SECONDS = 0.5
"""Seconds between two checks of the rules during an attack."""
MOST_LOST = 0.002
"""Fraction of pings that may be lost: userspace switches on two shared cores lose a few without any attack."""
MOST_MEMORY = 320 * MB
"""Maximum increase over the memory before the first attack: one switch may answer 256 MiB to a request."""
MEMORY_KEPT = 128 * MB
"""The same, after an attack: memory that Python and the allocator keep after a peak, and learned state."""
MOST_LOG = 64 * 1024
"""Bytes by which the log may grow in a round, with a rate-limited line for each reported event."""
UNHEARD = 8.0
"""Seconds without an answer of ``/healthz`` that count as hanging. How fast it is otherwise is only reported."""
LIMITED = ("prlimit", "--nofile=1024:1024")
"""The controller may open as many files as a service may by default (systemd.exec(5), LimitNOFILE)."""
NOWHERE = ("127.0.0.1", 9)
"""Controller address of a disconnected switch, on which no process listens."""
CAPTURE_SECONDS = 2.0
TRACEBACK = re.compile(r"Traceback \(most recent call last\)|Exception ignored in|Segmentation fault")

Say = Callable[[str], None]
Held = dict[str, tuple[frozenset[object], frozenset[object]]]


class AttackCheckFailed(Exception):
    """A round failed; the message names the failure and the command that repeats the round."""


class AttackCampaign:
    """A controller on a running lab, and the rounds.

    Args:
        rogue: the host that attacks; all others are honest. ``None``: the last one.
        seconds: that each attack goes on.
        options: more arguments for ``ryu-manager``.
        keep_going: after a round that failed, start the controller anew and go on.
        discovered: the controller has no fabric file. Then an attack may add rules (a host that is made up is a host),
            but none may go while it lasts.
        patience: multiple of all time limits, for a machine that is busy with other work.
    """

    def __init__(
        self,
        lab: Lab,
        fabric: Fabric,
        seed: int,
        say: Say,
        *,
        seconds: float = 4.0,
        rogue: str | None = None,
        options: Sequence[str] = (),
        keep_going: bool = False,
        discovered: bool = False,
        patience: float = 1.0,
    ) -> None:
        """Prepare a campaign; ``seconds`` is the duration of each attack, ``rogue`` the name of the attacking host."""
        self.seed, self.outcome = seed, AttackOutcome()
        self._lab, self._fabric, self._say = lab, fabric, say
        self._seconds, self._keep_going = seconds, keep_going
        self._world = FaultLab(lab, fabric, tuple(options), prefix=LIMITED, discovered=discovered)
        self._discovered, self._patience = discovered, patience
        self._rogue = rogue or fabric.host_names[-1]
        self._frames: tuple[str, ...] = ()
        self._baseline = 0

    def run(
        self, rounds: Sequence[tuple[int, Sequence[AttackKind]]], *, quiet_at_the_end: bool = True
    ) -> AttackOutcome:
        """Run rounds and return their results.

        Args:
            rounds: number and attacks of each round.
            quiet_at_the_end: wait until ``/healthz`` reports nothing any more, which takes a minute.

        Raises:
            AttackCheckFailed: a round failed (and ``keep_going`` is not set), or the state before the first was wrong.
        """
        self._start()
        for number, kinds in rounds:
            result = self._round(number, list(kinds))
            self.outcome.results.append(result)
            self._say(self._line(result))
            if result.wrong and not self._keep_going:
                raise AttackCheckFailed(self._failure(result))
            if result.wrong:
                self._anew()
        if quiet_at_the_end:
            try:
                self._right(seconds=QUIET_WITHIN, lingering=NOTHING)
            except Broken as error:
                raise AttackCheckFailed(f"seed {self.seed}, after the last round: {error}") from None
        return self.outcome

    # -- before and between rounds -----------------------------------------------------------------------------

    def _start(self) -> None:
        self._world.wait_for_controller()
        try:
            self._right()
        except Broken as error:
            raise AttackCheckFailed(f"before the first attack: {error}") from None
        self._frames = lldp_frames(self._cables(), CAPTURE_SECONDS)
        self._lab.ping_all(self._pairs())
        self._baseline = resident(self._pid)

    def _anew(self) -> None:
        """Restart the controller, to go on with one that has not been attacked."""
        self._world.happen(Fault("controller killed"))
        self._start()

    @property
    def _pid(self) -> int:
        return self._world.controller.pid

    def _pairs(self) -> list[Pair]:
        return [pair for pair in self._lab.wiring.pairs() if self._rogue not in pair]

    def _cables(self) -> tuple[str, ...]:
        return tuple(self._lab.wiring.wire(name).b.interface for name in self._fabric.cable_names)

    def _right(self, *, seconds: float | None = None, lingering: str = LINGERING) -> None:
        """Wait until rules, plan and health are as they should be.

        Args:
            seconds: time limit, without the campaign's patience; by default ``RIGHT_WITHIN``.
            lingering: reasons that ``/healthz`` may still give (a regular expression).

        Raises:
            Broken: they are not within the time limit.
        """
        within = (RIGHT_WITHIN if seconds is None else seconds) * self._patience
        deadline, pauses = time.monotonic() + within, Pauses()
        while True:
            try:
                self._settled()
                check.reaches(self._world)
                now = self._world.get("/healthz")["reasons"]
                if others := [said for said in now if not re.search(lingering, said)]:
                    raise Broken(f"/healthz says: {'; '.join(others)}")
                return
            except Broken as error:
                if time.monotonic() > deadline:
                    raise Broken(f"not correct within {within:g} s: {error}") from None
            self._lab.ovs.try_again()
            pauses.sleep()

    def _settled(self) -> None:
        """Check that the switches hold the expected rules; without a fabric file, those of the controller's plan.

        Raises:
            Broken: they do not.
        """
        if not self._discovered:
            check.settled(self._world)
            return
        self._world.check_alive()
        # Hosts, including the attacking one, are discovered when they send packets.
        self._lab.ping_all(timeout=0.2)
        plan = self._world.get("/v1/plan")
        if plan["active"] is None or plan["active"]["epoch"] != plan["computed"]["epoch"]:
            raise Broken(f"plan {plan['computed']['epoch']} is not active")

    # -- a round -----------------------------------------------------------------------------------------------

    def _round(self, number: int, kinds: list[AttackKind]) -> AttackResult:
        rng = generator(self.seed, number)
        spines = rng.sample(self._fabric.spines, len(self._fabric.spines))
        # A spine for each attack that plays one. There are more of them, so every host still reaches every other.
        away = dict(zip([kind.name for kind in kinds if kind.away], spines, strict=False))
        honest = rng.choice(self._fabric.leaves)
        before, log = self._held(), self._log_size()
        processor, started = processor_seconds(self._pid), time.monotonic()
        wrong: list[str] = []
        self._point(away.values(), NOWHERE)
        give_up = GIVE_UP_SECONDS * self._patience
        with AttackWatch(self._lab, self._pairs(), self._world.controller.address, self._pid, give_up) as watch:
            orders = [self._order(number, kind, away.get(kind.name), honest) for kind in kinds]
            rogues = [RogueProcess(self._lab, order, f"round-{number}-{at}") for at, order in enumerate(orders)]
            looked = started
            while any(rogue.running() for rogue in rogues):
                if not away and not wrong and time.monotonic() - looked > LOOK_SECONDS:
                    wrong += self._changed(before, "during the attack")
                    looked = time.monotonic()
                time.sleep(POLL_SECONDS)
        self._point(away.values(), DEFAULT_CONTROLLER)
        if not away:
            wrong += self._changed(before, "after the attack")
        wrong += self._afterwards(kinds, watch, log)
        sent = ", ".join(rogue.counts() for rogue in rogues)
        share = (processor_seconds(self._pid) - processor) / (time.monotonic() - started)
        self._note = f"{sent}; {share:.2f} of a core"
        tally = watch.tally
        return AttackResult(
            number, tuple(kinds), tuple(wrong), watch.seen, sum(tally.lost.values()), sum(tally.sent.values())
        )

    def _afterwards(self, kinds: Sequence[AttackKind], watch: AttackWatch, log: int) -> list[str]:
        """Return which of the other invariants did not hold."""
        wrong = list(_lost(watch.tally))
        try:
            self._world.check_alive()
            with HttpClient(self._world.controller.address, timeout=GIVE_UP_SECONDS * self._patience) as client:
                reasons(client)
            self._right()
        except (Broken, LabError) as error:
            wrong.append(str(error))
        except (NoResponseError, ValueError) as error:
            wrong.append(f"/healthz does not answer: {error}")
        if (slowest := max(watch.seen.seconds, default=0.0)) > UNHEARD * self._patience:
            wrong.append(f"/healthz did not answer for {slowest:.1f} s")
        for kind in kinds:
            if kind.told and not any(re.search(kind.told, said) for said in watch.seen.said):
                wrong.append(f"/healthz did not tell of it (no reason matches {kind.told!r})")
        if watch.seen.most > self._baseline + MOST_MEMORY:
            wrong.append(f"memory rose by {(watch.seen.most - self._baseline) / MB:.0f} MB")
        elif not self._comes_back():
            wrong.append(f"memory stays {(resident(self._pid) - self._baseline) / MB:.0f} MB higher")
        return wrong + self._log_problems(log)

    def _comes_back(self) -> bool:
        deadline = time.monotonic() + RIGHT_WITHIN * self._patience
        while (over := resident(self._pid) > self._baseline + MEMORY_KEPT) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return not over

    def _point(self, switches: Iterable[Switch], controller: tuple[str, int]) -> None:
        for switch in switches:
            self._lab.ovs.point(self._lab.wiring.switch(switch.name), controller)

    def _order(self, number: int, kind: AttackKind, away: Switch | None, honest: Switch) -> AttackOrder:
        me, *_ = [host for host in self._fabric.hosts if host.name == self._rogue]
        stations = {host.name: self._station(host.name) for host in self._fabric.hosts}
        switches = {
            bridge.dpid: tuple(end.port for end in self._lab.wiring.ends(bridge.name))
            for bridge in self._lab.wiring.switches
        }
        name = kind.name.replace(" ", "-")
        return AttackOrder(
            attack=kind.name,
            seed=f"{self.seed}/{number}/{kind.name}",
            seconds=self._seconds,
            transcript=str(self.transcripts / f"round-{number}-{name}.txt"),
            openflow=DEFAULT_CONTROLLER,
            http=self._world.controller.address,
            host_pid=self._lab.host(me.name).pid,
            interface=self._lab.wiring.ends(me.name)[0].interface,
            me=stations.pop(me.name),
            victims=tuple(stations.values()),
            switches=switches,
            honest=honest.dpid,
            away=away.dpid if away else 0,
            cables=self._cables(),
            frames=self._frames,
        )

    @property
    def transcripts(self) -> Path:
        """Folder with the sent bytes of the attacks."""
        return self._lab.out / "transcripts"

    def _station(self, name: str) -> AttackedHost:
        (host,) = [host for host in self._fabric.hosts if host.name == name]
        wire = self._lab.wiring.wire(f"{host.name}-{host.leaf}")
        return AttackedHost(host.name, host.ip, host.mac, self._lab.wiring.switch(host.leaf).dpid, wire.b.port)

    # -- what is looked at -------------------------------------------------------------------------------------

    def _held(self) -> Held:
        return {
            switch: (
                frozenset(rule_text.held(self._lab, switch)),
                frozenset(rule_text.held_groups(self._lab, switch)),
            )
            for switch in self._world.state.switches
        }

    def _changed(self, before: Held, when: str) -> list[str]:
        now = self._held()
        changed = [
            f"{switch} ({len(before[switch][0] - now[switch][0])} rules gone, "
            f"{len(now[switch][0] - before[switch][0])} new, {len(before[switch][1] ^ now[switch][1])} groups)"
            for switch in before
            if (before[switch][0] - now[switch][0] if self._discovered else before[switch] != now[switch])
        ]
        return [f"rules {when} differ on {', '.join(changed)}"] if changed else []

    def _log_size(self) -> int:
        return self._lab.log_path("controller").stat().st_size

    def _log_problems(self, start: int) -> list[str]:
        with self._lab.log_path("controller").open("rb") as log:
            log.seek(start)
            text = log.read().decode(errors="replace")
        found = []
        if tracebacks := len(TRACEBACK.findall(text)):
            found.append(f"the log has {tracebacks} tracebacks")
        if len(text) > MOST_LOG:
            found.append(f"the log grew by {len(text) // 1024} KB")
        return found

    # -- what is told ------------------------------------------------------------------------------------------

    def _line(self, result: AttackResult) -> str:
        memory = (result.seen.most - self._baseline) / MB
        facts = f"{result.lost} of {result.pings} pings lost, /healthz p99 {result.seen.p99 * 1000:.0f} ms, "
        return f"{result}  ({facts}memory {memory:+.0f} MB at most; {self._note})"

    def _failure(self, result: AttackResult) -> str:
        steps = "\n".join(
            f"  {kind.name}: {self.transcripts}/round-{result.number}-{kind.name.replace(' ', '-')}.txt"
            for kind in result.kinds
        )
        wrong = "\n".join(f"  {text}" for text in result.wrong)
        names = " + ".join(kind.name for kind in result.kinds)
        again = f"make attack SEED={self.seed} ROUND={result.number}"
        if list(result.kinds) != drawn(self.seed, result.number):
            again = f"python -m tests.campaigns.attacks --seed {self.seed} --round {result.number} --kind '{names}'"
        return f"seed {self.seed}, round {result.number}: {names}\n{wrong}\nwhat was sent:\n{steps}\nagain: {again}"


def _lost(tally: Tally) -> list[str]:
    sent, lost = sum(tally.sent.values()), sum(tally.lost.values())
    if lost <= MOST_LOST * sent:
        return []
    pairs = ", ".join(f"{a} to {b}" for a, b in sorted(tally.unanswered)[:4])
    return [f"{lost} of {sent} pings lost ({pairs}{', ...' if len(tally.unanswered) > 4 else ''})"]
