"""What the agent reads from and sets in the Linux kernel of its host: routes, maps, classes, probes, counters."""
