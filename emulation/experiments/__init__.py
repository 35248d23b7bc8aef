"""Experiments on packets: the same jobs under several routing policies, on one emulated fabric, measured.

``fairspine emulate`` (and ``make demo``) are the way in; docs/demo.md says what is measured and what the scale means.
"""
