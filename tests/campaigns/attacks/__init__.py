"""The attack campaign: rogue switches, hosts and HTTP clients beside honest ones, and a check of the invariants."""
