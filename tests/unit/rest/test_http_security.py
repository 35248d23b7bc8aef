"""Security of listening addresses: beyond loopback only with tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.caller import Role
from controller.model.errors import InputError
from controller.rest.security.access import Open, TokenFile
from controller.rest.security.http_security import is_loopback, security_from
from controller.rest.security.tokens import new_token
from tests.rig.certificates import Authority


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    file = tmp_path / "tokens"
    file.write_text(new_token("a", Role.READ)[0].line())
    file.chmod(0o600)
    return str(file)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_on_loopback_tokens_are_a_choice(host: str, tokens: str) -> None:
    assert is_loopback(host)
    assert isinstance(security_from(host, "", "", "").access, Open)
    assert isinstance(security_from(host, tokens, "", "").access, TokenFile)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.0.2.1", "no such host"])
def test_beyond_loopback_tokens_are_required_and_the_error_names_the_options(host: str, tokens: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(InputError) as caught:
        security_from(host, "", "", "")
    assert caught.value.field == "wsapi_host"
    assert "fairspine token add" in str(caught.value)
    assert isinstance(security_from(host, tokens, "", "").access, TokenFile)


def test_certificates_of_agents_need_https_tokens_and_an_authority(tmp_path: Path, tokens: str) -> None:
    own = Authority(tmp_path / "ca").sign("c")
    nonsense, missing = tmp_path / "nonsense", str(tmp_path / "missing")
    nonsense.write_text("nonsense\n")
    pair = str(own.cert), str(own.key)
    for arguments, reason in (
        ((tokens, "", "", missing), "requires https_cert"),
        (("", *pair, missing), "requires tokens"),
        ((tokens, *pair, missing), "No such file"),
        ((tokens, *pair, str(nonsense)), "has no certificate of an authority"),
    ):
        with pytest.raises(InputError, match=reason) as caught:
            security_from("127.0.0.1", *arguments)
        assert (caught.value.field, caught.value.value) == ("agents_ca", arguments[3])
    assert security_from("127.0.0.1", tokens, *pair, str(tmp_path / "ca" / "ca.pem")).tls is not None


def test_files_that_cannot_be_used_are_one_line_that_names_the_option(tmp_path: Path, tokens: str) -> None:
    missing, nonsense = str(tmp_path / "missing"), str(tmp_path / "nonsense")
    Path(nonsense).write_text("nonsense\n")
    for arguments, field in (
        (("127.0.0.1", missing, "", ""), "tokens"),
        (("127.0.0.1", "", tokens, ""), "https_cert"),
        (("127.0.0.1", "", "", tokens), "https_key"),
        (("127.0.0.1", "", missing, tokens), "https_cert"),
        (("127.0.0.1", "", tokens, missing), "https_key"),
        (("127.0.0.1", "", nonsense, nonsense), "https_cert"),
        (("127.0.0.1", tokens, "", "", nonsense), "agents_ca"),
    ):
        with pytest.raises(InputError) as caught:
            security_from(*arguments)
        assert caught.value.field == field
