"""A real controller of routers, honest agents of all hosts but one, and what that one may try with its own token."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import yaml

from controller.core.caller import Role
from controller.model.fabric import Fabric, Switch
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.rest.security.tokens import new_token
from tests.rig.http.client import Reply, Server
from tests.rig.real_controller import controller
from tests.rig.waiting import eventually

_CLOS = clos(2, 2, 2)
FABRIC = Fabric(
    tuple(tuple(Switch.router(each.name) for each in layer) for layer in _CLOS.layers), _CLOS.hosts, _CLOS.cables
)
ROGUE = "h1"
OPERATOR = "ops"
TRIES = 30
WAITING = 200
REFUSED = {400, 403, 404, 413, 422}
"""Statuses with which the controller refuses what an attacker sends; a server error is a failure."""


class CheckFailedError(AssertionError):
    """An attack has changed something that it must not."""


class HostRoleCampaign:
    """Attacks of one agent, one after the other, each followed by checks.

    Attributes:
        rng: from which everything is drawn.
        answers: statuses that the attacker was answered with, and how often.
    """

    def __init__(self, server: Server, secrets: dict[str, str], seed: int) -> None:
        """Push the first job; ``secrets``: the token of each host, and of the operator."""
        self.rng, self.answers = random.Random(seed), Counter[int]()
        self._server, self._secrets = server, secrets
        self._numbers, self._bytes = Counter[str](), 10**6
        self._sent: list[dict[str, Any]] = []
        self._push()

    def round(self, attack: str) -> str:
        """Carry out an attack and check what it must not change; return what it has changed, or nothing."""
        plans = {host: self._plan(host) for host in FABRIC.host_names if host != ROGUE}
        try:
            _ATTACKS[attack](self)
            for host, plan in plans.items():
                self._check(self._plan(host) == plan, f"the plan of {host} is another one")
            self._check_cables()
            # A new plan still becomes active, by what each agent itself confirms.
            self._push()
            self._check_cables()
        except (CheckFailedError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    # -- attacks -------------------------------------------------------------------------------------------------

    def other_hosts(self) -> None:
        """Ask and report in the name of others."""
        for host in FABRIC.host_names[1:]:
            for method, target in (("GET", "segments"), ("GET", "table"), ("GET", "samples"), ("POST", "report")):
                reply = self._as_rogue(method, f"/v1/hosts/{host}/{target}", self._report(host))
                self._check(reply.status == 403, f"{method} {target} of {host} is answered with {reply.status}")
        for method, target in (("GET", "/v1/plan"), ("GET", "/v1/routes?host=h1"), ("DELETE", "/v1/jobs/ring")):
            self._check(self._as_rogue(method, target).status == 403, f"{method} {target} is not refused")

    def relayed_requests(self) -> None:
        """Ask and report in the name of others as a replica does that relays the requests of many agents."""
        before = self._confirmed()
        for _ in range(TRIES):
            hosts = [self.rng.choice(FABRIC.host_names) for _ in range(self.rng.randint(1, 20))]
            rows = [self._relayed(host) for host in hosts]
            reply = self._as_rogue("POST", "/v1/hosts:relay", {"requests": rows})
            if reply.status != 200:
                continue
            answers = json.loads(reply.body)["answers"]
            self._check(len(answers) == len(rows), "answers are missing")
            for row, answer in zip(rows, answers, strict=True):
                own = row["host"] == ROGUE and row["authorization"] == f"Bearer {self._secrets[ROGUE]}"
                refused = answer["status"] == "refused"
                self._check(own or refused, f"{row['host']} is answered by another token: {answer['status']}")
        self._confirm(ROGUE)
        self._check(self._confirmed() == before, "a report in the name of others counts")

    def _relayed(self, host: str) -> dict[str, Any]:
        """A request for a host with the token of the rogue, that of nobody, or none; its report confirms no plan."""
        report = {**self._report(host), "epoch": None, "digest": None}
        tokens = [f"Bearer {self._secrets[ROGUE]}", f"Bearer {self.rng.getrandbits(128):x}", "Basic x", "", None]
        return {
            "host": host,
            "authorization": self.rng.choice(tokens),
            "form": self.rng.choice(["rows", "table"]),
            "report": self.rng.choice([None, json.dumps(report), "{"]),
            "asks": self.rng.random() < 0.8,
        }

    def false_deaths(self) -> None:
        """Accuse all paths, those of others too, with forged errors of routers."""
        for _ in range(TRIES):
            report = self._report(ROGUE)
            report["dead"] = [
                {
                    "carrier": self._address(),
                    "since": self.rng.random() * 100,
                    "evidence": self.rng.choice(["icmp", "probe"]),
                    "at": self.rng.choice([None, self._address()]),
                }
                for _ in range(self.rng.randint(1, 50))
            ]
            for each in report["bypasses"]:
                each["came_back"] = self.rng.random() < 0.5
            self._as_rogue("POST", f"/v1/hosts/{ROGUE}/report", report)
            self._check_cables()
        self._as_rogue("POST", f"/v1/hosts/{ROGUE}/report", self._report(ROGUE))

    def forged_epochs(self) -> None:
        """Claim to hold plans that do not exist, or in other words than theirs."""
        for _ in range(TRIES):
            report = self._report(ROGUE)
            report["epoch"] = self.rng.choice([0, report["epoch"] + self.rng.randint(1, 2**40), None])
            report["digest"] = self.rng.choice([None, f"{self.rng.getrandbits(64):016x}"])
            taken = self._as_rogue("POST", f"/v1/hosts/{ROGUE}/report", report).status == 204
            self._check(not taken or self._confirmed() < len(FABRIC.host_names), "a plan that nobody has is confirmed")
        self._confirm(ROGUE)

    def replayed_reports(self) -> None:
        """Send earlier reports again, which confirm earlier plans and accuse paths."""
        self._confirm(ROGUE)
        before = self._confirmed()
        for report in self._sent[-TRIES:-1]:
            self._as_rogue("POST", f"/v1/hosts/{ROGUE}/report", report)
        self._check(self._confirmed() == before, "an earlier report counts")

    def mutated_reports(self) -> None:
        """Send reports with members missing, doubled, of other types and sizes."""
        for _ in range(TRIES):
            text = json.dumps(self._report(ROGUE))
            for _ in range(self.rng.randint(1, 4)):
                at = self.rng.randrange(len(text))
                text = text[:at] + self.rng.choice(["", '"', "{", "]", "1e999", "\\u0000", "null,"]) + text[at + 1 :]
            self._as_rogue("POST", f"/v1/hosts/{ROGUE}/report", body=text.encode("utf-8", "replace"))

    def endless_waits(self) -> None:
        """Wait for plans in many connections, and never read the answers."""
        head = f"Host: 127.0.0.1:{self._server.port}\r\nAuthorization: Bearer {self._secrets[ROGUE]}\r\n\r\n"
        asked = f"GET /v1/hosts/{ROGUE}/segments?after={2**40}&digest={0:016x}&wait=60 HTTP/1.1\r\n{head}"
        waiting = []
        try:
            for _ in range(WAITING):
                with suppress(OSError):
                    waiting.append(self._server.raw(asked.encode()))
            # Others are answered meanwhile.
            for host in FABRIC.host_names[1:]:
                self._confirm(host)
        finally:
            for each in waiting:
                each.close()

    # -- honest hosts --------------------------------------------------------------------------------------------

    def _push(self) -> None:
        """Push another job of all hosts, and let all agents confirm its plan."""
        self._bytes += 1
        job = {
            "hosts": list(FABRIC.host_names),
            "collectives": [{"name": "ring", "op": "all_reduce", "ranks": [0, 2, 1, 3], "bytes": self._bytes}],
        }
        reply = self._ask(OPERATOR, "PUT", "/v1/jobs/ring", job)
        self._check(reply.status in (200, 201), f"a job is answered with {reply.status}")
        epoch = self._body("/v1/plan")["computed"]["epoch"]

        def active() -> bool:
            for host in FABRIC.host_names:
                self._confirm(host)
            health = self._body("/healthz")
            return bool(health["status"] == "ok" and (health["active_epoch"] or 0) >= epoch)

        eventually(active, "all agents have confirmed the new plan, and all is well", shown=self._health)

    def _confirm(self, host: str) -> None:
        reply = self._ask(host, "POST", f"/v1/hosts/{host}/report", self._report(host))
        self._check(reply.status == 204, f"an honest report of {host} is answered with {reply.status}")

    def _report(self, host: str) -> dict[str, Any]:
        """An honest report of a host: its kernel holds its plan, and all probes have come back."""
        plan = json.loads(self._plan(host))
        self._numbers[host] += 1
        probes = [*plan["probes"], *(flow["carrier"] for flow in plan["flows"])]
        report = {
            "epoch": plan["epoch"],
            "digest": plan["digest"],
            "round_trips": [{"carrier": probe, "median_us": 100, "lost": 0} for probe in probes],
            "bypasses": [{"probe": probe, "came_back": False} for probe in plan["bypass_probes"]],
            "run": f"{FABRIC.host_index[host]:016x}",
            "number": self._numbers[host],
        }
        if host == ROGUE:
            self._sent.append(dict(report))
        return report

    def _plan(self, host: str) -> bytes:
        return self._ask(host, "GET", f"/v1/hosts/{host}/segments").body

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_cables(self) -> None:
        down = [link["id"] for link in self._body("/v1/fabric")["links"] if not link["up"]]
        self._check(not down, f"down are {', '.join(down)}")

    def _confirmed(self) -> int:
        return int(self._body("/healthz")["agents"]["confirmed"])

    def _health(self) -> Any:
        return self._body("/healthz")

    def _body(self, target: str) -> Any:
        return json.loads(self._ask(OPERATOR, "GET", target).body)

    @staticmethod
    def _check(holds: bool, otherwise: str) -> None:
        if not holds:
            raise CheckFailedError(otherwise)

    # -- requests ------------------------------------------------------------------------------------------------

    def _as_rogue(self, method: str, target: str, document: Any = None, *, body: bytes | None = None) -> Reply:
        reply = self._ask(ROGUE, method, target, document, body=body)
        self.answers[reply.status] += 1
        self._check(reply.status < 300 or reply.status in REFUSED, f"{method} {target}: {reply.status}")
        return reply

    def _ask(self, who: str, method: str, target: str, document: Any = None, *, body: bytes | None = None) -> Reply:
        sent = json.dumps(document).encode() if body is None and document is not None and method != "GET" else body
        headers = {"Authorization": f"Bearer {self._secrets[who]}"}
        headers |= {"Content-Type": "application/json"} if sent else {}
        return self._server.ask(method, target, sent, headers)

    def _address(self) -> str:
        """A carrier or probe of the rogue, one of another host, or any address of the block."""
        plan = json.loads(self._plan(self.rng.choice(FABRIC.host_names)))
        own = [
            *plan["probes"],
            *(flow["carrier"] for flow in plan["flows"]),
            *(d["carrier"] for d in plan["destinations"]),
        ]
        if self.rng.random() < 0.7:
            return str(self.rng.choice(own))
        value = int(IPv6Address(self.rng.choice(own)))
        return str(IPv6Address(value ^ self.rng.getrandbits(80)))


_ATTACKS: dict[str, Callable[[HostRoleCampaign], None]] = {
    "requests for other hosts": HostRoleCampaign.other_hosts,
    "relayed requests": HostRoleCampaign.relayed_requests,
    "false deaths of paths": HostRoleCampaign.false_deaths,
    "forged epochs": HostRoleCampaign.forged_epochs,
    "replayed reports": HostRoleCampaign.replayed_reports,
    "mutated reports": HostRoleCampaign.mutated_reports,
    "endless waits": HostRoleCampaign.endless_waits,
}
ATTACKS = tuple(_ATTACKS)


@contextmanager
def host_role_campaign(folder: Path, seed: int) -> Iterator[HostRoleCampaign]:
    """Start a controller with a token for each host; it must end cleanly and without a traceback."""
    made = {name: new_token(name, Role.HOST, name) for name in FABRIC.host_names}
    made[OPERATOR] = new_token(OPERATOR, Role.WRITE, None)
    tokens, file = folder / "tokens", folder / "fabric.yaml"
    tokens.write_text("".join(f"{token.line()}\n" for token, _ in made.values()))
    file.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    secrets = {name: secret for name, (_, secret) in made.items()}
    options = ("--fabric", str(file), "--enforcement", "srv6", "--tokens", str(tokens))
    with controller(folder, *options, secret=secrets[OPERATOR]) as (server, _):
        yield HostRoleCampaign(server, secrets, seed)
