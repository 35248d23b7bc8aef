"""Emulated evaluation: the same jobs under several routing policies, measured on packets of a Mininet fabric.

``fairspine emulate`` (and ``make demo``) are the way in; docs/tutorial/demo.md says what is measured
and what the scale means.
"""
