"""The fault campaign: seeded random faults on a running fabric, and after each round a check of everything."""
