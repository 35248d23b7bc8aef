"""The addresses of servers on circuits.

Server i (from 0) owns 10.x.y.0/24 with x.y = i + 1. In it are an address for each tree to the server, and one for each
of its NICs, which the server at the other end of the circuit uses: a sender chooses the path of its bytes by the
address that it sends them to. What has no route of its own goes by the first tree, which leads to the whole prefix.
"""

from __future__ import annotations

from controller.circuits.fabric.optical_file import MAX_NICS, MAX_SERVERS
from controller.circuits.planning.split import MOST_PATHS

_OF_NICS = 128
"""The last byte of the addresses of NICs is this and the number of the NIC; those of trees begin with 1."""
assert MOST_PATHS < _OF_NICS
assert _OF_NICS + MAX_NICS < 255
assert MAX_SERVERS < 2**16


def tree_address(server: int, tree: int) -> str:
    """Return the address to which packets go by one of the trees to a server (its number in the fabric)."""
    return _address(server, 1 + tree)


def nic_address(server: int, nic: int) -> str:
    """Return the address to which packets go by the circuit that ends at a NIC of a server."""
    return _address(server, _OF_NICS + nic)


def prefix(server: int) -> str:
    """Return all addresses of a server."""
    return _address(server, 0) + "/24"


def halves(server: int) -> tuple[str, str]:
    """Return the two prefixes that together have all addresses of a server, and no route that leads to all of them."""
    return _address(server, 0) + "/25", _address(server, _OF_NICS) + "/25"


def mac(server: int, nic: int) -> str:
    """Return the Ethernet address of a NIC; a locally administered one."""
    return f"02:46:53:{nic:02x}:{(server + 1) >> 8:02x}:{(server + 1) & 255:02x}"


def _address(server: int, last: int) -> str:
    return f"10.{(server + 1) >> 8}.{(server + 1) & 255}.{last}"
