"""Campaigns: seeded faults and attacks on a running controller in a lab, each followed by a check of the invariants."""
