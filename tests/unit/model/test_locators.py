"""Locators and addresses of switches, and names of interfaces, in fabric files."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, parse_fabric
from tests.unit.model.router_files import router_document


def test_they_are_read_and_written_and_the_lower_end_keeps_its_own() -> None:
    fabric = parse_fabric(router_document())
    assert [each.locator for each in fabric.switches] == [f"fcbb:bb00:{n}::/48" for n in ("1", "2", "f00")]
    assert [(each.lower_interface, each.upper_interface) for each in fabric.cables] == [
        ("Ethernet4", "Ethernet0"),
        ("Ethernet4", "Ethernet4"),
    ]
    assert [each.interface for each in fabric.hosts] == ["Ethernet0"] * 2
    again = parse_fabric(fabric_document(fabric))
    assert (again, again.version) == (fabric, fabric.version)


def test_addresses_are_read_and_written_and_leave_the_version_as_it_is() -> None:
    before = parse_fabric(router_document())
    document = router_document()
    document["switches"][2]["addresses"] = ["10.255.0.1", "10.255.0.2"]
    fabric = parse_fabric(document)
    assert [each.addresses for each in fabric.switches] == [(), (), ("10.255.0.1", "10.255.0.2")]
    assert parse_fabric(fabric_document(fabric)) == fabric
    assert fabric.version == before.version


def test_a_fabric_with_none_has_the_version_that_it_had_before() -> None:
    text = repr(clos(1, 1, 1))
    assert "locator" not in text
    assert "interface" not in text


@pytest.mark.parametrize(
    ("table", "row", "key", "value", "message"),
    [
        (
            "switches",
            1,
            "locator",
            None,
            "switches[1].locator: field required (leaf2 has none, and other switches have",
        ),
        ("switches", 1, "locator", "x", "switches[1].locator: 'x': input is not a valid IPv6 prefix"),
        ("switches", 1, "locator", "fcbb:bb00:1::/48", "leaf1 and leaf2 have the same locator"),
        ("switches", 1, "locator", "fcbb:bb01:2::/48", "is not in fcbb:bb00::/32, the block of the first locator"),
        ("switches", 1, "locator", "fcbb:bb00::/48", "ids of switches are from 1 to 0xdfff; this one is 0x0"),
        ("switches", 1, "locator", "fcbb:bb00:e001::/48", "this one is 0xe001"),
        (
            "switches",
            0,
            "locator",
            "fcbb:bb00:1::/56",
            "switches[0].locator: 'fcbb:bb00:1::/56': a locator has 32, 48 or",
        ),
        (
            "hosts",
            0,
            "interface",
            "Ethernet4",
            "links[0].a_interface: 'Ethernet4': hosts[0].interface is the same",
        ),
        ("links", 1, "a_interface", "Ethernet0", "links[0].b_interface is the same of spine1"),
        ("switches", 1, "addresses", ["x"], "switches[1].addresses[0]: 'x'"),
        ("switches", 1, "addresses", ["10.0.1.1"], "'10.0.1.1': it is an address of h1, too"),
        ("switches", 1, "addresses", ["10.9.0.1"] * 2, "addresses[1]: '10.9.0.1': it is an address of leaf2, too"),
        ("links", 1, "a_interface", "a b", "links[1].a_interface: 'a b'"),
    ],
)
def test_what_cannot_be_used_is_refused(table: str, row: int, key: str, value: Any, message: str) -> None:
    changed = router_document()
    changed[table][row][key] = value
    with pytest.raises(InputError) as refused:
        parse_fabric(changed)
    assert message in str(refused.value)
