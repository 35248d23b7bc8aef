"""Rigs of tests and benchmarks: controllers, switches, hosts, clients, and what waits for them and checks them.

A module here is no test and imports none.
"""
