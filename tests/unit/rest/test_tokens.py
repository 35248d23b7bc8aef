"""Tokens: what is in the file, who is let in, and what happens when the file changes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.caller import Caller, Quota, Role
from controller.model.errors import InputError
from controller.rest.problems import ProblemError
from controller.rest.resources import RESOURCES
from controller.rest.security.access import TokenFile
from controller.rest.security.tokens import PREFIX, Token, holder, new_token, parse_tokens, read_tokens
from tests.unit.rest.asking import BY_NAME, Reply, example_query, problem
from tests.unit.rest.asking import ask as ask_resource

NAMES = st.text("ab-_.9", min_size=1, max_size=63)


def write(path: Path, *tokens: Token) -> None:
    text = "# a comment\n\n" + "".join(f"{token.line()}\n" for token in tokens)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)


@given(st.lists(st.tuples(NAMES, st.sampled_from(Role)), unique_by=lambda pair: pair[0], max_size=5))
def test_a_secret_leads_to_its_own_token_and_is_not_in_the_file(pairs: list[tuple[str, Role]]) -> None:
    made = [new_token(name, role, "h1" if role is Role.HOST else None) for name, role in pairs]
    text = "\n".join(token.line() for token, _ in made)
    tokens = parse_tokens(text)
    assert [(token.name, token.role) for token in tokens] == pairs
    for token, secret in made:
        assert secret.startswith(PREFIX)
        assert holder(tokens, secret) == token
        assert secret not in text
        assert holder(tokens, secret[:-1]) is None
        assert holder(tokens, token.digest) is None


@pytest.mark.parametrize(
    "line",
    ["a write", "a admin sha256:" + "0" * 64, "a write sha256:" + "0" * 63, "a write md5:" + "0" * 64, "hunter2-secret"]
    + [f"a {role} sha256:" + "0" * 64 for role in ("host", "host:", "write:h1", "read:")]
    + [f"a write sha256:{'0' * 64} {words}" for words in ("jobs=", "jobs=-1", "jobs=1 jobs=2", "flows=3", "hunter2")]
    + [f"a write sha256:{'0' * 64} {words}" for words in ("tenant=", "tenant=a tenant=a", "tenant=a b")]
    + [f"a {role} sha256:{'0' * 64} {word}" for word in ("jobs=1", "tenant=a") for role in ("read", "host:h1")]
    + [f"{name} read sha256:" + "0" * 64 for name in ("anonymous", "a/b", "é", "a" * 64)],
)
def test_a_wrong_line_is_reported_by_its_number_and_never_shown(line: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_tokens(f"# first\n{line}\n", "tokens")
    assert str(caught.value).startswith("tokens: line 2: ")
    assert "hunter2" not in str(caught.value)


@given(st.none() | st.integers(0, 9_999_999), st.none() | st.integers(0, 9_999_999))
def test_a_quota_is_in_the_file_and_in_the_caller(jobs: int | None, changes: int | None) -> None:
    token, _ = new_token("a", Role.WRITE, quota=Quota(jobs, changes))
    assert parse_tokens(token.line()) == (token,)
    assert token.line().count("=") == sum(limit is not None for limit in (jobs, changes))


@pytest.mark.parametrize(("role", "host"), [(Role.READ, None), (Role.HOST, "h1")])
def test_a_quota_of_a_token_that_changes_nothing_is_refused(role: Role, host: str | None) -> None:
    with pytest.raises(InputError, match="a quota is for tokens that change something"):
        new_token("a", role, host, Quota(jobs=1))


@given(st.text("ab-_.9é=", min_size=1), st.none() | st.integers(0, 9))
def test_a_tenant_is_in_the_file_beside_a_quota(tenant: str, jobs: int | None) -> None:
    token, _ = new_token("a", Role.WRITE, quota=Quota(jobs), tenant=tenant)
    assert parse_tokens(token.line()) == (token,)
    assert token.tenant == tenant


@pytest.mark.parametrize(
    ("role", "host", "tenant"), [(Role.READ, None, "a"), (Role.HOST, "h1", "a"), (Role.WRITE, None, "a b")]
)
def test_a_tenant_of_a_token_that_changes_nothing_and_one_with_blanks_are_refused(
    role: Role, host: str | None, tenant: str
) -> None:
    with pytest.raises(InputError, match="tenant"):
        new_token("a", role, host, tenant=tenant)


def test_a_name_twice_and_a_file_that_others_may_write_are_refused(tmp_path: Path) -> None:
    token, _ = new_token("a", Role.READ)
    with pytest.raises(InputError, match="twice"):
        parse_tokens(f"{token.line()}\n{token.line()}\n")
    file = tmp_path / "tokens"
    write(file, token)
    assert read_tokens(file) == (token,)
    file.chmod(0o620)
    with pytest.raises(InputError, match="chmod go-w"):
        read_tokens(file)
    with pytest.raises(InputError, match="No such file"):
        TokenFile(tmp_path / "none")


def ask(access: TokenFile, resource: str, method: str, authorization: str | None) -> Reply:
    headers = {"Content-Type": "application/json"} if method == "POST" else {}
    headers |= {} if authorization is None else {"Authorization": authorization}
    query = example_query(BY_NAME[resource].operations[method])
    return ask_resource(resource, method, query=query, headers=headers, body=b'{"mode": "ecmp"}', access=access)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


OPERATIONS = [
    (resource.name, method, operation.role, operation.open)
    for resource in RESOURCES
    for method, operation in resource.operations.items()
]


@pytest.mark.parametrize(("resource", "method", "role", "is_open"), OPERATIONS)
def test_every_operation_wants_a_token_and_changes_want_one_that_may_write(
    file: Path, resource: str, method: str, role: Role, is_open: bool
) -> None:
    (reader, reads), (writer, writes) = new_token("r", Role.READ), new_token("w", Role.WRITE)
    write(file, reader, writer)
    access = TokenFile(file)
    for authorization in (None, "", "Bearer", "Basic dTpw", "Bearer nonsense", f"Bearer {reads}x", f"Bearer {reads} x"):
        refused = ask(access, resource, method, authorization)
        if is_open:
            assert refused.body == b'{"status":"ok"}'
            continue
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"].startswith("Bearer realm=")
        assert reads.encode() not in refused.body
    for secret, may_write in ((reads, False), (writes, True)):
        response = ask(access, resource, method, f"bearer  {secret}")
        if may_write or role is Role.READ:
            assert response.status not in (401, 403)
        else:
            assert response.status == 403
            assert "insufficient_scope" in response.headers["WWW-Authenticate"]
            assert problem(response).detail == "the role of token r is read"


@pytest.mark.parametrize(("resource", "method", "role", "is_open"), OPERATIONS)
def test_the_token_of_a_tenant_reads_all_and_asks_for_changes_of_jobs_alone(
    file: Path, resource: str, method: str, role: Role, is_open: bool
) -> None:
    token, secret = new_token("t", Role.WRITE, tenant="a")
    write(file, token)
    access = TokenFile(file)
    assert access.caller(f"Bearer {secret}") == Caller("t", Role.WRITE, tenant="a")
    response = ask(access, resource, method, f"Bearer {secret}")
    if role is Role.READ or (resource, method) in (("job", "PUT"), ("job", "DELETE")):
        assert response.status not in (401, 403)
    else:
        assert response.status == 403
        assert problem(response).detail == "token t is that of tenant a, which changes nothing but its jobs"


REPLICA_OPERATIONS = {("relay", "POST"), ("plans_version", "GET")}
HOST_OPERATIONS = [
    (resource.name, method)
    for resource in RESOURCES
    for method, operation in resource.operations.items()
    if operation.of_host
]


@pytest.mark.parametrize(("resource", "method", "role", "is_open"), OPERATIONS)
def test_the_agent_of_a_host_reads_and_reports_that_host_and_nothing_else(
    file: Path, resource: str, method: str, role: Role, is_open: bool
) -> None:
    token, secret = new_token("agent", Role.HOST, "h1")
    write(file, token)
    access = TokenFile(file)
    assert access.caller(f"Bearer {secret}") == Caller("agent", Role.HOST, hosts=("h1",))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
    refused = ask_resource(resource, method, headers=headers, access=access, host="h2")
    if is_open:
        assert refused.body == b'{"status":"ok"}'
        return
    if (resource, method) in REPLICA_OPERATIONS:
        # They tell nothing of a host: test_relay.py has what each request in them may.
        assert refused.status in (200, 422)
        return
    assert refused.status == 403
    assert problem(refused).detail == (
        "token agent is that of the agent of host h1, which reads and reports only itself"
    )
    if (resource, method) in HOST_OPERATIONS:
        own = ask_resource(resource, method, headers=headers, body=b'{"epoch": null}', access=access, host="h1")
        assert own.status in (200, 204)


@pytest.mark.parametrize(("resource", "method", "role", "is_open"), OPERATIONS)
def test_a_certificate_has_the_rights_of_the_hosts_whose_names_are_in_it(
    file: Path, resource: str, method: str, role: Role, is_open: bool
) -> None:
    write(file)
    access, headers = TokenFile(file), {"Content-Type": "application/json"}
    refused = ask_resource(resource, method, headers=headers, access=access, certified=("h1", "h3"), host="h2")
    if is_open:
        assert refused.body == b'{"status":"ok"}'
        return
    assert refused.status == 403
    assert problem(refused).detail == (
        "the certificate of h1 is that of the agent of host h1, h3, which reads and reports only itself"
    )
    if (resource, method) in HOST_OPERATIONS:
        for host in ("h1", "h2"):
            own = ask_resource(
                resource, method, headers=headers, body=b'{"epoch": null}', access=access, certified=(host,), host=host
            )
            assert own.status in (200, 204)


def test_a_token_decides_where_there_is_a_certificate_too(file: Path) -> None:
    token, secret = new_token("reader", Role.READ)
    write(file, token)
    for sent, status in ((secret, 200), ("wrong", 401)):
        headers = {"Authorization": f"Bearer {sent}"}
        reply = ask_resource("jobs", headers=headers, access=TokenFile(file), certified=("h1",))
        assert reply.status == status


def test_a_token_of_a_host_needs_one_and_no_other_token_has_one() -> None:
    for role, host, message in (
        (Role.HOST, None, "role: 'host': needs the name of the host"),
        (Role.READ, "h1", "host: 'h1': names the host of an agent (role host)"),
        (Role.HOST, "h 1", "host: 'h 1': in a token, the name of a host has no blanks"),
    ):
        with pytest.raises(InputError) as refused:
            new_token("a", role, host)
        assert str(refused.value) == message


def test_whose_token_it_was_goes_with_every_change(file: Path) -> None:
    token, secret = new_token("slurm", Role.WRITE)
    write(file, token)
    assert TokenFile(file).caller(f"Bearer {secret}") == Caller("slurm", Role.WRITE)


def test_a_changed_file_counts_at_once_and_a_broken_one_leaves_things_as_they_were(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (first, one), (second, two) = new_token("one", Role.READ), new_token("two", Role.READ)

    def works(secret: str) -> bool:
        try:
            access.caller(f"Bearer {secret}")
        except ProblemError:
            return False
        return True

    write(file, first)
    access = TokenFile(file)
    assert (works(one), works(two)) == (True, False)
    write(file, second)
    assert (works(one), works(two)) == (False, True)
    os.truncate(file, 10)
    file.write_text(f"leaked {two}\n")
    assert all(works(two) for _ in range(5))
    file.unlink()
    assert all(works(two) for _ in range(5))
    write(file, first, second)
    assert (works(one), works(two)) == (True, True)
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "ERROR", "INFO"]
    assert one not in caplog.text
    assert two not in caplog.text
