"""Experiments on packets (``fairspine emulate``): jobs under several policies on a fabric of Mininet and Open vSwitch.

``emulation.evaluation`` compares policies by simulation instead.

``fairspine emulate`` (and ``make demo``) are the way in; docs/tutorial/demo.md says what is measured
and what the scale means.
"""
