"""Source ports of TCP connections: found by probes when a program connects, so that the connection takes its path."""
