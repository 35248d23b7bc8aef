"""Packet-level simulation of the jobs of a scenario (docs/reference/referee.md).

``input_file`` writes jobs, links and settings as text, ``driver`` (C++, by itself or on ns-3) simulates them and
asks ``live_plan`` for the paths and paces of the plans, and ``referee`` compares them with the fluid simulator.
"""
