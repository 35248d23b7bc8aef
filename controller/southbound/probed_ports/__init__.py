"""Source ports by the hash of the fabric: which routers show a path to probes, and what hosts are asked to probe."""
