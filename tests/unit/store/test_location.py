"""Location of the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import URL

from controller.model.errors import InputError
from controller.store.location import default_url, parse, shown, without_secrets


@pytest.mark.parametrize(
    ("environment", "file"),
    [
        ({"STATE_DIRECTORY": "/var/lib/fairspine", "HOME": "/root"}, "/var/lib/fairspine/fairspine.db"),
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a/fairspine.db"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/root"}, "/state/fairspine/fairspine.db"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/root"}, "/root/.local/state/fairspine/fairspine.db"),
        ({"STATE_DIRECTORY": "", "HOME": "/home/o'neill"}, "/home/o'neill/.local/state/fairspine/fairspine.db"),
    ],
)
def test_who_names_no_store_gets_one_in_the_state_folder(environment: dict[str, str], file: str) -> None:
    assert parse(default_url(environment)).database == file


def test_without_any_folder_the_store_has_to_be_named() -> None:
    with pytest.raises(InputError, match="set the option store"):
        default_url({})


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_way_to_write_a_postgresql_url_means_the_same(scheme: str) -> None:
    assert parse(f"{scheme}://me@db/fabric").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "/var/lib/x.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/x.db",
        "sqlite:////x.db?mode=memory",
        "sqlite:///file:x",
        "sqlite:////x\0y",
        "mysql://me@db/fabric",
        "postgresql://me@db",
        "postgresql+asyncpg://me@db/x",
        "postgresql://me@db:port/x",
        "sqlite+aiosqlite:////x",
    ],
)
def test_what_is_no_store_is_one_clear_error(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert error.value.field == "store"


SECRETS = st.text(st.characters(categories=["L", "N", "P", "Z"]), min_size=6).filter(lambda s: s not in "postgresql://")


@given(SECRETS)
def test_a_url_for_people_has_no_password(secret: str) -> None:
    plain = URL.create("postgresql", "me", host="db", database="fabric")
    url = plain.set(password=secret, query={"sslpassword": secret + "2"})
    assert shown(url) == shown(plain) == "postgresql://me@db/fabric"
    assert secret not in without_secrets(f"failed: {secret}\nand {secret}2", url)


@given(st.text(min_size=1))
def test_no_error_repeats_a_url_that_may_hold_a_password(text: str) -> None:
    try:
        parse(f"what://me:sEcReT{text}@db/x?password=sEcReT")
    except InputError as error:
        assert "sEcReT" not in str(error)
