"""Files of BGP sessions: what they say, and the one line for what cannot be used."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.southbound.bgp.sessions_file import BgpSession, load_sessions, read_sessions, sessions_of
from controller.southbound.srv6.bgp_configuration import CONTROLLER_AS, as_numbers
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(2, 2, 1))
BLOCK = "fcbb:bb00::/32"


def test_addresses_suffice_and_the_rest_is_that_of_exported_configurations(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text("routers:\n  leaf1: fd00:6d67::1\n  spine2: {address: 192.0.2.1, as: 65000, port: 1790}\n")
    sessions = load_sessions(file, FABRIC)
    assert sessions.sessions == (
        BgpSession("leaf1", IPv6Address("fd00:6d67::1"), as_numbers(FABRIC)["leaf1"]),
        BgpSession("spine2", IPv4Address("192.0.2.1"), 65000, 1790),
    )
    assert sessions.asn == CONTROLLER_AS
    assert sessions.asns(FABRIC) == as_numbers(FABRIC) | {"spine2": 65000}
    assert sessions_of(str(file), BLOCK, FABRIC) == sessions
    assert sessions_of("", BLOCK, FABRIC) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "document: []: must be an object"),
        ({}, "routers: needs the addresses of routers, by their names"),
        ({"routers": {"leaf1": "fd00::1"}, "ass": 1}, "ass: unknown; there are as, router_id, routers"),
        ({"routers": {"leaf9": "fd00::1"}}, "routers.leaf9: 'leaf9': no router of the fabric file has this name"),
        ({"routers": {"leaf1": "fd00::1/64"}}, "routers.leaf1.address: 'fd00::1/64': is not an IP address"),
        ({"routers": {"leaf1": 7}}, "routers.leaf1.address: 7: is not an IP address"),
        ({"routers": {"leaf1": "fe80::1"}}, "routers.leaf1.address: 'fe80::1': is no address by which a router"),
        ({"routers": {"leaf1": "::1", "leaf2": "::1"}}, "routers.leaf2.address: '::1': leaf1 has the same address"),
        ({"routers": {"leaf1": {"address": "::1", "as": 0}}}, "routers.leaf1.as: 0: must be a number from 1 to"),
        ({"routers": {"leaf1": {"address": "::1", "as": 9}}, "as": 9}, "routers.leaf1.as: 9: is the AS number of the"),
        ({"routers": {"leaf1": {"address": "::1", "port": 70000}}}, "routers.leaf1.port: 70000: must be a number"),
        ({"routers": {"leaf1": {"adress": "::1"}}}, "routers.leaf1.adress: unknown; there are address, as, port"),
        ({"routers": {"leaf1": "::1"}, "router_id": "::2"}, "router_id: '::2': must be like an IPv4 address"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(document: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_sessions(document, FABRIC)
    assert str(error.value).startswith(message)
    file = tmp_path / "sessions.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        load_sessions(file, FABRIC)
    assert str(error.value).startswith(f"{file}: {message}")
    assert "\n" not in str(error.value)


def test_sessions_need_a_fabric_file_with_routers() -> None:
    for fabric in (None, clos(2, 2, 1)):
        with pytest.raises(InputError, match=r"bgp_sessions: 'x.yaml': needs a fabric file with routers"):
            sessions_of("x.yaml", BLOCK, fabric)
