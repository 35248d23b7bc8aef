"""The addresses of servers on circuits.

A server has an address for each tree to it, and one for each of its NICs, which the server at the other end of the
circuit uses: a sender chooses the path of its bytes by the address that it sends them to.
"""

from __future__ import annotations

from controller.circuits.fabric.optical_file import MAX_NICS, MAX_SERVERS
from controller.circuits.planning.split import MOST_PATHS

_OF_NICS = 128
"""The second byte of the addresses of NICs is this and the number of the NIC."""
assert MOST_PATHS <= _OF_NICS
assert _OF_NICS + MAX_NICS <= 256
assert MAX_SERVERS < 2**16


def tree_address(server: int, tree: int) -> str:
    """Return the address to which packets go by one of the trees to a server (its number in the fabric)."""
    return _address(tree, server)


def nic_address(server: int, nic: int) -> str:
    """Return the address to which packets go by the circuit that ends at a NIC of a server."""
    return _address(_OF_NICS + nic, server)


def mac(server: int, nic: int) -> str:
    """Return the Ethernet address of a NIC; a locally administered one."""
    return f"02:46:53:{nic:02x}:{(server + 1) >> 8:02x}:{(server + 1) & 255:02x}"


def _address(second: int, server: int) -> str:
    return f"10.{second}.{(server + 1) >> 8}.{(server + 1) & 255}"
