"""Schemathesis against the real controller: requests made up from its own OpenAPI document, valid and not.

The runs are repeatable: the seed and the number of requests are fixed here. Try more of them, or other ones, with
``SCHEMATHESIS_SEED`` and ``SCHEMATHESIS_EXAMPLES``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from tests.documented import ROOT
from tests.rig.real_controller import controller

FABRIC = {"clos": {"spines": 2, "leaves": 4, "hosts_per_leaf": 4, "uplink_gbps": 100}}
"""All names of the examples in the description, and few pairs of failures: each costs a plan."""
SEED = os.environ.get("SCHEMATHESIS_SEED", "7")
FEW_EXAMPLES = "8"
EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", FEW_EXAMPLES)


@pytest.mark.parametrize("secured", [False, True], ids=["open", "with tokens"])
def test_no_request_that_the_description_suggests_is_answered_wrongly(tmp_path: Path, secured: bool) -> None:
    (tmp_path / "fabric.yaml").write_text(json.dumps(FABRIC))
    options, headers, secret = ["--fabric", str(tmp_path / "fabric.yaml")], [], ""
    hooks = {"SCHEMATHESIS_HOOKS": "tests.rig.http.schemathesis_hooks"}
    if secured:
        token, secret = new_token("schemathesis", Role.WRITE)
        tokens = tmp_path / "tokens"
        tokens.write_text(token.line())
        tokens.chmod(0o600)
        options += ["--tokens", str(tokens)]
        headers = ["--header", f"Authorization: Bearer {secret}"]
        # What covers every field of every operation takes most of the time, and tokens make no difference to it.
        # The other phases try previews of all kinds of jobs here.
        headers += ["--phases", "examples,fuzzing,stateful"]
    else:
        hooks["SCHEMATHESIS_JOBS_ONCE"] = "1"
        if EXAMPLES == FEW_EXAMPLES:
            # Nor do they to what is made up at random, or in the order in which answers lead to other requests.
            headers += ["--phases", "examples,coverage"]
    with controller(tmp_path, *options, secret=secret) as (server, _):
        st = [
            str(Path(sys.executable).with_name("st")),
            "--config-file",
            str(Path(__file__).with_name("schemathesis.toml")),
        ]
        st += ["run", f"http://127.0.0.1:{server.port}/openapi.json", *headers, "--checks", "all"]
        # A stream of events has no end: test_http_limits.py reads some.
        st += ["--seed", SEED, "--max-examples", EXAMPLES, "--exclude-path", "/v1/events", "--request-timeout", "120"]
        # No limit of its own on the time of an answer: a machine may be busy with other work.
        st += ["--max-response-time", "120", "--generation-database", "none", "--continue-on-failure", "--no-color"]
        env = os.environ | hooks | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(st, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=800, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        operations = re.search(r"Operations: +(\d+) selected / (\d+) total", done.stdout)
        assert operations, done.stdout
        selected, total = map(int, operations.groups())
        # All but the stream of events.
        assert 20 <= selected == total - 1, done.stdout
        if secured:
            assert secret not in server.log
