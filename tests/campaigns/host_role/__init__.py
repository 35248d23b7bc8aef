"""Attacks on a controller by the agent of one host, whose token it has; the other hosts are honest."""
