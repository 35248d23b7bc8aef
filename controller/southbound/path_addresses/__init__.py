"""Addresses of hosts that name paths: routers tell each other by BGP over which uplink each is reached best."""
