"""The servers of the running controller's fabric."""

from __future__ import annotations

from controller.cli.connection.client import Client, described, described_rows


def hosts_by_server(client: Client) -> dict[str, list[str]]:
    """Return the hosts (NICs) of each server, by rail.

    Raises:
        CommandError: the controller does not answer.
    """
    fabric = described(client.request("GET", "fabric").document, "hosts")
    hosts: dict[str, list[tuple[int, str]]] = {}
    for row in described_rows(fabric["hosts"], "name", "server", "rail"):
        hosts.setdefault(row["server"], []).append((row["rail"], row["name"]))
    return {server: [name for _, name in sorted(members)] for server, members in hosts.items()}
