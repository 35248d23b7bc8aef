"""Emulation of fabrics on one machine, and flow-level simulation of them.

``fluid`` is the simulator, ``evaluation`` compares policies with it, ``experiments`` measures them on switches,
``roce`` has the programs of the emulated hosts, ``faults`` and ``attacks`` are campaigns against a running controller.
"""
